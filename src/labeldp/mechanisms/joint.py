"""Several releases of different rows, read as one: a row's observation says which mechanism made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rows import highest
from labeldp.entropy import Entropy
from labeldp.errors import InputError, NoMomentsError
from labeldp.mechanisms.base import Guarantee, Mechanism, Observations
from labeldp.mechanisms.parts import Parts
from labeldp.private import Codes

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

    def _observe(self, codes: Codes, entropy: Entropy) -> NoReturn:
        raise InputError("a joint release is made of releases; it releases nothing itself.")

    # ── judging ──

    def judges(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """Rows of the first part that can: an estimate has one set of moments."""
        judge = next((number for number, part in enumerate(self.parts) if part.can_judge), len(self.parts))
        return np.asarray(observations[:, 0] == judge)

    def judging(self, observations: Observations) -> tuple[Mechanism, Observations]:
        """The part's own mechanism and observations."""
        found = list(self._unpacked(observations))
        if len(found) != 1 or not found[0][0].can_judge:
            raise NoMomentsError("these rows were released by mechanisms that cannot judge together.")
        return found[0][0], found[0][2]

    def score(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> NoReturn:
        """Only parts have one."""
        raise NoMomentsError("a joint release judges by one of its parts; see `judging`.")

    def score_law(self) -> NoReturn:
        """Only parts have one."""
        raise NoMomentsError("a joint release judges by one of its parts; see `judging`.")

    def kept(self) -> NoReturn:
        """Differs from row to row."""
        raise NoMomentsError("how often a row of a joint release keeps its label depends on its part.")

    # ── description ──

    def information(self, prior: npt.ArrayLike | None = None) -> NoReturn:
        """Differs from row to row."""
        raise InputError("what a row of a joint release carries depends on its part.")

    def describe(self) -> str:
        """In a few words."""
        return "; ".join(f"{part.name}: {part.describe()}" for part in self.parts)

    def parameters(self) -> dict[str, Any]:
        """The parts."""
        return {"parts": [part.to_json() for part in self.parts]}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> NoReturn:
        """A joint release is never a file."""
        raise InputError("a joint release is made of release files, and is no file itself.")
