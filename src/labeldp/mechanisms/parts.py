"""Observations of several mechanisms in one table: a row's first byte says whose it is, the others are what that one emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.mechanisms.base import Mechanism, Observations


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

    def _unpacked(self, observations: Observations) -> Iterator[tuple[Mechanism, npt.NDArray[np.intp], Observations]]:
        """Each part that has rows here, with their positions and its own observations of them."""
        for number in self.numbers(observations):
            part = self.parts[number]
            rows = np.flatnonzero(observations[:, 0] == self.first_part + number)
            raw = np.ascontiguousarray(observations[rows, 1 : 1 + part.observation_bytes])
            if part.one_class:
                raw = raw.view(np.uint8 if part.observation_bytes == 1 else np.uint16).reshape(-1)
            yield part, rows, raw

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
            for part, rows, raw in self._unpacked(observations)
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
        for part, rows, raw in self._unpacked(observations):
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
        for part, rows, raw in self._unpacked(observations):
            table[rows] = what(part, raw)
        return table
