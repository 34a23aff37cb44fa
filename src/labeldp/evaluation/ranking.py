"""How well scores rank: each row's part in ROC AUC and in average precision, in O(n log n).

With w the indicator of a class (see `labeldp.evaluation.indicators`), and K = [s_i > s_j] + ½[s_i = s_j]:

    AUC = Σ_{i≠j} w_i(1 − w_j)·K / Σ_{i≠j} w_i(1 − w_j)

i ≠ j, because w_i(1 − w_i) is not unbiased for 0. Average precision is the mean, over the rows of the class, of the precision among rows
that score as high: with D_i the number of these and R_i = Σ_{j≠i, s_j ≥ s_i} w_j,

    AP = Σ_i w_i(1 + R_i)/D_i / Σ_i w_i        of these rows, as scikit-learn has it
    AP = Σ_i w_i·R_i/(D_i − 1) / Σ_i w_i       of rows like these: a row does not vouch for itself

Limits are those of the second. A row's part in either is Hájek's projection, as plugged in: x − a·y, whose variance is the jackknife's, on
average no smaller than the true one (Efron and Stein).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.evaluation.inversion import NOTHING, PSEUDO, CentralMoments, Ratio, fourth

Floats = npt.NDArray[np.float64]
_FAR = 3.29  # standard errors
Noise = tuple[float, float]  # second and third central moment of an indicator


@dataclass(frozen=True)
class Ranked:
    """Rows in the order of their scores, and where rows of one score begin and end."""

    order: npt.NDArray[np.intp]
    first: npt.NDArray[np.intp]  # of each row in order: the place of the first row with its score
    last: npt.NDArray[np.intp]  # and the place after the last

    @classmethod
    def by(cls, scores: npt.NDArray[np.floating]) -> Ranked:
        """From the lowest to the highest."""
        order = np.argsort(scores, kind="stable")
        s = scores[order]
        starts = np.flatnonzero(np.concatenate(([True], s[1:] != s[:-1])))
        sizes = np.diff(np.concatenate((starts, [len(s)])))
        return cls(order, np.repeat(starts, sizes), np.repeat(starts + sizes, sizes))

    def at_least(self, values: Floats) -> Floats:
        """Σ over other rows with the same score or a higher one."""
        return np.asarray(values.sum() - self.below(values, 0.0) - values)

    def below(self, values: Floats, ties: float) -> Floats:
        """Σ over rows with lower scores, plus `ties` times those of the same; all in order."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray((1 - ties) * sums[self.first] + ties * sums[self.last])


@dataclass(frozen=True)
class Ranking:
    """A metric of a ranking: the ratio to be tested, and each row's part x − a·y, in the order of the scores."""

    ratio: Ratio
    x: Floats
    y: Floats
    order: npt.NDArray[np.intp]

    def parts(self) -> Floats:
        """Each row's part in the error of the ratio, in the rows' own order."""
        ratio, found = self.ratio, np.empty(len(self.x))
        found[self.order] = self.x - self.x.mean() - (ratio.value or 0.0) * (self.y - self.y.mean())
        return found / ratio.bottom if ratio.bottom > 0 else found


def auc_ranking(ranked: Ranked, indicators: Floats, noise: Noise) -> Ranking:
    """AUC. A row's part is w_i·Σ_{j≠i}(1 − w_j)(K_ij − a) + (1 − w_i)·Σ_{j≠i} w_j(K_ji − a), over n − 1."""
    w = indicators[ranked.order]
    n, u = len(w), 1 - w
    lower = (ranked.below(u, 0.5) - u / 2) / (n - 1)
    higher = (w.sum() - ranked.below(w, 0.5) - w / 2) / (n - 1)
    negative, positive = (u.sum() - u) / (n - 1), (w.sum() - w) / (n - 1)
    x, y = w * lower + u * higher, w * negative + u * positive
    share = min(max(float(w.mean()), 1 / n), 1 - 1 / n)
    rest = 1 - share
    # Beside nπ positives, whose part in the variance is π(1−π)²·var, and beside n(1−π) negatives, π²(1−π)·var.
    spare = share * rest * (rest * PSEUDO / (PSEUDO + n * share) + share * PSEUDO / (PSEUDO + n * rest))
    top, bottom, centred = float(x.mean()) / 2, float(y.mean()) / 2, (x - x.mean(), y - y.mean())
    ratio = Ratio(
        top, bottom, n,
        shown=CentralMoments.of(*centred),
        noise=CentralMoments.of(lower - higher, negative - positive, *noise),
        fourth=fourth(*centred, top / bottom if bottom > 0 else None),
        spare=(spare, 0.0, 0.0),
    )  # fmt: skip
    return Ranking(ratio, x, y, ranked.order)


def average_precision(ranked: Ranked, indicators: Floats) -> float | None:
    """Of these very rows, as scikit-learn has it."""
    w = indicators[ranked.order]
    called = len(w) - ranked.first
    total = float(w.sum())
    own = w.sum() - ranked.below(w, 0.0) - w
    return float((w * (1 + own) / called).sum()) / total if total > 0 else None


def precision_ranking(ranked: Ranked, indicators: Floats, noise: Noise) -> Ranking:
    """Average precision. A row's part is x − a·y with x = w(P + Q) − Z and y = w.

    P_i = R_i/(D_i − 1) is the precision that others show at this row's score; Q_i = Σ_{j≠i, s_j ≤ s_i} w_j/(D_j − 1) and
    Z_i = Σ_{j≠i, s_j ≤ s_i} w_j·P_j/(D_j − 1) are what the row does to theirs.
    """
    w = indicators[ranked.order]
    n = len(w)
    others = np.maximum(n - ranked.first - 1, 1).astype(np.float64)
    precision = ranked.at_least(w) / others
    if (
        ranked.first[-1] == n - 1
    ):  # the best row has no others above it: the next row's indicator (not a precision, which holds its own)
        precision[-1] = w[-2]
    one = w / others
    q = ranked.below(one, 1.0) - one
    z = ranked.below(one * precision, 1.0) - one * precision
    x = w * (precision + q) - z
    share = max(float(w.mean()), 1 / n)
    spare = share * PSEUDO / (PSEUDO + n * share)
    centred = x - x.mean(), w - w.mean()
    top, bottom = float(x.mean()), float(w.mean())
    ratio = Ratio(
        top, bottom, n,
        shown=CentralMoments.of(*centred),
        # A low average precision shows a low variance: so it is never below that of a share a of the class, at the a that is tested.
        noise=CentralMoments.of(precision + q, np.ones(n), *noise).and_a_share(share),
        bend=_bend(ranked, w, others, precision, *centred),
        fourth=fourth(*centred, top / bottom if bottom > 0 else None),
        spare=(spare, 0.0, 0.0),
    )  # fmt: skip
    return Ranking(ratio, x, w, ranked.order)


def _bend(
    ranked: Ranked, w: Floats, others: Floats, precision: Floats, x: Floats, y: Floats
) -> tuple[float, float, float]:
    """E[h_i·h_j·k_ij] for h = x − a·y and the second derivative k of E[w·R/D] in the shares of rows i and j.

    With i ≤ j for s_i ≤ s_j: k = w_i·w_j/D_i − w_i·P_i/D_i − Σ_{l ≤ i} w_l·w_j/D_l² + Σ_{l ≤ i} w_l·P_l·2/D_l² …, the same for i and j
    exchanged. Summed with h_i·h_j over all pairs, each term is a running sum of products.
    """
    n = len(w)

    def pairs(f: Floats, g: Floats) -> float:
        above_f, above_g = ranked.at_least(f), ranked.at_least(g)
        above_fw, above_gw = ranked.at_least(f * w), ranked.at_least(g * w)
        one = w / others
        first = (one * (f * above_gw + g * above_fw)).sum()
        second = (one * precision * (f * above_g + g * above_f)).sum()
        third = (one / others * (above_fw * above_g + above_gw * above_f)).sum()
        fourth = (one / others * precision * 2 * above_f * above_g).sum()
        return float(first - second - third + fourth) / n**2 * n

    return pairs(x, x), -2 * pairs(x, y), pairs(y, y)


def recall_ratio(called: npt.NDArray[np.bool_], indicators: Floats, noise: Noise, *, drawn: bool = False) -> Ratio:
    """How many of a class are called so, Σ w·[called] / Σ w, as a ratio to be tested.

    A row of the class is called so or not: its part in the variance is π·r(1 − r), and the noise's is known. So nothing is estimated but
    the share π of the class. If the share f that is called is `drawn` too, as where recall is divided by it (lift), the variance is that of
    w([called] − r) − πr([called]/f − 1): larger by π²r²(2r − 1 − f)/f.
    """
    n, f, share = len(indicators), float(called.mean()), float(indicators.mean())
    positive = max(share, 1 / n)
    known = CentralMoments(xx=noise[0] * f, xy=noise[0] * f, yy=noise[0], xxx=0.0, xxy=0.0, xyy=0.0, yyy=0.0)
    more = positive**2 / f if drawn and f > 0 else 0.0
    spare = (positive, -(1 + f) * more, 2 * more)
    return Ratio(float(indicators[called].sum()) / n, share, n, known, NOTHING, spare=spare)


def largest_lift(called: float, rows: int) -> float:
    """A class can be lifted no further than to fill what is called: 1/f, for the least share f that is 3.29 standard errors away."""
    k = _FAR**2 / rows
    least = (called + k / 2 - math.sqrt(called * (1 - called) * k + k * k / 4)) / (1 + k)
    return 1 / least
