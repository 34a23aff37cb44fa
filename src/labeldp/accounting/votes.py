"""What votes cost: the data-dependent Rényi cost of Confident-GNMax (Papernot et al. 2018, arXiv 1802.08908).

T teachers vote; query i has the counts v_i. It is answered if max v_i + N(0, σ1²) ≥ τ, and then with argmax(v_i + N(0, σ2²)). One label
moves one teacher, hence at most one vote of each query from one class to another.

    without looking       α/(2σ1²) for each *asked* query, α/σ2² for each *answered* one
    with a look           Theorem 6: if all outcomes but the likeliest have probability q or less, then at order α

        1/(α−1) · log( (1−q)·A^(α−1) + q·B^(α−1) ),      A = (1−q)/(1 − (q·e^ε2)^(1−1/μ2)),      B = e^ε1/q^(1/(μ1−1))

with the mechanism's costs ε1 = μ1/σ², ε2 = μ2/σ² at two higher orders, μ2 = σ√log(1/q) and μ1 = μ2 + 1 (Proposition 10). The threshold
test moves by 1 where an answer moves by √2: it is the same formula at σ = √2·σ1. Where a condition of the theorem fails, or it gives
more, the cost is the one without looking.

Three things to know. Numbers from a look are **themselves private**: they are functions of the votes, for the owner's eyes only
(`sanitise` makes one that may be published; the cost without looking always may). The theorem bounds D_α(M(x) ‖ M(x′)) for the votes x
that were cast, not the other direction. And the sum over *answered* queries is that of what happened to be answered: it is a guarantee
only under a cap that was fixed beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import check_delta
from labeldp.accounting.normal import Floats, log_upper_tail
from labeldp.errors import AccountingError, InputError

Votes = npt.NDArray[np.int64]

# pate_2018's long list (halves from 2 to 100.5, then 100 steps to 500), with both ends drawn out. An ε from a finer grid is
# lower by up to 1e-4, one from this grid agrees with theirs wherever their best order is not at an end.
ORDERS: Floats = np.unique(
    np.concatenate(
        [np.arange(1.05, 2, 0.05), np.arange(2, 101, 0.5), np.geomspace(100, 500, 100), np.geomspace(520, 10_000, 30)]
    )
)
ORDERS.setflags(write=False)
_CELLS = 1 << 16  # floats in one block of queries × orders: what a cache holds


@dataclass(frozen=True, eq=False)
class VoteCost:
    """Rényi costs at `orders`, summed: the tests of all asked queries, the answers of all answered ones. Private, like the votes."""

    orders: Floats
    threshold: Floats = field(repr=False)
    answers: Floats = field(repr=False)

    @property
    def total(self) -> Floats:
        """Tests and answers together."""
        return self.threshold + self.answers

    def epsilon(self, delta: float) -> tuple[float, float]:
        """The smallest total + log(1/δ)/(α−1) over the orders, and the order it is found at. Both are private."""
        epsilons = self.total + math.log(1 / check_delta(delta)) / (self.orders - 1)
        best = int(np.argmin(epsilons))
        return float(epsilons[best]), float(self.orders[best])


def data_dependent_cost(
    votes: npt.ArrayLike,
    answered: npt.ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    orders: npt.ArrayLike = ORDERS,
) -> VoteCost:
    """The cost of every threshold test and of the answers that were given. This number is itself private."""
    votes, answered = check_ballot(votes, answered)
    grid = check_orders(orders)
    tests = threshold_log_q(votes.max(axis=1), threshold, sigma1)
    answers = answer_log_q(votes[answered], sigma2)
    return VoteCost(grid, _sum(tests, math.sqrt(2) * sigma1, grid), _sum(answers, sigma2, grid))


def threshold_rdp(votes: npt.ArrayLike, threshold: float, sigma1: float, orders: npt.ArrayLike) -> Floats:
    """The cost of each query's threshold test at each order, queries × orders. Private."""
    log_q = threshold_log_q(check_votes(votes).max(axis=1), threshold, sigma1)
    return _each(log_q, math.sqrt(2) * sigma1, check_orders(orders))


def answer_rdp(votes: npt.ArrayLike, sigma2: float, orders: npt.ArrayLike) -> Floats:
    """The cost of answering each query at each order, queries × orders. Private."""
    return _each(answer_log_q(check_votes(votes), sigma2), sigma2, check_orders(orders))


def answer_log_q(votes: Votes, sigma2: float) -> Floats:
    """Proposition 7, its logarithm: P[another class wins] ≤ min(Σ_j Q((max v − v_j)/(√2·σ2)), 1 − 1/C), j not the first of the largest."""
    check_sigma(sigma2, "sigma2")
    classes = votes.shape[1]
    result = np.empty(len(votes))
    for block in _blocks(len(votes), classes):
        ordered = np.sort(votes[block], axis=1)  # equal ballots come to equal floats, whatever their order
        terms = _log_tails(ordered[:, -1:] - ordered[:, :-1], math.sqrt(2) * sigma2)
        top = terms.max(axis=1, keepdims=True)
        result[block] = top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))
    return np.minimum(result, math.log1p(-1 / classes))


def _log_tails(gaps: Votes, sigma: float) -> Floats:
    """log Q(gap/σ), looked up: gaps are whole numbers, and mostly few."""
    most = int(gaps.max(initial=0))
    return log_upper_tail(np.arange(most + 1) / sigma)[gaps] if most < gaps.size else log_upper_tail(gaps / sigma)


def threshold_log_q(top: Votes, threshold: float, sigma1: float) -> Floats:
    """log of the chance of the less likely outcome of the test: Q(|max v − τ|/σ1)."""
    check_sigma(sigma1, "sigma1")
    if not math.isfinite(threshold):
        raise InputError(f"the threshold must be a finite number of votes; got {threshold}.")
    return log_upper_tail(np.abs(top - threshold) / sigma1)


def guarded_bound(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """Theorem 6 at each log q and order where all its conditions hold and it helps; α/σ² elsewhere.

    The conditions: α < μ1, 1 < μ2, q·e^ε2 < 1, and Proposition 9's, under which the bound grows with q, so that any larger q is safe:
    q ≤ e^((μ2−1)ε2) / (μ1/(μ1−1) · μ2/(μ2−1))^μ2.
    """
    result = np.tile(orders / sigma**2, (len(log_q), 1))
    result[np.isneginf(log_q)] = 0.0  # an outcome that cannot change costs nothing
    mu2 = sigma * np.sqrt(-log_q)
    rows = np.flatnonzero(np.isfinite(log_q) & (mu2 > 1))
    x, m = log_q[rows], mu2[rows]
    epsilon2 = m / sigma**2
    holds = (x <= (m - 1) * epsilon2 - m * (np.log1p(1 / m) + np.log1p(1 / (m - 1)))) & (-x > epsilon2)
    rows = rows[holds]
    if rows.size:
        columns = np.flatnonzero(orders < mu2[rows].max() + 1)
        bound = np.maximum(unguarded_bound(log_q[rows], sigma, orders[columns]), 0.0)
        applies = (mu2[rows] + 1)[:, None] > orders[columns]
        cells = np.ix_(rows, columns)
        result[cells] = np.where(applies, np.minimum(bound, result[cells]), result[cells])
    return result


def unguarded_bound(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """Theorem 6's formula as it stands, log q × orders, for whoever has checked its conditions."""
    mu2 = sigma * np.sqrt(-log_q)
    epsilon1, epsilon2 = (mu2 + 1) / sigma**2, mu2 / sigma**2
    log_1q = _log1mexp(log_q)
    log_a = log_1q - _log1mexp((log_q + epsilon2) * (1 - 1 / mu2))
    log_b = epsilon1 - log_q / mu2
    power = orders - 1
    first = log_1q[:, None] + power * log_a[:, None]
    excess = (log_q - log_1q)[:, None] + power * (log_b - log_a)[
        :, None
    ]  # log(first + second) = first + log(1 + e^excess)
    result: Floats = (first + np.maximum(excess, 0.0) + np.log1p(np.exp(-np.abs(excess)))) / power
    return result


def _each(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """One row a query; equal q are computed once."""
    distinct, inverse = np.unique(log_q, return_inverse=True)
    result = np.empty((len(distinct), len(orders)))
    for block in _blocks(len(distinct), len(orders)):
        result[block] = guarded_bound(distinct[block], sigma, orders)
    return result[inverse.reshape(-1)]


def _sum(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """The rows of `_each` added up, in bounded memory."""
    distinct, counts = np.unique(log_q, return_counts=True)
    total = np.zeros(len(orders))
    for block in _blocks(len(distinct), len(orders)):
        total += counts[block] @ guarded_bound(distinct[block], sigma, orders)
    return total


def _blocks(rows: int, columns: int) -> list[slice]:
    step = max(1, _CELLS // max(1, columns))
    return [slice(start, start + step) for start in range(0, rows, step)]


def _log1mexp(x: Floats) -> Floats:
    """log(1 − e^x) for x < 0."""
    result: Floats = np.where(x < -1, np.log1p(-np.exp(x)), np.log(-np.expm1(x)))
    return result


def check_votes(votes: npt.ArrayLike) -> Votes:
    """Votes as whole numbers, one row a query, one column a class. Errors name the row, never the votes."""
    array = np.asarray(votes)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(
            f"votes are a table, one row a query, one column a class (2 or more); got shape {array.shape}."
        )
    if array.dtype == bool or not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
        raise InputError(f"votes are counts, whole numbers; got {array.dtype}.")
    wrong = ~((array >= 0) & (array < 2**53) & (array == np.floor(array))).all(axis=1)
    if wrong.any():
        raise InputError(f"votes are counts, whole and not negative; row {int(np.argmax(wrong))} holds another number.")
    return array.astype(np.int64)


def check_ballot(votes: npt.ArrayLike, answered: npt.ArrayLike) -> tuple[Votes, npt.NDArray[np.bool_]]:
    """Votes of which every row has one vote a teacher, and which of the rows were answered."""
    counts = check_votes(votes)
    mask = np.asarray(answered)
    if mask.dtype != bool or mask.shape != counts.shape[:1]:
        raise InputError(f"`answered` says of each of the {len(counts):,} asked queries whether it was: True or False.")
    teachers = counts.sum(axis=1)
    wrong = np.flatnonzero(teachers != teachers[:1])
    if wrong.size:
        raise InputError(f"one teacher, one vote: row {int(wrong[0])} has not as many votes as row 0.")
    return counts, mask


def check_orders(orders: npt.ArrayLike) -> Floats:
    """Rényi orders above 1."""
    grid = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if grid.ndim != 1 or not grid.size or not (np.isfinite(grid) & (grid > 1)).all():
        raise InputError("Rényi orders are finite numbers above 1, at least one; usual are 2 to 500.")
    return grid


def check_sigma(sigma: float, name: str) -> float:
    """A usable standard deviation."""
    if not (math.isfinite(sigma) and sigma > 0):
        raise InputError(f"{name} is a standard deviation, counted in votes: a positive number; got {sigma}.")
    if not 1e-100 < sigma < 1e100:
        raise AccountingError(f"{name} = {sigma:g} is beyond what floats can account for (1e-100 to 1e100).")
    return float(sigma)
