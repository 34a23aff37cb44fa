"""PATE's answers: teachers vote on some rows, and a noisy arg-max is released where they agree (Confident-GNMax).

For a query with votes v (T teachers, one vote each), of at most `max_asked` queries and `max_answered` answers:

    pass with probability Φ((max v − τ)/σ1)          one Gaussian on max v, sensitivity 1:        μ² = 1/σ1² an asked query
    answer arg max (v_i + N(0, σ2²))                 votes differ by √2 in the ℓ2 norm:           μ² = 2/σ2² an answered one

One label is in one teacher's shard, so it moves one vote of each query. Gaussian DP composes exactly, and caps that are fixed beforehand
make it a filter (Smith–Thakurta): μ² = max_asked/σ1² + 2·max_answered/σ2², whatever was asked and answered. (The paper's Algorithm 2 adds
fresh noise to each class before the threshold; its analysis, and Papernot et al. 2018, are of one noise, which is what this does.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta
from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.accounting.sanitise import Sanitising
from labeldp.entropy import Entropy, below, uint64s
from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee, Mechanism, Observations, check_number
from labeldp.mechanisms.noise import MIN_SIGMA, GridNoise
from labeldp.private import check_num_classes, code_dtype, unheard

Votes = npt.NDArray[np.integer[Any]]

MAX_TEACHERS = 1 << 16
MAX_QUERIES = 1 << 31
MAX_CLASSES = (1 << 16) - 2  # two more outcomes than classes must fit
_MIN_SIGMA1, _MAX_SIGMA1, _MAX_SIGMA2 = 0.1, 1e7, 1e4
# The coin's integers are over 2^128, like the noise's. Over 2^64, a side that is lifted to where rounding does no harm weighs 2^-38, and a
# few thousand such coins would not fit into a δ of 1e-6.
WIDE = 1 << 128
_FLOOR = 1 << 64


@lru_cache(maxsize=1 << 17)
def coin(most: int, threshold: float, sigma1: float) -> int:
    """The weight of passing with `most` votes, over 2^128: Φ((most − τ)/σ1), rounded, and neither side lighter than 2^64."""
    with localcontext(CONTEXT):
        z = (Decimal(most) - Decimal(threshold)) / Decimal(sigma1)
        smaller = int((upper_tail(abs(z)) * WIDE).to_integral_value()) if abs(z) < 10 else 0
    smaller = max(smaller, _FLOOR)
    return smaller if z < 0 else WIDE - smaller


def coin_slack(teachers: int, threshold: float, sigma1: float) -> tuple[float, float]:
    """η and τ of one coin, whatever the votes: a weight that was not lifted is off by less than 1, and at least 2^64.

    Outside the event that a lifted side comes up, of probability τ at most, both sides' weights are within η of the true masses; and no
    weight is below (1 − η) of its mass. (Φ(−9.08) is just above 2^-64: nearer than 9σ nothing is lifted.)
    """
    farthest = max(threshold, teachers - threshold) / sigma1
    return 2.0**-63, 0.0 if farthest < 9 else 2.0**-64


@lru_cache(maxsize=4)
def _noise(sigma: float) -> GridNoise:
    """Kept, because its table takes a while to compute."""
    return GridNoise(sigma)


@dataclass(frozen=True)
class PateAnswers(Mechanism):
    """Answers of an ensemble of `teachers` about some rows. Trust model: central.

    An observation is a class number (the answer), C (asked, and not answered) or C + 1 (not asked). `accuracy` is a public belief about how
    often an answer is right, for the evidence: 1 makes it a one-hot. It is no estimate: the votes are private.
    """

    num_classes: int
    teachers: int
    sigma1: float
    sigma2: float
    threshold: float
    max_asked: int
    max_answered: int
    delta: float = 1e-5
    accuracy: float = 1.0
    sanitising: Sanitising | None = None  # also publish a data-dependent ε, at a cost of its own
    name: ClassVar[str] = "pate"
    one_class: ClassVar[bool] = True
    valid_as_a_whole: ClassVar[bool] = True  # caps on all rows together
    trust: ClassVar[str] = "central"
    not_by_row: ClassVar[str] = "PATE releases answers of teachers, not labels row by row: see `labeldp pate`."
    no_judge: ClassVar[str] = (
        "how often a teacher ensemble's answers are right is private, so accuracy cannot be estimated from them. Use public test labels, "
        "or a separate held-out release under a plain mechanism (k-subset)."
    )

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_delta(self.delta)
        if not 1 <= self.teachers <= MAX_TEACHERS:
            raise InputError(f"teachers are 1 to {MAX_TEACHERS:,}; got {self.teachers:,}.")
        if self.num_classes > MAX_CLASSES:
            raise InputError(f"PATE has room for {MAX_CLASSES:,} classes; got {self.num_classes:,}.")
        for name, least, most in (("sigma1", _MIN_SIGMA1, _MAX_SIGMA1), ("sigma2", MIN_SIGMA, _MAX_SIGMA2)):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} is from {least:g} to {most:g} votes; got {getattr(self, name):g}.")
        if not 0 <= self.threshold <= self.teachers:
            raise InputError(
                f"the threshold is a number of votes, from 0 to the {self.teachers:,} teachers; got {self.threshold:g}."
            )
        if not 1 <= self.max_answered <= self.max_asked <= MAX_QUERIES:
            raise InputError(
                f"caps are 1 ≤ `max_answered` ≤ `max_asked`; got {self.max_answered:,} answered of {self.max_asked:,} asked."
            )
        if not 1 / self.num_classes < self.accuracy <= 1:
            raise InputError(f"accuracy is above chance, 1/{self.num_classes}, and at most 1; got {self.accuracy:g}.")
        if self.sanitising is not None:
            self.sanitising.check(
                self.teachers,
                self.num_classes,
                self.sigma1,
                self.sigma2,
                asked=self.max_asked,
                answered=self.max_answered,
            )

    # ── the promise ──

    def certificate(self) -> Cost:
        """Of the caps, with the slack of so many coins and so many noisy votes."""
        eta1, tau1 = coin_slack(self.teachers, self.threshold, self.sigma1)
        noise = GridNoise(self.sigma2)
        with localcontext(CONTEXT):
            asked, answered = Decimal(self.max_asked), Decimal(self.max_answered)
            mu_squared = asked / Decimal(self.sigma1) ** 2 + 2 * answered / Decimal(self.sigma2) ** 2
            ratios = [((1 + Decimal(eta)) / (1 - Decimal(eta))).ln() for eta in (eta1, noise.relative_error())]
            ratio = asked * ratios[0] + answered * self.num_classes * ratios[1]
            mass = asked * Decimal(tau1) + answered * self.num_classes * Decimal(noise.mass_at_the_ends())
            safely = 1 + Decimal("1e-40")
            cost = Cost.of_gaussian(mu_squared * safely, float_up(ratio * safely), float_up(mass * safely))
        return cost if self.sanitising is None else cost + self.sanitising.cost(self.delta)

    def guarantee(self) -> Guarantee:
        """The caps' ε at δ: what is published, whatever was asked and answered."""
        return Guarantee(self.certificate().epsilon(self.delta), self.delta)

    # ── the label owner's side ──

    @unheard()
    def answer(self, votes: Votes, entropy: Entropy) -> Observations:
        """One observation for each query, whose votes come in the order they are asked. Charge the ledger first.

        Asking stops at either cap. Coins and noise that are drawn beyond it are thrown away unseen.
        """
        self.check_votes(votes)
        passed = self._tossed(votes.max(axis=1), entropy)
        passed[self.max_asked :] = False
        place = np.cumsum(passed)
        asked = np.arange(len(votes)) < self.max_asked
        asked &= place - passed < self.max_answered  # once the last answer is given, nothing is asked
        observed = np.where(asked, self.num_classes, self.num_classes + 1).astype(self._dtype)
        chosen = np.flatnonzero(passed & asked)
        observed[chosen] = self._noisy_most(votes[chosen], entropy)
        return observed

    def _tossed(self, most: Votes, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """A coin for each query: is a uniform 128-bit number below its weight? The low word is drawn where the high one leaves it open."""
        weights = {int(value): coin(int(value), self.threshold, self.sigma1) for value in np.unique(most)}
        high = np.array([weights[int(value)] >> 64 for value in most], dtype=np.uint64)
        words = uint64s(entropy, len(most))
        passed = words < high
        for place in np.flatnonzero(words == high):
            low = weights[int(most[place])] & ((1 << 64) - 1)
            passed[place] = int(uint64s(entropy, 1)[0]) < low
        return passed

    def _noisy_most(self, votes: Votes, entropy: Entropy) -> npt.NDArray[np.int64]:
        """arg max of votes plus fresh noise for each class; of several on one grid point, any with the same probability."""
        noise = _noise(self.sigma2)
        noisy = votes.astype(np.int64) * noise.per_unit + noise.sample(votes.size, entropy).reshape(votes.shape)
        highest = noisy == noisy.max(axis=1, keepdims=True)
        most: npt.NDArray[np.int64] = highest.argmax(axis=1)
        for row in np.flatnonzero(highest.sum(axis=1) > 1):
            tied = np.flatnonzero(highest[row])
            most[row] = tied[int(below(entropy, len(tied), 1)[0])]
        return most

    def check_votes(self, votes: Votes) -> None:
        """One vote a teacher; refused otherwise."""
        if votes.ndim != 2 or votes.shape[1] != self.num_classes or votes.dtype.kind not in "iu":
            raise InputError(f"votes are whole numbers, a row a query and {self.num_classes} columns, one a class.")
        if (votes < 0).any() or (votes.sum(axis=1) != self.teachers).any():
            raise InputError(
                f"each teacher has one vote: every row of votes must add up to the {self.teachers:,} teachers."
            )

    # ── what anybody may compute from an observation ──

    @property
    def _dtype(self) -> type[np.uint8] | type[np.uint16]:
        return code_dtype(self.num_classes + 2)

    @property
    def observation_bytes(self) -> int:
        """A class number, or one of two more."""
        return np.dtype(self._dtype).itemsize

    def valid(self, observations: Observations) -> bool:
        """No more answers and queries than the caps allow."""
        asked, answered = self.counts(observations)
        known = observations.size == 0 or int(observations.max()) < self.num_classes + 2
        return bool(known and asked <= self.max_asked and answered <= self.max_answered)

    def counts(self, observations: Observations) -> tuple[int, int]:
        """How many rows were asked about, and how many answered."""
        return int((observations <= self.num_classes).sum()), int(self.informative(observations).sum())

    def informative(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """Which rows have an answer."""
        return np.asarray(observations < self.num_classes)

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """log accuracy at the answer, log of an even share of the rest elsewhere; 0 for rows without an answer."""
        table = np.zeros((len(observations), self.num_classes), dtype=np.float32)
        answered = np.flatnonzero(self.informative(observations))
        wrong = (1 - self.accuracy) / (self.num_classes - 1)
        table[answered] = math.log(wrong) if wrong > 0 else -np.inf
        table[answered, observations[answered]] = math.log(self.accuracy)
        return table

    # ── description ──

    def describe(self) -> str:
        """In a few words."""
        return (
            f"noisy majority of {self.teachers:,} teachers (σ1 = {self.sigma1:g}, σ2 = {self.sigma2:g}, τ = {self.threshold:g}), at most "
            f"{self.max_answered:,} answers to {self.max_asked:,} questions"
        )

    def parameters(self) -> dict[str, Any]:
        """All but the number of classes."""
        names = ("teachers", "sigma1", "sigma2", "threshold", "max_asked", "max_answered", "delta", "accuracy")
        said = {name: getattr(self, name) for name in names}
        return said if self.sanitising is None else said | {"sanitising": asdict(self.sanitising)}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> PateAnswers:
        """The inverse of `parameters`."""
        teachers, asked, answered = (
            _whole(parameters.get(name), name) for name in ("teachers", "max_asked", "max_answered")
        )
        sigma1, sigma2, threshold, delta, accuracy = (
            check_number(parameters.get(name), name) for name in ("sigma1", "sigma2", "threshold", "delta", "accuracy")
        )
        given = parameters.get("sanitising")
        names = ("order", "beta", "sigma_ss", "margin")
        sanitising = None
        if given is not None:
            if not isinstance(given, dict):
                raise InputError(f"sanitising is made of {', '.join(names)}.")
            sanitising = Sanitising(*(check_number(given.get(name), name) for name in names))
        return cls(num_classes, teachers, sigma1, sigma2, threshold, asked, answered, delta, accuracy, sanitising)


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number.")
    return value
