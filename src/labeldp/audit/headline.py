"""The one rule for lower bounds on ε that stand together: they share their doubt.

Of n bounds, each wrong with probability α/n at most, the largest is wrong with probability α at most, however they depend on each
other. So every bound that is known of what is audited counts: attackers, methods, audits. Within a bound its looks, at so many of
the surest guesses, share the same way. Nothing is taken from what an audit says of its own confidence: bounds are stated anew, from
counts, at their share of one level and at the δ of the statement that they stand beside.

n must not depend on what was found: who audits until a bound suits has proven nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labeldp.audit.binomial import check_alpha
from labeldp.audit.counts import Counts
from labeldp.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Bound:
    """One attack of one audit: what it counted, look by look."""

    attack: str
    looks: tuple[Counts, ...]

    def at(self, alpha: float, delta: float) -> Stated:
        """The best look; all of them share α. Among equals, the one with the most guesses."""
        level = check_alpha(alpha) / len(self.looks)
        epsilon, _, look = max(
            ((look.epsilon(level, delta), look.guesses, look) for look in self.looks), key=lambda found: found[:2]
        )
        return Stated(self, epsilon, look, level)


@dataclass(frozen=True)
class Stated:
    """A bound at its share of the doubt, and the look that gave it, at a level that is its own."""

    bound: Bound
    epsilon: float
    look: Counts
    level: float


@dataclass(frozen=True)
class Headline:
    """What several bounds prove together: with this confidence, *none* of them is above the truth, so the largest is not."""

    bounds: tuple[Stated, ...]
    confidence: float
    delta: float
    shared_by: int  # how many bounds share the doubt: these, and others that are known

    @classmethod
    def of(cls, bounds: Sequence[Bound], *, delta: float, confidence: float = CONFIDENCE, others: int = 0) -> Headline:
        """`others` bounds of the same ε are known, and stand elsewhere or nowhere."""
        if not 0 < confidence < 1:
            raise InputError(f"confidence is between 0 and 1, usually 0.95; got {confidence}.")
        if not 0 <= delta < 1:
            raise InputError(
                f"delta must be at least 0 and below 1; got {delta}. It is the certificate's: 0 for pure ε."
            )
        shared_by = len(bounds) + others
        alpha = (1 - confidence) / shared_by
        return cls(tuple(bound.at(alpha, delta) for bound in bounds), confidence, delta, shared_by)

    @property
    def best(self) -> Stated:
        """The largest; among equals, the one with the most guesses."""
        return max(self.bounds, key=lambda stated: (stated.epsilon, stated.look.guesses))

    @property
    def epsilon(self) -> float:
        """ε is at least this."""
        return self.best.epsilon
