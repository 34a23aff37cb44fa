"""What scikit-learn's `scoring` takes: metrics from released labels. Its own scorers want labels, which nobody here has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.release import Release

# Larger is better: losses are negated, as scikit-learn's neg_log_loss is. Its names of them are known too.
_METRICS = {
    "log_likelihood": ("log_likelihood", 1.0),
    "accuracy": ("accuracy", 1.0),
    "roc_auc": ("roc_auc", 1.0),
    "average_precision": ("average_precision", 1.0),
    "log_loss": ("log_loss", -1.0),
    "neg_log_loss": ("log_loss", -1.0),
    "brier": ("brier", -1.0),
    "neg_brier_score": ("brier", -1.0),
}
TRAINED_ON = (
    "{:,} of these rows were trained on: {} on them would be wrong. Score rows that were held out (train_test_split and "
    "cross_val_score do; leave out return_train_score)."
)


@dataclass(frozen=True)
class Scorer:
    """Made by `release.scorer(name)`: called with a fitted estimator, X, and the target (or rows) of held-out rows.

    The likelihood of what was released is the one to choose by: it uses all that each row tells. A metric that cannot be told from so few
    rows is NaN, which scikit-learn ranks last.
    """

    release: Release
    name: str
    positive: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _METRICS:
            raise InputError(f"there is no scorer {self.name!r}; choose one of {', '.join(_METRICS)}.")

    def __call__(self, estimator: Any, X: Any, y: Any = None, *, rows: Any = None) -> float:  # noqa: N803
        """The metric of `estimator.predict_proba(X)`; larger is better."""
        from labeldp.evaluation.metrics import estimate_metric

        positions = self.release.positions_in(y, rows)
        metric, sign = _METRICS[self.name]
        fitted = list(_fitted_inside(estimator))
        if not fitted:
            raise InputError(
                f"nothing in this {type(estimator).__name__} says which rows it was trained on, so whether these can judge it cannot be "
                "seen. If they can, release.estimate_accuracy, or labeldp.evaluation.estimate_metric, takes predictions."
            )
        for one in fitted:
            if one.fitted_on_ != self.release.checksum:
                raise InputError(
                    "this was fitted on another release, and whether these rows were trained on cannot be seen."
                )
            again = int(np.isin(positions, one.rows_trained_).sum())
            if again:
                raise InputError(TRAINED_ON.format(again, metric))
        if len(np.unique(positions)) != len(positions):
            raise InputError("a row can judge only once; some of these repeat.")
        found = estimate_metric(
            metric, self.release.mechanism, self.release.observations[positions], np.asarray(estimator.predict_proba(X)),
            positive=self.positive,
        )  # fmt: skip
        return float("nan") if found.value is None else sign * found.value


_PARTS = (
    "best_estimator_",
    "estimator_",
    "final_estimator_",
    "base_estimator_",
    "estimators_",
    "calibrated_classifiers_",
    "estimator",
)


def _fitted_inside(estimator: Any, depth: int = 6) -> Iterator[Any]:
    """Every fitted classifier of ours in a pipeline, a search or another wrapper, however deep."""
    if hasattr(estimator, "rows_trained_"):
        yield estimator
        return
    if depth == 0:
        return
    parts = [step[1] for step in getattr(estimator, "steps", ())]
    for name in _PARTS:
        found = getattr(estimator, name, None)
        parts += (
            list(found)
            if isinstance(found, (list, tuple))
            else []
            if found is None or isinstance(found, str)
            else [found]
        )
    for part in parts:
        yield from _fitted_inside(part, depth - 1)
