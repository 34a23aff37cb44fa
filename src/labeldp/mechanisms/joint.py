"""Several releases of different rows, read as one: a row's observation says which mechanism made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rows import highest
from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee, Mechanism, Observations

# ----------------------------------------------------------------
# Observations of several mechanisms in one table: a row's first byte says whose it is, the others are what that one emitted.


class Parts(Mechanism):
    """Row by row one of `parts`, or none: bytes below `first_part` are rows of no part, which say nothing."""

    parts: tuple[Mechanism, ...]
    first_part: ClassVar[int] = 0
    valid_as_a_whole: ClassVar[bool] = True

    @property
    def observation_bytes(self) -> int:
        """The number of the part, and room for the widest."""
        return 1 + max(part.observation_bytes for part in self.parts)

    def packed(self, number: int, observations: Observations) -> npt.NDArray[np.uint8]:
        """Observations of one part as observations of the whole."""
        part = self.parts[number]
        packed = np.zeros((len(observations), self.observation_bytes), dtype=np.uint8)
        packed[:, 0] = self.first_part + number
        raw = np.ascontiguousarray(observations).view(np.uint8).reshape(len(observations), part.observation_bytes)
        packed[:, 1 : 1 + part.observation_bytes] = raw
        return packed

    def unpacked(self, observations: Observations) -> Iterator[tuple[Mechanism, npt.NDArray[np.intp], Observations]]:
        """Each part that has rows here, with their positions and its own observations of them."""
        for number in self.numbers(observations):
            part = self.parts[number]
            rows = np.flatnonzero(self.rows_of(number, observations))
            raw = np.ascontiguousarray(observations[rows, 1 : 1 + part.observation_bytes])
            if part.one_class:
                raw = raw.view(np.uint8 if part.observation_bytes == 1 else np.uint16).reshape(-1)
            yield part, rows, raw

    def rows_of(self, number: int, observations: Observations) -> npt.NDArray[np.bool_]:
        """Which of these are of one part."""
        return np.asarray(observations[:, 0] == self.first_part + number)

    def numbers(self, observations: Observations) -> list[int]:
        """The parts that have rows here."""
        found = np.flatnonzero(np.bincount(observations[:, 0], minlength=1)) - self.first_part
        return [int(number) for number in found if 0 <= number < len(self.parts)]

    def valid(self, observations: Observations) -> bool:
        """Of a part that there is, and valid there; bytes that nothing fills are 0."""
        if (observations[:, 0] >= self.first_part + len(self.parts)).any():
            return False
        if observations[observations[:, 0] < self.first_part, 1:].any():
            return False
        return all(
            part.valid(raw) and not observations[rows, 1 + part.observation_bytes :].any()
            for part, rows, raw in self.unpacked(observations)
        )

    def informative(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """As each part says."""
        return self._mask(observations, lambda part, raw: part.informative(raw))

    def valued(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """As each part says."""
        return self._mask(observations, lambda part, raw: part.valued(raw))

    def _mask(
        self, observations: Observations, what: Callable[[Mechanism, Observations], npt.NDArray[np.bool_]]
    ) -> npt.NDArray[np.bool_]:
        mask = np.zeros(len(observations), dtype=np.bool_)
        for part, rows, raw in self.unpacked(observations):
            mask[rows] = what(part, raw)
        return mask

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """As each part says; 0 for rows of none."""
        return self._each(observations, lambda part, raw: part.evidence(raw), 0.0)

    def values(self, observations: Observations) -> npt.NDArray[np.float32]:
        """As each part says; an equal share for every class in rows of none."""
        return self._each(observations, lambda part, raw: part.values(raw), 1 / self.num_classes)

    def _each(
        self, observations: Observations, what: Callable[[Mechanism, Observations], npt.NDArray[np.float32]], otherwise: float
    ) -> npt.NDArray[np.float32]:  # fmt: skip
        table = np.full((len(observations), self.num_classes), otherwise, dtype=np.float32)
        for part, rows, raw in self.unpacked(observations):
            table[rows] = what(part, raw)
        return table


_MOST_PARTS = 255


@dataclass(frozen=True)
class Joint(Parts):
    """Row by row one of `parts`: the first byte of an observation is the part's number, the others are what it emitted.

    Every label went through one of them, once. So a neighbour differs in one part's input only, and the cost is the dearest part's,
    also where a later part's channel was chosen by what earlier ones had released.
    """

    num_classes: int
    parts: tuple[Mechanism, ...]
    name: ClassVar[str] = "joint"
    not_by_row: ClassVar[str] = "a joint release is made of releases; it releases nothing itself."
    no_judge: ClassVar[str] = "these rows were released by mechanisms that cannot judge together."

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= _MOST_PARTS:
            raise InputError(f"from 1 to {_MOST_PARTS} releases can be joined; got {len(self.parts)}.")
        if any(part.num_classes != self.num_classes for part in self.parts):
            raise InputError("the releases have different numbers of classes.")
        if any(isinstance(part, Joint) for part in self.parts):
            raise InputError("these are joined already: join all releases at once.")
        if any(part.trust != "local" for part in self.parts):
            raise InputError(
                "answers of PATE's teachers, and a release that was selected, are made of all rows' labels, and cannot be joined with "
                "other releases."
            )

    # ── the promise ──

    def certificate(self) -> Cost:
        """The dearest part's."""
        cost = Cost()
        for part in self.parts:
            cost = highest(cost, part.certificate())
        return cost

    def guarantee(self) -> Guarantee:
        """Every label has the guarantee of its own part, so all have the weakest."""
        each = [part.guarantee() for part in self.parts]
        return Guarantee(max(one.epsilon for one in each), max(one.delta for one in each))

    # ── description ──

    def describe(self) -> str:
        """In a few words."""
        return "; ".join(f"{part.name}: {part.describe()}" for part in self.parts)

    def parameters(self) -> dict[str, Any]:
        """The parts."""
        return {"parts": [part.to_json() for part in self.parts]}
