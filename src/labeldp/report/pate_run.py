"""What a run of `labeldp pate run` says, or of its stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.release.release import Release
from labeldp.report.files import find_releases, finite, number, read_json, read_lines, read_starts, text
from labeldp.report.owners import own_ledger, pate_facts, run_violins
from labeldp.report.runs import Accuracy, Run, each_measured, who_sees
from labeldp.report.training_run import audit_notes, read_confusion, tested
from labeldp.wording import upward

HELD_OUT = "held-out.parquet"


def read_pate(folder: Path, summary: dict[str, Any], owner: bool) -> Run:
    """Teachers asked, students trained; what the votes say only for the owner."""
    starts = read_starts(folder)
    students = sorted(folder.glob("student-*"), key=lambda p: int(p.name.split("-")[1]) if p.name[8:].isdigit() else 0)
    first = read_json(students[0] / "summary.json") or {} if students else {}
    config = read_json(students[0] / "config.json") or {} if students else {}
    classes = int(summary["mechanism"]["num_classes"])
    test, estimated = summary["accuracy_test"]["mean"], summary["accuracy_estimated"]["mean"]
    accuracies = []
    of = f"mean of {len(summary['students'])} student{'s' if len(summary['students']) > 1 else ''}"
    if test is not None:
        plain = tested(float(test), int(first.get("rows_tested") or 0))
        accuracies.append(Accuracy(plain.value, plain.low, plain.high, "test", f"{of}, {plain.words}"))
    if estimated is not None:
        estimate = summary["accuracy_estimated"]  # earlier versions have no limits for a mean
        low, high = map(number, estimate["interval_95"]) if "interval_95" in estimate else (None, None)
        unbiased = number(estimate.get("unbiased", estimated))
        words = f"{of}, estimated from the released labels of {summary['held_out']['rows']:,} rows that neither teachers nor students saw"
        accuracies.append(Accuracy(unbiased, low, high, "estimated", words))
    behind = (str(summary["release"]),)
    judges = [Release.load(folder / HELD_OUT)] if (folder / HELD_OUT).is_file() else []
    if summary.get("held_out") and not judges:
        raise InputError(f"{folder} has lost its {HELD_OUT}, and with it what the rows in it paid.")
    data_set = config.get("data_set")
    facts = [
        ("Teachers", f"{summary['mechanism']['parameters']['teachers']:,}"),
        ("Questions", f"{summary['asked']:,} asked, {summary['answered']:,} answered"),
        ("Compute", f"{summary['teachers_flop']:.3g} FLOP for teachers, {summary['students_flop']:.3g} for students"),
    ]
    stated = summary["certificate"] if isinstance(summary["certificate"], dict) else {}
    if finite(stated.get("epsilon")) is not None and finite(stated.get("delta")) is not None:
        facts.append(("Rows that teachers saw", f"pay ε = {upward(stated['epsilon'])} at δ = {stated['delta']:g}"))
    for release in judges:
        cost = release.certificate()["epsilon"]
        paid = "no bounded ε" if cost is None else f"ε = {upward(cost)}"
        facts.append(
            (
                "Rows held out",
                f"{len(release):,}, released by {release.mechanism.name}: they pay {paid}, and nothing else",
            )
        )
    if "data_dependent" in summary:
        facts.append(
            (
                "Data-dependent ε",
                f"{upward(summary['data_dependent']['epsilon'])} at δ = {summary['data_dependent']['delta']:g}: sanitised, and paid for",
            )
        )
    violins, why = run_violins(folder, owner)
    return Run(
        name=folder.resolve().name, kind="PATE", data_set=text(data_set), certificate=summary["certificate"], trust=text(summary["trust"]),
        insecure=text(summary["insecure"]), mechanism="pate", release=behind[0],
        trained_on=behind, made_from=behind, others=tuple(judges),
        class_names=tuple(config.get("label_names") or map(str, range(classes))), accuracies=tuple(accuracies),
        history=tuple((p.name, lines) for p in students if (lines := read_lines(p / "metrics.jsonl"))),
        measured=tuple(one for found in summary.get("audit", {}).values() for one in each_measured(found, who_sees)), violins=violins,
        confusion=read_confusion(students[0], classes) if students else None, facts=tuple(facts), starts=tuple(starts),
        releases=tuple(find_releases(folder, starts, behind)), own_ledger=own_ledger(folder / "owner" / "labels.ledger"),
        owner_facts=pate_facts(folder / "owner") if owner else (), notes=(*why, *audit_notes(summary)),
        seed=config.get("recipe", {}).get("seed"),
    )  # fmt: skip
