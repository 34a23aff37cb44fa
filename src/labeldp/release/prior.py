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

from labeldp.accounting.book import DataSet, ReleaseRecord
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError, RefusedError
from labeldp.files.ids import AS_WRITTEN, find, is_id, repeated
from labeldp.files.predictions import read_predictions
from labeldp.mechanisms.candidates import Channels, most_informative, most_likely
from labeldp.mechanisms.prior import PriorAware
from labeldp.release.make import Observe
from labeldp.release.origin import PriorOrigin, checksums, held_out, number, shortened
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
        stamp = source.stamp()
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
        made = PriorAware.calibrated(epsilon=epsilon, num_classes=source.classes.count, channels=channels)

        def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
            return lambda labels, first: made.observe_given(labels, channels[first : first + len(labels)], entropy)

        return made, {
            "draw": draw,
            "behind": self.origin,
            # In the order of the source, which a shuffled release does not tell: for the ledger alone.
            "known_by": {"channels": channels.digest(), "public_prior": self.claimed().to_json()},
            "stamp": stamp,
        }

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
