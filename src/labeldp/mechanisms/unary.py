"""Symmetric unary encoding: one bit a class, each flipped by the same coin (basic RAPPOR)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import localcontext
from functools import lru_cache
from typing import Any, ClassVar

from labeldp.accounting.rounding import CONTEXT
from labeldp.entropy import Entropy
from labeldp.mechanisms.base import Observations, aimed_at, check_word
from labeldp.mechanisms.bits import no_padding, pack, packed_bytes, unpack
from labeldp.mechanisms.coordinates import Cells, Coordinatewise
from labeldp.mechanisms.table import WHOLE, Table
from labeldp.private import Codes, check_num_classes


@lru_cache(maxsize=16)
def _bit(keep: int) -> Table:
    return Table([keep, WHOLE - keep])


@dataclass(frozen=True)
class UnaryEncoding(Coordinatewise):
    """Each bit of the one-hot label is kept with probability `keep`/2^64 and flipped otherwise."""

    num_classes: int
    keep: int
    name: ClassVar[str] = "unary"
    levels: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_word(self.keep, "keep", low=WHOLE // 2)

    @classmethod
    def calibrated(cls, *, epsilon: float, num_classes: int) -> UnaryEncoding:
        """keep/(1 − keep) = e^{ε/2}, rounded down: two bits differ between two labels."""
        check_num_classes(num_classes)
        with localcontext(CONTEXT):
            e = (aimed_at(epsilon) / 2).exp()
            return cls(int(num_classes), int(WHOLE * (e / (1 + e))))

    def _table(self) -> Table:
        return _bit(self.keep)

    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        return pack(self._observe_cells(codes, entropy))

    def _cells(self, observations: Observations) -> Cells:
        return unpack(observations, self.num_classes)

    @property
    def observation_bytes(self) -> int:
        """One bit a class."""
        return packed_bytes(self.num_classes)

    def valid(self, observations: Observations) -> bool:
        """Any bits, all of them classes."""
        return no_padding(observations, self.num_classes)

    def describe(self) -> str:
        """In a few words."""
        return f"a bit for each class, kept with probability {self.keep / WHOLE:.4g}"

    def parameters(self) -> dict[str, Any]:
        """The weight of a bit that is kept."""
        return {"keep": str(self.keep), "keep_probability": self.keep / WHOLE}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> UnaryEncoding:
        """From `keep`."""
        return cls(num_classes, check_word(parameters.get("keep"), "keep"))
