"""One class against the rest, from its noisy counts by bin: ROC AUC, average precision, recall, each as a ratio to be tested.

P_b is the number of positives of bin b, n_b its rows (public), N_b = n_b − P_b; what is known is P̂_b = P_b + noise of variance k_b·v, where
k_b is the number of cells of the bin. With C_b = Σ_{b′<b} n_b′ + ½n_b, which is public, S = Σ P_b·C_b and P = Σ P_b,

    AUC = (S − ½P²)/(P(n − P)),      E[P̂²] = P² + v·Σk_b

ties counting half. For average precision let rows of one bin be in random order, M_b and G_b the rows and positives of the bins above it.
The mean precision that other rows show at a row of bin b is then α_b·G_b + β_b·(P_b − 1), with α_b and β_b public:

    AP = Σ_b P_b(α_b·G_b + β_b(P_b − 1)) / P,     α_b = h/n_b,  β_b = (n_b − M_b·h)/(n_b(n_b − 1)),  h = Σ_{t=1…n_b} 1/(M_b + t − 1)

so top and bottom are unbiased once P̂_b² is lowered by k_b·v. Both are of rows like these: a row does not vouch for itself.

T(a) = top − a·bottom has mean 0 at the true a; its variance is the sampling's (of a row's part in it, as in
`labeldp.evaluation.ranking`, at counts that were made possible: see `possible`), plus the noise's, which is known: v·Σk_b·(∂T/∂P_b)², and
that of its square. Geometric noise has heavier tails than the normal law: Cornish and Fisher's term for the excess kurtosis γ of T is added
to the quantile, γ(z³ − 3z)/24.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labeldp.evaluation.inversion import NOTHING, PSEUDO, CentralMoments, Ratio, Z

Floats = npt.NDArray[np.float64]

_EULER = 0.5772156649015329


@dataclass(frozen=True)
class NoisyRatio(Ratio):
    """A ratio whose noise may have heavier tails than a normal law, and of which binning hides something."""

    excess: float = 0.0  # excess kurtosis of T at the value
    hidden: tuple[float, float] = (0.0, 0.0)  # by how much the ratio may be lower, or higher, within bins
    parts: tuple[float, float, float] = (1.0, 0.0, 0.0)  # how the variance divides: noise, positive rows, other rows
    bias: float = 0.0  # of the ratio, to second order: (a·var(bottom) − cov(top, bottom))/bottom²

    @property
    def quantile(self) -> float:
        """Student's, with Cornish and Fisher's term."""
        return super().quantile + max(0.0, self.excess) * (Z**3 - 3 * Z) / 24

    def limits(self, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
        """With what binning hides."""
        first, last = super().limits(low, high)
        return max(low, first - self.hidden[0]), min(high, last + self.hidden[1])


def possible(counts: Floats, rows: npt.NDArray[np.integer], variance: float | Floats) -> Floats:
    """Counts as they could be, for variances only: shrunk to an even share as far as noise explains their differences (James and Stein),
    cut off at 0 and at all rows, with the noisy total. Biased, and so never for a number."""
    n = float(rows.sum())
    least = min(1.0, n / 4)
    total = min(max(float(counts.sum()), least), n - least)
    even = rows * (total / n)
    away = counts - even
    spread = float(away @ away)
    noise = float(np.sum(np.broadcast_to(variance, counts.shape)))
    kept = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    made = np.clip(even + kept * away, 0.0, rows)
    for _ in range(3):
        if made.sum() <= 0:
            return np.asarray(even)
        made = np.minimum(made * (total / made.sum()), rows)
    return np.asarray(made)


def _harmonic(k: Floats) -> Floats:
    """1 + 1/2 + … + 1/k; 0 at 0."""
    x = np.maximum(k, 0.0) + 8.0  # the expansion is good to 10⁻¹² from 8 on
    found = np.log(x) + _EULER + 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) + 1 / (240 * x**8)
    for step in range(8):
        found = found - 1 / (np.maximum(k, 0.0) + 1 + step)
    return np.asarray(np.where(k <= 0, 0.0, found))


@dataclass(frozen=True)
class Called:
    """What is called positive: how many rows, their noisy count of positives, and of how many cells that is the sum."""

    rows: int
    count: float
    cells: int


@dataclass(frozen=True, eq=False)
class BinnedPositives:
    """Of one class, from the lowest bin to the highest."""

    rows: npt.NDArray[np.int64]
    counts: Floats  # noisy
    cells: npt.NDArray[np.int64]  # how many noisy counts were added up
    variance: float  # of each
    excess: float  # kurtosis of each
    likely: Floats  # the counts as they could be

    @property
    def num_rows(self) -> int:
        """n."""
        return int(self.rows.sum())

    @property
    def total(self) -> float:
        """P̂, noisy."""
        return float(self.counts.sum())

    @property
    def total_variance(self) -> float:
        """Of its noise."""
        return float(self.variance * self.cells.sum())

    def opposite(self) -> BinnedPositives:
        """The rest: what is left of each bin's rows, with the same noise."""
        return replace(self, counts=self.rows - self.counts, likely=self.rows - self.likely)

    def reversed(self) -> BinnedPositives:
        """From the highest bin to the lowest."""
        return replace(
            self, rows=self.rows[::-1], counts=self.counts[::-1], cells=self.cells[::-1], likely=self.likely[::-1]
        )

    @cached_property
    def _share(self) -> float:
        n = self.num_rows
        return min(max(self.total / n, 1 / n), 1 - 1 / n)

    def _square_variance(self) -> float:
        """Of Z² for the noise Z of the total."""
        return 2 * self.total_variance**2 + float(self.cells.sum()) * self.variance**2 * self.excess

    def auc(self) -> NoisyRatio:
        """ROC AUC, ties within a bin counting half."""
        n, rows = self.num_rows, self.rows
        pairs = n * (n - 1.0)
        below = np.cumsum(rows) - rows / 2
        square = self.total**2 - self.total_variance
        top = (float(self.counts @ below) - square / 2) / pairs
        bottom = (n * self.total - square) / pairs
        p, q = self.likely, rows - self.likely
        positives, negatives = float(p.sum()), float(q.sum())
        sampled = _Rows.of(*self.auc_parts(), p, q)
        second = n * self._square_variance() / pairs**2
        x, y = (below - positives) / (n - 1), np.full(len(p), (negatives - positives) / (n - 1))
        noise = _plus(self._noise(x, y), CentralMoments(second / 4, second / 2, second, 0.0, 0.0, 0.0, 0.0))
        share, rest = self._share, 1 - self._share
        spare = share * rest * (rest * PSEUDO / (PSEUDO + n * share) + share * PSEUDO / (PSEUDO + n * rest))
        value = min(1.0, max(0.0, top / bottom)) if bottom > 0 else 0.5
        hides = min(0.5, float(p @ q) / (2 * positives * negatives)) if positives * negatives > 0 else 0.5
        return self._ratio(top, bottom, sampled, noise, (spare, 0.0, 0.0), value, x - value * y, (hides, hides))

    def auc_parts(self) -> tuple[Floats, Floats]:
        """A row's part x − a·y in the AUC's ratio: those of positive rows by bin, then those of others."""
        p, q, others = self.likely, self.rows - self.likely, self.num_rows - 1
        lower, higher = np.cumsum(q) - q / 2, p.sum() - np.cumsum(p) + p / 2
        y = np.concatenate((np.full(len(p), q.sum()), np.full(len(p), p.sum())))
        return np.concatenate((lower, higher)) / others, y / others

    def bottom_error(self) -> float:
        """The standard error of P·N/n², of noise and of sampling."""
        n, share = self.num_rows, self._share
        return abs(1 - 2 * share) * math.sqrt((self.total_variance / n + share * (1 - share)) / n) + (
            self.total_variance / n**2
        )

    def precision(self) -> NoisyRatio:
        """Average precision, rows of one bin in random order."""
        n, rows = self.num_rows, self.rows.astype(np.float64)
        above = n - np.cumsum(rows)  # M
        h = _harmonic(above + rows - 1) - _harmonic(above - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = np.where(above > 0, h / rows, 0.0)
            beta = np.where(rows > 1, np.where(above > 0, (rows - above * h) / rows, 1.0) / (rows - 1), 0.0)
        c, k, v = self.counts, self.cells, self.variance
        best = self.total - np.cumsum(c)  # G
        top = float(c @ (alpha * best + beta * (c - 1)) - v * (k @ beta)) / n
        bottom = self.total / n
        p, q = self.likely, rows - self.likely
        positives = float(p.sum())
        shown = alpha * (positives - np.cumsum(p)) + beta * p
        done = np.cumsum(p * alpha) - p * alpha + p * beta
        lost = np.cumsum(p * shown * alpha) - p * shown * alpha + p * shown * beta
        ones, zeros = np.ones(len(p)), np.zeros(len(p))
        sampled = _Rows.of(np.concatenate((shown + done - lost, -lost)), np.concatenate((ones, zeros)), p, q)
        higher = k.sum() - np.cumsum(k)
        square = float(2 * (beta * k) @ (beta * k) + (alpha**2 * k) @ higher) + self.excess * float(beta**2 @ k)
        second = square * v**2 / n
        noise = _plus(self._noise(shown + done, ones), CentralMoments(second, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        share = self._share
        spare = share * PSEUDO / (PSEUDO + n * share)
        value = min(1.0, max(0.0, top / bottom)) if bottom > 0 else 0.5
        made = self._ratio(
            top, bottom, sampled, noise, (spare, 0.0, 0.0), value, shown + done - value, self._order_hides(p, q, shown)
        )
        # A low average precision shows a low variance: so it is never below that of a share a of the class, at the a that is tested.
        return replace(made, noise=noise.and_a_share(share))

    def _order_hides(self, p: Floats, q: Floats, shown: Floats) -> tuple[float, float]:
        """How much lower or higher average precision is where positives come last, or first, in their bins.

        ∫₀^P (G + t)/(M + t) dt = P + (G − M)·log((M + P)/M), where they come first; M + N in M's place, where they come last.
        """
        positives = float(p.sum())
        if positives <= 0:
            return 1.0, 1.0
        g = positives - np.cumsum(p)
        m = (p + q).sum() - np.cumsum(p + q)

        def mean(before: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                log = np.log1p(p / before)
                return np.asarray(np.where(before > 0, p + (g - before) * log, p))

        best, worst, here = float(mean(m).sum()), float(mean(m + q).sum()), float(p @ shown)
        return tuple(min(1.0, max(0.0, one / positives)) for one in (here - worst, best - here))  # type: ignore[return-value]

    def recall(self, called: Called, *, drawn: bool = False) -> NoisyRatio:
        """How many of the class are called so. (`drawn`: as in `labeldp.evaluation.ranking.recall_ratio`.)"""
        n, k, v = self.num_rows, float(self.cells.sum()), self.variance
        f, share = called.rows / n, self._share
        known = CentralMoments(v * called.cells / n, v * called.cells / n, v * k / n, 0.0, 0.0, 0.0, 0.0)
        more = share**2 / f if drawn and f > 0 else 0.0
        top, bottom = called.count / n, self.total / n
        value = min(1.0, max(0.0, top / bottom)) if bottom > 0 else 0.5
        # A row of the class is called so or not: its part in the variance is π·r(1 − r), of few rows a few more.
        few = PSEUDO / (PSEUDO + n * share)
        spare = (share * (1 + few), -(1 + f) * more, 2 * more)
        variance = float(known.second(np.asarray(value))) + spare[0] * value * (1 - value)
        tails = v**2 * self.excess * (called.cells * (1 - value) ** 4 + (k - called.cells) * value**4)
        heavy = tails / (n * variance) ** 2 if variance > 0 else 0.0
        whole = max(variance + more * value**2 * (2 * value - 1 - f), 1e-300)
        mine, others = spare[0] * value * (1 - value), more * value**2 * (1 - f)
        parts = float(known.second(np.asarray(value))) / whole, mine / whole, others / whole
        return NoisyRatio(
            top, bottom, n, known, NOTHING, spare=spare, excess=heavy, parts=parts, bias=_bias(known, value, bottom, n)
        )

    def _noise(self, x: Floats, y: Floats) -> CentralMoments:
        """Of one row's part, as if the noise were the rows': symmetric, so that no third moment adds."""
        k = self.cells * (self.variance / self.num_rows)
        return CentralMoments(float(k @ (x * x)), float(k @ (x * y)), float(k @ (y * y)), 0.0, 0.0, 0.0, 0.0)

    def _ratio(
        self,
        top: float,
        bottom: float,
        sampled: _Rows,
        noise: CentralMoments,
        spare: tuple[float, float, float],
        value: float,
        slope: Floats,
        hidden: tuple[float, float],
    ) -> NoisyRatio:
        n, v = self.num_rows, self.variance
        shown = _plus(sampled.moments(), noise)
        at = np.asarray(value)
        variance = float(shown.second(at)) + spare[0] * value * (1 - value)
        heavy = v**2 * self.excess * float(self.cells @ slope**4) / (n * variance) ** 2 if variance > 0 else 0.0
        positive, other = sampled.divided(value)
        whole = max(variance, 1e-300)
        # How far the rows' part of the variance is itself known: their squares vary, and the counts that they are taken at are noisy.
        fourth = sampled.squares(value) + float(v * (self.cells @ sampled.gap(value) ** 2)) / n
        return NoisyRatio(
            top, bottom, n, shown, noise, fourth=fourth, spare=spare, excess=heavy, hidden=hidden,
            parts=(
                float(noise.second(at)) / whole,
                (positive + spare[0] * value * (1 - value)) / whole,
                other / whole,
            ),
            bias=_bias(shown, value, bottom, n),
        )  # fmt: skip


def _bias(moments: CentralMoments, value: float, bottom: float, rows: int) -> float:
    return (value * moments.yy - moments.xy) / rows / bottom**2 if bottom > 0 else 0.0


def _plus(a: CentralMoments, b: CentralMoments) -> CentralMoments:
    return CentralMoments(
        *(getattr(a, name) + getattr(b, name) for name in ("xx", "xy", "yy", "xxx", "xxy", "xyy", "yyy"))
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """A row's part x − a·y: those of positive rows by bin, then those of others; and how many rows have it."""

    x: Floats
    y: Floats
    weights: Floats

    @classmethod
    def of(cls, x: Floats, y: Floats, positives: Floats, others: Floats) -> _Rows:
        weights = np.concatenate((positives, others))
        n = weights.sum()
        return cls(x - float(weights @ x) / n, y - float(weights @ y) / n, weights)

    def moments(self) -> CentralMoments:
        x, y, w = self.x, self.y, self.weights / self.weights.sum()
        return CentralMoments(*(
            float(w @ one) for one in (x * x, x * y, y * y, x**3, x * x * y, x * y * y, y**3)
        ))  # fmt: skip

    def _squares(self, a: float) -> Floats:
        return np.asarray((self.x - a * self.y) ** 2)

    def divided(self, a: float) -> tuple[float, float]:
        """The variance that positive rows have, and that others have."""
        each = self.weights * self._squares(a) / self.weights.sum()
        half = len(each) // 2
        return float(each[:half].sum()), float(each[half:].sum())

    def squares(self, a: float) -> float:
        """The variance of the squares."""
        w, s = self.weights / self.weights.sum(), self._squares(a)
        return max(0.0, float(w @ s**2) - float(w @ s) ** 2)

    def gap(self, a: float) -> Floats:
        """By how much a positive row's square is larger than another's, by bin."""
        s = self._squares(a)
        half = len(s) // 2
        return np.asarray(s[:half] - s[half:])
