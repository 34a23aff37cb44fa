"""What each mechanism would carry at a given ε, and which one to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from labeldp.accounting.cost import check_delta, check_epsilon
from labeldp.errors import AccountingError, InputError
from labeldp.mechanisms import (
    Gaussian,
    Laplace,
    NoPrivacy,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from labeldp.mechanisms.base import check_prior
from labeldp.mechanisms.judge import Plain
from labeldp.private import check_num_classes

DEFAULT_DELTA = 1e-5
# Among equally informative ones the first is taken: simpler, and fewer bytes a row.
_CALIBRATORS: dict[str, Callable[..., Plain]] = {
    "response": lambda delta, prior, **k: RandomizedResponse.calibrated(**k),
    "subset": lambda delta, prior, **k: SubsetSelection.calibrated(prior=prior, **k),
    "unary": lambda delta, prior, **k: UnaryEncoding.calibrated(**k),
    "laplace": lambda delta, prior, **k: Laplace.calibrated(**k),
    "gaussian": lambda delta, prior, **k: Gaussian.calibrated(delta=delta, **k),
}
NAMES = tuple(_CALIBRATORS)


@dataclass(frozen=True)
class Choice:
    """One mechanism, calibrated, with what it carries."""

    mechanism: Plain
    information: float

    @property
    def flip_probability(self) -> float:
        """How often the class for which an observation speaks most is not the true one."""
        return 1 - self.mechanism.probability_kept()

    def to_json(self) -> dict[str, Any]:
        """As `labeldp plan --json` prints it."""
        guarantee = self.mechanism.guarantee()
        return {
            "name": self.mechanism.name,
            "information_nats": self.information,
            "flip_probability": self.flip_probability,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "bytes_per_row": self.mechanism.observation_bytes,
            "parameters": self.mechanism.parameters(),
        }


@dataclass(frozen=True)
class Plan:
    """All the options at one ε, the simplest first, and the recommended one."""

    epsilon: float
    num_classes: int
    options: tuple[Choice, ...]
    recommended: Plain
    prior_entropy: float  # nats: what an observation could carry at most
    skipped: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """As `labeldp plan --json` prints it."""
        return {
            "recommended": self.recommended.name,
            "epsilon": self.epsilon,
            "classes": self.num_classes,
            "prior_entropy_nats": self.prior_entropy,
            "mechanisms": [option.to_json() for option in self.options],
            "skipped": self.skipped,
        }


def calibrate(
    name: str,
    *,
    epsilon: float,
    num_classes: int,
    delta: float | None = None,
    prior: npt.ArrayLike | None = None,
) -> Plain:
    """The named mechanism at ε."""
    if name == NoPrivacy.name:
        return NoPrivacy(num_classes)
    if name not in _CALIBRATORS:
        raise InputError(f"unknown mechanism {name!r}; choose one of {', '.join(NAMES)}.")
    delta = DEFAULT_DELTA if delta is None else check_delta(delta)
    prior = None if prior is None else check_prior(prior, num_classes)
    return _CALIBRATORS[name](delta=delta, prior=prior, epsilon=epsilon, num_classes=num_classes)


def plan(
    epsilon: float,
    num_classes: int,
    *,
    prior: npt.ArrayLike | None = None,
    delta: float | None = None,
    names: Sequence[str] = NAMES,
) -> Plan:
    """Every mechanism at ε. The recommended one carries the most nats, among the pure ones unless a δ is given."""
    epsilon, num_classes = check_epsilon(epsilon), check_num_classes(num_classes)
    pi = None if prior is None else check_prior(prior, num_classes)
    options: list[Choice] = []
    skipped: dict[str, str] = {}
    for name in names:
        try:
            mechanism = calibrate(name, epsilon=epsilon, num_classes=num_classes, delta=delta, prior=pi)
            options.append(Choice(mechanism, mechanism.information(pi)))
        except AccountingError as error:
            skipped[name] = str(error)
    eligible = [o for o in options if delta is not None or o.mechanism.guarantee().delta == 0.0]
    most = max(option.information for option in eligible)
    # Equal up to rounding is equal: k-subset with k = 1 is randomized response.
    best = next(o for o in eligible if o.information >= most * (1 - 1e-6))
    return Plan(epsilon, num_classes, tuple(options), best.mechanism, NoPrivacy(num_classes).information(pi), skipped)


def recommend(
    epsilon: float, num_classes: int, prior: npt.ArrayLike | None = None, *, delta: float | None = None
) -> Plain:
    """The most informative mechanism at ε, among the pure ones unless a δ is given."""
    names = [name for name in NAMES if name != Gaussian.name or delta is not None]
    return plan(epsilon, num_classes, prior=prior, delta=delta, names=names).recommended
