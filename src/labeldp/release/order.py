"""`Order`: the rows that shall be released, of whom, and what is said of it. Nothing here depends on a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa

from labeldp.accounting.book import Book, DataSet, ReleaseRecord
from labeldp.accounting.cost import Cost
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.mechanisms.base import Observations, row_wise
from labeldp.private import PrivateLabels
from labeldp.release.deliverable import Deliverable, Fill, Progress
from labeldp.release.format import Writer, is_header
from labeldp.release.header import NOBODY_SAID, HandedOver
from labeldp.release.prior import PriorOrigin, PublicPrior
from labeldp.release.release import certificate_json
from labeldp.release.rows import Positions, Selection
from labeldp.release.shuffle import Part, shuffled
from labeldp.release.source import Source, Survey

# From some rows' labels, and the position of the first in the release, to what is observed of them.
Observe: TypeAlias = Callable[[PrivateLabels, int], Observations]

Draw: TypeAlias = Callable[[Entropy, ReleaseRecord], Observe]

_PIECE_BYTES = 1 << 24
_METADATA_BYTES = 1 << 20  # room for footers and row-group headers, beside the rows themselves


@dataclass(frozen=True)
class Order(Deliverable):
    """The labels of a source (of rows `selected`), through a mechanism. See `Deliverable` for what is not said here.

    shuffle    whether the rows are written in a random order
    behind     what is behind the public prior of its rows, by the ledger at the time of the charge
    draw       for mechanisms that need more than labels: once everything is charged it returns how to observe rows
    """

    source: Source
    mechanism: Mechanism
    data_set: str
    _: KW_ONLY
    selected: Selection | tuple[int, int] | None = None
    shuffle: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    known_by: Mapping[str, Any] = field(default_factory=dict)
    behind: Callable[[DataSet, ReleaseRecord], PriorOrigin] | None = None
    requested_epsilon: float = 0.0
    draw: Draw | None = None
    stamp: tuple[int, ...] | None = None
    handed_over: HandedOver = NOBODY_SAID

    def __post_init__(self) -> None:
        self._check_common()
        if self.shuffle and self.source.id_column is None:
            raise InputError("shuffled rows can only be found again by an id: `shuffle` needs `id_column`.")

    @classmethod
    def with_prior(
        cls,
        prior: PublicPrior,
        source: Source,
        data_set: str,
        *,
        epsilon: float,
        entropy: Entropy,
        mechanism: str | None = None,
        selected: Selection | None = None,
        shuffle: bool = False,
        handed_over: HandedOver = NOBODY_SAID,
    ) -> Order:
        """Each row through the channel of its own public prior, chosen here; labels are not looked at."""
        prior.refuse_insecure(entropy)
        stamp = source.stamp()
        aware, channels = prior.mechanism_for(source, selected, epsilon, mechanism)

        def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
            return lambda labels, first: aware.observe_given(labels, channels[first : first + len(labels)], entropy)

        # The channels in the order of the source, which a shuffled release does not tell: for the ledger alone.
        known_by = {"channels": channels.digest(), "public_prior": prior.claimed().to_json()}
        return cls(
            source, aware, data_set, selected=selected, shuffle=shuffle, known_by=known_by, behind=prior.origin,
            requested_epsilon=epsilon, draw=draw, stamp=stamp, handed_over=handed_over,
        )  # fmt: skip

    def check(self) -> None:
        """Refused where the mechanism needs more than labels, and nobody has said how."""
        if self.draw is None:
            row_wise(self.mechanism)

    def cost(self) -> Cost | None:
        """The mechanism's certificate."""
        return None if isinstance(self.mechanism, NoPrivacy) else self.mechanism.certificate()

    def delta(self) -> float:
        """The mechanism's."""
        return 0.0 if isinstance(self.mechanism, NoPrivacy) else self.mechanism.guarantee().delta

    def unprotected(self) -> str | None:
        """Plain labels are."""
        return NoPrivacy.reason if isinstance(self.mechanism, NoPrivacy) else None

    def details(self) -> dict[str, Any]:
        """Mechanism and order of the rows."""
        return {"mechanism": self.mechanism.to_json(), "shuffle": self.shuffle}

    def described(self, survey: Survey, record: ReleaseRecord, book: Book | None) -> dict[str, Any]:
        """Mechanism, certificate, and where the rows are."""
        about = dict(self.about)
        if self.behind is not None and book is not None:
            about["public_prior"] = self.behind(book.data_sets[self.data_set], record).to_json()
        return {
            "mechanism": self.mechanism.to_json(),
            "certificate": certificate_json(
                self.mechanism, record.insecure, origins_in(about)
            ),  # for readers; computed anew on loading
            "trust": self.mechanism.trust,
            "first_row": survey.first_row,
            "shuffled": self.shuffle,
            **about,
        }

    def readable(self, header: dict[str, Any]) -> bool:
        """By the reader of releases."""
        return is_header(header)

    def size(self, survey: Survey) -> int:
        """Uncompressed."""
        return len(survey.rows) * (self.mechanism.observation_bytes + 8) + survey.id_bytes + _METADATA_BYTES

    def drawing(
        self, header: dict[str, Any], survey: Survey, record: ReleaseRecord, entropy: Entropy, scratch: Path, progress: Progress
    ) -> Fill:  # fmt: skip
        """Row by row, in bounded memory."""
        parts = self._observed(survey, self._observing(entropy, record), progress)
        if self.shuffle:
            parts = shuffled(parts, len(record.rows), entropy, scratch / "buckets")

        def fill(file: IO[bytes]) -> str:
            writer = Writer(file, header, self.mechanism, survey.id_type)
            try:
                for ids, observations in parts:
                    writer.write(ids, observations)
                return writer.close()
            except BaseException:
                writer.abandon()
                raise

        return fill

    def _observing(self, entropy: Entropy, record: ReleaseRecord) -> Observe:
        if self.draw is not None:
            return self.draw(entropy, record)
        plain = row_wise(self.mechanism)
        return lambda labels, first: plain.observe_uncharged(labels, entropy)

    def _observed(self, survey: Survey, observe: Observe, progress: Progress) -> Iterator[Part]:
        """Ids and observations, piece by piece."""
        row = done = 0
        # Observations may be far wider than labels: what is held at a time is bounded by their bytes.
        step = max(1, _PIECE_BYTES // self.mechanism.observation_bytes)
        for batch in self.source.batches():
            chosen = survey.selection.among(batch.ids, row, len(batch.labels))
            row += len(batch.labels)
            for start in range(0, len(chosen), step):
                piece = chosen[start : start + step]
                ids = None if batch.ids is None else _take(batch.ids, piece)
                yield ids, observe(batch.labels.take(piece), done)
                done += len(piece)
                progress("releasing", done, len(survey.rows))


def _take(ids: Any, piece: Positions) -> Any:
    first, last = int(piece[0]), int(piece[-1])
    return ids[first : last + 1] if last - first + 1 == len(piece) else ids.take(pa.array(piece))


def origins_in(header: Mapping[str, Any]) -> list[PriorOrigin]:
    """Of the public prior that a release was made with, if it was."""
    origin = PriorOrigin.from_json(header.get("public_prior"))
    return [origin] if origin is not None else []
