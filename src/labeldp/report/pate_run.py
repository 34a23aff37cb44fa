"""What a run of `labeldp pate run` says, or of its stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp.report.files import find_releases, read_json, read_lines, read_starts
from labeldp.report.owners import pate_facts, run_ledgers, run_violins
from labeldp.report.rounding import upward
from labeldp.report.runs import Accuracy, Measured, Run, who_sees
from labeldp.report.training_run import audit_notes, read_confusion, tested


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
        error = max(float(one["standard_error"]) for one in summary["students"])
        ends = max(0.0, estimated - 1.96 * error), min(1.0, estimated + 1.96 * error)
        words = f"{of}, estimated from the released labels of {summary['held_out']['rows']:,} rows that neither teachers nor students saw"
        accuracies.append(Accuracy(float(estimated), *ends, "estimated", words))
    behind = (str(summary["release"]),)
    data_set = config.get("data_set")
    facts = [
        ("Teachers", f"{summary['mechanism']['parameters']['teachers']:,}"),
        ("Questions", f"{summary['asked']:,} asked, {summary['answered']:,} answered"),
        ("Compute", f"{summary['teachers_flop']:.3g} FLOP for teachers, {summary['students_flop']:.3g} for students"),
    ]
    if summary.get("held_out"):
        held = summary["held_out"]
        facts.append(
            (
                "Held-out rows",
                f"{held['rows']:,}, released by {held['mechanism']} at ε = {held['epsilon']:.6g}: this they pay, and nothing else",
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
        name=folder.resolve().name, kind="PATE", data_set=data_set, certificate=summary["certificate"], trust=summary["trust"],
        insecure=summary["insecure"], mechanism="pate", made_from=behind,
        class_names=tuple(config.get("label_names") or map(str, range(classes))), accuracies=tuple(accuracies),
        history=tuple((p.name, lines) for p in students if (lines := read_lines(p / "metrics.jsonl"))),
        measured=tuple(Measured(who_sees(who), found) for who, found in summary.get("audit", {}).items()), violins=violins,
        confusion=read_confusion(students[0], classes) if students else None, facts=tuple(facts), starts=tuple(starts),
        releases=tuple(find_releases(folder, starts, behind)), ledgers=run_ledgers(folder / "owner" / "labels.ledger", data_set),
        owner_facts=pate_facts(folder / "owner") if owner else (), notes=(*why, *audit_notes(summary)),
        seed=config.get("recipe", {}).get("seed"),
    )  # fmt: skip
