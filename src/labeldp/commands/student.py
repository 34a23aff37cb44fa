"""Training from one statistic in place of released rows: what `labeldp train --moments` and `experiment --mechanism moments` share."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from labeldp.commands.progress import Progress
from labeldp.commands.shared import use_threads
from labeldp.commands.values import ROWS
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.commands.experiment import ExperimentOptions
    from labeldp.commands.train import TrainingOptions, TrainOptions
    from labeldp.experiments.experiment import Paid
    from labeldp.statistics.reading import Fittable
    from labeldp.training.recipe import Recipe

_RECIPE = (
    "batch_size", "accumulate", "learning_rate", "weight_decay", "mixup", "average", "randaugment", "cutout", "seed",
)  # fmt: skip
_STUDENT = (
    *_RECIPE, "model", "epochs", "flop", "start", "image_size", "device", "dtype", "threads", "compile_model",
)  # fmt: skip
_ALWAYS = ("out", "moments", "features", "dataset", "data", "epsilon", "mechanism", "delta", "insecure_seed", "preset")
_MACHINE = ("device", "dtype", "threads")


def train_from_moments(options: TrainOptions, progress: Progress) -> dict[str, Any] | None:
    """All that was released of these rows' labels is one statistic; of rows it is fitted at once, of images a student learns from that."""
    from labeldp.data.features import read_features
    from labeldp.runs.moments import train_moments
    from labeldp.statistics.reading import load_fittable

    assert options.moments is not None
    if options.start is None:
        refuse_others(options, ("id_column",), "moments are fitted by their own rule")
    else:
        refuse_others(
            options,
            (*_STUDENT, "id_column"),
            "one statistic judges nobody, and its student learns what it says as it is",
        )
    moments = load_fittable(options.moments)
    if options.start is not None:
        return _train_student(options, moments, progress)
    given = read_features(options.features, options.id_column, missing=True)
    given.refuse_categories()
    given.refuse_label(moments.header.get("label"), moments.class_names)
    return train_moments(moments, given, options.out, path=options.moments)


def _train_student(options: TrainOptions, moments: Fittable, progress: Progress) -> dict[str, Any] | None:
    from labeldp.data.features import read_features
    from labeldp.features.encoder import Encoder
    from labeldp.machine import Machine, joined
    from labeldp.runs.pretrained import Pretrained
    from labeldp.runs.student import StudentJob, check_images, epochs_for, train_student
    from labeldp.training.recipe import changed

    assert options.start is not None
    use_threads(options.threads)
    start, classes = Pretrained.of(options.start), moments.statistic.num_classes
    recipe_of_student(options, classes)  # what cannot be is refused before images are read
    with joined() as world, progress.doing("preparing", shown=world.first) as shown:
        given = read_features(options.features, options.id_column, options.image_size)
        check_images(given.values)
        given.refuse_label(moments.header.get("label"), moments.class_names)
        start.check_network(options.model or start.model, given.values.shape[1:])
        recipe = recipe_of_student(options, classes, len(given.values))
        if options.flop is not None:
            recipe = changed(recipe, epochs=epochs_for(options.flop, start.model, given.values, classes))
        machine = Machine(options.device, options.dtype, options.compile_model, options.threads)
        job = StudentJob(moments, given, Encoder.load(options.start), start, recipe, machine)
        shown.begin(recipe.epochs)
        summary = train_student(
            job, options.out, path=options.moments, progress=shown.epoch, on_step=shown.step, world=world
        )  # fmt: skip
    return summary if world.first else None


def recipe_of_student(options: TrainingOptions, classes: int, rows: int | None = None) -> Recipe:
    """The usual of so many rows, with what was given instead."""
    from labeldp.commands.train import few_rows
    from labeldp.training.recipe import student_recipe

    if options.flop is not None and options.epochs is not None:
        raise InputError("say how long to train in `flop` or in `epochs`, not both.")
    if options.flop is not None and not 0 < options.flop < float("inf"):
        raise InputError(f"`flop` is a positive number, 1e14 for instance; got {options.flop:g}.")
    given = {name: getattr(options, name) for name in _RECIPE}
    return student_recipe(classes, few_rows(options, rows), epochs=options.epochs, **given)


def experiment_from_moments(options: ExperimentOptions, progress: Progress, paid: Paid) -> dict[str, Any]:
    """Both parties: an encoder without a label, one statistic, and what learns from it."""
    from labeldp.experiments.from_moments import ImageLearning, MomentsExperiment
    from labeldp.machine import Machine, joined

    assert options.dataset is not None
    assert options.mechanism is not None
    if options.epsilon is None:
        raise InputError("`epsilon` is missing; one statistic is for a small one: 0.1 is a good beginning.")
    one = f"`mechanism={options.mechanism!r}` releases one statistic"
    if options.dataset in ROWS:
        refuse_others(options, _MACHINE, f"{one}, to which a model of rows of numbers is fitted by a rule of its own")
    else:
        refuse_others(options, _STUDENT, f"{one}, and no row to plant, stage, hold out or choose by")
    learning = ImageLearning(
        lambda classes, rows: recipe_of_student(options, classes, rows), options.start, options.model, options.flop, options.epochs, options.seed,
        Machine(options.device, options.dtype, options.compile_model, options.threads),
    )  # fmt: skip
    learning.recipe(10, 1000)  # what cannot be is refused before anything is learned or released
    with joined() as world, progress.doing("preparing") as shown:
        if world.size > 1:
            raise InputError(
                f"`mechanism={options.mechanism!r}` is an experiment of one process: run it without torchrun."
            )
        made = MomentsExperiment(
            options.out, options.dataset, options.data, options.mechanism, options.epsilon, options.delta, options.insecure_seed,
            learning, paid,
        )  # fmt: skip
        return made.run(shown.epoch, shown.step, shown.begin, shown.epoch)


def refuse_others(options: TrainingOptions, taken: tuple[str, ...], why: str) -> None:
    """Options that nothing would follow are refused; those that are as usual were perhaps not given."""
    more = [
        one.name
        for one in fields(options)
        if one.name not in (*_ALWAYS, *taken)
        and one.default is not MISSING
        and getattr(options, one.name) != one.default
    ]
    if more:
        raise InputError(f"{why}: leave out {', '.join(f'`{name}`' for name in more)}.")
