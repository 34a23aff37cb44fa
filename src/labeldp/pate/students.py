"""Students: models that learn from the released answers and public features. Nothing here is private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.machine import Machine
from labeldp.release.release import Release
from labeldp.runs.job import Job
from labeldp.runs.judging import Judged, keep_curves
from labeldp.runs.run import PublicTest, predict, train
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Steps

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class StudentPlan:
    """How students learn: a model and a recipe (FixMatch where it has `unlabelled` rows), so many times over."""

    model: str
    recipe: Recipe
    students: int = 1
    name: str = "student"

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name in ("owner", "features"):
            raise InputError(f"`name` is one word of letters, digits and _; got {self.name!r}.")
        if self.students < 1:
            raise InputError(f"`students` is at least 1; got {self.students}.")


def train_students(
    plan: StudentPlan,
    answers: Release,
    features: npt.NDArray[Any],
    folder: Path,
    *,
    test: PublicTest | None = None,
    held_out: tuple[Release, npt.NDArray[Any]] | None = None,
    machine: Machine | None = None,
    progress: Progress = lambda metrics: None,
    on_step: Steps = lambda step, of: None,
) -> list[dict[str, Any]]:
    """Train each in folder/NAME-1 …, from a seed of its own; finished ones are not trained again. Returned are their summaries.

    `held_out` is a release of rows that neither teachers nor students saw, and their features: it judges where there are no public labels.
    """
    summaries = []
    for number in range(plan.students):
        recipe = replace(plan.recipe, seed=plan.recipe.seed + number)
        job = Job(answers, features, plan.model, recipe, holdout=0.0, machine=machine or Machine())
        run = RunFolder(folder).student(number + 1, plan.name)
        summary = train(job, run.path, public_test=test, progress=progress, on_step=on_step)
        if held_out is not None:
            release, their_features = held_out
            probabilities = predict(run.path, their_features, machine, plan.model)
            judged = Judged.by(release, np.arange(len(release)), probabilities)
            assert judged.accuracy is not None  # plain k-subset or response judges
            # All students' limits hold together with 95%, and so do their means for the mean accuracy.
            together = judged.accuracy.interval(1 - 0.05 / plan.students)
            summary |= {**judged.to_json(), "interval_95_together": list(together)}
            keep_curves(run, judged)
        summaries.append(summary)
    return summaries


def estimated(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of the students' unbiased estimates, and limits for the mean of their accuracies."""
    found = spread([one.get("accuracy_unbiased") for one in summaries])
    ends, mean = [one["interval_95_together"] for one in summaries if "interval_95_together" in one], found["mean"]
    return {
        "mean": None if mean is None else min(1.0, max(0.0, mean)),
        "std": found["std"],
        "unbiased": mean,
        "interval_95": np.mean(ends, axis=0).tolist() if ends else None,
    }


def spread(values: list[float | None]) -> dict[str, float | None]:
    """Mean and standard deviation (over students, n − 1); null where there is nothing to take it of."""
    known = [value for value in values if value is not None]
    return {
        "mean": float(np.mean(known)) if known else None,
        "std": float(np.std(known, ddof=1)) if len(known) > 1 else None,
    }
