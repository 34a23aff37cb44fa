"""PATE: teachers asked, students trained; what the votes say only for the owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.files.summary import PateSummary, TrainingSummary
from labeldp.release.release import Release
from labeldp.report.readers.beside import Facts, audit_notes, audits, own_ledger, owners_facts, releases_of, violins_of
from labeldp.report.readers.training import class_names, config_of, confusion_of, tested
from labeldp.report.runs import Accuracy, Run
from labeldp.wording import upward


def read_pate(run: RunFolder, summary: PateSummary, owner: bool) -> Run:
    """Teachers asked, students trained; what the votes say only for the owner."""
    starts, students = run.read_starts(), run.students()
    config = config_of(students[0]) if students else None
    judges = (Release.load(run.held_out),) if run.held_out.is_file() else ()
    if summary.held_out is not None and not judges:
        raise InputError(f"{run.path} has lost its {run.held_out.name}, and with it what the rows in it paid.")
    violins, why = violins_of(run, owner)
    return Run(
        name=run.path.resolve().name,
        kind="PATE",
        data_set=None if config is None else config.data_set,
        certificate=summary.certificate,
        trust=summary.trust,
        insecure=summary.insecure,
        mechanism="pate",
        release=summary.release,
        trained_on=(summary.release,),
        made_from=(summary.release,),
        others=judges,
        class_names=class_names(config, summary),
        accuracies=_of_students(summary, students[0].read_training() if students else None),
        history=tuple((one.path.name, lines) for one in students if (lines := one.read_metrics())),
        measured=audits(summary.audit),
        violins=violins,
        confusion=confusion_of(students[0], summary, config) if students else None,
        facts=_pate_facts(summary, judges),
        starts=starts,
        releases=releases_of(run, starts, (summary.release,)),
        own_ledger=own_ledger(run.owner),
        owner_facts=owners_facts(run.owner) if owner else (),
        notes=(*why, *audit_notes(summary.audit)),
        seed=None if config is None else config.seed,
    )


def _of_students(summary: PateSummary, first: TrainingSummary | None) -> tuple[Accuracy, ...]:
    found = []
    of = f"mean of {len(summary.students)} student{'s' if len(summary.students) > 1 else ''}"
    if summary.accuracy_test.mean is not None:
        plain = tested(summary.accuracy_test.mean, first.rows_tested if first is not None else None)
        found.append(replace(plain, words=f"{of}, {plain.words}"))
    estimate = summary.accuracy_estimated
    if estimate.mean is not None and summary.held_out is not None:
        low, high = estimate.interval_95 or (None, None)  # earlier versions have no limits for a mean
        unbiased = estimate.mean if estimate.unbiased is None else estimate.unbiased
        rows = f"{summary.held_out.rows:,} rows that neither teachers nor students saw"
        words = f"{of}, estimated from the released labels of {rows}"
        found.append(Accuracy(unbiased, low, high, "estimated", words, rows=summary.held_out.rows))
    return tuple(found)


def _pate_facts(summary: PateSummary, judges: Sequence[Release]) -> Facts:
    stated, teachers = summary.certificate, summary.mechanism.parameters.teachers
    facts = [
        ("Teachers", "unknown" if teachers is None else f"{teachers:,}"),
        ("Questions", f"{summary.asked:,} asked, {summary.answered:,} answered"),
        ("Compute", f"{summary.teachers_flop:.3g} FLOP for teachers, {summary.students_flop:.3g} for students"),
    ]
    if stated.epsilon is not None:
        facts.append(("Rows that teachers saw", f"pay ε = {upward(stated.epsilon)} at δ = {stated.delta:g}"))
    for release in judges:
        cost = release.certificate()["epsilon"]
        paid = "no bounded ε" if cost is None else f"ε = {upward(cost)}"
        said = f"{len(release):,}, released by {release.mechanism.name}: they pay {paid}, and nothing else"
        facts.append(("Rows held out", said))
    if summary.data_dependent is not None:
        published = summary.data_dependent
        said = f"{upward(published.epsilon)} at δ = {published.delta:g}: sanitised, and paid for"
        facts.append(("Data-dependent ε", said))
    return tuple(facts)
