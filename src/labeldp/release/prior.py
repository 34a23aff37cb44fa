"""A public prior for each row: class probabilities that were made without these labels, and the channel that each row gets by them.

The owner of the labels reads them from a file, which may be another party's. What the prior says is public, and decides how a label is
randomized; a prior that was computed from the labels themselves would give them away, whatever the noise.
What is behind it (releases, and what they cost) counts in the certificate of every release that is made with it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.accounting.book import DataSet, ReleaseRecord
from labeldp.entropy import Entropy
from labeldp.errors import InputError, RefusedError
from labeldp.files.ids import AS_WRITTEN, find, is_id, repeated
from labeldp.files.predictions import read_predictions
from labeldp.mechanisms import Guarantee
from labeldp.mechanisms.candidates import Channels, most_informative, most_likely
from labeldp.mechanisms.prior import PriorAware
from labeldp.release.rows import Selection
from labeldp.release.source import Source

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger


GIVEN = "that whoever made the public prior knew of these labels only what this ledger had released"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MOST = 1000


@dataclass(frozen=True)
class PriorOrigin:
    """Where a public prior comes from. A release with one is a function of the labels behind it too: candidates are written into it.

    releases    checksums of the releases that the prior's model was trained on, as its file says, and of those behind their priors
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


# What `--mechanism` means beside a public prior.
CHOICES: dict[str, Callable[[npt.NDArray[Any], float], Channels]] = {
    "subset": most_informative,
    "response": most_likely,
}
UNKNOWN_ORIGIN = (
    "nothing says where the probabilities in {} come from. They must not depend on the labels that are released with them, unless "
    "through an earlier release that was paid for."
)
ANOTHER_LEDGER = (
    "the model behind {} was trained on a release ({}…) that this ledger does not know: its rows may be among these, so what it says to "
    "have cost is added in the certificate."
)


@dataclass(frozen=True)
class PublicPrior:
    """Probabilities by id (an Arrow array of texts), or by row number where `ids` is None."""

    values: npt.NDArray[Any]
    ids: Any | None
    about: dict[str, Any]
    path: str = "the prior"

    @classmethod
    def read(cls, path: Path) -> PublicPrior:
        """As `labeldp predict` writes it."""
        read = read_predictions(path)
        ids = read.ids if read.about.get("named") is not False else None
        if read.ids is not None and ids is None and read.ids.to_pylist() != list(range(len(read.ids))):
            raise InputError(f"{path} goes by row number, but its rows are not those of a whole file in its order.")
        return cls.of(read.values, ids, read.about, str(path))

    @classmethod
    def of(
        cls, values: npt.NDArray[Any], ids: Any | None, about: dict[str, Any] | None = None, path: str = "the prior"
    ) -> PublicPrior:
        """From arrays."""
        if ids is not None:
            ids = pa.array(ids) if not isinstance(ids, pa.Array) else ids
            if not is_id(ids.type) or ids.null_count:
                raise InputError(f"the ids in {path} must be whole numbers or text, and none missing.")
            if repeated(ids, AS_WRITTEN) is not None:
                raise InputError(f"ids repeat in {path}: a row has one prior.")
        return cls(values, ids, about or {}, path)

    def refuse_insecure(self, entropy: Entropy) -> None:
        """A prior from a model that saw true labels, or labels under noise from a known seed, may hold them."""
        if self.about.get("insecure") is not None and entropy.secure:
            raise RefusedError(
                f"{self.path} comes from a model that is not protected (no privacy, or noise from a known seed, as it says): released "
                "rows would show it. Train that model from a release with privacy."
            )

    def warnings(self, ledger: Ledger) -> tuple[str, ...]:
        """What nobody but the owner can know."""
        if not self.claimed().known:
            return (UNKNOWN_ORIGIN.format(self.path),)
        known = {record.checksum for record in ledger.book().releases.values()}
        strange = [one for one in self.named_releases() if one not in known]
        return (ANOTHER_LEDGER.format(self.path, strange[0][:12]),) if strange else ()

    def mechanism_for(
        self, source: Source, selection: Selection | None, epsilon: float, mechanism: str | None
    ) -> tuple[PriorAware, Channels]:
        """The mechanism, and each row's channel in the order of the source. Labels are not looked at."""
        choose = self._choice(source, mechanism)
        chosen_by = None if selection is None else selection.in_form(source.id_form)
        parts, row = [], 0
        for batch in source.batches():
            count = len(batch.labels)
            chosen = np.arange(count) if chosen_by is None else chosen_by.among(batch.ids, row, count)
            if len(chosen):
                ids = None if batch.ids is None else batch.ids.take(pa.array(chosen))
                parts.append(choose(self.values[self._places(ids, chosen + row, source.id_form)], epsilon))
            row += count
        if not parts:
            raise InputError("none of the rows is to be released.")
        if self.ids is None and len(self.values) != row:
            raise InputError(
                f"{self.path} has {len(self.values):,} rows, the labels {row:,}: by row number they must be the same."
            )
        channels = Channels.concatenate(parts)
        return PriorAware.calibrated(epsilon=epsilon, num_classes=source.classes.count, channels=channels), channels

    def origin(self, data_set: DataSet, record: ReleaseRecord) -> PriorOrigin:
        """What can be behind the prior, by the owner's ledger: everything that it had released of this data set's ids.

        The file's own word can only add to that: releases that this ledger does not know may be of the same rows.
        """
        assert data_set.book is not None
        then = data_set.book.before(record.number).data_sets[data_set.name]
        earlier = then.releases_of(then.ids) if then.ids is not None else then.releases
        claimed, paid = self.claimed(), then.stated(then.spent())
        known = {one.checksum for one in data_set.book.releases.values()}
        return replace(
            claimed,
            epsilon=max(claimed.epsilon, paid["epsilon"]),
            delta=max(claimed.delta, paid["delta"]),
            same_rows=bool(then.releases_of(record.rows)) or any(one not in known for one in self.named_releases()),
            before=shortened([one.checksum for one in earlier if one.checksum is not None]),
        )

    def _choice(self, source: Source, mechanism: str | None) -> Callable[[npt.NDArray[Any], float], Channels]:
        name = mechanism or "subset"
        if name not in CHOICES:
            raise InputError(
                f"`public_prior` goes with `mechanism='subset'` (default: the most informative channel for each row's prior) or 'response' "
                f"(RRWithPrior); got {name!r}."
            )
        if self.values.ndim != 2 or self.values.shape[1] != source.classes.count:
            raise InputError(
                f"{self.path} has {self.values.shape[-1] if self.values.ndim else 0} probabilities a row; {source.classes.count} classes "
                "are declared."
            )
        return CHOICES[name]

    def named_releases(self) -> tuple[str, ...]:
        """The releases behind it, as the file says."""
        return checksums(self.about.get("releases")) or ()

    def claimed(self) -> PriorOrigin:
        """What the file says of itself."""
        certificate = self.about.get("certificate")
        stated = certificate if isinstance(certificate, dict) else {}
        epsilon, delta = (number(stated.get(name)) for name in ("epsilon", "delta"))
        if epsilon is None or delta is None:
            return PriorOrigin(**held_out(self.about))
        return PriorOrigin(self.named_releases(), epsilon, delta, **held_out(self.about))

    def _places(self, ids: Any | None, rows: npt.NDArray[np.intp], form: str) -> npt.NDArray[np.int64]:
        if (ids is None) != (self.ids is None):
            ours, theirs = ("by row number", "by id") if ids is None else ("by id", "by row number")
            raise InputError(
                f"the labels go {ours} and {self.path} {theirs}: have both by id (`labeldp predict --id`, `labeldp release --id`)."
            )
        if ids is None:
            places = rows.astype(np.int64)
            missing = places >= len(self.values)
        else:
            places = find(ids, self.ids, self.path, form, "of the labels")
            missing = places < 0
        if missing.any():
            raise InputError(
                f"row {int(rows[np.argmax(missing)])} has no probabilities in {self.path}; {int(missing.sum()):,} rows have "
                "none. Every row that is released with a prior needs one."
            )
        return places
