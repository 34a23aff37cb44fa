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
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta
from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.accounting.sanitise import Sanitising
from labeldp.entropy import Entropy, below, uint64s
from labeldp.errors import InputError, NoMomentsError
from labeldp.mechanisms.base import Guarantee, Mechanism, Moments, Observations
from labeldp.mechanisms.laplace import number
from labeldp.mechanisms.noise import GridNoise
from labeldp.mechanisms.table import WHOLE
from labeldp.private import Codes, check_num_classes, code_dtype

Votes = npt.NDArray[np.integer[Any]]

MAX_TEACHERS = 1 << 16
MAX_QUERIES = 1 << 31
_MIN_SIGMA, _MAX_SIGMA1, _MAX_SIGMA2 = 0.1, 1e7, 1e4
_FLOOR = 1 << 26  # neither side of the threshold's coin weighs less: a 2^-38th


@lru_cache(maxsize=8)
def _coins(teachers: int, threshold: float, sigma1: float) -> tuple[tuple[int, ...], float, float]:
    """For max v = 0 … T: the weight of passing, over 2^64; the largest relative error η of either side; the mass τ that was lifted.

    A side that weighs less than the floor is lifted to it. Outside the event that such a side comes up, of probability τ at most,
    both sides' weights are within η of the true masses; and no weight is below (1 − η) of its mass.
    """
    weights, eta, lifted = [], Decimal(0), 0
    with localcontext(CONTEXT):
        for most in range(teachers + 1):
            z = (Decimal(most) - Decimal(threshold)) / Decimal(sigma1)
            masses = (upper_tail(-z), upper_tail(z)) if abs(z) < 30 else (Decimal(z > 0), Decimal(z < 0))
            weight = int((masses[0] * WHOLE).to_integral_value())
            kept = min(max(weight, _FLOOR), WHOLE - _FLOOR)
            for mass, side in ((masses[0], kept), (masses[1], WHOLE - kept)):
                if side == _FLOOR and mass * WHOLE < _FLOOR:
                    lifted = _FLOOR
                else:
                    eta = max(eta, abs(side / (mass * WHOLE) - 1))
            weights.append(kept)
        return tuple(weights), float_up(eta + Decimal("1e-40")), lifted / WHOLE


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
    trust: ClassVar[str] = "central"
    can_judge: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_delta(self.delta)
        if not 1 <= self.teachers <= MAX_TEACHERS:
            raise InputError(f"teachers are 1 to {MAX_TEACHERS:,}; got {self.teachers:,}.")
        for name, most in (("sigma1", _MAX_SIGMA1), ("sigma2", _MAX_SIGMA2)):
            if not _MIN_SIGMA <= getattr(self, name) <= most:
                raise InputError(f"{name} is from {_MIN_SIGMA:g} to {most:g} votes; got {getattr(self, name):g}.")
        if not 0 <= self.threshold <= self.teachers:
            raise InputError(
                f"the threshold is a number of votes, from 0 to the {self.teachers:,} teachers; got {self.threshold:g}."
            )
        if not 1 <= self.max_answered <= self.max_asked <= MAX_QUERIES:
            raise InputError(
                f"caps are 1 ≤ --max-answered ≤ --max-asked; got {self.max_answered:,} answered of {self.max_asked:,} asked."
            )
        if not 1 / self.num_classes < self.accuracy <= 1:
            raise InputError(f"accuracy is above chance, 1/{self.num_classes}, and at most 1; got {self.accuracy:g}.")

    # ── the promise ──

    def certificate(self) -> Cost:
        """Of the caps, with the slack of so many coins and so many noisy votes."""
        _, eta1, tau1 = _coins(self.teachers, self.threshold, self.sigma1)
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

    def answer(self, votes: Votes, entropy: Entropy) -> Observations:
        """One observation for each query, whose votes come in the order they are asked. Charge the ledger first.

        Asking stops at either cap. Coins and noise that are drawn beyond it are thrown away unseen.
        """
        self.check_votes(votes)
        weights = np.array(_coins(self.teachers, self.threshold, self.sigma1)[0], dtype=np.uint64)
        passed = uint64s(entropy, len(votes)) < weights[votes.max(axis=1)]
        passed[self.max_asked :] = False
        place = np.cumsum(passed)
        asked = np.arange(len(votes)) < self.max_asked
        asked &= place - passed < self.max_answered  # once the last answer is given, nothing is asked
        observed = np.where(asked, self.num_classes, self.num_classes + 1).astype(self._dtype)
        chosen = np.flatnonzero(passed & asked)
        observed[chosen] = self._noisy_most(votes[chosen], entropy)
        return observed

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

    def _observe(self, codes: Codes, entropy: Entropy) -> NoReturn:
        raise InputError("PATE releases answers of teachers, not labels row by row: see `labeldp pate`.")

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

    def score(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> NoReturn:
        """None: how often answers are right is the teachers' secret."""
        raise NoMomentsError(_NO_MOMENTS)

    def moments(self) -> Moments:
        """None."""
        raise NoMomentsError(_NO_MOMENTS)

    def information(self, prior: npt.ArrayLike | None = None) -> NoReturn:
        """Unknown: what an answer tells depends on the teachers."""
        raise NoMomentsError(_NO_MOMENTS)

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
            number(parameters.get(name), name) for name in ("sigma1", "sigma2", "threshold", "delta", "accuracy")
        )
        given = parameters.get("sanitising")
        names = ("order", "beta", "sigma_ss", "margin")
        sanitising = None
        if given is not None:
            if not isinstance(given, dict):
                raise InputError(f"sanitising is made of {', '.join(names)}.")
            sanitising = Sanitising(*(number(given.get(name), name) for name in names))
        return cls(num_classes, teachers, sigma1, sigma2, threshold, asked, answered, delta, accuracy, sanitising)


_NO_MOMENTS = (
    "how often a teacher ensemble's answers are right is private, so accuracy cannot be estimated from them. Use public test labels, or a "
    "separate held-out release under a plain mechanism (k-subset)."
)


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number.")
    return value
