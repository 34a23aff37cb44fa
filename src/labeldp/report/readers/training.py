"""A model and the releases that it was trained from; in stages, or at once."""

from __future__ import annotations

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import CROSS_FITTED, counted_interval
from labeldp.files.run import RunFolder, read_as
from labeldp.files.summary import Config, PateSummary, StatedConfusion, StatedCurves, StatedSelection, TrainingSummary
from labeldp.report.readers.beside import (
    Facts,
    audit_notes,
    audits,
    canary_facts,
    listed,
    moments_of,
    own_ledger,
    releases_of,
    violins_of,
)
from labeldp.report.runs import Accuracy, Run, ShownMetric, shown_metrics

_RECIPE = ("batch_size", "learning_rate", "weight_decay", "schedule", "prior", "denoise", "seed")


def read_training(run: RunFolder, summary: TrainingSummary, owner: bool) -> Run:
    """A model and the releases that it was trained from; in stages, or at once."""
    config, starts = config_of(run), run.read_starts()
    stages = [(f"stage {number}", stage.read_metrics()) for number, stage in enumerate(run.stages(), start=1)]
    history = [*stages, (f"stage {len(stages) + 1}" if stages else "training", run.read_metrics())]
    found = audits(summary.audit)
    violins, why = violins_of(run, owner)
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
        canaries=max((one.result.canaries for one in found), default=None),
        canary_share=None if config is None else config.canary_share,
        class_names=class_names(config, summary),
        accuracies=_accuracies(summary),
        commonest=summary.commonest_class_estimated,
        history=tuple(entry for entry in history if entry[1]),
        measured=found,
        violins=violins,
        confusion=confusion_of(run, summary, config),
        metrics=_metrics(run, summary, config),
        curves=_curves(run, summary, config),
        search=summary.search,
        facts=(*_chosen(run), *_facts(summary, config)),
        starts=starts,
        releases=releases_of(run, starts, summary.behind),
        statistics=moments_of(run, starts, summary.behind),
        own_ledger=own_ledger(run),
        owner_facts=canary_facts(run.canaries) if owner else (),
        notes=(*why, *audit_notes(summary.audit)),
        seed=None if config is None else config.seed,
    )


def config_of(run: RunFolder) -> Config | None:
    """How it was trained, if it says so."""
    return run.read_config() if run.config.exists() else None


def class_names(config: Config | None, summary: TrainingSummary | PateSummary) -> tuple[str, ...]:
    """What the classes are called; numerals, if nobody says."""
    return tuple(map(str, range(summary.mechanism.num_classes))) if config is None else config.class_names


def _accuracies(summary: TrainingSummary) -> tuple[Accuracy, ...]:
    found = []
    if summary.accuracy_test is not None:
        found.append(tested(summary.accuracy_test, summary.rows_tested))
    if summary.accuracy_estimated is not None and summary.interval_95 is not None:
        how, sure = "rows held out", "95%"
        if summary.folds is not None:
            how = f"rows, each judging a model that was trained without it ({summary.folds} folds)"
            sure = CROSS_FITTED
        words = f"estimated from the released labels of {summary.rows_judged:,} {how}, corrected for the noise"
        unbiased = summary.accuracy_estimated if summary.accuracy_unbiased is None else summary.accuracy_unbiased
        found.append(Accuracy(unbiased, *summary.interval_95, "estimated", words, sure, summary.rows_judged))
    return tuple(found)


def tested(accuracy: float, rows: int | None) -> Accuracy:
    """On so many public test labels."""
    if not rows:
        return Accuracy(accuracy, None, None, "test", "on public test labels (how many, the run did not record)")
    ends = counted_interval(round(accuracy * rows), rows)
    return Accuracy(accuracy, *ends, "test", f"on {rows:,} public test labels", rows=rows)


def _facts(summary: TrainingSummary, config: Config | None) -> Facts:
    chosen = (
        ""
        if summary.epoch_selected is None
        else f" (the model of epoch {summary.epoch_selected} was chosen, by released labels)"
    )
    took = "" if summary.seconds is None else f" in {summary.seconds:,.0f} s"
    compute = f"{summary.train_flop:.3g} FLOP" if summary.train_flop else "FLOP not counted"
    if summary.start_flop and not summary.search_flop:  # of a search it is a part
        compute += f" (before, from images alone: {summary.start_flop:.3g})"
    if summary.search_flop:
        compute += f" (before, to find the recipe: {summary.search_flop:.3g})"
    facts = [
        ("Model", summary.model),
        ("Rows trained on", f"{summary.rows_trained:,}"),
        ("Epochs", f"{summary.epochs}{chosen}"),
        ("Compute", f"{compute}{took}, {summary.dtype} on {summary.device}"),
    ]
    if summary.accuracy_test_fitted is not None:
        said = f"{summary.accuracy_test_fitted:.2%} on the same public test labels"
        facts.append(("Before the student: the statistic’s own model", said))
    if config is not None:
        facts.append(("Recipe", listed({name: config.recipe[name] for name in _RECIPE if name in config.recipe})))
    return tuple(facts)


def _chosen(run: RunFolder) -> Facts:
    """What `select` says of the winner: its options, and its score with the noise that was paid for."""
    if not run.selection.is_file():
        return ()
    said = read_as(StatedSelection, run.selection)
    score = (
        f"{said.score:.2%} ± {said.score_deviation:.2%} on {said.scoring_rows:,} rows: the best of several, so too high"
    )
    return (
        ("Chosen", f"{listed(said.options)} (candidate {said.candidate}, counted from 0, of {said.candidates})"),
        ("Its noisy score", score),
    )


def confusion_of(
    run: RunFolder, summary: TrainingSummary | PateSummary, config: Config | None
) -> StatedConfusion | None:
    """What each class is taken for, where the run kept it."""
    if not run.confusion.is_file():
        return None
    found = read_as(StatedConfusion, run.confusion)
    if len(found.called) != len(class_names(config, summary)):
        raise InputError(f"{run.confusion} is of another number of classes than the run.")
    return found


def _metrics(run: RunFolder, summary: TrainingSummary, config: Config | None) -> tuple[ShownMetric, ...]:
    """Those that a page knows how to read."""
    classes = len(class_names(config, summary))
    for stated in summary.metrics.values():
        if len(stated.by_class) not in (0, classes):
            raise InputError(f"{run.summary} has a metric of another number of classes than the run.")
    return shown_metrics(summary.metrics, classes, "95%" if summary.folds is None else CROSS_FITTED)


def _curves(run: RunFolder, summary: TrainingSummary, config: Config | None) -> StatedCurves | None:
    """ROC, lift and calibration, where the run kept them."""
    if not run.curves.is_file():
        return None
    found = read_as(StatedCurves, run.curves)
    if found.positive >= len(class_names(config, summary)):
        raise InputError(f"{run.curves} is of a class that the run does not have.")
    return found
