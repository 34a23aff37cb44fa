"""k-subset selection: a set of k classes that holds the true one more often than not by chance.

The mutual-information optimum under pure ε for a uniform prior (Ye & Barg 2018; Wang et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import localcontext
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_epsilon
from labeldp.accounting.rounding import CONTEXT, log_ratio_up
from labeldp.entropy import Entropy, below
from labeldp.errors import InputError
from labeldp.mechanisms import information as nats
from labeldp.mechanisms.base import Observations, aimed_at, check_prior, check_word
from labeldp.mechanisms.bits import no_padding, pack, packed_bytes, set_sizes, unpack
from labeldp.mechanisms.judge import Plain, StatisticLaw
from labeldp.mechanisms.table import WHOLE, Table
from labeldp.private import Codes, check_num_classes

# The exact information for a non-uniform prior takes classes × sizes steps; up to here every k is tried.
_EVERY_SIZE = 512
_MOST_STEPS = 4_000_000


@lru_cache(maxsize=16)
def _coin(holds: int) -> Table:
    return Table([WHOLE - holds, holds])


@dataclass(frozen=True)
class SubsetSelection(Plain):
    """A uniform `size`-subset among those that hold the true class, with probability `holds`/2^64; else among the rest."""

    num_classes: int
    size: int
    holds: int
    name: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_word(self.size, "size", high=self.num_classes - 1)
        check_word(self.holds, "holds")
        if self.holds * (self.num_classes - self.size) < (WHOLE - self.holds) * self.size:
            raise InputError("a subset must hold the true class at least as often as by chance; `holds` is too small.")

    @classmethod
    def calibrated(
        cls, *, epsilon: float, num_classes: int, size: int | None = None, prior: npt.ArrayLike | None = None
    ) -> SubsetSelection:
        """The certificate is at most ε; `size` is the one that carries the most information (for `prior`)."""
        epsilon, num_classes = check_epsilon(epsilon), check_num_classes(num_classes)
        if size is None:
            size = _best_size(epsilon, num_classes, prior)
        check_word(size, "size", high=num_classes - 1)
        with localcontext(CONTEXT):
            e = aimed_at(epsilon).exp()
            return cls(num_classes, int(size), int(WHOLE * (size * e / (size * e + num_classes - size))))

    def certificate(self) -> Cost:
        """log[P(C−k)/((2^64−P)k)]: the two cases' probabilities, each divided by its number of subsets."""
        k, rest = self.size, self.num_classes - self.size
        return Cost(pure=log_ratio_up(self.holds * rest, (WHOLE - self.holds) * k))

    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        holds = _coin(self.holds).sample(len(codes), entropy).astype(bool)
        members = np.zeros((len(codes), self.num_classes), dtype=np.uint8)
        members[holds, codes[holds]] = 1
        for rows, others in ((np.flatnonzero(holds), self.size - 1), (np.flatnonzero(~holds), self.size)):
            self._add_others(members, rows, codes, others, entropy)
        return pack(members)

    def _add_others(
        self,
        members: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.intp],
        codes: Codes,
        count: int,
        entropy: Entropy,
    ) -> None:
        """Add an exactly uniform `count`-subset of the classes other than the true one (Floyd's algorithm)."""
        classes = self.num_classes
        after = codes[rows].astype(np.intp) + 1
        flat, base = members.reshape(-1), rows * classes

        def cell(
            step: npt.NDArray[np.intp] | int,
        ) -> npt.NDArray[np.intp]:  # the other classes, counted from the true one
            position = after + step
            position -= classes * (position >= classes)
            return base + position

        for last in range(classes - 1 - count, classes - 1):
            drawn = cell(below(entropy, last + 1, len(rows)).astype(np.intp))
            flat[np.where(flat[drawn], cell(last), drawn)] = 1

    @property
    def observation_bytes(self) -> int:
        """One bit a class."""
        return packed_bytes(self.num_classes)

    def valid(self, observations: Observations) -> bool:
        """Exactly k bits, all of them classes."""
        return bool((set_sizes(observations) == self.size).all()) and no_padding(observations, self.num_classes)

    def _members(self, observations: Observations) -> npt.NDArray[np.uint8]:
        return unpack(observations, self.num_classes)

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """ε·[c ∈ subset]."""
        return self._members(observations) * np.float32(self.certificate().pure)

    def statistic(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """[class ∈ subset]."""
        return np.asarray(self._members(observations)[np.arange(len(observations)), classes], dtype=np.float64)

    def law(self) -> StatisticLaw:
        """A coin's; another class is in the subset with (P(k−1) + (2^64−P)k)/((C−1)·2^64)."""
        true = self.holds / WHOLE
        other = (self.holds * (self.size - 1) + (WHOLE - self.holds) * self.size) / ((self.num_classes - 1) * WHOLE)
        return StatisticLaw.coin(true, other)

    def probability_kept(self) -> float:
        """All k classes of the subset speak alike."""
        return self.holds / (WHOLE * self.size)

    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """In closed form for the uniform prior, by quadrature otherwise."""
        epsilon = self.certificate().pure
        if prior is None:
            return float(nats.subset_uniform(epsilon, self.num_classes, np.array(float(self.size))))
        pi = check_prior(prior, self.num_classes)
        _check_steps(self.num_classes, self.size)
        return float(nats.subset(epsilon, pi, self.size)[-1])

    def describe(self) -> str:
        """In a few words."""
        return (
            f"{self.size} of {self.num_classes} classes, the label among them with probability {self.holds / WHOLE:.4g}"
        )

    def parameters(self) -> dict[str, Any]:
        """The subset's size and the weight of "holds the true class"."""
        return {"size": self.size, "holds": str(self.holds), "holds_probability": self.holds / WHOLE}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> SubsetSelection:
        """From `size` and `holds`."""
        return cls(
            num_classes,
            check_word(parameters.get("size"), "size"),
            check_word(parameters.get("holds"), "holds"),
        )


def _best_size(epsilon: float, num_classes: int, prior: npt.ArrayLike | None) -> int:
    sizes = np.arange(1, num_classes)
    if prior is None or num_classes > _EVERY_SIZE:
        return int(sizes[np.argmax(nats.subset_uniform(epsilon, num_classes, sizes.astype(np.float64)))])
    return 1 + int(np.argmax(nats.subset(epsilon, check_prior(prior, num_classes), num_classes - 1)))


def _check_steps(num_classes: int, size: int) -> None:
    if num_classes * size > _MOST_STEPS:
        raise InputError(
            f"the information for a non-uniform prior is too much work at {num_classes:,} classes and subsets of {size:,}; "
            "leave out the prior."
        )
