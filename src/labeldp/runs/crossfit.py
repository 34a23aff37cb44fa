"""Cross-fitting: every row judges a model that was not trained on it, and the final model is trained on all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.errors import InputError
from labeldp.files.predictions import write_predictions
from labeldp.files.run import RunFolder
from labeldp.machine import ALONE, World
from labeldp.mechanisms import judging_rows
from labeldp.runs.job import Job
from labeldp.runs.judging import Judged, keep_curves
from labeldp.runs.run import Progress, PublicTest, finished_before, open_run, train


def cross_fit(
    job: Job,
    folder: Path,
    folds: int,
    *,
    public_test: PublicTest | None = None,
    progress: Progress = lambda metrics: None,
    on_step: Callable[[int, int], None] = lambda step, of: None,
    world: World = ALONE,
) -> dict[str, Any]:
    """Train `folds` models, each without one part of the rows (in folder/fold-1 …), then one on all rows (in folder).

    The summary's accuracy is that of the parts' models, each on the rows that it has not seen, and `crossfitted.parquet` has their
    probabilities. The final model saw more rows and is usually better than that: with few rows, or few folds, by some points.
    """
    check_folds(job, folds)
    mechanism, observations = job.release.mechanism, job.release.observations
    judges = np.flatnonzero(judging_rows(mechanism, observations))
    run, whole = RunFolder(folder), replace(job, holdout=0.0, folds=folds)
    if world.first:
        run.match(whole.config())
    done = run.summed_up()
    if done is not None and "folds" in done:
        return finished_before(run, job, done) if world.first else {}
    probabilities = np.zeros((len(job.release), job.release.mechanism.num_classes), dtype=np.float32)
    for number in range(folds):
        part = replace(whole, folds=None, fold=(number, folds))
        place = run.fold(number + 1).path
        train(part, place, progress=progress, on_step=on_step, world=world)
        if world.first:
            rows = part.split().report
            predicted, _ = open_run(place, job.machine, job.model)
            probabilities[rows] = predicted(job.features[rows])
    summary = train(whole, folder, public_test=public_test, progress=progress, on_step=on_step, world=world)
    if not world.first:
        return {}
    judged = Judged.by(job.release, judges, probabilities[judges], job.canary_share)
    keep_curves(run, judged)
    about = {"certificate": summary["certificate"], "insecure": summary["insecure"]}
    write_predictions(run.crossfitted, job.release.ids[judges], probabilities[judges], about)
    parts = [run.fold(number + 1).summed_up() or {} for number in range(folds)]
    seconds = sum(part["seconds"] or 0.0 for part in parts)
    summary |= {**judged.to_json(), "folds": folds, "estimate_of_models_trained_on": 1 - 1 / folds}
    summary |= {"seconds": summary["seconds"] + seconds, "train_flop": summary["train_flop"] * folds}
    run.write_summary("training", summary)
    return summary


def check_folds(job: Job, folds: int) -> None:
    """What cannot be cross-fitted, in a sentence."""
    if not 2 <= folds <= len(job.release):
        raise InputError(f"`folds` is from 2 to the number of rows; got {folds}.")
    mechanism, observations = job.release.mechanism, job.release.observations
    judges = np.flatnonzero(judging_rows(mechanism, observations))
    if len(judges) < folds:
        raise InputError("`folds` needs rows that can judge, and this release has too few of them, or none.")
    if job.release.origins and not job.prior_saw_none:
        raise InputError(
            "`folds` and releases with a public prior do not go together: the rows of a fold would have shaped the others' channels."
        )
    if job.select != "last":
        raise InputError("`folds` and `select='best'` do not go together: the rows of a fold only report.")
