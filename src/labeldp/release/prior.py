"""A public prior for each row: class probabilities that were made without these labels, and the channel that each row gets by them.

The owner of the labels reads them from a file, which may be another party's. What the prior says is public, and decides how a label is
randomized; a prior that was computed from the labels themselves would give them away, whatever the noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.accounting.book import ReleaseRecord
from labeldp.entropy import Entropy
from labeldp.errors import InputError, RefusedError
from labeldp.mechanisms.candidates import most_informative, most_likely
from labeldp.mechanisms.channels import Channels
from labeldp.mechanisms.prior import PriorAware
from labeldp.release.make import Draw, Observe
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
        if read.ids is not None and ids is None and not np.array_equal(read.ids.to_numpy(), np.arange(len(read.ids))):
            raise InputError(f"{path} goes by row number, but its rows are not those of a whole file in its order.")
        return cls.of(read.values, ids, read.about, str(path))

    @classmethod
    def of(
        cls, values: npt.NDArray[Any], ids: Any | None, about: dict[str, Any] | None = None, path: str = "the prior"
    ) -> PublicPrior:
        """From arrays."""
        if ids is not None:
            ids = pc.cast(pa.array(ids), pa.large_string())
            if len(ids.unique()) != len(ids):
                raise InputError(f"ids repeat in {path}: a row has one prior.")
        return cls(values, ids, about or {}, path)

    def refuse_insecure(self, entropy: Entropy) -> None:
        """A prior from a model that saw true labels, or labels under noise from a known seed, may hold them."""
        reason = self.about.get("insecure")
        if reason is not None and entropy.secure:
            raise RefusedError(
                f"{self.path} comes from a model that is not protected ({str(reason)[:100]}): released rows would show it. Train "
                "that model from a release with privacy."
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What nobody but the owner can know."""
        return () if isinstance(self.about.get("release"), str) else (UNKNOWN_ORIGIN.format(self.path),)

    def channels(self, source: Source, selection: Selection | None, epsilon: float, mechanism: str | None) -> Channels:
        """What each released row gets, in their order. Labels are not looked at."""
        name = mechanism or "subset"
        if name not in CHOICES:
            raise InputError(
                f"--public-prior goes with --mechanism subset (default: the most informative channel for each row's prior) or response "
                f"(RRWithPrior); got {name!r}."
            )
        if self.values.ndim != 2 or self.values.shape[1] != source.classes.count:
            raise InputError(
                f"{self.path} has {self.values.shape[-1]} probabilities a row; {source.classes.count} classes are declared."
            )
        parts, row = [], 0
        for batch in source.batches():
            count = len(batch.labels)
            chosen = np.arange(count) if selection is None else selection.among(batch.ids, row, count)
            if len(chosen):
                parts.append(CHOICES[name](self.values[self._places(batch.ids, chosen, row)], epsilon))
            row += count
        if not parts:
            raise InputError("none of the rows is to be released.")
        return Channels.concatenate(parts)

    def prepared(
        self, source: Source, selection: Selection | None, epsilon: float, mechanism: str | None, entropy: Entropy
    ) -> tuple[PriorAware, Draw, dict[str, Any]]:
        """What `make_release` takes: the mechanism, how it draws, and what the release says about its prior."""
        self.refuse_insecure(entropy)
        channels = self.channels(source, selection, epsilon, mechanism)
        made = PriorAware.calibrated(epsilon=epsilon, num_classes=source.classes.count, channels=channels)

        def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
            return lambda labels, first: made.observe_given(labels, channels[first : first + len(labels)], entropy)

        return made, draw, self.said(channels)

    def _places(self, ids: Any | None, chosen: npt.NDArray[np.intp], first: int) -> npt.NDArray[np.int64]:
        if (ids is None) != (self.ids is None):
            ours, theirs = ("by row number", "by id") if ids is None else ("by id", "by row number")
            raise InputError(
                f"the labels go {ours} and {self.path} {theirs}: have both by id (labeldp predict --id, labeldp release --id)."
            )
        if ids is None:
            places = chosen.astype(np.int64) + first
            missing = places >= len(self.values)
        else:
            found = pc.index_in(pc.cast(ids.take(pa.array(chosen)), pa.large_string()), value_set=self.ids)
            missing = np.asarray(pc.is_null(found).to_numpy(zero_copy_only=False), dtype=bool)
            places = np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
        if missing.any():
            raise InputError(
                f"row {first + int(chosen[np.argmax(missing)])} has no probabilities in {self.path}; {int(missing.sum()):,} rows have "
                "none. Every row that is released with a prior needs one."
            )
        return places

    def said(self, channels: Channels) -> dict[str, Any]:
        """What the release says about its prior: which channels it led to, and the run it came from, if it says so."""
        origin = {
            "release": self.about.get("release") if _is_text(self.about.get("release")) else None,
            "seed": self.about.get("seed") if isinstance(self.about.get("seed"), int) else None,
            "holdout": self.about.get("holdout") if isinstance(self.about.get("holdout"), (int, float)) else None,
        }
        return {"public_prior": {"channels": channels.digest(), **json.loads(json.dumps(origin, allow_nan=False))}}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= 200
