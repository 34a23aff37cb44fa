"""Both parties in one process, on a bundled data set: `labeldp experiment`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
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
    MechanismOption,
    use_threads,
)
from labeldp.commands.train import (
    TrainingOptions,
    check_processes,
    check_training,
    fit,
    job_of,
    listener,
    plan_of,
    was_finished,
)
from labeldp.commands.values import EXPERIMENT_PRESETS
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.experiments.experiment import CanaryPlan, Paid
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
    mechanism: MechanismOption = None
    delta: DeltaOption = None
    stages: Annotated[int, Option("Release the rows in so many parts, each with the earlier parts' model as its public prior (LP-MST).", panel=PRIVACY)] = 1
    stage_epochs: Annotated[int | None, Option("With --stages: epochs of all models but the last. Default: --epochs.", panel=PRIVACY)] = None
    canaries: CanariesOption = None
    candidates: CandidatesOption = None
    insecure_seed: InsecureSeedOption = None
    preset: Annotated[str | None, Option("A row of the paper's ALIBI table (alibi-cifar10-high …) or cpu-cifar10, cpu-cifar100; options given beside it win.", panel=MODEL, values=EXPERIMENT_PRESETS)] = None
# fmt: on


def experiment(options: ExperimentOptions, progress: Progress = SILENT) -> dict[str, Any] | None:
    """Release a bundled data set's labels, train on the release, and judge by its public test set: both parties in one process.

    Example: labeldp experiment --dataset digits --epsilon 2 --out run/

    A row of the paper's table: labeldp experiment --preset alibi-cifar10-high --out run/
    """
    from labeldp.machine import joined

    options = filled(options, EXPERIMENTS, options.preset)
    use_threads(options.threads)
    _check(options)
    found_before = was_finished(options.out)
    with ExitStack() as after:  # whatever fails once the release is charged says that it is

        def paid(made: Made) -> None:
            after.enter_context(made.followed(options.out))

        with joined() as world, progress.doing("preparing", shown=world.first) as shown:
            check_processes(options, world)
            job, summary = (_at_once if options.stages == 1 else _in_stages)(options, shown, world, paid)
        if not world.first:
            return None
        summary = summary if options.canaries is None else _audit(options, job, progress)
    return {**summary, **found_before}


def _check(options: ExperimentOptions) -> None:
    if options.dataset is None:
        raise InputError("`dataset` is missing: digits, fashion, cifar10 or cifar100; or a `preset`, which has one.")
    if options.candidates is not None and options.canaries is None:
        raise InputError(
            "`candidates` is the number of labels that each of the `canaries` is drawn from; say how many."
        )
    if options.stage_epochs is not None and options.stages == 1:
        raise InputError("`stage_epochs` is for the models of earlier stages; say how many `stages`.")
    if options.canaries is not None and options.folds is not None:
        raise InputError("`canaries` and `folds` do not go together: a canary must be trained on.")
    if options.stages != 1 and (options.folds is not None or options.delta is not None or options.select != "last"):
        raise InputError("`stages` does not go with `folds`, `delta` or `select='best'`.")
    if options.stages != 1 and options.flop is not None:
        raise InputError("`flop` is a budget for one model; `stages` trains several: say `epochs`, and `stage_epochs`.")
    check_training(options, options.stage_epochs)


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
        job = job_of(options, release, values, epochs=None if last else options.stage_epochs, share=held_out)
        shown.begin(getattr(job.recipe, "epochs", 1))
        return job

    dealing = Dealing(options.stages, options.share, options.seed)
    planting = _planting(options, dealing.trained_on)
    staged = Staged(
        options.out, options.dataset, options.data, options.mechanism, options.epsilon, dealing, stage, options.insecure_seed, planting, world,
        paid,
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
