"""Training from a release: `labeldp train`, and what `labeldp experiment` has in common with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, JUDGING, MACHINE, MODEL, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    OTHER_ROWS,
    CanaryShareOption,
    DeviceOption,
    EpochsOption,
    FeaturesOption,
    IdOption,
    ImageSizeOption,
    ModelOption,
    SeedOption,
    ThreadsOption,
    use_threads,
)
from labeldp.commands.values import DENOISERS, DTYPES
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.data.features import Features
    from labeldp.estimators.boosted import BoostingRecipe
    from labeldp.estimators.linear import LinearRecipe
    from labeldp.machine import World
    from labeldp.release import Release
    from labeldp.runs.job import Job
    from labeldp.runs.search import SearchPlan
    from labeldp.training.recipe import Recipe

    AnyRecipe = Recipe | LinearRecipe | BoostingRecipe

USUAL_HOLDOUT = 0.1
_FOUND_BEFORE = (
    "by its own account: it was finished before, and its accuracy and other scores are what its summary.json says"
)


# fmt: off
@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """Model, recipe, judging and machine of any training."""

    out: Annotated[Path, Option("The run directory; an interrupted run there is resumed.")]
    model: ModelOption = None
    epochs: EpochsOption = None
    flop: Annotated[float | None, Option("For images, in place of --epochs: a budget, within which a recipe is searched for.", panel=MODEL)] = None
    no_search: Annotated[bool, Option("With --flop: the model's own recipe, for as many epochs as that allows.", panel=MODEL)] = False
    batch_size: Annotated[int | None, Option("Rows a step, over all processes.", panel=MODEL)] = None
    accumulate: Annotated[int | None, Option("Compute a step in so many parts, for less memory.", panel=MODEL)] = None
    learning_rate: Annotated[float | None, Option("At its peak.", panel=MODEL)] = None
    weight_decay: Annotated[float | None, Option("How hard weights are pulled towards zero.", panel=MODEL)] = None
    start: Annotated[Path | None, Option("Begin with an encoder's network (`labeldp features --learn contrastive`).", panel=MODEL)] = None
    mixup: Annotated[float | None, Option("Mix pairs of rows, and their losses, by shares that are Beta(this, this); 0.2 to 1.", panel=MODEL)] = None
    consistency: Annotated[float | None, Option("Weight of what the averaged model believes of weak views (0.5); needs --average.", panel=MODEL)] = None
    strong_from: Annotated[float | None, Option("Begin with strong views and consistency after this share of the epochs.", panel=MODEL)] = None
    average: Annotated[float | None, Option("Predict with averaged weights that keep this share a step (0.999).", panel=MODEL)] = None
    prior: Annotated[str | None, Option("What evidence meets: the model's output (ALIBI), its average's, or none.", panel=MODEL, values=("model", "average", "none"))] = None
    denoise: Annotated[str | None, Option("bayes (evidence); or uninformed: min-projection, min-max, softmax, argmax, none.", panel=MODEL, values=DENOISERS)] = None
    fixmatch: Annotated[bool, Option("FixMatch: learn from confident guesses about all rows, too.", panel=MODEL)] = False
    randaugment: Annotated[int | None, Option("Random operations on each image (2).", panel=MODEL)] = None
    cutout: Annotated[int | None, Option("Blank a square of so many pixels in each image (16).", panel=MODEL)] = None
    strong: Annotated[str | None, Option("RandAugment, cutout and averages in our way, or as in FixMatch's released code (original; usual with --fixmatch).", panel=MODEL, values=("ours", "original"), hidden=True)] = None
    seed: SeedOption = 0
    paper: Annotated[bool, Option("Begin with the recipe of the paper's code: 200 epochs, batches of 128, its schedule, crops and flips.", flag="--paper-recipe", panel=MODEL, hidden=True)] = False
    holdout: Annotated[float | None, Option("The share of rows that is held out to estimate accuracy. Default: 0.1.", panel=JUDGING)] = None
    folds: Annotated[int | None, Option("Judge by cross-fitting so many models, and train on all rows.", panel=JUDGING)] = None
    select: Annotated[str, Option("last epoch, or the best by half of the rows held out.", panel=JUDGING, values=("last", "best"))] = "last"
    patience: Annotated[int | None, Option("With --select best: stop after so many epochs without a better one.", panel=JUDGING)] = None
    other_rows: Annotated[bool, OTHER_ROWS] = False
    canary_share: CanaryShareOption = 0.0
    device: DeviceOption = "auto"
    dtype: Annotated[str, Option("auto, float32 or bfloat16.", panel=MACHINE, values=DTYPES)] = "auto"
    threads: ThreadsOption = None
    compile_model: Annotated[bool, Option("torch.compile the model: for GPUs.", flag="--compile", panel=MACHINE)] = False
    tensorboard: Annotated[bool, Option("Also write metrics for TensorBoard.", panel=MACHINE)] = False

    @property
    def share(self) -> float:
        """How many rows are held out, of a release that can judge."""
        return USUAL_HOLDOUT if self.holdout is None else self.holdout


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """What `labeldp train` is told."""

    features: FeaturesOption
    release: Annotated[tuple[Path, ...], Option("A release file. Several times: releases of different rows.", panel=DATA)] = ()
    moments: Annotated[Path | None, Option("In place of a release: `labeldp moments` of these rows; of images with --start.", panel=DATA)] = None
    id_column: IdOption = None
    image_size: ImageSizeOption = None
    test_features: Annotated[Path | None, Option("Rows with public labels.", panel=JUDGING)] = None
    test_labels: Annotated[Path | None, Option("Their labels: .npy, or a table.", panel=JUDGING)] = None
    test_labels_are_public: Annotated[bool, Option("Said by whoever answers for it: no promise covers them.", panel=JUDGING)] = False
# fmt: on


def train(options: TrainOptions, progress: Progress = SILENT) -> dict[str, Any] | None:
    """Train a model from a release: features and evidence are all it sees.

    Example: labeldp train --release released.parquet --features x.parquet --id uid --model linear --out run/
    """
    from labeldp.machine import joined

    if options.moments is not None:
        from labeldp.commands.student import train_from_moments

        found_before = was_finished(options.out)
        summary = train_from_moments(options, progress)
        return None if summary is None else {**summary, **found_before, **few_steps(options.out, summary, progress)}
    if not options.release:
        raise InputError("`release` is missing: what was released of the labels; or `moments`, one statistic of them.")
    check_training(options)
    _check_test(options)
    found_before = was_finished(options.out)
    if options.flop is not None or by_steps(options, options.model or "linear"):
        use_threads(options.threads)
    with joined() as world, progress.doing("preparing", shown=world.first) as shown:
        check_processes(options, world)
        release, given, test = _read(options)
        job = job_of(options, release, given.values, given)
        summary = fit(options, job, test, shown, world)
    return {**summary, **found_before, **few_steps(options.out, summary, progress)} if world.first else None


_FEW_STEPS = 40  # after which the averages that batch normalisation predicts with are still those that it began with


def few_steps(out: Path, summary: dict[str, Any], progress: Progress) -> dict[str, list[str]]:
    """A warning of a network of images that took so few steps that it may predict worse than chance, whatever its loss."""
    config = RunFolder(out).read_config()  # a search may have chosen the recipe
    if len(config.feature_shape) != 3 or config.model in ("linear", "mlp") or "batch_size" not in config.recipe:
        return {}
    batch, epochs, rows = config.recipe["batch_size"], config.recipe["epochs"], summary["rows_trained"]
    steps = max(1, rows // batch) * epochs
    if steps >= _FEW_STEPS:
        return {}
    text = (
        f"{rows:,} images in batches of {batch:,} were {steps} steps in all, after which the network's predictions may be worse than "
        f"chance, whatever its loss: give `batch_size`, {max(8, min(64, rows // 16))} say, or more `epochs`."
    )
    return {"warnings": [progress.said(text)]}


def was_finished(out: Path) -> dict[str, str]:
    """What is to be said of a run that was finished before, perhaps by somebody else."""
    return {"given": _FOUND_BEFORE} if RunFolder(out).summary.exists() else {}


def check_training(options: TrainingOptions) -> None:
    """What cannot be is refused before anything is released or written."""
    if options.folds is not None and options.holdout is not None:
        raise InputError("`folds` judges with every row in its turn; leave out `holdout`.")
    if options.threads is not None and options.threads < 1:
        raise InputError(f"`threads` is at least 1; got {options.threads}.")
    if options.flop is not None and options.epochs is not None:
        raise InputError("`flop` says how long to train, and so does `epochs`: leave out one of them.")
    if options.flop is not None and options.folds is not None:
        raise InputError("`flop` is a budget for one model; `folds` trains several. Leave out one of them.")
    if options.no_search and options.flop is None:
        raise InputError("`no_search` goes with `flop`, a budget within which a recipe is searched for otherwise.")
    recipe = recipe_of(options, options.model or "fast", epochs=options.epochs)
    searched = (
        options.flop is not None and not options.no_search
    )  # some of the recipes that are tried have strong views
    strong = any(getattr(recipe, name, 0) for name in ("consistency", "randaugment", "cutout"))
    if options.strong_from and not strong and not searched:
        raise InputError(
            "`strong_from` says when strong views begin, and there are none: give `randaugment`, `cutout` or `consistency`."
        )


def check_processes(options: TrainingOptions, world: World) -> None:
    """A search runs alone."""
    if world.size > 1 and options.flop is not None and not options.no_search:
        raise InputError(
            f"a search has one process, and these are {world.size}: search without torchrun; then train the winner, which the run names, "
            "with many: say its options, the same `seed` and `holdout`, `no_search`, and `select='best'`, so that the rows which chose it "
            "do not report."
        )


def _check_test(options: TrainOptions) -> None:
    given = (options.test_features, options.test_labels)
    if any(given) and not (all(given) and options.test_labels_are_public):
        raise InputError(
            "clean test labels are `test_features` with `test_labels`, for your own data, and only if you can say "
            "`test_labels_are_public`. Without any, accuracy is estimated from released labels."
        )


_OF_STEPS = (
    "batch_size", "accumulate", "weight_decay", "start", "mixup", "consistency", "strong_from", "average", "prior", "denoise", "fixmatch", "randaugment", "cutout",
    "strong", "paper",
)  # fmt: skip


# Of experiments in stages.
OF_STAGED_STEPS = ("stage_mixup", "warm_start", "lp2st_recipe")


def by_steps(options: TrainingOptions, model: str) -> bool:
    """Whether a model is trained by gradient steps, in torch. The linear one has an exact solver, which chooses its penalty; an option
    that only gradient steps can follow asks for them."""
    if model == "lightgbm":
        return False
    if model != "linear":
        return True
    asked = (*_OF_STEPS, "epochs", "stage_epochs", "learning_rate", "compile_model", *OF_STAGED_STEPS)
    return (
        any(getattr(options, name, None) for name in asked)
        or options.select != "last"
        or options.device not in ("auto", "cpu")
    )


def table_recipe(options: TrainingOptions, model: str, epochs: int | None) -> LinearRecipe | BoostingRecipe:
    """Of trees, or of the linear model's exact solver."""
    if model == "linear":
        from labeldp.estimators.likelihood import scipy_minimize
        from labeldp.estimators.linear import LinearRecipe

        scipy_minimize()  # missed now, not when a run directory is begun
        return LinearRecipe(seed=options.seed)
    from labeldp.estimators.boosted import BoostingRecipe
    from labeldp.estimators.boosting import lightgbm

    lightgbm()  # missed now, not when a run directory is begun
    refused = next((name for name in (*_OF_STEPS, "compile_model") if getattr(options, name)), None)
    if refused is not None:
        raise InputError(f"`{refused}` is for models that are trained by gradient steps; {model} is not.")
    if options.select != "last":
        raise InputError(f"`select` is for epochs; {model} always stops by the likelihood of rows that it sets apart.")
    return BoostingRecipe(seed=options.seed, rounds=epochs, rate=options.learning_rate)


def recipe_of(
    options: TrainingOptions,
    model: str,
    classes: int = 10,
    size: int = 32,
    epochs: int | None = None,
    rows: int | None = None,
) -> AnyRecipe:
    """The model's own, of so many rows, the paper's or FixMatch's, with what was given instead."""
    if not by_steps(options, model):
        return table_recipe(options, model, epochs)
    from labeldp.training.recipe import changed, default_recipe, fixmatch_recipe, lp2st_recipe, paper_recipe

    if options.fixmatch:
        usual = fixmatch_recipe(model, classes, size=size)
    elif getattr(options, "lp2st_recipe", False):
        usual = lp2st_recipe()
    else:
        usual = paper_recipe() if options.paper else default_recipe(model, classes, few_rows(options, rows))
    names = (
        "batch_size", "accumulate", "learning_rate", "weight_decay", "mixup", "consistency", "strong_from", "average", "prior", "denoise", "randaugment", "cutout",
        "strong", "seed",
    )  # fmt: skip
    return changed(usual, epochs=epochs, **{name: getattr(options, name) for name in names})


def few_rows(options: TrainingOptions, rows: int | None) -> int | None:
    """How many rows the usual batch is for: a batch that is given is meant, and its rate is the usual one."""
    return rows if options.batch_size is None and options.accumulate is None else None


def job_of(
    options: TrainingOptions,
    release: Release,
    values: Any,
    about: Features | None = None,
    *,
    share: float | None = None,
) -> Job:
    """The training of a model from a release; `about` says what the values are called. Another `share` of rows is held out in stages, of
    the first of which all of them are."""
    from labeldp.machine import Machine
    from labeldp.mechanisms import judging_rows
    from labeldp.runs.job import Job
    from labeldp.runs.pretrained import Pretrained

    if values.ndim != 4 and (options.randaugment or options.cutout):
        raise InputError("`randaugment` and `cutout` are for images; these features are none.")
    if values.ndim == 4 and options.cutout is not None and options.cutout >= min(values.shape[2:]):
        raise InputError(
            f"`cutout={options.cutout}` would blank whole images of {values.shape[3]} × {values.shape[2]} pixels; a quarter to a half of "
            "their side is usual."
        )
    start = None if options.start is None else Pretrained.of(options.start)
    model = options.model or (usual_model(values) if start is None else start.model)
    size = values.shape[-1] if values.ndim == 4 else 32
    recipe = recipe_of(options, model, release.mechanism.num_classes, size, options.epochs, len(values))
    # A release that cannot judge keeps no row from training, unless it is told to.
    judged = options.holdout is not None or judging_rows(release.mechanism, release.observations).any()
    held_out = options.share if share is None else share
    named: dict[str, Any] = (
        {} if about is None else {"columns": about.columns, "categorical": about.categorical, "codes": about.codes}
    )
    return Job(
        release, values, model, recipe, held_out if judged else 0.0, options.select, options.patience, **named,
        canary_share=options.canary_share, prior_saw_none=options.other_rows, start=start,
        machine=Machine(options.device, options.dtype, options.compile_model, options.threads),
    )  # fmt: skip


def usual_model(values: Any) -> str:
    """For images large enough `fast`, else `linear`."""
    return "fast" if values.ndim == 4 and min(values.shape[2:]) >= 17 else "linear"


def fit(options: TrainingOptions, job: Job, test: Any, shown: Progress, world: World) -> dict[str, Any]:
    """Train, or cross-fit; the summary."""
    from labeldp.runs.crossfit import cross_fit
    from labeldp.runs.run import train as run

    if options.tensorboard and not job.timed:
        raise InputError(
            "`tensorboard` notes the time of every epoch, and under central trust that may tell how long work on private labels took: leave "
            "it out. metrics.jsonl in the run has the same numbers, without times."
        )
    told = {"public_test": test, "progress": listener(options, shown, world), "on_step": shown.step, "world": world}
    plan = plan_of(options, job)
    if plan is not None and not options.no_search:
        from labeldp.runs.search import train_within

        del told["world"]  # it is alone
        return train_within(plan, options.out, **told, on_trial=shown.epoch, begin=shown.begin, tell=shown.line)
    if plan is not None:
        (one,) = plan.entrants
        job = one.own(one.epochs(plan.budget), chosen=False)
    shown.begin(getattr(job.recipe, "epochs", 1))
    if options.folds is None:
        return run(job, options.out, **told)
    return cross_fit(job, options.out, options.folds, **told)


def plan_of(options: TrainingOptions, job: Job) -> SearchPlan | None:
    """How a budget of FLOP is spent, if there is one; refused if it cannot be."""
    if options.flop is None:
        return None
    from labeldp.runs.search import CHANGED, SearchPlan, check_budget

    check_budget(job, options.flop)
    if options.no_search:
        return SearchPlan.alone(job, options.flop)
    given = {name for name in ("model", *CHANGED) if getattr(options, name, None) is not None}
    if options.fixmatch or options.paper:  # each is a recipe
        given |= {*CHANGED, "start"}
    return SearchPlan.of(job, options.flop, frozenset(given))


def listener(options: TrainingOptions, shown: Progress, world: World) -> Callable[[dict[str, Any]], None]:
    """Who is told of each epoch: whoever watches, and TensorBoard."""
    if not (options.tensorboard and world.first):
        return shown.epoch
    from labeldp.runs.run import tensorboard

    note = tensorboard(options.out)

    def told(metrics: dict[str, Any]) -> None:
        shown.epoch(metrics)
        note(metrics)

    return told


def _read(options: TrainOptions) -> tuple[Release, Features, Any]:
    """A release, features in its order, and a public test set if there is one."""
    from labeldp.data.features import join, read_features
    from labeldp.release import Release
    from labeldp.release.joint import join_releases

    release = join_releases([Release.load(path) for path in options.release])
    holes = options.model == "lightgbm"  # no other model takes them, or categories as they are
    given = read_features(options.features, options.id_column, options.image_size, missing=holes)
    joined = replace(given, values=join(release, given))
    return release, joined, _test(options, release, joined)


def _test(options: TrainOptions, release: Release, trained: Features) -> Any:
    import pyarrow.compute as pc

    from labeldp.data.features import read_features, read_public_labels
    from labeldp.files.ids import comparable

    if options.test_features is None or options.test_labels is None:
        return None
    holes = options.model == "lightgbm"
    read = read_features(options.test_features, options.id_column, options.image_size, missing=holes)
    read.refuse_label(release.label, release.class_names)
    if read.values.shape[1:] != trained.values.shape[1:]:
        shapes = (read.values.shape[1:], trained.values.shape[1:])
        raise InputError("the test features have shape {}; training's have {}.".format(*shapes))
    if (
        read.named
        and not read.numbered
        and pc.any(pc.is_in(comparable(read.ids), value_set=comparable(release.ids))).as_py()
    ):
        raise InputError(
            "some test rows are in the release: their labels are not public, and the model may have trained on them."
        )
    return read.ordered(trained.columns, trained.codes), read_public_labels(
        options.test_labels, read, release, options.id_column
    )
