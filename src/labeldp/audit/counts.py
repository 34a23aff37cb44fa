"""What a lower bound on ε rests on: counts of guesses, from which it can be stated at any level α and at any δ.

A finished audit keeps its counts and not only its bound, so that several audits can share one level afterwards (`headline`), at the
δ of whatever they stand beside.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

from labeldp.audit.binomial import check_counts
from labeldp.audit.bounds import chosen_alpha, one_run_exact, repeated_game, repeated_guess
from labeldp.audit.gaussian_bound import gaussian_one_run
from labeldp.errors import InputError

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


def read_counts(data: dict[str, Any]) -> Counts:
    """As `counts_json` has it; ValueError for what is none, for a file may be anybody's."""
    kind, said = _KINDS[data["kind"]], {name: value for name, value in data.items() if name != "kind"}
    fixed, share = said.get("fixed", True), said.get("share", 1.0)
    numbers = [value for name, value in said.items() if name not in ("fixed", "share")]
    if not isinstance(fixed, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ValueError
    if any(type(number) is not int or not 0 <= number <= _MOST for number in numbers) or said.get("candidates", 2) < 2:
        raise ValueError
    return kind(**said)
