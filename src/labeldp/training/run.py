"""Train in a run directory: begin, go on after an interruption, judge, sum up."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

from labeldp import models
from labeldp.errors import InputError, NoJudgeError
from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.evaluation.confusion import estimate_class_shares, estimate_confusion
from labeldp.files.ids import comparable
from labeldp.files.run import RunFolder, write_json
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import Config, TrainedRows
from labeldp.mechanisms import judging_rows
from labeldp.release import Release
from labeldp.training.job import Job, Rows
from labeldp.training.machine import ALONE, Machine, World, explained_memory, explained_model
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Steps, Trainer

Progress = Callable[[dict[str, Any]], None]
PublicTest = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
MOST_CLASSES = 200  # of a confusion matrix


def train(
    job: Job,
    folder: Path,
    *,
    public_test: PublicTest | None = None,
    progress: Progress = lambda metrics: None,
    on_step: Steps = lambda step, of: None,
    world: World = ALONE,
) -> dict[str, Any]:
    """Train (or go on training) in `folder`; return the summary. Test labels are used once, at the end, and must be public.

    Among several processes every one calls this; the first writes all files, and `folder` must be where all can read it.
    """
    run, split = RunFolder(folder), job.split()
    with (
        run.locked() if world.first else nullcontext(),
        explained_memory(
            f"a smaller `batch_size` (it is {job.recipe.batch_size}) or a larger `accumulate` ({job.recipe.accumulate}) needs less."
        ),
    ):
        with explained_model(job.model):
            trainer = job.trainer(world)
        features = torch.from_numpy(np.ascontiguousarray(job.features))
        if world.first:
            run.match(job.config())
        world.wait()
        done = run.summed_up()
        if done is not None:
            return finished_before(run, job, done) if world.first else {}
        if run.checkpoint.exists():
            trainer.load(run.checkpoint)
        else:
            trainer.prepare(features)
        # Only once all have read this checkpoint may the first write the next; and all must have read the same.
        if world.told(trainer.epoch) != trainer.epoch:
            raise InputError(
                f"{folder} is not the same for all processes: `out` must be a directory that all machines share."
            )
        world.wait()
        if world.first:
            run.note_start(job.release.paths, dated=job.timed)
            _note_trained(run, job.release, split.train)
        history = run.resume(trainer.epoch) if world.first else []
        fit = trainer.fit(features, split.train, job.known, on_step)
        while trainer.epoch < job.recipe.epochs and not world.told(_out_of_patience(job, history)):
            with explained_model(job.model):
                metrics = next(fit)
            if world.first:
                history.append(metrics)
                _keep(job, run, trainer, features, split.select, history)
                progress(metrics)
        if not world.first:
            return {}
        last = trainer.epoch
        if run.selected.exists():
            trainer.load(run.selected)
        predictions = guessed(trainer, features, split.report)
        summary = _summary(job, trainer, judged(job, split.report, predictions), len(split.train))
        keep_confusion(run, job, split.report, predictions)
    summary |= {
        "accuracy_test": _accuracy(trainer, *public_test) if public_test is not None else None,
        "rows_tested": len(public_test[1]) if public_test is not None else 0,
        "rows_held_out": len(split.select) + len(split.report),
        "epochs": last,
        "epoch_selected": trainer.epoch if job.select == "best" else None,
        "train_flop": trainer.flop * last // max(trainer.epoch, 1),
        "seconds": sum(metrics["seconds"] for metrics in history) if job.timed else None,
        "processes": world.size,
    }
    summary["commonest_class_estimated"] = _commonest(job)
    run.write_summary("training", summary)
    return summary


def finished_before(run: RunFolder, job: Job, summary: dict[str, Any]) -> dict[str, Any]:
    """A summary that is found, not made: what it says of privacy must be what the release proves. The rest is its own account."""
    proven = _promise(job)
    if {name: summary[name] for name in proven if name in summary} != proven:
        raise InputError(
            f"{run.path} states another certificate than its release proves: its summary.json was altered. Choose another `out`."
        )
    run.read_training()
    return summary


def _commonest(job: Job, rows: int = 20_000) -> float | None:
    """The share of the commonest class, estimated from released labels: what always guessing it would score."""
    everything = job.release.observations[judging_rows(job.release.mechanism, job.release.observations)]
    if len(everything) == 0:
        return None
    sample = everything[:: -(-len(everything) // rows)]  # from all over the file, which may be sorted
    try:
        shares = estimate_class_shares(job.release.mechanism, sample)
    except InputError:
        return None
    classes = job.release.mechanism.num_classes
    return max(share.without_canaries(job.canary_share, classes).accuracy for share in shares)


def guessed(trainer: Trainer, features: torch.Tensor, rows: Rows) -> Rows:
    """What the model says of these rows."""
    return trainer.probabilities(features[torch.from_numpy(rows)]).argmax(axis=1) if len(rows) else rows


def judged(job: Job, rows: Rows, predictions: Rows) -> AccuracyEstimate | None:
    """Accuracy on these rows, which the model has not seen; None without rows."""
    if len(rows) < 2:
        return None
    try:
        estimate = estimate_accuracy(job.release.mechanism, job.release.observations[rows], predictions)
    except NoJudgeError:
        return None
    return estimate.without_canaries(job.canary_share, job.release.mechanism.num_classes)


def keep_confusion(run: RunFolder, job: Job, rows: Rows, predictions: Rows) -> None:
    """Beside the summary: which class these rows' model takes for which, by released labels. Not where nobody could read it."""
    if len(rows) < 2 or job.release.mechanism.num_classes > MOST_CLASSES:
        return
    try:
        found = estimate_confusion(job.release.mechanism, job.release.observations[rows], predictions)
    except NoJudgeError:
        return
    write_json(run.confusion, found.without_canaries(job.canary_share).to_json())


def _keep(
    job: Job, run: RunFolder, trainer: Trainer, features: torch.Tensor, rows: Rows, history: list[dict[str, Any]]
) -> None:
    """Note the epoch that has just ended, and its model. Killed in between, the epoch is done again."""
    metrics = history[-1]
    if (estimate := judged(job, rows, guessed(trainer, features, rows))) is not None:
        metrics |= {"accuracy_selecting": estimate.accuracy, "unbiased_selecting": estimate.unbiased}
        metrics |= zip(("low_95_selecting", "high_95_selecting"), estimate.interval(), strict=True)
    run.add({name: value for name, value in metrics.items() if name != "seconds" or job.timed})
    if estimate is not None and _best(history) == len(history) - 1:
        trainer.save(run.selected)
    trainer.save(run.checkpoint)


def _best(history: list[dict[str, Any]]) -> int:
    """The first of the best epochs."""
    earlier = "accuracy_selecting"  # what runs of earlier versions noted, unbiased
    return int(np.argmax([metrics.get("unbiased_selecting", metrics[earlier]) for metrics in history]))


def _out_of_patience(job: Job, history: list[dict[str, Any]]) -> bool:
    return job.patience is not None and bool(history) and len(history) - 1 - _best(history) >= job.patience


def _summary(job: Job, trainer: Trainer, estimate: AccuracyEstimate | None, rows: int) -> dict[str, Any]:
    return {
        **_promise(job),
        **estimate_json(estimate),
        "rows_trained": rows,
        "mechanism": job.release.mechanism.to_json(),
        "model": job.model,
        "dtype": str(trainer.dtype).removeprefix("torch."),
        "device": str(trainer.device),
        "threads": torch.get_num_threads(),
        "releases": list(job.release.behind),
        "judge": job.judge(),
    }


def _promise(job: Job) -> dict[str, Any]:
    """What the release proves."""
    return {
        "certificate": job.release.certificate(),
        "trust": job.release.mechanism.trust,
        "insecure": job.release.insecure,
        "release": job.release.checksum,
    }


def estimate_json(estimate: AccuracyEstimate | None) -> dict[str, Any]:
    """An accuracy with its uncertainty; null where there is none. The unbiased one is for averaging: it may be below 0 or above 1."""
    if estimate is None:
        names = ("accuracy_estimated", "accuracy_unbiased", "standard_error", "interval_95")
        return {**dict.fromkeys(names), "rows_judged": 0}
    return {
        "accuracy_estimated": estimate.accuracy,
        "accuracy_unbiased": estimate.unbiased,
        "standard_error": estimate.standard_error,
        "interval_95": list(estimate.interval()),
        "rows_judged": estimate.rows,
    }


def _accuracy(trainer: Trainer, features: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> float:
    predictions = trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features))).argmax(axis=1)
    return float((predictions == labels).mean())


# ----------------------------------------------------------------
# What a finished run is for: predictions, and an honest accuracy on other rows.


def open_run(folder: Path, machine: Machine | None = None, model: str | None = None) -> tuple[Trainer, Config]:
    """A run's model, ready to predict, and its configuration.

    A model of your own (`package.module:Class`) must be named again: a run directory may come from somebody else, and nothing that
    it names is imported on its word alone.
    """
    run = RunFolder(folder)
    config = run.read_config()
    try:
        recipe = decode(Recipe, config.recipe, "recipe")
    except SchemaError as error:
        raise InputError(f"{run.config} is not of a run of `labeldp train`, or damaged: {error}") from None
    if run.read_training() is None:
        raise InputError(f"{folder} is not finished: the same `labeldp train` command goes on with it.")
    name, shape = config.model, config.feature_shape
    if name not in models.NAMES and name != model:
        raise InputError(
            f"this run's model is {name}, which is code: name it yourself if you trust it (`model={name!r}`)."
        )
    device, dtype = (machine or Machine()).chosen(images=len(shape) == 3)
    built = models.build(name, shape, config.num_classes)
    try:
        trainer = Trainer(built, recipe, device, dtype)
    except (ValueError, TypeError):
        raise InputError(f"{folder} has a recipe that no training can have: its config.json is damaged.") from None
    trainer.load(run.final)
    return trainer, config


def predict(
    folder: Path, features: npt.NDArray[Any], machine: Machine | None = None, model: str | None = None
) -> npt.NDArray[np.float32]:
    """The run's class probabilities for new rows."""
    return predictor(folder, machine, model)(features)


def predictor(
    folder: Path, machine: Machine | None = None, model: str | None = None
) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]:
    """The same for one part of the rows after the other; the model is read once."""
    trainer, config = open_run(folder, machine, model)

    def probabilities(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if features.shape[1:] != config.feature_shape:
            shapes = (list(config.feature_shape), list(features.shape[1:]))
            raise InputError("the model takes features of shape {}; these have {}.".format(*shapes))
        if (features.dtype == np.uint8) != (config.feature_type == "uint8"):
            raise InputError(f"the model was trained on {config.feature_type}; these features are {features.dtype}.")
        with explained_memory("predict fewer rows at a time."):
            return trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features)))

    return probabilities


def evaluate(
    folder: Path,
    release: Release,
    features: npt.NDArray[Any],
    machine: Machine | None = None,
    *,
    model: str | None = None,
    other_rows: bool = False,
) -> AccuracyEstimate:
    """Accuracy on released rows that this run has not trained on; rows that it has are refused.

    Where rows go by number in another data set, or by id here and by number there, nobody can see whether they are the same people:
    there is a warning, unless `other_rows` says that they are not.
    """
    run = RunFolder(folder)
    config = run.read_config()
    names = release.header["label_names"]
    if (release.mechanism.num_classes, names and tuple(names)) != (config.num_classes, config.label_names):
        raise InputError("this release has other classes (or the same in another order) than the run was trained with.")
    if None not in (release.label, config.label) and release.label != config.label:
        raise InputError(
            f"this release is of the label {release.header['label']!r}; the run was trained on {config.label!r}."
        )
    doubt = _refuse_trained(run, release)
    if doubt is not None and not other_rows:
        warnings.warn(doubt, stacklevel=2)
    if len(features) != len(release):
        raise InputError(f"there are {len(features):,} rows of features for {len(release):,} released rows.")
    predictions = predict(folder, features, machine, model).argmax(axis=1)
    return estimate_accuracy(release.mechanism, release.observations, predictions)


def _note_trained(run: RunFolder, release: Release, rows: Rows) -> None:
    run.write_trained(
        pa.array(release.ids[rows]),
        TrainedRows(
            by_id=release.header["ids"] is not None,
            data_set=release.data_set,
            behind=tuple(one for one in release.behind if one not in release.checksums),
            unknown_prior=any(not origin.known for origin in release.origins),
        ),
    )


def _refuse_trained(run: RunFolder, release: Release) -> str | None:
    """Rows that this run has trained on cannot judge it. Returned is a doubt, where nobody can tell whether it has."""
    ids, trained = run.read_trained()
    if set(release.checksums) & set(trained.behind):
        raise InputError(
            "the model's rows were released with a prior from a model of *this* release: its rows shaped what was learned, and cannot "
            "judge it."
        )
    by_id = release.header["ids"] is not None
    # Ids name people whatever the data set is called; row numbers mean something within one data set only.
    if by_id != trained.by_id or not (by_id or trained.data_set == release.data_set):
        return (
            "whether these rows were trained on cannot be seen: the run and this release name rows in different ways, or number those "
            "of two data sets. If they were, this accuracy is wrong. If you know that they were not, say so: `other_rows=True`."
        )
    doubt = (
        "the model's rows were released with a public prior of unknown origin. If that was made from these rows' released labels, this "
        "accuracy is wrong. If you know that it was not, say so: `other_rows=True`."
    )
    # Whatever the form in which they were released: an id that may be the same is.
    same = pc.is_in(comparable(release.comparable_ids()), value_set=comparable(ids))
    again = np.flatnonzero(same.to_numpy(zero_copy_only=False))
    if len(again):
        raise InputError(
            f"{len(again):,} of these rows were trained on (the first at position {again[0]}): an accuracy on them would be "
            "wrong. Evaluate on rows that were held out."
        )
    return doubt if trained.unknown_prior else None


def tensorboard(folder: Path) -> Progress:
    """What writes each epoch's metrics to folder/tensorboard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError('TensorBoard is an extra: pip install "labeldp[tensorboard]"') from None
    writer = SummaryWriter(str(RunFolder(folder).tensorboard))

    def write(metrics: dict[str, Any]) -> None:
        for name, value in metrics.items():
            if name != "epoch":
                writer.add_scalar(name, value, metrics["epoch"])
        writer.flush()

    return write
