"""How good a model is, by released labels of rows that it was not trained on: accuracy, ranking, calibration, confusion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError, NoJudgeError
from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.evaluation.confusion import Confusion, estimate_class_shares, estimate_confusion
from labeldp.evaluation.curves import Curves, estimate_curves
from labeldp.evaluation.metrics import METRICS, MetricEstimate, estimate_metric
from labeldp.files.run import RunFolder, write_json
from labeldp.mechanisms import judging_rows
from labeldp.release import Release

MOST_CLASSES = 200  # of a confusion matrix
_FOR_CHOOSING = "log_likelihood"
_AT_THRESHOLD = ("precision", "recall")


@dataclass(frozen=True)
class Wanted:
    """Which metrics; the class that counts as positive; and from which probability on a row is called so, for precision and recall."""

    names: tuple[str, ...] = ("accuracy", *METRICS)
    positive: int | None = None
    threshold: float | None = None


USUAL = Wanted()


@dataclass(frozen=True)
class Judged:
    """What released labels say of a model's predictions for their rows; nothing where there are no such rows, or nobody who judges."""

    accuracy: AccuracyEstimate | None = None
    metrics: dict[str, MetricEstimate] = field(default_factory=dict)
    confusion: Confusion | None = None
    curves: Curves | None = None

    @classmethod
    def by(
        cls,
        release: Release,
        rows: npt.NDArray[np.int64],
        probabilities: npt.NDArray[np.float32] | None,
        canary_share: float = 0.0,
        wanted: Wanted = USUAL,
    ) -> Judged:
        """Probabilities for these positions of the release, which must not depend on what was released of them."""
        if probabilities is None or len(rows) < 2:
            return cls()
        mechanism, observations = release.mechanism, release.observations[rows]
        guesses = probabilities.argmax(axis=1)
        try:
            accuracy = estimate_accuracy(mechanism, observations, guesses)
        except NoJudgeError:
            likelihood = estimate_metric(_FOR_CHOOSING, mechanism, observations, probabilities)
            return cls(metrics={_FOR_CHOOSING: likelihood})
        few, one = mechanism.num_classes <= MOST_CLASSES, mechanism.num_classes == 2 or wanted.positive is not None
        about: dict[str, Any] = {"positive": wanted.positive, "canary_share": canary_share}
        metrics = {
            name: estimate_metric(
                name, mechanism, observations, probabilities, **about,
                threshold=wanted.threshold if name in _AT_THRESHOLD else None,
            )
            for name in wanted.names
            if name != "accuracy"
        }  # fmt: skip
        return cls(
            accuracy.without_canaries(canary_share, mechanism.num_classes),
            metrics,
            estimate_confusion(mechanism, observations, guesses).without_canaries(canary_share) if few else None,
            estimate_curves(mechanism, observations, probabilities, **about) if one else None,
        )

    def to_json(self) -> dict[str, Any]:
        """As a summary has it; confusion and curves are files of their own."""
        return {**estimate_json(self.accuracy), "metrics": {name: one.to_json() for name, one in self.metrics.items()}}


def keep_curves(run: RunFolder, judged: Judged) -> None:
    """Beside the summary: which class is taken for which, and the curves. Not where nobody could read them."""
    if judged.confusion is not None:
        write_json(run.confusion, judged.confusion.to_json())
    if judged.curves is not None:
        write_json(run.curves, judged.curves.to_json())


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


def commonest_class(release: Release, canary_share: float, rows: int = 20_000) -> float | None:
    """The share of the commonest class, estimated from released labels: what always guessing it would score."""
    everything = release.observations[judging_rows(release.mechanism, release.observations)]
    if len(everything) == 0:
        return None
    sample = everything[:: -(-len(everything) // rows)]  # from all over the file, which may be sorted
    try:
        shares = estimate_class_shares(release.mechanism, sample)
    except InputError:
        return None
    classes = release.mechanism.num_classes
    return max(share.without_canaries(canary_share, classes).accuracy for share in shares)
