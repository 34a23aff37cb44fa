"""Metrics of a model from noisy counts of labels by public cells (`labeldp.statistics.bins`): post-processing, which costs nothing.

Every number is made of the counts as they came, products debiased by the noise's known variance; none of counts that were made possible.
Limits hold the value in the population that the rows are drawn from: they carry the noise, the sampling of rows and what binning hides.
Shares (accuracy, precision, how common a class is, a calibration bin) have exact ones, see `shares`; ratios those of an inverted test, see
`positives`. Log loss and Brier score are of the *binned* probabilities: a row's probability of a class counts as the mean of its cell's
(and as 10⁻⁷ if it is smaller). They are linear in the counts. Of more than two classes the sum of all counts is known, n: each
count's weight is lowered by the mean weight, and the noise is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.confusion import Confusion
from labeldp.evaluation.curves import BINS, THRESHOLDS, CalibrationBin, Curves, Limits, ThresholdPoint
from labeldp.evaluation.indicators import check_class
from labeldp.evaluation.inversion import NOTHING, PSEUDO, CentralMoments, Ratio, Z, mean_limits
from labeldp.evaluation.metrics import AT_A_THRESHOLD, TOP_SHARE, WORTH_SAYING, MetricEstimate
from labeldp.evaluation.proper import LEAST_PROBABILITY
from labeldp.evaluation.ranking import largest_lift
from labeldp.statistics.bins import ScoreLayout
from labeldp.statistics.positives import BinnedPositives, Called, NoisyRatio, possible
from labeldp.statistics.shares import NoiseSum, excess_kurtosis, share_limits

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SCORE_METRICS: tuple[str, ...] = ("accuracy", "roc_auc", "average_precision", "log_loss", "brier")
_MOST_COUNT = 1e15  # beyond, no count of rows and no noise on it


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Noisy counts, one a cell; `variance` is of each one's noise, `heavy` if that is two-sided geometric and not Gaussian."""

    layout: ScoreLayout
    counts: Floats
    variance: float
    heavy: bool = True

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.dtype.kind not in "fiu" or counts.shape != (len(self.layout),):
            raise InputError(f"a score has one count for each of its {len(self.layout):,} cells.")
        counts = counts.astype(np.float64)
        if not np.isfinite(counts).all() or np.abs(counts).max() > _MOST_COUNT:
            raise InputError("the noisy counts of a score are finite numbers.")
        if not 0 <= self.variance <= _MOST_COUNT:
            raise InputError(f"the variance of noise is a number from 0 on; got {self.variance}.")
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @property
    def rows(self) -> int:
        """How many rows were judged."""
        return self.layout.num_rows

    @property
    def num_classes(self) -> int:
        """C."""
        return self.layout.num_classes

    # -- one number each ------------------------------------------------------------------------------------------------------------

    def metric(self, name: str, *, positive: int | None = None, threshold: float | None = None) -> MetricEstimate:
        """By name: one of `SCORE_METRICS`, or precision, recall, lift at a threshold."""
        if threshold is not None and name not in AT_A_THRESHOLD:
            raise InputError(f"a threshold goes with {', '.join(AT_A_THRESHOLD)}; {name} has none.")
        if name in AT_A_THRESHOLD:
            return self.at_threshold(name, threshold, positive=positive)
        if name in ("roc_auc", "average_precision"):
            return self._ranked(name, positive)
        if name in ("log_loss", "brier"):
            return self._loss(name)
        if name == "accuracy":
            return self.accuracy()
        raise InputError(f"unknown metric {name!r}; choose one of {', '.join((*SCORE_METRICS, *AT_A_THRESHOLD))}.")

    def metrics(
        self, names: Sequence[str] = SCORE_METRICS, *, positive: int | None = None
    ) -> dict[str, MetricEstimate]:
        """Several, by name."""
        return {name: self.metric(name, positive=positive) for name in names}

    def accuracy(self) -> MetricEstimate:
        """How often the most probable class is the true one."""
        right, cells = self.right()
        return self._share("accuracy", right, self.rows, cells)

    def roc_auc(self, *, positive: int | None = None) -> MetricEstimate:
        """Of one class against the rest; of more than two classes each in turn, and their mean, unless `positive` says which."""
        return self._ranked("roc_auc", positive)

    def average_precision(self, *, positive: int | None = None) -> MetricEstimate:
        """The same."""
        return self._ranked("average_precision", positive)

    def log_loss(self) -> MetricEstimate:
        """Of the binned probabilities."""
        return self._loss("log_loss")

    def brier(self) -> MetricEstimate:
        """Of the binned probabilities: (p − y)² of two classes, Σ_c (p_c − y_c)² of more (of which only the true class's is binned)."""
        return self._loss("brier")

    def class_share(self, number: int) -> MetricEstimate:
        """How common a class is."""
        check_class(number, self.num_classes)
        if self.num_classes == 2:
            total, cells = float(self.counts.sum()), len(self.counts)
            return self._share("class_share", total if number == 1 else self.rows - total, self.rows, cells)
        mine = self.counts[self.layout.of_class(number)]
        return self._share("class_share", float(mine.sum()), self.rows, len(mine))

    def class_shares(self) -> tuple[MetricEstimate, ...]:
        """How common each class is."""
        return tuple(self.class_share(c) for c in range(self.num_classes))

    def snapped(self, threshold: float | None, name: str = "recall", *, positive: int | None = None) -> float | None:
        """The edge of a bin that stands for a threshold: rows are called positive from this score on. None: by the largest probability."""
        c = self._one_class(positive)
        first = self._first(c, threshold, name)
        if first is None:
            return None
        binned = self.layout.bin[self.layout.of_class(c)]
        low = self.layout.low[self.layout.of_class(c)]
        return math.inf if first > binned[-1] else float(low[int(np.searchsorted(binned, first))])

    def at_threshold(self, name: str, threshold: float | None = None, *, positive: int | None = None) -> MetricEstimate:
        """Precision, recall or lift. The threshold is moved to the nearest edge of a bin (`snapped` says which). Without one, the most
        probable class is called, and for lift the tenth of rows that scores highest."""
        if name not in AT_A_THRESHOLD:
            raise InputError(f"at a threshold there are {', '.join(AT_A_THRESHOLD)}; not {name!r}.")
        if threshold is not None and not math.isfinite(threshold):
            raise InputError("a threshold is a probability.")
        positive = check_class(positive, self.num_classes)
        if positive is not None:
            return self._of_called(name, positive, self._mask(positive, self._first(positive, threshold, name)))[0]
        found = [
            self._of_called(name, c, self._mask(c, self._first(c, threshold, name))) for c in range(self.num_classes)
        ]
        each, ratios = [one for one, _ in found], [ratio for _, ratio in found]
        # Rows are called one class each, if the most probable one is called: then precisions have no row in common.
        return self._macro(name, each, ratios if name != "precision" or threshold is None else None)

    def confusion(self) -> Confusion:
        """What two classes are taken for. (Of more, it is a statistic of its own.)"""
        if self.num_classes != 2:
            raise InputError("the counts of more than two classes do not tell which class is taken for which.")
        layout, n = self.layout, self.rows
        shares, errors, called = np.empty((2, 2)), np.empty((2, 2)), np.empty(2, dtype=np.int64)
        for d in (0, 1):
            mine = layout.predicted == bool(d)
            held, yes = int(layout.rows[mine].sum()), float(self.counts[mine].sum())
            called[d] = held
            shares[:, d] = (held - yes) / n, yes / n
            # As in `labeldp.evaluation.confusion`: the estimate of a share may be 0 by chance, where its error is not.
            s = np.minimum(np.clip(shares[:, d], 0, held / n) + 1 / n, held / n)
            errors[:, d] = np.sqrt(s * (1 - s) / n + self.variance * mine.sum() / n**2)
        return Confusion(shares, errors, called)

    def curves(self, *, positive: int | None = None) -> Curves:
        """ROC, precision and recall, lift and calibration of one class; thresholds are edges of bins."""
        c = self._one_class(positive)
        positives = self.positives(c)
        layout, mine = self.layout, self.layout.of_class(c)
        first = np.concatenate(([0], np.flatnonzero(np.diff(layout.bin[mine])) + 1))
        low, ends = layout.low[mine][first], np.cumsum(positives.rows[::-1])[::-1]
        bins, n = len(low), self.rows
        points = []
        for begin in _nearest(ends[::-1], n, THRESHOLDS, bins):
            called = Called(int(ends[begin]), float(positives.counts[begin:].sum()), int(positives.cells[begin:].sum()))
            others = Called(called.rows, called.rows - called.count, called.cells)
            f = called.rows / n
            most = f * largest_lift(f, n)
            lift, lift_95 = _told(positives.recall(called, drawn=True), most)
            points.append(
                ThresholdPoint(
                    float(low[begin]),
                    f,
                    *_told(positives.recall(called)),
                    *_told(positives.opposite().recall(others)),
                    *self._observed(called),
                    None if lift is None else lift / f,
                    (lift_95[0] / f, lift_95[1] / f),
                )
            )
        calibration, stop = [], bins
        sums = np.add.reduceat((layout.rows * layout.mean)[mine], first)
        for begin in _nearest(ends[::-1], n, BINS, bins):
            held = Called(
                int(positives.rows[begin:stop].sum()),
                float(positives.counts[begin:stop].sum()),
                int(positives.cells[begin:stop].sum()),
            )
            predicted = float(sums[begin:stop].sum()) / held.rows
            calibration.append(CalibrationBin(held.rows, predicted, *self._observed(held)))
            stop = begin
        return Curves(c, n, tuple(points), tuple(calibration[::-1]))

    # -- how ------------------------------------------------------------------------------------------------------------------------

    @cached_property
    def likely(self) -> Floats:
        """The counts as they could be; for variances only."""
        found = np.empty(len(self.counts))
        for c in [1] if self.num_classes == 2 else range(self.num_classes):
            mine = self.layout.of_class(c)
            found[mine] = possible(self.counts[mine], self.layout.rows[mine], self.variance)
        return found

    def right(self) -> tuple[float, int]:
        """The noisy number of rows that are called right, and how many cells it is made of."""
        called = self.layout.predicted
        if self.num_classes == 2:
            wrong = self.layout.rows[~called].sum() - self.counts[~called].sum()
            return float(self.counts[called].sum() + wrong), len(called)
        return float(self.counts[called].sum()), int(called.sum())

    def _share(self, name: str, total: float, rows: int, cells: int) -> MetricEstimate:
        """Of so many rows, with exact limits."""
        if rows == 0:
            return MetricEstimate(name, None, None, (0.0, 1.0), self.rows)
        limits = share_limits(total, rows, NoiseSum(cells, self.variance, self.heavy))
        value = min(1.0, max(0.0, total / rows))
        noise = cells * self.variance / rows**2
        if limits[0] <= 0 and limits[1] >= 1:
            needed = _rows_for(0.25, noise * rows**2, 1.0)
            return MetricEstimate(
                name, None, None, (0.0, 1.0), self.rows, _round_up(max(needed * self.rows / rows, 1.5 * self.rows))
            )
        return MetricEstimate(name, value, math.sqrt(value * (1 - value) / rows + noise), limits, self.rows)

    def _observed(self, held: Called) -> tuple[float | None, Limits]:
        found = self._share("precision", held.count, held.rows, held.cells)
        return found.value, found.interval_95

    def _one_class(self, positive: int | None) -> int:
        c = check_class(positive, self.num_classes)
        if c is None:
            raise InputError("this is of one class against the rest: say which one is `positive`.")
        if self.num_classes == 2 and c == 0:
            raise InputError("of two classes, scores and curves are those of class 1.")
        return c

    def positives(self, c: int) -> BinnedPositives:
        """Of one class, by bin. Of two classes class 0 is counted as what is left, by the bins of class 1 turned round."""
        turned = self.num_classes == 2 and c == 0
        mine = self.layout.of_class(1 if turned else c)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(self.layout.bin[mine])) + 1))
        rows = np.add.reduceat(self.layout.rows[mine], starts)
        counts = np.add.reduceat(self.counts[mine], starts)
        likely = np.add.reduceat(self.likely[mine], starts)
        cells = np.diff(np.concatenate((starts, [mine.stop - mine.start])))
        found = BinnedPositives(rows, counts, cells, self.variance, excess_kurtosis(self.variance, self.heavy), likely)
        return found.opposite().reversed() if turned else found

    def _first(self, c: int, threshold: float | None, name: str) -> int | None:
        """The first bin that is called positive; None where the most probable class is."""
        mine = self.layout.of_class(1 if self.num_classes == 2 else c)
        binned = self.layout.bin[mine]
        first = np.concatenate(([0], np.flatnonzero(np.diff(binned)) + 1))
        low, rows = self.layout.low[mine][first], np.add.reduceat(self.layout.rows[mine], first)
        if threshold is None and name == "lift":
            left = np.cumsum(rows[::-1])[::-1] / self.rows
            return int(np.argmin(np.abs(np.log(left / TOP_SHARE))))
        if threshold is None:
            return None
        if self.num_classes == 2 and c == 0:
            raise InputError("of two classes, a threshold is one of class 1.")
        if threshold > self.layout.high[mine][-1]:
            return len(low)
        return int(np.argmin(np.abs(low - threshold)))

    def _mask(self, c: int, first: int | None) -> Mask:
        """The cells that are called class c, of those that are counted for it."""
        if self.num_classes == 2 and c == 0:
            if first is not None:  # the share of rows that scores highest for class 0 scores lowest for class 1
                lowest = np.cumsum(self.layout.rows) / self.rows
                return np.asarray(np.arange(len(lowest)) <= int(np.argmin(np.abs(np.log(lowest / TOP_SHARE)))))
            return np.asarray(~self.layout.predicted)
        mine = self.layout.label == c
        if first is None:
            return np.asarray(mine & self.layout.predicted)
        return np.asarray(mine & (self.layout.bin >= first))

    def _of_called(self, name: str, c: int, mask: Mask) -> tuple[MetricEstimate, NoisyRatio]:
        held, count = int(self.layout.rows[mask].sum()), float(self.counts[mask].sum())
        if self.num_classes == 2 and c == 0:
            count = held - count
        called, f = Called(held, count, int(mask.sum())), held / self.rows
        ratio = self.positives(c).recall(called, drawn=name == "lift")
        if name == "precision":
            plain = replace(ratio, top=count, bottom=float(held), parts=(1.0, 0.0, 0.0), bias=0.0)
            return self._share(name, called.count, called.rows, called.cells), plain
        if name == "recall":
            return _of_ratio(name, ratio), ratio
        if held == 0:
            return MetricEstimate(name, None, None, (0.0, math.inf), self.rows), ratio
        lifted = replace(ratio, top=ratio.top / f, bias=ratio.bias / f)
        return _of_ratio(name, ratio, f, f * largest_lift(f, self.rows)), lifted

    def _ranked(self, name: str, positive: int | None) -> MetricEstimate:
        positive = check_class(positive, self.num_classes)
        classes = range(self.num_classes) if positive is None else [positive]
        ratios = [getattr(self.positives(c), "auc" if name == "roc_auc" else "precision")() for c in classes]
        each = [_of_ratio(name, one) for one in ratios]
        return each[0] if positive is not None else self._macro(name, each, ratios)

    def _macro(self, name: str, each: list[MetricEstimate], ratios: list[NoisyRatio] | None) -> MetricEstimate:
        """The mean over classes. Zou and Donner's distances d to the limits, in parts: noise is independent between classes, and so
        nearly are the positive rows, which are others for each class; the other rows are not, and nor are these two from each other:

            √(Σ noise² + (√(Σ positives²) + Σ others)²)/C

        With no parts known, the mean distance. What binning hides adds up as it is, and so does the bias of a ratio: of many classes the
        mean has a small error, which neither must exceed. Nor may single values be moved to what is possible before the mean is taken."""
        low, high = (np.array([one.interval_95[end] for one in each]) for end in (0, 1))
        untold = [one for one in each if one.value is None]
        if untold:
            needed = [one.rows_needed for one in untold if one.rows_needed is not None]
            ends = float(low.mean()), float(high.mean())
            return MetricEstimate(name, None, None, ends, self.rows, max(needed) if needed else None, tuple(each))
        errors = np.array([one.standard_error or 0.0 for one in each])
        if ratios is None:
            mean = float(np.mean([one.value for one in each]))
            ends = float(low.mean()), float(high.mean())
            return MetricEstimate(name, mean, float(errors.mean()), ends, self.rows, by_class=tuple(each))
        value, c = np.array([one.value for one in ratios], dtype=np.float64), len(each)
        parts = np.sqrt(np.maximum([one.parts for one in ratios], 0.0))
        hides = np.array([one.hidden for one in ratios]).mean(axis=0) + abs(
            float(np.mean([one.bias for one in ratios]))
        )

        def together(d: Floats) -> float:
            noise, positives, others = (parts * d[:, None]).T
            return math.sqrt(noise @ noise + (math.sqrt(positives @ positives) + others.sum()) ** 2) / c

        # The errors count where they are larger: limits are cut off at the end of what is possible, and a mean of many classes is nearly
        # normal, however their own limits lean.
        most = math.inf if name == "lift" else 1.0
        own = np.array([one.hidden for one in ratios])
        down, up = (np.maximum(d, errors * Z) for d in (value - low - own[:, 0], high - value - own[:, 1]))
        mean = float(value.mean())
        limits = max(0.0, mean - together(down) - hides[0]), min(most, mean + together(up) + hides[1])
        mean = min(most, max(0.0, mean))
        return MetricEstimate(
            name, mean, together(errors), (min(limits[0], mean), max(limits[1], mean)), self.rows, by_class=tuple(each)
        )

    def costs(self, name: str) -> tuple[Floats, Floats]:
        """What a row costs by its cell: of two classes as a positive one and as another; of more, as one of the cell's class, twice."""
        p, layout = np.maximum(self.layout.mean, LEAST_PROBABILITY), self.layout
        if self.num_classes > 2:
            cost = -np.log(p) if name == "log_loss" else 1 + layout.purity - 2 * layout.mean
            return cost, cost
        if name == "log_loss":
            return -np.log(p), -np.log(np.maximum(1 - layout.mean, LEAST_PROBABILITY))
        return (1 - layout.mean) ** 2, layout.mean**2

    def loss_weights(self, name: str) -> tuple[float, Floats]:
        """A loss is a public constant plus Σ weight·count, over n."""
        layout, n = self.layout, self.rows
        yes, no = self.costs(name)
        if self.num_classes == 2:
            return float(layout.rows @ no), yes - no
        if name == "brier":  # 1 + Σ_c p_c² is public, on average over all rows
            first = layout.rows[layout.of_class(0)]
            constant, weights = n + float(first @ layout.purity[layout.of_class(0)]), -2 * layout.mean
        else:
            constant, weights = 0.0, yes
        middle = float(weights.mean())
        return constant + middle * n, weights - middle

    def _loss(self, name: str) -> MetricEstimate:
        ratio = self.loss_ratio(name)
        n, classes = self.rows, self.num_classes
        knows_nothing = math.log(classes) if name == "log_loss" else 0.25 if classes == 2 else 1 - 1 / classes
        value, (low, high) = ratio.top, mean_limits(ratio)
        error = ratio.standard_error(value)
        value, low, high = max(value, 0.0), max(low, 0.0), high + max(0.0, -value)
        if low <= 0 and high >= knows_nothing:
            needed = _round_up(max(1.5, 2 * high / knows_nothing) * n)
            return MetricEstimate(name, None, None, (low, high), n, needed)
        return MetricEstimate(name, value, error, (low, high), n)

    def loss_ratio(self, name: str) -> NoisyRatio:
        """The mean loss of a row, to be tested."""
        layout, n = self.layout, self.rows
        constant, weights = self.loss_weights(name)
        mean = (constant + float(weights @ self.counts)) / n
        yes, no = self.costs(name)
        if self.num_classes == 2:
            values, held = np.concatenate((yes, no)), np.concatenate((self.likely, layout.rows - self.likely))
        else:
            values, held = yes, self.likely
        held = held / held.sum()
        away = values - float(held @ values)
        within = (
            float(held @ (layout.purity_square - layout.purity**2)) if name == "brier" and self.num_classes > 2 else 0.0
        )
        noise = self.variance * float(weights @ weights) / n
        sampled = float(held @ away**2) + within
        # A class of which no row was seen can have a few all the same: so many are assumed, each with a mean row's cost.
        spare = 0.0
        for c in range(self.num_classes):
            mine = layout.of_class(1 if self.num_classes == 2 else c)
            total = float(self.counts[mine].sum())
            total, cost = (n - total, no) if self.num_classes == 2 and c == 0 else (total, yes[mine])
            unseen = max(PSEUDO - max(total, 0.0), 0.0) / n
            spare = max(spare, unseen * float(layout.rows[mine] @ (cost - mean) ** 2) / n)
        shown = CentralMoments(sampled + spare + noise, 0.0, 0.0, float(held @ away**3), 0.0, 0.0, 0.0)
        fourth = float(held @ away**4) - sampled**2
        gap = (yes - mean) ** 2 - ((no - mean) ** 2 if self.num_classes == 2 else 0.0)
        fourth = max(fourth, 0.0) + self.variance * float(gap @ gap) / n
        tails = excess_kurtosis(self.variance, self.heavy) * self.variance**2 * float(np.sum(weights**4))
        heavy = tails / (n * shown.xx) ** 2 if shown.xx > 0 else 0.0
        return NoisyRatio(mean, 1.0, n, shown, NOTHING, fourth=fourth, excess=heavy)


def _nearest(ends: npt.NDArray[np.integer], rows: int, parts: int, bins: int) -> list[int]:
    """The first bin of each of about so many parts, from the highest on; `ends` are rows counted from the highest bin."""
    wanted = np.rint(np.arange(1, parts + 1) * rows / parts)
    found = {int(min(i, bins - 1)) for i in np.searchsorted(ends, wanted)}
    return [bins - 1 - i for i in sorted(found)]


def _told(ratio: Ratio, most: float = 1.0) -> tuple[float | None, Limits]:
    low, high = ratio.limits(0.0, most)
    if ratio.value is None or (low <= 0 and high >= most):
        return None, (0.0, most)
    return min(most, max(0.0, ratio.value)), (low, high)


def _of_ratio(name: str, ratio: NoisyRatio, scale: float = 1.0, most: float = 1.0) -> MetricEstimate:
    """From a ratio between 0 and `most`; divided by `scale`."""
    low, high = ratio.limits(0.0, most)
    value = ratio.value
    if value is None or (low <= 0 and high >= most):
        seems = max(ratio.bottom, math.sqrt(max(ratio.shown.yy, 0.0) / ratio.rows), 1 / ratio.rows)
        sampled = float(ratio.variance(0.5)) * (1 - ratio.parts[0])
        noise = float(ratio.variance(0.5)) * ratio.parts[0] * ratio.rows
        needed = _round_up(max(_rows_for(sampled, noise, min(seems, 0.25)), 1.5 * ratio.rows))
        return MetricEstimate(name, None, None, (0.0, most / scale), ratio.rows, needed)
    value = min(most, max(0.0, value))
    error = ratio.standard_error(value)
    ends = min(low, value) / scale, max(high, value) / scale
    return MetricEstimate(name, value / scale, None if error is None else error / scale, ends, ratio.rows)


def _rows_for(sampled: float, noise: float, share: float) -> float:
    """The n at which √(sampled/n + noise/n²)/share is `WORTH_SAYING`: noise is the same however many rows there are."""
    s = (WORTH_SAYING * share) ** 2
    return (sampled + math.sqrt(sampled**2 + 4 * s * noise)) / (2 * s)


def _round_up(rows: float) -> int:
    """To two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(rows)) - 1))
    return math.ceil(rows / unit) * unit
