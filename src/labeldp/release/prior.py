"""A public prior for each row: class probabilities that were made without these labels, and the channel that each row gets by them.

The owner of the labels reads them from a file, which may be another party's. What the prior says is public, and decides how a label is
randomized; a prior that was computed from the labels themselves would give them away, whatever the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError, RefusedError
from labeldp.mechanisms.candidates import most_informative, most_likely
from labeldp.mechanisms.channels import Channels
from labeldp.mechanisms.prior import PriorAware
from labeldp.release.core import Release
from labeldp.release.hashing import is_id
from labeldp.release.make import Observe
from labeldp.release.origin import PriorOrigin, checksums, held_out, number
from labeldp.release.probabilities import read_probabilities
from labeldp.release.rows import Selection
from labeldp.release.source import Source

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
    "the model behind {} was trained on a release ({}…) that this ledger does not know: its rows may be among these, so what it cost is "
    "added in the certificate."
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
        read = read_probabilities(path)
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
            ids = pc.cast(ids, pa.large_string())
            if len(ids.unique()) != len(ids):
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

    def prepared(
        self,
        source: Source,
        selection: Selection | None,
        epsilon: float,
        mechanism: str | None,
        entropy: Entropy,
        ledger: Ledger,
    ) -> tuple[PriorAware, dict[str, Any]]:
        """The mechanism, and what `make_release` takes beside it. Each row's channel is chosen here; labels are not looked at."""
        self.refuse_insecure(entropy)
        choose = self._choice(source, mechanism)
        stamp, origin = source.stamp(), _Behind(self, ledger)
        parts, row = [], 0
        for batch in source.batches():
            count = len(batch.labels)
            chosen = np.arange(count) if selection is None else selection.among(batch.ids, row, count)
            if len(chosen):
                ids = None if batch.ids is None else pc.cast(batch.ids.take(pa.array(chosen)), pa.large_string())
                parts.append(choose(self.values[self._places(ids, chosen + row)], epsilon))
                origin.note(chosen + row if ids is None else ids)
            row += count
        if not parts:
            raise InputError("none of the rows is to be released.")
        if self.ids is None and len(self.values) != row:
            raise InputError(
                f"{self.path} has {len(self.values):,} rows, the labels {row:,}: by row number they must be the same."
            )
        channels = Channels.concatenate(parts)
        made = PriorAware.calibrated(epsilon=epsilon, num_classes=source.classes.count, channels=channels)

        def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
            return lambda labels, first: made.observe_given(labels, channels[first : first + len(labels)], entropy)

        return made, {
            "draw": draw,
            "about": {"public_prior": origin.found().to_json()},
            # In the order of the source, which a shuffled release does not tell: for the ledger alone.
            "known_by": {"channels": channels.digest()},
            "stamp": stamp,
        }

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
        stated = certificate if isinstance(certificate, dict) and "given" not in certificate else {}
        epsilon, delta = (number(stated.get(name)) for name in ("epsilon", "delta"))
        if epsilon is None or delta is None:
            return PriorOrigin(**held_out(self.about))
        return PriorOrigin(self.named_releases(), epsilon, delta, **held_out(self.about))

    def _places(self, ids: Any | None, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        if (ids is None) != (self.ids is None):
            ours, theirs = ("by row number", "by id") if ids is None else ("by id", "by row number")
            raise InputError(
                f"the labels go {ours} and {self.path} {theirs}: have both by id (`labeldp predict --id`, `labeldp release --id`)."
            )
        if ids is None:
            places = rows.astype(np.int64)
            missing = places >= len(self.values)
        else:
            found = pc.index_in(ids, value_set=self.ids)
            missing = np.asarray(pc.is_null(found).to_numpy(zero_copy_only=False), dtype=bool)
            places = np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
        if missing.any():
            raise InputError(
                f"row {int(rows[np.argmax(missing)])} has no probabilities in {self.path}; {int(missing.sum()):,} rows have "
                "none. Every row that is released with a prior needs one."
            )
        return places


class _Behind:
    """The owner's own view of the releases behind a prior: what they really cost, and whether rows are released again."""

    def __init__(self, prior: PublicPrior, ledger: Ledger) -> None:
        self._claimed = prior.claimed()
        wanted = set(prior.named_releases())
        records = [record for record in ledger.book().releases.values() if record.checksum in wanted]
        self._known = [Release.load(ledger.kept(record)) for record in records if ledger.kept(record).is_file()]
        self._names = [_names(release) for release in self._known]
        # Of a release that this ledger does not know nobody here can tell whose labels it has: perhaps these.
        self._strange = bool(wanted - {release.checksum for release in self._known})
        self._same_rows = self._strange

    def note(self, rows: Any) -> None:
        """These are released now: ids, or row numbers."""
        rows = pa.array(rows).cast(pa.large_string())
        self._same_rows |= any(bool(pc.any(pc.is_in(rows, value_set=names)).as_py()) for names in self._names)

    def found(self) -> PriorOrigin:
        """What the file claims, or what the ledger knows, whichever is more."""
        each = [release.guarantee for release in self._known if release.guarantee is not None]
        if not each or (
            self._strange and not self._claimed.known
        ):  # what strange releases cost, only the file could say
            return replace(self._claimed, same_rows=self._same_rows)
        names = pa.concat_arrays(self._names)
        total = max if len(names.unique()) == len(names) else sum
        return replace(
            self._claimed,
            releases=self._claimed.releases or tuple(release.checksum for release in self._known),
            epsilon=max(self._claimed.epsilon, total(one.epsilon for one in each)),
            delta=max(self._claimed.delta, total(one.delta for one in each)),
            same_rows=self._same_rows,
        )


def _names(release: Release) -> Any:
    ids = release.arrow_ids if release.arrow_ids is not None else pa.array(release.ids)
    return ids.cast(pa.large_string())
