"""Where a public prior comes from: the releases behind it, what they cost, and which rows its model did not train on.

A release with a prior is a function of the labels it releases *and* of those behind its prior, since the candidates are written into it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labeldp.mechanisms import Guarantee

UNKNOWN = "the public prior, of which nobody says where it comes from"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MOST = 1000


@dataclass(frozen=True)
class PriorOrigin:
    """releases    checksums of the releases that the prior's model was trained on, and of those behind their priors; none: nobody knows
    epsilon, delta  what these cost together, for any one label
    same_rows   whether some of the rows that are released now are among theirs, whose costs then add
    judge       the release whose rows that model held out, with the numbers that say which
    """

    releases: tuple[str, ...] = ()
    epsilon: float = 0.0
    delta: float = 0.0
    same_rows: bool = False
    judge: str | None = None
    seed: int | None = None
    holdout: float | None = None
    select: str | None = None

    @property
    def known(self) -> bool:
        """Whether anything is said."""
        return bool(self.releases)

    def to_json(self) -> dict[str, Any]:
        """For a release's metadata."""
        return {**asdict(self), "releases": list(self.releases)}

    @classmethod
    def from_json(cls, data: Any) -> PriorOrigin | None:
        """The inverse; None for what is none (a release may be another party's)."""
        if not isinstance(data, dict) or set(data) != set(cls.__dataclass_fields__):
            return None
        releases = checksums(data["releases"])
        epsilon, delta = (number(data[name]) for name in ("epsilon", "delta"))
        if releases is None or epsilon is None or delta is None or not isinstance(data["same_rows"], bool):
            return None
        origin = cls(releases, epsilon, delta, data["same_rows"], **held_out(data))
        return origin if origin.to_json() == data else None


def checksums(value: Any) -> tuple[str, ...] | None:
    """A list of checksums, or None."""
    good = isinstance(value, list) and len(value) <= _MOST
    if not good or not all(isinstance(one, str) and _CHECKSUM.fullmatch(one) for one in value):
        return None
    return tuple(value)


def number(value: Any) -> float | None:
    """A number that can be an ε, a δ or a share, or None."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e6  # which NaN is not
    return float(value) if plain and value >= 0 and math.isfinite(value) else None


def held_out(data: dict[str, Any]) -> dict[str, Any]:
    """Which rows a model did not train on, as far as it is said in a usable way: all of it, or nothing."""
    judge, seed, holdout, select = (data.get(name) for name in ("judge", "seed", "holdout", "select"))
    usable = (
        isinstance(judge, str) and _CHECKSUM.fullmatch(judge) is not None
        and isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 1 << 63
        and number(holdout) is not None and select in ("last", "best")
    )  # fmt: skip
    return {"judge": judge, "seed": seed, "holdout": holdout, "select": select} if usable else {}


def with_origins(own: Guarantee, origins: Iterable[PriorOrigin], parts: Sequence[str] = ()) -> Guarantee:
    """What a release of guarantee `own`, or a join of the releases `parts`, promises when what is behind its priors counts too.

    A prior from releases that are all among the parts adds nothing: each label's own release has paid. Otherwise a label behind the prior
    has what the prior cost, and if it may be released here too, the sum.
    """
    epsilon, delta = own.epsilon, own.delta
    # Two priors from the same releases cost those once.
    counted = {
        frozenset(origin.releases): origin for origin in sorted(origins, key=lambda one: (one.epsilon, one.same_rows))
    }
    for releases, origin in counted.items():
        if not origin.known or releases <= set(parts):
            continue
        if origin.same_rows or len(parts) > 1:
            epsilon, delta = epsilon + origin.epsilon, delta + origin.delta
        else:
            epsilon, delta = max(epsilon, origin.epsilon), max(delta, origin.delta)
    return Guarantee(epsilon, delta)
