"""What a lower bound on ε rests on: counts of guesses, from which it can be stated at any level α and at any δ.

A finished audit keeps its counts and not only its bound, so that several audits can share one level afterwards (`Headline`), at the
δ of whatever they stand beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

from labeldp.audit.bounds import (
    check_alpha,
    check_counts,
    chosen_alpha,
    gaussian_one_run,
    one_run_exact,
    repeated_game,
    repeated_guess,
)
from labeldp.errors import InputError
from labeldp.files.schema import decode

_MOST = 10**6  # up to which `binomial` is exact enough; a file from elsewhere does not make us compute with more

ONE_RUN = "none: only that each planted label was a fair draw (Steinke et al. 2023)"
GAUSSIAN = "that the trade-off curve is Gaussian (Mahloujifar et al. 2024): only for releases whose whole cost is Gaussian noise"
GAMES = "none: every training is an independent game with a fair coin"


@dataclass(frozen=True)
class OneRunCounts:
    """Of `canaries`, each one of `candidates` labels by a fair draw, the surest `share` was guessed."""

    correct: int
    guesses: int
    canaries: int
    candidates: int
    fixed: bool  # the number of guesses was fixed beforehand; else what the attacker saw decided it, for which a δ has to pay
    share: float = 1.0
    kind: ClassVar[str] = "one-run"
    assumption: ClassVar[str] = ONE_RUN

    def __post_init__(self) -> None:
        check_counts(correct=self.correct, guesses=self.guesses, canaries=self.canaries)
        if self.candidates < 2 or not 0 < self.share <= 1:
            raise InputError("a canary has two candidates at least, and some of them are looked at.")

    def epsilon(self, alpha: float, delta: float) -> float:
        """The largest ε for which "(ε, δ)-label-DP" is rejected at level α, or 0."""
        if not self.fixed:
            alpha, delta = chosen_alpha(alpha, canaries=self.canaries, candidates=self.candidates, delta=delta), 0.0
        if alpha <= 0:
            return 0.0
        return one_run_exact(
            self.correct, self.guesses, canaries=self.canaries, candidates=self.candidates, delta=delta, alpha=alpha
        )


@dataclass(frozen=True)
class GaussianCounts(OneRunCounts):
    """The same of a mechanism whose trade-off curve is *known* to be a Gaussian's."""

    kind: ClassVar[str] = "gaussian"
    assumption: ClassVar[str] = GAUSSIAN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fixed:
            raise InputError(
                "this method needs a number of guesses that was fixed beforehand; Split chooses it. Use Bonferroni."
            )

    def epsilon(self, alpha: float, delta: float) -> float:
        """The ε at δ of the largest μ for which "μ-Gaussian-DP" is rejected at level α, or 0. (At δ = 0 no μ has an ε.)"""
        if delta == 0:
            return 0.0
        return gaussian_one_run(
            self.correct, self.guesses, canaries=self.canaries, candidates=self.candidates, delta=delta, alpha=alpha
        ).epsilon


@dataclass(frozen=True)
class GameCounts:
    """Game 1, played `positives` times on D₁ and `negatives` times on D₀; guesses of D₁ are positive, abstentions are neither."""

    true_positives: int
    false_negatives: int
    positives: int
    true_negatives: int
    false_positives: int
    negatives: int
    kind: ClassVar[str] = "repeated"
    assumption: ClassVar[str] = GAMES

    def __post_init__(self) -> None:
        for right, wrong, of in (
            (self.true_positives, self.false_negatives, self.positives),
            (self.true_negatives, self.false_positives, self.negatives),
        ):
            check_counts(right=right, guesses=right + wrong, games=of)

    @property
    def guesses(self) -> int:
        """How many were made."""
        return self.correct + self.false_positives + self.false_negatives

    @property
    def correct(self) -> int:
        """How many of them are right."""
        return self.true_positives + self.true_negatives

    @property
    def share(self) -> float:
        """Every game is looked at."""
        return 1.0

    def epsilon(self, alpha: float, delta: float) -> float:
        """The largest ε for which "(ε, δ)-label-DP" is rejected at level α, or 0."""
        if delta == 0:
            return repeated_guess(self.correct, self.guesses, alpha=alpha)
        if not self.positives or not self.negatives:
            return 0.0  # the coin fell on one side only: no game proves anything yet
        return repeated_game(
            self.true_positives, self.positives, self.false_positives, self.negatives, delta=delta, alpha=alpha
        )


Counts: TypeAlias = OneRunCounts | GaussianCounts | GameCounts
_KINDS: dict[str, type[Counts]] = {kind.kind: kind for kind in (OneRunCounts, GaussianCounts, GameCounts)}


def counts_json(counts: Counts) -> dict[str, Any]:
    """For a file."""
    return {"kind": counts.kind, **asdict(counts)}


def read_counts(data: Mapping[str, bool | int | float | str]) -> Counts:
    """As `counts_json` has it, or refused: a file may be anybody's."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"counts are of a kind, {' or '.join(_KINDS)}.")
    if any(type(value) is int and value > _MOST for value in data.values()):
        raise InputError(f"an audit counts up to {_MOST:,}.")
    return decode(_KINDS[kind], data)


# ----------------------------------------------------------------
# The one rule for lower bounds on ε that stand together: they share their doubt.
#
# Of n bounds, each wrong with probability α/n at most, the largest is wrong with probability α at most, however they depend on each
# other. So every bound that is known of what is audited counts: attackers, methods, audits. Within a bound its looks, at so many of
# the surest guesses, share the same way. Nothing is taken from what an audit says of its own confidence: bounds are stated anew, from
# counts, at their share of one level and at the δ of the statement that they stand beside.
#
# n must not depend on what was found: who audits until a bound suits has proven nothing.

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
