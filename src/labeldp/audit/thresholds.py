"""How many of the guesses to count: strategies that are fixed before the answers are seen.

A few sure guesses prove more than many doubtful ones, but whoever tries many thresholds and reports the best one reports luck.
`Bonferroni` pays for each look; `Split` chooses on some canaries and measures on the others. Sureness is the attacker's: neither
it nor the order of the canaries may know what was planted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from labeldp.audit.counts import OneRunCounts
from labeldp.errors import InputError

_Mask = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]

MOST_LOOKS = 8
_CHOOSING = 0.05  # the level at which `Split` compares the shares that it chooses among
_TIES = (
    20230515  # seeds the shuffle that breaks ties where the number of guesses is fixed; it knows nothing of the answers
)


class ThresholdStrategy(Protocol):
    """Counts some of the guesses, by a rule that was fixed beforehand."""

    def looks(
        self, sureness: npt.ArrayLike, right: npt.ArrayLike, *, candidates: int = 2, fixed: bool = False
    ) -> tuple[OneRunCounts, ...]:
        """From one sureness (0: undecided, which abstains; larger: surer) and one right-or-wrong a canary. All looks together are one
        bound (`headline.Bound`), which pays for each of them.

        fixed  whether the number of guesses must not depend on what the attacker saw, as a bound at δ > 0 wants it
        """


@dataclass(frozen=True)
class Bonferroni:
    """The surest N·share guesses, for each share: so many looks.

    Ties at the cut abstain, all of them. Where the number of guesses must be fixed, ties are broken by a fixed shuffle, and an
    undecided canary counts as a wrong guess.
    """

    shares: tuple[float, ...] = (1, 1 / 2, 1 / 4, 1 / 8)

    def __post_init__(self) -> None:
        _check_shares(self.shares)

    def looks(
        self, sureness: npt.ArrayLike, right: npt.ArrayLike, *, candidates: int = 2, fixed: bool = False
    ) -> tuple[OneRunCounts, ...]:
        """One for each share."""
        sure, hit = _checked(sureness, right)
        return tuple(_look(sure, hit, share, candidates, fixed) for share in self.shares)


@dataclass(frozen=True)
class Split:
    """Chooses among the shares on a part of the canaries, and looks once at the others.

    The choosing part is every so-manieth canary, or drawn with `seed`. The answers it looks at are not those it is judged by, so
    nothing is divided. The number of guesses is then one that depends on the output, for which a bound at δ > 0 pays.
    """

    share: float = 0.5
    seed: int | None = None
    shares: tuple[float, ...] = tuple(0.5**i for i in range(MOST_LOOKS))

    def __post_init__(self) -> None:
        _check_shares(self.shares)
        if not 0 < self.share < 1:
            raise InputError(
                f"share is the part of the canaries to choose on, between 0 and 1; got {self.share}. Usual: 0.5."
            )

    def looks(
        self, sureness: npt.ArrayLike, right: npt.ArrayLike, *, candidates: int = 2, fixed: bool = False
    ) -> tuple[OneRunCounts, ...]:
        """The chosen share's, on the canaries that did not choose it. Their number is never fixed."""
        sure, hit = _checked(sureness, right)
        choosing = self._choosing(len(sure))
        if choosing.all() or not choosing.any():
            raise InputError(f"{len(sure)} canaries are too few to choose on some and measure on the others.")
        tried = [_look(sure[choosing], hit[choosing], share, candidates, False) for share in self.shares]
        best = max(tried, key=lambda look: (look.epsilon(_CHOOSING, 0.0), look.guesses))
        return (_look(sure[~choosing], hit[~choosing], best.share, candidates, False),)

    def _choosing(self, canaries: int) -> _Mask:
        if self.seed is None:
            return np.asarray(np.diff(np.floor(np.arange(canaries + 1) * self.share)) > 0)
        order = np.random.default_rng(self.seed).permutation(canaries)
        return np.asarray(order < math.floor(canaries * self.share))


def _look(sure: _Floats, hit: _Mask, share: float, candidates: int, fixed: bool) -> OneRunCounts:
    guessed = _surest(sure, math.floor(share * len(sure) + 1e-9), exactly=fixed)
    return OneRunCounts(int((guessed & hit).sum()), int(guessed.sum()), len(sure), candidates, fixed, float(share))


def _surest(sure: _Floats, count: int, *, exactly: bool) -> _Mask:
    """The `count` surest. Ties at the cut are left out, and the undecided, unless there must be `count` exactly."""
    if exactly:
        shuffle = np.random.default_rng(_TIES).permutation(len(sure))
        chosen = np.zeros(len(sure), dtype=np.bool_)
        chosen[np.lexsort((shuffle, -sure))[:count]] = True
        return chosen
    if count == 0:
        return np.zeros(len(sure), dtype=np.bool_)
    beyond = np.sort(sure)[::-1][count] if count < len(sure) else 0.0
    return np.asarray(sure > beyond)


def _checked(sureness: npt.ArrayLike, right: npt.ArrayLike) -> tuple[_Floats, _Mask]:
    sure: npt.NDArray[Any] = np.asarray(sureness, dtype=np.float64)
    hit: npt.NDArray[Any] = np.asarray(right)
    if sure.ndim != 1 or sure.shape != hit.shape or not len(sure):
        raise InputError(f"sureness and right hold one value a canary; got shapes {sure.shape} and {hit.shape}.")
    if hit.dtype != np.bool_:
        raise InputError("right says of each guess whether it was right: True or False.")
    if not bool((sure >= 0).all()):
        raise InputError(
            "sureness must be 0 (undecided: abstains) or more, the surer the larger; some is negative or not a number."
        )
    return sure, hit & (sure > 0)


def _check_shares(shares: tuple[float, ...]) -> None:
    if not 1 <= len(shares) <= MOST_LOOKS:
        raise InputError(f"a strategy looks 1 to {MOST_LOOKS} times, for each look costs; got {len(shares)} shares.")
    if len(set(shares)) < len(shares) or not all(0 < share <= 1 for share in shares):
        raise InputError(
            f"shares are different parts of the canaries, above 0 and at most 1, as in (1, 1/2, 1/4); got {shares}."
        )
