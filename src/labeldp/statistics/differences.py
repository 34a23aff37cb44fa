"""How much better one model is than another on the same rows, from a noisy table of each (noise drawn for each on its own).

Noise of the two tables is independent; the rows are the same, so what they have in common cancels. A row's part in the difference is
d_i(y) = part of a − part of b, if its label is y: public, but for the label, since both models' predictions of the row are. Its variance is

    E[d²] − (E d)²,      E[d²] = mean over rows of Σ_y η_i(y)·d_i(y)²

where η_i(y), how likely the label is y, is what the counts show in the row's cell: of a's cells, or of b's. The larger of the two is used.
Where both models say the same of a row, d is 0 whatever its label.

Parts: of accuracy [called right]; of log loss and Brier score the row's loss, binned; of AUC its Hájek projection over P·N, the mean over
classes. AUC is a ratio: its limits are widened by 1/√(1 − g) with g = (z·error of P·N/(P·N))² (Fieller), and nothing can be told from
g = ½ on; what binning hides of either adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.inversion import NOTHING, PSEUDO, CentralMoments, Z, mean_limits
from labeldp.evaluation.metrics import MetricEstimate
from labeldp.statistics.bins import check_predictions
from labeldp.statistics.counts import ScoreCounts
from labeldp.statistics.positives import NoisyRatio
from labeldp.statistics.shares import excess_kurtosis

Floats = npt.NDArray[np.float64]
Predictions = npt.NDArray[np.floating[Any]]

DIFFERENCES: tuple[str, ...] = ("accuracy", "roc_auc", "log_loss", "brier")
_CHUNK = 1 << 20  # numbers at a time


@dataclass(frozen=True, eq=False)
class _Side:
    """One model's estimate: its value, its noise, and each row's part by label."""

    value: float
    noise: float  # variance
    tails: float  # fourth cumulant of the noise
    part: Callable[[Predictions, npt.NDArray[np.int32]], Floats]  # (rows, C), from predictions and cells
    hidden: tuple[float, float] = (0.0, 0.0)
    doubt: float = 0.0  # g


def difference(
    name: str, a: ScoreCounts, b: ScoreCounts, predictions_a: npt.ArrayLike, predictions_b: npt.ArrayLike
) -> MetricEstimate:
    """The metric of `a` minus that of `b`, with limits; `predictions_…` are those that the tables were made of, row by row."""
    if name not in DIFFERENCES:
        raise InputError(f"models are compared by {', '.join(DIFFERENCES)}; not by {name!r}.")
    pa, pb = (check_predictions(p, one.num_classes) for p, one in ((predictions_a, a), (predictions_b, b)))
    if pa.shape != pb.shape or len(pa) != a.rows or len(pb) != b.rows:
        raise InputError(
            "two models are compared on the same rows and classes, each with the predictions of its own table."
        )
    first, second = _side(name, a), _side(name, b)
    n, value = a.rows, first.value - second.value
    if max(first.doubt, second.doubt) >= 0.5:
        return MetricEstimate(name, None, None, (-1.0, 1.0), n)
    square, cube, fourth = _moments(a, b, pa, pb, first, second)
    noise = n * (first.noise + second.noise)
    shown = square + noise
    ratio = NoisyRatio(
        value, 1.0, n,
        CentralMoments(shown, 0.0, 0.0, cube, 0.0, 0.0, 0.0), NOTHING, fourth=fourth,
        excess=(first.tails + second.tails) * n**2 / shown**2 if shown > 0 else 0.0,
    )  # fmt: skip
    low, high = mean_limits(ratio)
    widened = 1 / math.sqrt(1 - max(first.doubt, second.doubt))
    low, high = value - (value - low) * widened, value + (high - value) * widened
    low, high = low - first.hidden[0] - second.hidden[1], high + first.hidden[1] + second.hidden[0]
    if name != "log_loss":
        most = 1.0 if name != "brier" or a.num_classes == 2 else 2.0
        low, high, value = max(low, -most), min(high, most), min(most, max(-most, value))
    return MetricEstimate(name, value, math.sqrt(shown / n), (min(low, value), max(high, value)), n)


def _side(name: str, score: ScoreCounts) -> _Side:
    n, v = score.rows, score.variance
    excess = excess_kurtosis(v, score.heavy)
    if name == "roc_auc":
        return _auc_side(score)
    if name == "accuracy":
        right, cells = score.right()
        classes = np.arange(score.num_classes)
        return _Side(
            right / n, cells * v / n**2, excess * cells * v**2 / n**4,
            lambda p, _: (p.argmax(axis=1)[:, None] == classes).astype(np.float64),
        )  # fmt: skip
    constant, weights = score.loss_weights(name)
    yes, no = score.costs(name)

    def part(p: Predictions, cells: npt.NDArray[np.int32]) -> Floats:
        if score.num_classes == 2:
            return np.stack((no[cells], yes[cells]), axis=1)
        if name == "log_loss":
            return np.asarray(yes[cells])
        purity = (p.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
        return np.asarray(1 + purity - 2 * score.layout.mean[cells])

    return _Side(
        (constant + float(weights @ score.counts)) / n,
        v * float(weights @ weights) / n**2, excess * v**2 * float((weights**4).sum()) / n**4, part,
    )  # fmt: skip


def _auc_side(score: ScoreCounts) -> _Side:
    layout, n, classes = score.layout, score.rows, [1] if score.num_classes == 2 else range(score.num_classes)
    positive, other = np.zeros(len(layout)), np.zeros(len(layout))
    values, noises, tails, hidden, doubts = [], [], [], [], []
    for c in classes:
        positives = score.positives(c)
        ratio, parts = positives.auc(), positives.auc_parts()
        value = ratio.value
        error = positives.bottom_error()
        doubts.append(math.inf if value is None else (Z * error / ratio.bottom) ** 2)
        value = min(1.0, max(0.0, 0.5 if value is None else value))
        bottom = max(ratio.bottom, 1 / n**2)
        mine = layout.of_class(c)
        x, y = parts
        half = len(x) // 2
        by_bin = (x - value * y) / bottom
        positive[mine], other[mine] = by_bin[:half][layout.bin[mine]], by_bin[half:][layout.bin[mine]]
        noise = float(ratio.noise.second(np.asarray(value))) / n / bottom**2
        values.append(value)
        noises.append(noise)
        tails.append(noise**2 * positives.excess / max(1, len(positives.cells)))
        hidden.append(ratio.hidden)
    count = len(values)

    def part(_: Predictions, cells: npt.NDArray[np.int32]) -> Floats:
        if score.num_classes == 2:
            return np.stack((other[cells], positive[cells]), axis=1)
        away = other[cells]
        return np.asarray((away.sum(axis=1, keepdims=True) - away + positive[cells]) / count)

    low, high = np.mean(hidden, axis=0)
    return _Side(
        float(np.mean(values)), float(np.sum(noises)) / count**2, float(np.sum(tails)) / count**4, part,
        (float(low), float(high)), max(doubts),
    )  # fmt: skip


def _beliefs(score: ScoreCounts, cells: npt.NDArray[np.int32]) -> Floats:
    """How likely each label is, by what the counts show of the row's cells."""
    rate = score.likely / score.layout.rows
    if score.num_classes == 2:
        return np.stack((1 - rate[cells], rate[cells]), axis=1)
    each = np.maximum(rate[cells], 1e-12)
    return np.asarray(each / each.sum(axis=1, keepdims=True))


def _moments(
    a: ScoreCounts, b: ScoreCounts, pa: Predictions, pb: Predictions, first: _Side, second: _Side
) -> tuple[float, float, float]:
    """Of a row's part: variance, third central moment, variance of squares; by a's beliefs or b's, whichever vary more."""
    sums, unseen = np.zeros((2, 5)), np.zeros(a.num_classes)
    for rows in _parts(*pa.shape):
        ca, cb = a.layout.cells(pa[rows]), b.layout.cells(pb[rows])
        d = first.part(pa[rows], ca) - second.part(pb[rows], cb)
        unseen += (d**2).sum(axis=0)
        powers = np.stack([d**k for k in range(5)])
        for place, (score, cells) in enumerate(((a, ca), (b, cb))):
            sums[place] += np.einsum("kic,ic->k", powers, _beliefs(score, cells))
    found = []
    for total, one, two, three, four in sums:
        m1, m2, m3, m4 = one / total, two / total, three / total, four / total
        square = m2 - m1**2
        cube = m3 - 3 * m1 * m2 + 2 * m1**3
        fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
        found.append((square, cube, max(0.0, fourth - square**2)))
    square, cube, fourth = max(found)
    # A class of which few rows were seen can have a few more, each with a mean row's part.
    n = a.rows
    spare = 0.0
    for c in range(a.num_classes):
        share = min(max(_share_of(a, c), 0.0), 1.0)
        spare = max(spare, PSEUDO / (PSEUDO + n * share) * max(share, PSEUDO / n / 2) * unseen[c] / n)
    return square + spare, cube, fourth


def _share_of(score: ScoreCounts, c: int) -> float:
    total = float(score.counts[score.layout.of_class(1 if score.num_classes == 2 else c)].sum()) / score.rows
    return 1 - total if score.num_classes == 2 and c == 0 else total


def _parts(rows: int, classes: int) -> Iterator[slice]:
    step = max(2, _CHUNK // classes)
    # No chunk of one row: predictions come in twos or more.
    starts = [start for start in range(0, rows, step) if rows - start > 1]
    return (slice(start, rows if i == len(starts) - 1 else start + step) for i, start in enumerate(starts))
