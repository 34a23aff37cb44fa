"""What lies in the directories of runs, read for a page. They may be damaged or somebody else's: a page or a refusal, nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from labeldp.audit.canaries import Canaries
from labeldp.audit.result import KeptAudit
from labeldp.audit.violins import LOWEST, Violins, canary_comparisons, count_guesses
from labeldp.errors import InputError, LabelDPError
from labeldp.evaluation.accuracy import CROSS_FITTED, counted_interval
from labeldp.files.predictions import read_predictions
from labeldp.files.run import OwnerFolder, RunFolder, read_as
from labeldp.files.schema import decode
from labeldp.files.summary import (
    Certificate,
    Config,
    GamesConfig,
    GamesSummary,
    HeuristicSummary,
    OwnersSummary,
    PateSummary,
    Start,
    StatedAudit,
    StatedConfusion,
    StatedCurves,
    StatedSelection,
    TablesSummary,
    TrainingSummary,
    Value,
)
from labeldp.release.joint import join_releases
from labeldp.release.release import Release
from labeldp.report.runs import Accuracy, Measured, Run, ShownMetric, each_measured, who_sees
from labeldp.wording import upward

Facts: TypeAlias = tuple[tuple[str, str], ...]

THROUGH_THIS = "that the model saw these labels through this release alone, which no file can show"
_SHOWN = 200  # canaries that the owner's page lists
_RECIPE = ("batch_size", "learning_rate", "weight_decay", "schedule", "prior", "denoise", "seed")


def read_run(folder: Path, *, owner: bool = False) -> Run:
    """A finished run of `train`, `select`, `pate run`, `audit --out`, `audit-repeat` or `audit-heuristic`. Owner-only numbers are
    read for the owner alone.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; name the directory of a run (--out of train, pate run, audit).")
    run = RunFolder(folder)
    if run.audit.is_file():
        return _kept(run, owner)
    summary = run.read_summary()
    match summary:
        case None:
            raise InputError(_unfinished(run))
        case PateSummary():
            return _pate(run, summary, owner)
        case HeuristicSummary():
            return _heuristic(run, summary)
        case GamesSummary():
            return _games(run, summary)
        case TrainingSummary():
            return _training(run, summary, owner)
        case TablesSummary():
            raise InputError(
                f"{folder} is a comparison on a public table: its {run.summary.name} says all of it, and `labeldp reproduce tabular` makes "
                "a page of many."
            )


def _unfinished(run: RunFolder) -> str:
    if run.config.exists() or run.dealing.exists() or run.owner.path.exists():
        return f"{run.path} is not finished: the same command goes on with it. Then there is something to report."
    if (run.path / "cells").is_dir():
        return f"{run.path} holds the cells of `labeldp reproduce`; name some of {run.path / 'cells'}/*."
    return f"{run.path} is no run of train, pate run or audit: it has no {run.summary.name}."


# ── trainings ──


def _training(run: RunFolder, summary: TrainingSummary, owner: bool) -> Run:
    """A model and the releases that it was trained from; in stages, or at once."""
    config, starts = _config(run), run.read_starts()
    stages = [(f"stage {number}", stage.read_metrics()) for number, stage in enumerate(run.stages(), start=1)]
    history = [*stages, (f"stage {len(stages) + 1}" if stages else "training", run.read_metrics())]
    audits = _audits(summary.audit)
    violins, why = _violins(run, owner)
    return Run(
        name=run.path.resolve().name,
        kind="training",
        data_set=None if config is None else config.data_set,
        certificate=summary.certificate,
        trust=summary.trust,
        insecure=summary.insecure,
        mechanism=summary.mechanism.words,
        release=summary.release,
        trained_on=summary.trained_on,
        made_from=summary.behind,
        model=run.digest(),
        canaries=max((found.result.canaries for found in audits), default=None),
        canary_share=None if config is None else config.canary_share,
        class_names=_class_names(config, summary),
        accuracies=_accuracies(summary),
        commonest=summary.commonest_class_estimated,
        history=tuple(entry for entry in history if entry[1]),
        measured=audits,
        violins=violins,
        confusion=_confusion(run, summary, config),
        metrics=_metrics(run, summary, config),
        curves=_curves(run, summary, config),
        facts=(*_chosen(run), *_facts(summary, config)),
        starts=starts,
        releases=_releases(run, starts, summary.behind),
        own_ledger=_own_ledger(run),
        owner_facts=_canary_facts(run.canaries) if owner else (),
        notes=(*why, *_notes(summary.audit)),
        seed=None if config is None else config.seed,
    )


def _config(run: RunFolder) -> Config | None:
    return run.read_config() if run.config.exists() else None


def _class_names(config: Config | None, summary: TrainingSummary | PateSummary) -> tuple[str, ...]:
    return tuple(map(str, range(summary.mechanism.num_classes))) if config is None else config.class_names


def _accuracies(summary: TrainingSummary) -> tuple[Accuracy, ...]:
    found = []
    if summary.accuracy_test is not None:
        found.append(_tested(summary.accuracy_test, summary.rows_tested))
    if summary.accuracy_estimated is not None and summary.interval_95 is not None:
        how, sure = "rows held out", "95%"
        if summary.folds is not None:
            how = f"rows, each judging a model that was trained without it ({summary.folds} folds)"
            sure = CROSS_FITTED
        words = f"estimated from the released labels of {summary.rows_judged:,} {how}, corrected for the noise"
        unbiased = summary.accuracy_estimated if summary.accuracy_unbiased is None else summary.accuracy_unbiased
        found.append(Accuracy(unbiased, *summary.interval_95, "estimated", words, sure))
    return tuple(found)


def _tested(accuracy: float, rows: int | None) -> Accuracy:
    """On so many public test labels."""
    if not rows:
        return Accuracy(accuracy, None, None, "test", "on public test labels (how many, the run did not record)")
    return Accuracy(
        accuracy, *counted_interval(round(accuracy * rows), rows), "test", f"on {rows:,} public test labels"
    )


def _facts(summary: TrainingSummary, config: Config | None) -> Facts:
    chosen = (
        ""
        if summary.epoch_selected is None
        else f" (the model of epoch {summary.epoch_selected} was chosen, by released labels)"
    )
    took = "" if summary.seconds is None else f" in {summary.seconds:,.0f} s"
    compute = f"{summary.train_flop:.3g} FLOP" if summary.train_flop else "FLOP not counted"
    facts = [
        ("Model", summary.model),
        ("Rows trained on", f"{summary.rows_trained:,}"),
        ("Epochs", f"{summary.epochs}{chosen}"),
        ("Compute", f"{compute}{took}, {summary.dtype} on {summary.device}"),
    ]
    if config is not None:
        facts.append(("Recipe", _listed({name: config.recipe[name] for name in _RECIPE if name in config.recipe})))
    return tuple(facts)


def _listed(options: Mapping[str, Value | tuple[int, ...]]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def _chosen(run: RunFolder) -> Facts:
    """What `select` says of the winner: its options, and its score with the noise that was paid for."""
    if not run.selection.is_file():
        return ()
    said = read_as(StatedSelection, run.selection)
    score = (
        f"{said.score:.2%} ± {said.score_deviation:.2%} on {said.scoring_rows:,} rows: the best of several, so too high"
    )
    return (
        ("Chosen", f"{_listed(said.options)} (candidate {said.candidate}, counted from 0, of {said.candidates})"),
        ("Its noisy score", score),
    )


def _confusion(run: RunFolder, summary: TrainingSummary | PateSummary, config: Config | None) -> StatedConfusion | None:
    """What each class is taken for, where the run kept it."""
    if not run.confusion.is_file():
        return None
    found = read_as(StatedConfusion, run.confusion)
    if len(found.called) != len(_class_names(config, summary)):
        raise InputError(f"{run.confusion} is of another number of classes than the run.")
    return found


def _metrics(run: RunFolder, summary: TrainingSummary, config: Config | None) -> tuple[ShownMetric, ...]:
    """Those that a page knows how to read."""
    classes = len(_class_names(config, summary))
    for stated in summary.metrics.values():
        if len(stated.by_class) not in (0, classes):
            raise InputError(f"{run.summary} has a metric of another number of classes than the run.")
    sure = "95%" if summary.folds is None else CROSS_FITTED
    readings = _readings(classes)
    return tuple(
        ShownMetric(name, *readings[name], summary.metrics[name], sure) for name in readings if name in summary.metrics
    )


def _readings(classes: int) -> dict[str, tuple[str, str]]:
    """What metrics are called, and what they mean."""
    mean = "; one class against the rest, the mean over classes" if classes > 2 else ""
    brier = 0.25 if classes == 2 else 1 - 1 / classes
    return {
        "roc_auc": ("ROC AUC", f"how often a positive row scores above a negative one: 0.5 is chance, 1 is perfect{mean}"),
        "average_precision": (
            "Average precision",
            f"precision, averaged over recall: chance has the share of positive rows, 1 is perfect{mean}",
        ),
        "log_loss": ("Log loss", f"less is better: equal probabilities for all classes have {math.log(classes):.3f}"),
        "brier": ("Brier score", f"less is better: equal probabilities for all classes have {brier:.3f}"),
        "log_likelihood": (
            "Log-likelihood",
            "of what was released, a row, up to a constant: more is better, and it compares only models that the same released rows judge",
        ),
    }  # fmt: skip


def _curves(run: RunFolder, summary: TrainingSummary, config: Config | None) -> StatedCurves | None:
    """ROC, lift and calibration, where the run kept them."""
    if not run.curves.is_file():
        return None
    found = read_as(StatedCurves, run.curves)
    if found.positive >= len(_class_names(config, summary)):
        raise InputError(f"{run.curves} is of a class that the run does not have.")
    return found


def _audits(found: Mapping[str, StatedAudit]) -> tuple[Measured, ...]:
    return tuple(one for audit in found.values() for one in each_measured(audit, who_sees))


def _notes(found: Mapping[str, StatedAudit]) -> tuple[str, ...]:
    """What the run's audits warn of."""
    return tuple(dict.fromkeys(note for audit in found.values() for note in audit.warnings))


def _releases(run: RunFolder, starts: Sequence[Start], wanted: tuple[str, ...]) -> tuple[Release, ...]:
    """The wanted releases, where they are still where the run found them, or in the run directory itself."""
    others = (run.trained.name, run.crossfitted.name)
    places = [*sorted(run.path.glob("*.parquet")), *(run.path / path for start in starts for path in start.releases)]
    found: dict[str, Release] = {}
    for place in dict.fromkeys(path for path in places if path.name not in others):
        try:
            if not place.is_file():
                continue
            release = Release.load(place)
        except (LabelDPError, OSError, ValueError):
            continue  # predictions, say, or an altered file: not what the run was made from
        if release.checksum in wanted:
            found[release.checksum] = release
    return tuple(found.values())


# ── what lies beside a run and is the owner's: which of it may be shown to others is decided here ──


def _own_ledger(run: RunFolder) -> Path | None:
    """An experiment's own ledger, if the run directory has one."""
    return run.ledger if run.ledger.is_file() else None


def _violins(run: RunFolder, owner: bool) -> tuple[Violins | None, tuple[str, ...]]:
    """Right and wrong guesses of planted labels, from what `--canaries` left in a run directory; and why they are left out.

    Planted labels are drawn without looking at anybody's, so what is counted here costs nobody anything. Where candidates were chosen by
    looking at true labels, only the owner sees it.
    """
    planted = run.planted()
    if planted is None:
        return None, ()
    secret, said = planted
    canaries = Canaries.load(secret)
    if canaries.true is not None and not owner:
        return None, (
            "Violins are left out: these canaries were chosen by looking at true labels. --owner shows them.",
        )
    table = read_predictions(said).values
    if table.ndim != 2 or canaries.rows.max() >= len(table) or canaries.candidates.max() >= table.shape[1]:
        raise InputError(f"{said} and {secret} do not belong together.")
    return count_guesses(canary_comparisons(table, canaries)(), LOWEST), ()


def _canary_facts(path: Path) -> Facts:
    """Where the canaries are."""
    if not path.is_file():
        return ()
    canaries = Canaries.load(path)
    names = canaries.rows if canaries.ids is None else canaries.ids
    more = f" … and {len(canaries) - _SHOWN:,} more, in {path.name}" if len(canaries) > _SHOWN else ""
    listed = ", ".join(map(str, names[:_SHOWN].tolist())) + more
    return ((f"Rows of the {len(canaries):,} canaries", listed),)


def _owners_facts(owner: OwnerFolder) -> Facts:
    """What votes and true labels say, and nobody has paid for."""
    if not owner.summary.is_file():
        return ()
    found = read_as(OwnersSummary, owner.summary)
    shares = (
        ("Accuracy of a teacher, on private labels", found.teacher_accuracy),
        ("Accuracy of the ensemble, on private labels", found.ensemble_accuracy),
        ("Accuracy of the answers, on private labels", found.answers_accuracy),
        ("Share of the votes for the winner", found.agreement),
    )
    facts = [(words, f"{share:.2%}") for words, share in shares if share is not None]
    if found.epsilon_data_dependent is not None and found.order is not None:
        said = f"{found.epsilon_data_dependent:.6g} (Rényi order {found.order:g}): not a guarantee, and itself a leak"
        facts.append(("Data-dependent ε", said))
    return (*facts, *_canary_facts(owner.canaries))


# ── PATE ──


def _pate(run: RunFolder, summary: PateSummary, owner: bool) -> Run:
    """Teachers asked, students trained; what the votes say only for the owner."""
    starts, students = run.read_starts(), run.students()
    config = _config(students[0]) if students else None
    judges = (Release.load(run.held_out),) if run.held_out.is_file() else ()
    if summary.held_out is not None and not judges:
        raise InputError(f"{run.path} has lost its {run.held_out.name}, and with it what the rows in it paid.")
    violins, why = _violins(run, owner)
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
        class_names=_class_names(config, summary),
        accuracies=_of_students(summary, students[0].read_training() if students else None),
        history=tuple((one.path.name, lines) for one in students if (lines := one.read_metrics())),
        measured=_audits(summary.audit),
        violins=violins,
        confusion=_confusion(students[0], summary, config) if students else None,
        facts=_pate_facts(summary, judges),
        starts=starts,
        releases=_releases(run, starts, (summary.release,)),
        own_ledger=_own_ledger(run.owner),
        owner_facts=_owners_facts(run.owner) if owner else (),
        notes=(*why, *_notes(summary.audit)),
        seed=None if config is None else config.seed,
    )


def _of_students(summary: PateSummary, first: TrainingSummary | None) -> tuple[Accuracy, ...]:
    found = []
    of = f"mean of {len(summary.students)} student{'s' if len(summary.students) > 1 else ''}"
    if summary.accuracy_test.mean is not None:
        plain = _tested(summary.accuracy_test.mean, first.rows_tested if first is not None else None)
        found.append(replace(plain, words=f"{of}, {plain.words}"))
    estimate = summary.accuracy_estimated
    if estimate.mean is not None and summary.held_out is not None:
        low, high = estimate.interval_95 or (None, None)  # earlier versions have no limits for a mean
        unbiased = estimate.mean if estimate.unbiased is None else estimate.unbiased
        rows = f"{summary.held_out.rows:,} rows that neither teachers nor students saw"
        words = f"{of}, estimated from the released labels of {rows}"
        found.append(Accuracy(unbiased, low, high, "estimated", words))
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


# ── audits: one that `labeldp audit --out` kept, `audit-repeat`'s games, `audit-heuristic`'s comparison ──


def _kept(run: RunFolder, owner: bool) -> Run:
    """One audit, of a model, a release, or both."""
    kept = KeptAudit.load(run.path)
    parts = kept.parts or (() if kept.release is None else (kept.release,))
    # If the model saw another release, this one's certificate is not of it.
    stranger = kept.trained_on is not None and kept.trained_on != kept.release
    behind = (*parts, kept.trained_on) if kept.trained_on is not None and stranger else parts
    releases = _releases(run, [kept.start], behind)
    here = {release.checksum: release for release in releases}
    looked_at = join_releases([here[one] for one in parts]) if parts and all(one in here for one in parts) else None
    hidden = kept.owner_only is not None and not owner
    if looked_at is not None and kept.data_set != looked_at.data_set:
        raise InputError(f"{run.path} names another data set than its release: its {run.audit.name} was altered.")
    left_out = (
        f"The audit in {run.path.name} is left out: {kept.owner_only}. --owner shows it, on a page for the owner."
    )
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=kept.data_set,
        certificate=_beside(looked_at, kept) if looked_at is not None and not stranger else None,
        trust=looked_at.mechanism.trust if looked_at is not None else None,
        insecure=looked_at.insecure if looked_at is not None else None,
        mechanism=looked_at.mechanism.name if looked_at is not None else None,
        made_from=behind,
        checked=looked_at is not None,
        model=kept.model,
        canaries=kept.planted,
        class_names=looked_at.class_names if looked_at is not None else (),
        measured=() if hidden else tuple(each_measured(kept.audit, who_sees)),
        more_bounds=kept.replaced + (kept.bounds if hidden else 0),
        says_not_of_what=kept.model is None and not behind,
        violins=None if hidden or kept.violins is None else kept.violins.violins(),
        starts=(kept.start,),
        releases=releases,
        notes=(left_out,) if hidden else kept.audit.warnings,
    )


def _beside(release: Release, kept: KeptAudit) -> Certificate:
    """The certificate that the bounds stand beside. It is the release's; that it is the model's too, nobody can see."""
    certificate = decode(Certificate, release.certificate())
    attacks = {one.attack for one in kept.audit.attacks}
    of_a_model = attacks != {"release"} or kept.model is not None or kept.violins is not None
    if not of_a_model or certificate.epsilon is None:
        return certificate
    return replace(certificate, given=" and ".join(filter(None, (certificate.given, THROUGH_THIS))))


def _games(run: RunFolder, summary: GamesSummary) -> Run:
    """Game 1: the same training, many times over."""
    config = read_as(GamesConfig, run.config) if run.config.exists() else GamesConfig()
    dataset, mechanism = (config.game.get(name) for name in ("dataset", "mechanism"))
    proven = None if summary.certificate is None else Certificate(summary.certificate, summary.delta)
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=dataset if isinstance(dataset, str) else None,
        certificate=proven,
        trust=None,
        insecure=None,
        mechanism=mechanism if isinstance(mechanism, str) else None,
        measured=tuple(each_measured(summary, lambda attack: f"{who_sees(attack)}, in repeated trainings (Game 1)")),
        facts=(("Game", _listed({name: value for name, value in config.game.items() if value is not None})),),
        starts=run.read_starts(),
        notes=summary.warnings,
    )


def _heuristic(run: RunFolder, summary: HeuristicSummary) -> Run:
    """Whether many canaries in one training measure what few in each of several do."""
    note = "The paper's interval is no proven bound, and looks at true labels: bundled data sets' are public, yours are not."
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=None,
        certificate=None,
        trust=None,
        insecure=None,
        mechanism=None,
        measured=(
            Measured.of("all canaries in one training", summary.together),
            Measured.of("a part of them in each of several", summary.apart),
        ),
        starts=run.read_starts(),
        notes=(note,),
    )
