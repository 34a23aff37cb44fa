"""`Cost`: what a step costs in privacy. Two numbers that are never traded for each other, and a slack.

Neighbouring data sets differ in one label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from typing import Any

from labeldp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from labeldp.accounting.rounding import CONTEXT, add_up, float_down, float_up, up
from labeldp.errors import AccountingError, InputError
from labeldp.files.schema import decode

MAX_EPSILON = 32.0  # integers over 2^64 hold no more
MIN_EPSILON = 1e-6  # below, a release carries under 10^-12 nats a row
MIN_DELTA = 2.0**-40
# A Gaussian cap sets this share of its ε and of its δ aside for the slack of finite tables.
SLACK_SHARE = 2.0**-10
_MOST = 1e300  # of which many still add up to a number


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """A usable ε, as a float."""
    value = _number(epsilon, name, "A typical value is 1 to 8.")
    if not value > 0:
        raise InputError(f"{name} must be a positive number; got {value}. A typical value is 1 to 8.")
    if value > MAX_EPSILON:
        raise InputError(
            f"{name} must be at most {MAX_EPSILON:g} (probabilities are integers over 2^64 and hold no more); "
            f"got {value:g}."
        )
    if value < MIN_EPSILON:
        raise InputError(f"{name} must be at least {MIN_EPSILON:g}: below, a release says nothing; got {value:g}.")
    return value


def check_delta(delta: float, name: str = "delta") -> float:
    """A usable δ, as a float."""
    value = _number(delta, name, "A typical value is 1e-5.")
    if not 0 < value < 1:
        raise InputError(f"{name} must be between 0 and 1; got {value:g}. A typical value is 1e-5.")
    if value < MIN_DELTA:
        raise InputError(f"{name} must be at least 2^-40 (about 9.1e-13); got {value:g}.")
    return value


def _number(value: float, name: str, hint: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number; got {value!r}. {hint}") from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{name} must be a finite number; got {value!r}. {hint}")
    return number


@dataclass(frozen=True)
class Cost:
    """A pure ε, and a Gaussian μ² with the slack of its tables.

    The slack: the Gaussian parts' integers are within relative errors η of true Gaussian masses,
    outside a mass τ. `slack_ratio` is Σ log((1+η)/(1−η)), `slack_mass` is Στ.
    """

    pure: float = 0.0
    gaussian: float = 0.0
    slack_ratio: float = 0.0
    slack_mass: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise AccountingError(f"a cost is made of finite non-negative numbers; {field.name} is {value}.")

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(add_up(a, b) for a, b in zip(self.numbers(), other.numbers(), strict=True)))

    def within(self, cap: Cost) -> bool:
        """Whether no number exceeds the cap's."""
        return all(a <= b for a, b in zip(self.numbers(), cap.numbers(), strict=True))

    def epsilon(self, delta: float = 0.0) -> float:
        """The ε that this cost amounts to at δ, rounded up; valid however pure and Gaussian steps interleave.

        The Gaussian part alone: if tables are within η of Gaussian masses p, q, then for every event
        P̃ ≤ Π(1+η)·P ≤ Π(1+η)(e^ε Q + δ') ≤ Π((1+η)/(1−η))·e^ε Q̃ + Π(1+η)·δ', and Π(1+η) is at most the
        square root of Π((1+η)/(1−η)).
        """
        if not 0 <= delta < 1:
            raise AccountingError(f"delta must be at least 0 and below 1; got {delta}.")
        if self.gaussian == 0.0:
            return self.pure
        if delta <= self.slack_mass:
            raise AccountingError(
                f"a Gaussian cost has a finite ε only at a δ above {self.slack_mass:g}; got {delta:g}."
            )
        delta_left = _without_slack(delta, self.slack_ratio, self.slack_mass)
        mu = up(math.sqrt(self.gaussian))
        return add_up(add_up(self.pure, gaussian_epsilon(mu, delta_left)), self.slack_ratio)

    @classmethod
    def gaussian_cap(cls, epsilon: float, delta: float) -> Cost:
        """The largest Gaussian cost whose `epsilon(delta)` is at most ε, with room for the tables' slack."""
        ratio, mass = epsilon * SLACK_SHARE, delta * SLACK_SHARE
        delta_left = _without_slack(delta, ratio, mass)
        mu = gaussian_mu(epsilon - ratio * (1 + 1e-12), delta_left)
        with localcontext(CONTEXT):
            return cls(0.0, float_down(Decimal(mu) ** 2 * (1 - Decimal("1e-14"))), ratio, mass)

    @classmethod
    def of_gaussian(cls, mu_squared: Decimal, slack_ratio: float = 0.0, slack_mass: float = 0.0) -> Cost:
        """A Gaussian step, μ² rounded up."""
        return cls(0.0, float_up(mu_squared), slack_ratio, slack_mass)

    def numbers(self) -> tuple[float, float, float, float]:
        """Pure, Gaussian, and the two slacks."""
        return self.pure, self.gaussian, self.slack_ratio, self.slack_mass

    def to_json(self) -> dict[str, float]:
        """The four numbers by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_json(cls, data: Any) -> Cost:
        """The inverse of `to_json`; a ValueError, if it is none."""
        cost = decode(cls, data, "cost")
        if not {field.name for field in fields(cls)} <= set(data) or max(cost.numbers()) > _MOST:
            raise ValueError("cost")
        return cost


def _without_slack(delta: float, ratio: float, mass: float) -> float:
    """The δ' of the exact Gaussian for which Π(1+η)·δ' + τ is at most δ, rounded down."""
    with localcontext(CONTEXT):
        return float_down((Decimal(delta) - Decimal(mass)) / (Decimal(ratio) / 2).exp() * (1 - Decimal("1e-50")))
