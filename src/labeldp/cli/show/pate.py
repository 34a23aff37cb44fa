"""What the commands of PATE show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.output import guarantee_text, number, print_facts
from labeldp.cli.show.user import metric_facts

if TYPE_CHECKING:
    from labeldp.commands import (
        PateAccountOptions,
        PateAggregateOptions,
        PateFeaturesOptions,
        PateRunOptions,
        PateStudentOptions,
        PateTeachersOptions,
    )
    from labeldp.commands.pate import Answered, Taught
    from labeldp.pate.account import Account


def teachers(options: PateTeachersOptions, facts: dict[str, Any]) -> None:
    """That they have voted, and what is next."""
    out = options.out
    print_facts([
        ("teachers", f"{facts['teachers']:,} have voted on {facts['queries']:,} rows; {facts['teachers_flop']:.3g} FLOP"),
        ("private", f"{out / 'owner'}: votes are made of true labels, and stay with you"),
        ("next", f"labeldp pate aggregate {out} --sigma1 … --sigma2 … --threshold … --max-answered …"),
    ])  # fmt: skip


def aggregate(options: PateAggregateOptions, result: Answered) -> None:
    """What was answered, and what it cost."""
    facts = result.facts
    print_facts([
        ("released", f"{facts['out']}: {facts['answered']:,} answers to {facts['asked']:,} questions"),
        ("certificate", guarantee_text(facts["certificate"], "release")),
        ("basis", "the caps, whatever was asked and answered; this may be published"),
        ("cost", "charged now" if facts["charged"] else f"made on {facts['made']}, nothing charged"),
        ("ledger", str(result.ledger)),
        ("trust", "central: you saw features and labels; nothing else of the teachers may leave"),
    ])  # fmt: skip


def features(options: PateFeaturesOptions, done: dict[str, Any]) -> None:
    """Where they are."""
    typer.echo(f"{done['out']}: {done['features']:,} features of {done['rows']:,} images")


def account(options: PateAccountOptions, found: Account) -> None:
    """What may be published, and what may not."""
    basis = (
        "the caps: may be published"
        if found.basis == "caps"
        else "the file's own counts: a guarantee only if they were fixed beforehand (--max-asked, --max-answered)"
    )
    private = found.owner_only
    facts = [
        ("queries", f"{found.asked:,} asked, {found.answered:,} answered"),
        ("epsilon", f"{number(found.epsilon)} at δ = {found.delta:g}, from {basis}"),
        ("OWNER ONLY", f"data-dependent ε = {number(private['epsilon_data_dependent'])} at order {private['order']:g}: a function of the votes, never to be published"),
    ]  # fmt: skip
    if "smooth_sensitivity" in private:
        facts.append(("OWNER ONLY", f"smooth sensitivity {private['smooth_sensitivity']:.6g}"))
    print_facts(facts)


def taught(options: PateRunOptions | PateStudentOptions, result: Taught) -> None:
    """What is proven, and how good the students are."""
    from labeldp.evaluation.accuracy import accuracy_text

    summary = result.summary
    caps = summary["mechanism"]["parameters"]
    certificate, accuracy, estimated = summary["certificate"], summary["accuracy_test"], summary["accuracy_estimated"]
    facts = [
        ("run", str(options.out)),
        ("certificate", guarantee_text(certificate, "release")),
        ("trust", "central: teachers and aggregator saw features and labels; answers.parquet and the students may leave"),
        ("answers", f"{summary['answered']:,} to {summary['asked']:,} questions (caps {caps['max_answered']:,} and {caps['max_asked']:,}, which is what is charged)"),
    ]  # fmt: skip
    of = f"mean of {len(summary['students'])} student{'s' if len(summary['students']) > 1 else ''}"
    if accuracy["mean"] is not None:
        spread = f" ± {accuracy['std']:.2%}" if accuracy["std"] is not None else ""
        facts.append(("accuracy", f"{accuracy['mean']:.2%}{spread}, {of}, on public test labels"))
    if estimated["mean"] is not None:
        found = accuracy_text(estimated["unbiased"], estimated["interval_95"])
        facts.append(("accuracy", f"{found}, {of}, on held-out released labels"))
        facts += metric_facts(summary["students"][0].get("metrics") or {}, " (the first student)")
    if summary["held_out"] is not None:
        facts.append(
            (
                "held out",
                f"{summary['held_out']['rows']:,} rows, released apart at ε = {summary['held_out']['epsilon']:.6g}, which they pay and no others",
            )
        )
    elif result.idle:
        facts.append(("held out", "rows that nobody judges by: --holdout-epsilon releases them"))
    if "audit" in summary:
        from labeldp.audit.result import one_line

        facts += [(f"audit: {who}", one_line(found)) for who, found in summary["audit"].items()]
    facts.append(("ledger", str(result.ledger)))
    facts.append(
        ("compute", f"teachers {summary['teachers_flop']:.3g} FLOP, students {summary['students_flop']:.3g} FLOP")
    )
    facts.append(
        ("OWNER ONLY", f"{result.owner / 'summary.json'}: the ensemble's accuracy and agreement, the data-dependent ε")
    )
    print_facts(facts)
