"""How far the data-dependent cost of votes can move when one teacher changes: its smooth sensitivity (Papernot et al. 2018, appendix B).

Around votes x, A(x, d) bounds the change of the cost between any votes within d teachers of x and their neighbours. Then

    S(x) = max over d of e^(−β·d)·A(x, d)

is β-smooth, S(x) ≤ e^β·S(x′) for neighbours, because A(x, d) ≤ A(x′, d+1). A teacher has one vote in every query, so A is the sum of the
queries' own bounds, each *at any distance up to d*. (pate_2018 takes the threshold's at exactly d: queries whose peaks lie at different
distances then add up to less than the truth.)

A threshold test depends on max v alone, which one teacher moves by 1 at most: its costs at 0 … T votes are a list, A a running maximum.

An answer depends on q. In z with q = (C−1)·Q(z), one teacher moves z by √2/σ2 at most (`AnswerCurve`), and the votes with the
smallest and the largest q within d teachers are found by moving one vote at a time between the two leaders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from labeldp.accounting.normal import Floats, log_upper_tail, upper_quantile
from labeldp.accounting.votes import (
    Votes,
    answer_log_q,
    check_ballot,
    check_orders,
    check_sigma,
    guarded_bound,
    threshold_log_q,
    unguarded_bound,
)
from labeldp.errors import AccountingError, InputError

_GRID = 4097  # points at which the conditions are looked at
_ROUNDING = 1e-11
_DEEPEST = -1e4  # log q below which no order is worth it


def smooth_sensitivity(
    votes: npt.ArrayLike,
    answered: npt.ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    order: float,
    beta: float,
) -> float:
    """The β-smooth sensitivity of `smooth_cost`, tests and answers jointly, at one order. This number is itself private."""
    counts, mask = check_ballot(votes, answered)
    order = check_smoothing(order, beta)
    if not len(counts):
        return 0.0
    teachers = int(counts[0].sum())
    top, times = np.unique(counts.max(axis=1), return_counts=True)
    changes = times @ threshold_changes(top, teachers, threshold, sigma1, order)
    changes = changes + answer_changes(counts[mask], teachers, AnswerCurve(sigma2, counts.shape[1], order))
    return float(np.max(np.exp(-beta * np.arange(len(changes))) * changes, initial=0.0))


def smooth_cost(
    votes: npt.ArrayLike, answered: npt.ArrayLike, *, threshold: float, sigma1: float, sigma2: float, order: float
) -> float:
    """The cost at one order whose smooth sensitivity is known. Private.

    It is `data_dependent_cost` with one rule more: Theorem 6 is used below q0 only (`AnswerCurve.log_q0`), never above. Mostly the two
    are equal; where σ2 is below a vote or so, this one may be larger.
    """
    counts, mask = check_ballot(votes, answered)
    orders = check_orders([order])
    tests = guarded_bound(threshold_log_q(counts.max(axis=1), threshold, sigma1), math.sqrt(2) * sigma1, orders)
    answers = AnswerCurve(sigma2, counts.shape[1], order).cost(answer_log_q(counts[mask], sigma2))
    return math.fsum(tests[:, 0]) + math.fsum(answers)


def threshold_changes(top: Votes, teachers: int, threshold: float, sigma1: float, order: float) -> Floats:
    """For each largest count (rows), the largest change of one test's cost within 0, 1, … T−1 teachers (columns)."""
    counts = np.arange(teachers + 1)
    cost = guarded_bound(threshold_log_q(counts, threshold, sigma1), math.sqrt(2) * sigma1, check_orders([order]))
    # step[T + v] is the change from v votes to v + 1; there is none beyond 0 and T.
    step = np.concatenate([np.zeros(teachers), np.abs(np.diff(cost[:, 0])), np.zeros(teachers)])
    distance = np.arange(teachers)
    up, down = step[teachers + top[:, None] + distance], step[teachers + top[:, None] - distance - 1]
    result: Floats = np.maximum.accumulate(np.maximum(up, down), axis=1)
    return result


def answer_changes(votes: Votes, teachers: int, curve: AnswerCurve) -> Floats:
    """The largest changes of the answers' costs within 0, 1, … T−1 teachers, added up over the queries (algorithms 4 and 5)."""
    unanimous = np.array([[teachers] + [0] * (curve.classes - 1)])
    lowest = float(answer_log_q(unanimous, curve.sigma)[0])
    if not len(votes) or lowest >= curve.log_q0:
        return np.zeros(teachers)  # no votes are so clear that a look helps: the cost is a constant
    curve.check_conditions(lowest)
    rows, weights = np.unique(-np.sort(-votes, axis=1), axis=0, return_counts=True)
    result, settled = np.empty(teachers), 0
    for d in range(teachers):
        log_q = answer_log_q(rows, curve.sigma)
        flat = (log_q >= curve.log_q1 * (1 + 1e-12)) & (log_q <= curve.log_q0)
        settled += int(weights[flat].sum())
        rows, weights, log_q = rows[~flat], weights[~flat], log_q[~flat]
        result[d] = settled * curve.plateau + weights @ curve.change(log_q)
        if not len(rows):
            result[d:] = settled * curve.plateau
            break
        clearer = np.where(log_q > curve.log_q0, 1, -1)  # towards [q1, q0], where the changes are largest
        rows[:, 0] += clearer
        rows[:, 1] -= clearer
        rows = -np.sort(-rows, axis=1)
    return result


@dataclass(frozen=True)
class AnswerCurve:
    """The cost of one answer as a function of log q, at one order: Theorem 6 below q0, α/σ² from there on.

    In z, q = (C−1)·Q(z), a neighbour's z lies within s = √2/σ: each gap to the leader moves by 2 votes at most, and among all gaps with
    the same q equal ones change Σ Q most upwards (y ↦ Q(Q⁻¹(y) − s) is concave) and most downwards (Q(Q⁻¹(y) + s) is convex).
    """

    sigma: float
    classes: int
    order: float

    def __post_init__(self) -> None:
        check_sigma(self.sigma, "sigma2")
        check_orders([self.order])

    @property
    def blind(self) -> float:
        """The cost without looking."""
        return self.order / self.sigma**2

    @cached_property
    def log_q0(self) -> float:
        """Where Theorem 6 starts to help, or `end`, the end of the range where its conditions surely hold, whichever is lower.

        At `end` and below, μ2 ≥ σ+1 and μ1 > α, so (2μ2−1)/σ² ≥ 2/σ ≥ log(1 + 2/σ) ≥ log((μ2+1)/(μ2−1)), which is Proposition 9's
        condition. −∞: a look never helps.
        """
        end = min(-((1 + 1 / self.sigma) ** 2), -(((self.order - 0.99) / self.sigma) ** 2))
        if self._gain(end) > 0:
            return end
        low, high = 2 * end, end
        while self._gain(low) < 0:
            if low < _DEEPEST:
                return -math.inf
            low, high = 1.5 * low, low
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self._gain(middle) > 0 else (low, middle)
        return low

    def _gain(self, log_q: float) -> float:
        return self.blind - float(self._formula(np.array([log_q]))[0])

    def _formula(self, log_q: Floats) -> Floats:
        return unguarded_bound(log_q, self.sigma, np.array([self.order]))[:, 0]

    @cached_property
    def log_q1(self) -> float:
        """The lowest q from which one teacher reaches q0."""
        return float(self.moved(np.array([self.log_q0]), 1)[0][0])

    def cost(self, log_q: Floats) -> Floats:
        """The cost at each log q."""
        result = np.full(log_q.shape, self.blind)
        clear = log_q < self.log_q0 if log_q.size else np.zeros(0, dtype=bool)
        result[clear] = np.maximum(self._formula(log_q[clear]), 0.0)
        return result

    def moved(self, log_q: Floats, *teachers: float) -> list[Floats]:
        """The smallest log q that so many teachers can bring about; the largest, if the number is negative."""
        others = math.log(self.classes - 1)
        z = upper_quantile(np.minimum(log_q - others, -math.log(2)))
        return [others + log_upper_tail(z + n * math.sqrt(2) / self.sigma) for n in teachers]

    @cached_property
    def plateau(self) -> float:
        """The largest change of all, that of every q from q1 to q0: there one teacher may decide whether a look helps."""
        at, below = self.cost(np.concatenate(self.moved(np.array([self.log_q0]), 1, 2)))
        return float(max(self.blind - at, at - below))

    def change(self, log_q: Floats) -> Floats:
        """Algorithm 3: how much one teacher can change the cost at these log q."""
        here = self.cost(log_q)
        up, down = (self.cost(x) for x in self.moved(log_q, -1, 1))
        flat = (log_q >= self.log_q1) & (log_q <= self.log_q0)
        return np.where(flat, self.plateau, np.maximum(up - here, here - down))

    def check_conditions(self, lowest: float) -> None:
        """The paper's C5 and C6, from which all of this follows, looked at on a fine grid from q0 down to what votes can reach.

        C5: below q0 the cost grows with q. C6: below q1 so does its change under one teacher upwards. Neither is proven in general;
        there are parameters where C6 fails, and then no sensitivity is stated.
        """
        failing = _failing(self, lowest)
        if failing:
            raise AccountingError(
                f"condition {failing} of Papernot et al. (2018) fails for {self.classes} classes at σ2 = {self.sigma:g} and order "
                f"{self.order:g}: the smooth sensitivity is not known there. Try a lower order, or more noise on the answers."
            )


@lru_cache(maxsize=256)
def _failing(curve: AnswerCurve, lowest: float) -> str | None:
    others, s = math.log(curve.classes - 1), math.sqrt(2) / curve.sigma
    start = float(upper_quantile(curve.log_q0 - others))
    end = max(float(upper_quantile(min(lowest - others, -math.log(2)))), start + s) + s

    def cost(z: Floats) -> Floats:
        return unguarded_bound(others + log_upper_tail(z), curve.sigma, np.array([curve.order]))[:, 0]

    below = cost(np.linspace(start, end, _GRID))
    if (np.diff(below) > _ROUNDING * below[:-1]).any():
        return "C5"
    z = np.linspace(start + s, end, _GRID)
    raised = cost(z - s)
    change = raised - cost(z)
    return "C6" if (np.diff(change) > _ROUNDING * raised[:-1]).any() else None


def check_smoothing(order: float, beta: float) -> float:
    """1 < order < 1/(2β): beyond, noise scaled by a β-smooth sensitivity has no Rényi cost to speak of."""
    if not (math.isfinite(beta) and beta > 0):
        raise InputError(
            f"beta, how fast distant votes are discounted, must be a positive number; got {beta}. Usual: 0.2/order."
        )
    if not 1 < order < 1 / (2 * beta):
        raise InputError(f"the order must be above 1 and below 1/(2·beta) = {1 / (2 * beta):g}; got {order}.")
    return float(order)
