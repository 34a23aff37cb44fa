"""Where a public prior comes from: the releases behind it, what they cost, and which rows its model did not train on.

A release with a prior is a function of the labels it releases *and* of those behind its prior, since the candidates are written into it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labeldp.mechanisms import Guarantee

GIVEN = "that whoever made the public prior knew of these labels only what this ledger had released"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MOST = 1000


@dataclass(frozen=True)
class PriorOrigin:
    """releases    checksums of the releases that the prior's model was trained on, as its file says, and of those behind their priors
    before      what the owner's ledger had released of this data set's ids by then: whatever the file says, all of it may be behind it
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
    before: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything is said."""
        return bool(self.releases)

    def to_json(self) -> dict[str, Any]:
        """For a release's metadata."""
        return {**asdict(self), "releases": list(self.releases), "before": list(self.before)}

    @classmethod
    def from_json(cls, data: Any) -> PriorOrigin | None:
        """The inverse; None for what is none (a release may be another party's)."""
        if not isinstance(data, dict) or {*data, "before"} != set(cls.__dataclass_fields__):
            return None
        data = {"before": [], **data}  # older files have what the prior said, and what the ledger knew of that
        releases, before = checksums(data["releases"]), checksums(data["before"])
        epsilon, delta = (number(data[name]) for name in ("epsilon", "delta"))
        if (
            releases is None
            or before is None
            or epsilon is None
            or delta is None
            or not isinstance(data["same_rows"], bool)
        ):
            return None
        origin = cls(releases, epsilon, delta, data["same_rows"], **held_out(data), before=before)
        return origin if origin.to_json() == data else None


def checksums(value: Any) -> tuple[str, ...] | None:
    """A list of checksums, or None."""
    good = isinstance(value, list) and len(value) <= _MOST
    if not good or not all(isinstance(one, str) and _CHECKSUM.fullmatch(one) for one in value):
        return None
    return tuple(value)


def shortened(names: Sequence[str]) -> tuple[str, ...]:
    """No more than a header holds. The rest are one digest, which is no release's name: nobody can have all of them."""
    if len(names) <= _MOST:
        return tuple(names)
    rest = hashlib.sha256("".join(names[_MOST - 1 :]).encode()).hexdigest()
    return (*names[: _MOST - 1], rest)


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

    Where all that can be behind a prior is among the parts, it adds nothing: each label's own release has paid. Otherwise a label behind
    the prior has what that cost, and if it may be released here too, the sum.
    """
    epsilon, delta = own.epsilon, own.delta
    # Two priors from the same releases cost those once.
    counted = {
        frozenset(origin.releases + origin.before): origin
        for origin in sorted(origins, key=lambda one: (one.epsilon, one.same_rows))
    }
    for releases, origin in counted.items():
        if releases and releases <= set(parts):  # what is behind must be named to be among them
            continue
        # Of the parts, all that had been released by then is counted in what is behind; one more is the release with this prior.
        if origin.same_rows or len(set(parts) - set(origin.before)) > 1:
            epsilon, delta = epsilon + origin.epsilon, delta + origin.delta
        else:
            epsilon, delta = max(epsilon, origin.epsilon), max(delta, origin.delta)
    return Guarantee(epsilon, delta)
