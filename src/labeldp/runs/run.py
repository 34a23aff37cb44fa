"""Train in a run directory: begin, go on after an interruption, judge, sum up. What a finished run is for: predictions, and an honest
judgement by other rows."""

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

from labeldp.errors import InputError, NoJudgeError
from labeldp.files.ids import comparable
from labeldp.files.run import RunFolder
from labeldp.files.summary import Config, TrainedRows
from labeldp.machine import ALONE, Machine, World
from labeldp.release import Release
from labeldp.runs.job import Job, Probabilities, Rows, Watch
from labeldp.runs.judging import USUAL, Judged, Wanted, commonest_class, keep_curves

Progress = Callable[[dict[str, Any]], None]
PublicTest = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]


def train(
    job: Job,
    folder: Path,
    *,
    public_test: PublicTest | None = None,
    progress: Progress = lambda metrics: None,
    on_step: Callable[[int, int], None] = lambda step, of: None,
    world: World = ALONE,
) -> dict[str, Any]:
    """Train (or go on training) in `folder`; return the summary. Test labels are used once, at the end, and must be public.

    Among several processes every one calls this; the first writes all files, and `folder` must be where all can read it.
    """
    run, split = RunFolder(folder), job.split()
    done: dict[str, Any] | None = None

    def begin() -> bool:
        """Once the model is built: whether there is anything to train."""
        nonlocal done
        if world.first:
            run.match(job.config())
        world.wait()
        done = run.summed_up()
        return done is None

    def note_start() -> None:
        run.note_start(job.release.paths, dated=job.timed)
        # Rows that chose do not report either, nor do rows that an earlier stage was trained on.
        _note_trained(run, job.release, np.sort(np.concatenate((split.train, split.select, split.dropped))))

    with run.locked() if world.first else nullcontext():
        learned = _way(job.by_steps).learn(job, run, split, Watch(begin, note_start, progress, on_step), world)
        if not world.first:
            return {}
        if done is not None:
            return finished_before(run, job, done)
        assert learned is not None
        probabilities = learned.probabilities(job.features[split.report]) if len(split.report) else None
        judged = Judged.by(job.release, split.report, probabilities, job.canary_share)
        keep_curves(run, judged)
        tested = None if public_test is None else learned.probabilities(public_test[0]).argmax(axis=1) == public_test[1]
        summary = {
            **_promise(job),
            **judged.to_json(),
            "rows_trained": len(split.train),
            "mechanism": job.release.mechanism.to_json(),
            "model": job.model,
            "dtype": learned.dtype,
            "device": learned.device,
            "threads": learned.threads,
            "releases": list(job.release.behind),
            "judge": job.judge(),
            "accuracy_test": None if tested is None else float(tested.mean()),
            "rows_tested": 0 if tested is None else len(tested),
            "rows_held_out": len(split.select) + len(split.report),
            "epochs": learned.epochs,
            "epoch_selected": learned.epoch_selected,
            "train_flop": learned.train_flop,
            **({} if job.start is None or not job.start.flop else {"start_flop": job.start.flop}),
            **({} if job.left_out is None else {"rows_dropped": len(split.dropped)}),
            "seconds": learned.seconds if job.timed else None,
            "processes": world.size,
            "commonest_class_estimated": commonest_class(job.release, job.canary_share),
        }
    run.write_summary("training", summary)
    return summary


def fitted(job: Job) -> Probabilities:
    """Trained in memory: the model's probabilities; nothing is written."""
    found: Probabilities = _way(job.by_steps).fitted(job)
    return found


def _way(by_steps: bool) -> Any:
    """How a model is trained: `learn`, `fitted` and `reopened`. Loaded when it is known which, for torch is heavy."""
    if by_steps:
        from labeldp.runs import networks

        return networks
    from labeldp.runs import tables

    return tables


def finished_before(run: RunFolder, job: Job, summary: dict[str, Any]) -> dict[str, Any]:
    """A summary that is found, not made: what it says of privacy must be what the release proves. The rest is its own account."""
    proven = _promise(job)
    if {name: summary[name] for name in proven if name in summary} != proven:
        raise InputError(
            f"{run.path} states another certificate than its release proves: its summary.json was altered. Choose another `out`."
        )
    run.read_training()
    return summary


def _promise(job: Job) -> dict[str, Any]:
    """What the release proves."""
    return {
        "certificate": job.release.certificate(),
        "trust": job.release.mechanism.trust,
        "insecure": job.release.insecure,
        "release": job.release.checksum,
    }


# ----------------------------------------------------------------
# What a finished run is for: predictions, and an honest judgement by other rows.


def open_run(folder: Path, machine: Machine | None = None, model: str | None = None) -> tuple[Probabilities, Config]:
    """What predicts with a run's model, and its configuration. A model of your own must be named again: it is code."""
    run = RunFolder(folder)
    config = run.read_config()
    if run.read_training() is None:
        raise InputError(f"{folder} is not finished: the same `labeldp train` command goes on with it.")
    found: Probabilities = _way(not run.fitted.exists()).reopened(run, config, machine or Machine(), model)
    return found, config


def predict(
    folder: Path, features: npt.NDArray[Any], machine: Machine | None = None, model: str | None = None
) -> npt.NDArray[np.float32]:
    """The run's class probabilities for new rows."""
    return predictor(folder, machine, model)(features)


def predictor(folder: Path, machine: Machine | None = None, model: str | None = None) -> Probabilities:
    """The same for one part of the rows after the other; the model is read once."""
    found, config = open_run(folder, machine, model)

    def probabilities(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if features.shape[1:] != config.feature_shape:
            shapes = (list(config.feature_shape), list(features.shape[1:]))
            raise InputError("the model takes features of shape {}; these have {}.".format(*shapes))
        if (features.dtype == np.uint8) != (config.feature_type == "uint8"):
            raise InputError(f"the model was trained on {config.feature_type}; these features are {features.dtype}.")
        return found(features)

    return probabilities


def evaluate(
    folder: Path,
    release: Release,
    features: npt.NDArray[Any],
    machine: Machine | None = None,
    *,
    model: str | None = None,
    other_rows: bool = False,
    canary_share: float = 0.0,
    wanted: Wanted = USUAL,
) -> Judged:
    """How good a model is by released rows that this run has not trained on; rows that it has are refused.

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
    judged = Judged.by(
        release, np.arange(len(release)), predict(folder, features, machine, model), canary_share, wanted
    )
    if judged.accuracy is None and set(wanted.names) - {"log_likelihood"}:
        raise NoJudgeError(release.mechanism.no_judge)
    return judged


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
