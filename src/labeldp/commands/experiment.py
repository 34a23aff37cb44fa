"""Both parties in one process, on a bundled data set: `labeldp experiment`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import MODEL, PRIVACY, Option
from labeldp.commands.presets import EXPERIMENTS, filled
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    DATASET,
    CanariesOption,
    CandidatesOption,
    DataOption,
    DeltaOption,
    EpsilonOption,
    InsecureSeedOption,
    use_threads,
)
from labeldp.commands.student import experiment_from_moments
from labeldp.commands.train import (
    OF_STAGED_STEPS,
    TrainingOptions,
    check_processes,
    check_training,
    few_steps,
    fit,
    job_of,
    listener,
    plan_of,
    was_finished,
)
from labeldp.commands.values import EXPERIMENT_PRESETS, FITTABLE, MECHANISMS
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.experiments.experiment import CanaryPlan, Paid
    from labeldp.experiments.staged import Handover
    from labeldp.machine import World
    from labeldp.release import Release
    from labeldp.release.make import Made
    from labeldp.runs.job import Job


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(TrainingOptions):
    """What `labeldp experiment` is told; a preset is a value of these."""

    dataset: Annotated[str | None, DATASET] = None
    data: DataOption = None
    epsilon: EpsilonOption = None
    mechanism: Annotated[str | None, Option("response, subset, unary, laplace, gaussian, or none; moments or histogram: one statistic, at a small ε. Default: the most informative for rows.", panel=PRIVACY, values=(*MECHANISMS, *FITTABLE, "none"))] = None
    delta: DeltaOption = None
    stages: Annotated[int, Option("Release the rows in so many parts, each with the earlier parts' model as its public prior (LP-MST).", panel=PRIVACY)] = 1
    stage_epochs: Annotated[int | None, Option("With --stages: epochs of all models but the last. Default: --epochs.", panel=PRIVACY)] = None
    stage_share: Annotated[float | None, Option("With --stages: the first stage's share of the rows that are trained on. Default: as many as in each other stage.", panel=PRIVACY)] = None
    prior_temperature: Annotated[float | None, Option("With --stages: the prior is the earlier model's p^(1/this), normalised; below 1 it is surer (0.5). Default: 1.", panel=PRIVACY)] = None
    drop_unlikely: Annotated[str | None, Option("With --stages: leave out earlier rows whose released class is none of the k likeliest by the earlier model. row: k as RRWithPrior has it for each; mean: its mean over the rows that come next.", panel=PRIVACY, values=("row", "mean"))] = None
    warm_start: Annotated[bool, Option("With --stages: begin each training with the earlier model's weights.", panel=PRIVACY)] = False
    stage_mixup: Annotated[float | None, Option("With --stages: mixup of all models but the last. Default: --mixup.", panel=PRIVACY)] = None
    lp2st_recipe: Annotated[bool, Option("Begin with the recipe of LP-2ST's code: 200 epochs, batches of 512, its schedule, crops, flips and cutout.", flag="--lp-2st-recipe", panel=MODEL, hidden=True)] = False
    canaries: CanariesOption = None
    candidates: CandidatesOption = None
    insecure_seed: InsecureSeedOption = None
    preset: Annotated[str | None, Option("A row of the paper's ALIBI table (alibi-cifar10-high …), LP-2ST as published (lp-2st-cifar10-eps1, -eps2, -eps4), or cpu-cifar10, cpu-cifar100; options given beside it win.", panel=MODEL, values=EXPERIMENT_PRESETS)] = None
# fmt: on


def experiment(options: ExperimentOptions, progress: Progress = SILENT) -> dict[str, Any] | None:
    """Release a bundled data set's labels, train on the release, and judge by its public test set: both parties in one process.

    Example: labeldp experiment --dataset digits --epsilon 2 --out run/

    A row of the paper's table: labeldp experiment --preset alibi-cifar10-high --out run/

    One statistic in place of rows, for a small ε: labeldp experiment --dataset cifar10 --mechanism moments --epsilon 0.1 --flop 5e14 --out run/
    """
    from labeldp.machine import joined

    options = filled(options, EXPERIMENTS, options.preset)
    use_threads(options.threads)
    _check(options)
    found_before = was_finished(options.out)
    with ExitStack() as after:  # whatever fails once the release is charged says that it is

        def paid(made: Made) -> None:
            after.enter_context(made.followed(options.out))
            if options.mechanism in FITTABLE:  # central trust: times of files would tell how long work on labels took
                after.enter_context(RunFolder(options.out).dated(made.record.made))

        if options.mechanism in FITTABLE:
            return {**experiment_from_moments(options, progress, paid), **found_before}
        with joined() as world, progress.doing("preparing", shown=world.first) as shown:
            check_processes(options, world)
            job, summary = (_at_once if options.stages == 1 else _in_stages)(options, shown, world, paid)
        if not world.first:
            return None
        summary = summary if options.canaries is None else _audit(options, job, progress)
    return {**summary, **found_before, **few_steps(options.out, summary, progress)}


def _check(options: ExperimentOptions) -> None:
    if options.dataset is None:
        raise InputError("`dataset` is missing: digits, fashion, cifar10 or cifar100; or a `preset`, which has one.")
    if options.candidates is not None and options.canaries is None:
        raise InputError(
            "`candidates` is the number of labels that each of the `canaries` is drawn from; say how many."
        )
    _check_stages(options)
    if options.canaries is not None and options.folds is not None:
        raise InputError("`canaries` and `folds` do not go together: a canary must be trained on.")
    if options.stages != 1 and (options.folds is not None or options.delta is not None or options.select != "last"):
        raise InputError("`stages` does not go with `folds`, `delta` or `select='best'`.")
    if options.stages != 1 and options.flop is not None and options.mechanism not in FITTABLE:
        raise InputError("`flop` is a budget for one model; `stages` trains several: say `epochs`, and `stage_epochs`.")
    if options.mechanism not in FITTABLE:
        check_training(options)
        check_training(_earlier(options))


_STAGED = ("stage_epochs", "stage_share", "stage_mixup", "prior_temperature", "drop_unlikely", "warm_start")


def _check_stages(options: ExperimentOptions) -> None:
    """Options that only stages have a use for; wrong ones are refused before anything is written."""
    given = [name for name in _STAGED if getattr(options, name) is not None and getattr(options, name) is not False]
    if options.stages != 1:
        from labeldp.experiments.staged import Dealing

        Dealing(options.stages, options.share, options.seed, options.stage_share)
        _handover(options)
    elif given:
        raise InputError(f"`{given[0]}` is for experiments in stages; say how many `stages`.")
    refused = [name for name in OF_STAGED_STEPS if getattr(options, name)]
    if options.model == "lightgbm" and refused:
        raise InputError(f"`{refused[0]}` is for models that are trained by gradient steps; lightgbm is not.")


def _handover(options: ExperimentOptions) -> Handover:
    from labeldp.experiments.staged import Handover

    temperature = 1.0 if options.prior_temperature is None else options.prior_temperature
    return Handover(temperature, options.warm_start, options.drop_unlikely)


def _earlier(options: ExperimentOptions) -> ExperimentOptions:
    """For the models of all stages but the last."""
    epochs = options.epochs if options.stage_epochs is None else options.stage_epochs
    mixup = options.mixup if options.stage_mixup is None else options.stage_mixup
    return replace(options, epochs=epochs, mixup=mixup)


def _at_once(options: ExperimentOptions, shown: Progress, world: World, paid: Paid) -> tuple[Job, dict[str, Any]]:
    from labeldp.experiments.experiment import release_bundled
    from labeldp.runs.crossfit import check_folds
    from labeldp.runs.job import holding_out

    assert options.dataset is not None

    def make_job(release: Release, values: Any) -> Job:
        job = job_of(options, release, values)
        if options.folds is not None:
            check_folds(job, options.folds)
        plan_of(options, job)  # a budget that cannot be is refused before anything is released
        return job

    planting = _planting(options, lambda rows: holding_out(rows, options.share, options.seed)[1])
    release, values, test = release_bundled(
        options.dataset, options.data, options.out, options.mechanism, options.epsilon, options.delta, options.insecure_seed, world, planting,
        make_job, paid,
    )  # fmt: skip
    job = make_job(release, values)
    return job, fit(options, job, test, shown, world)


def _in_stages(options: ExperimentOptions, shown: Progress, world: World, paid: Paid) -> tuple[Job, dict[str, Any]]:
    from labeldp.experiments.staged import Dealing, Staged

    assert options.dataset is not None

    def stage(release: Any, values: Any, held_out: float, last: bool) -> Job:
        job = job_of(options if last else _earlier(options), release, values, share=held_out)
        shown.begin(getattr(job.recipe, "epochs", 1))
        return job

    dealing = Dealing(options.stages, options.share, options.seed, options.stage_share)
    planting = _planting(options, dealing.trained_on)
    staged = Staged(
        options.out, options.dataset, options.data, options.mechanism, options.epsilon, dealing, stage, options.insecure_seed, planting, world,
        paid, _handover(options),
    )  # fmt: skip
    return staged.run(listener(options, shown, world), shown.step)


def _planting(options: ExperimentOptions, trained_on: Callable[[int], Any]) -> CanaryPlan | None:
    from labeldp.experiments.experiment import CanaryPlan

    if options.canaries is None:
        return None
    return CanaryPlan(options.canaries, 2 if options.candidates is None else options.candidates, trained_on)


def _audit(options: ExperimentOptions, job: Job, progress: Progress) -> dict[str, Any]:
    """The summary with the audit in it."""
    from labeldp.audit.plant import MOST_SHARE
    from labeldp.audit.result import percent
    from labeldp.experiments.experiment import audit_run

    assert options.canaries is not None
    share = options.canaries / len(job.release)
    if share > MOST_SHARE:
        progress.warn(f"{share:.1%} of the rows are canaries; above {percent(MOST_SHARE)} the model itself suffers.")
    summary = audit_run(options.out, job)
    for warning in dict.fromkeys(w for found in summary["audit"].values() for w in found["warnings"]):
        progress.warn(warning)
    return summary
