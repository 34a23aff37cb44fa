"""`Statistic`: what the label owner computes of all labels at once, with noise that is added once; and the order for one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.accounting.book import Book, ReleaseRecord
from labeldp.accounting.cost import Cost
from labeldp.entropy import Entropy
from labeldp.errors import FileFormatError, InputError
from labeldp.files.atomic import place_file
from labeldp.files.ids import comparable, plain_ids, repeated
from labeldp.files.ours import our_file
from labeldp.mechanisms.base import Guarantee
from labeldp.private import PrivateLabels, unheard
from labeldp.release.deliverable import Deliverable, Fill, Progress
from labeldp.release.header import NOBODY_SAID, HandedOver
from labeldp.release.rows import Named, Selection, Span
from labeldp.release.sealed import Arrays, Sealed, as_arrays, is_sealed_header, read_sealed, shapes, write_sealed
from labeldp.release.source import Source, Survey

Places: TypeAlias = npt.NDArray[np.int64]
NO_FILE_SHOWS = "that its owner ran this, and how the noise was drawn: no file can show it"
_METADATA_BYTES = 1 << 20


class Statistic(ABC):
    """A statistic of known cost. Everything in it is public, and computed without a label."""

    name: ClassVar[str]
    num_classes: int

    @abstractmethod
    def certificate(self) -> Cost:
        """The proven cost for every label in it, from the numbers that the sampler uses."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The same as (ε, δ)."""

    @abstractmethod
    def describe(self) -> str:
        """What is handed over, in a few words."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Its name, and all that its certificate follows from."""

    @classmethod
    @abstractmethod
    def read(cls, sealed: Sealed) -> Statistic:
        """From a file that may be anybody's; an InputError, if it is none."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What its file holds, with zeros where the noisy numbers will be."""


class Gathering(Protocol):
    """Private: it has looked at labels."""

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Labels of some rows, and where each row is in the public file."""

    def finish(self, entropy: Entropy) -> Arrays:
        """With noise: what may leave."""


@dataclass(frozen=True)
class InOrder(Span):
    """All rows, one after the other: where nothing names them, only their number tells whether two files are of the same ones."""

    def check(self, found: int, count: int) -> None:
        """No more and no fewer."""
        if count != self.stop:
            raise InputError(
                f"there are {count:,} labels for {self.stop:,} public rows, which go by number: name rows by id to take some of them."
            )


@dataclass(frozen=True)
class PublicRows:
    """The rows of a public file (predictions, features), by id or in the order of the labels: a label for each, and no other, is used."""

    count: int
    ids: Any | None = field(default=None, repr=False)  # an Arrow array

    @classmethod
    def of(cls, count: int, ids: Any | None) -> PublicRows:
        """Checked: each row has an id of its own."""
        if ids is None:
            return cls(count)
        try:
            names = plain_ids(ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(np.asarray(ids)))
        except (pa.ArrowException, TypeError, ValueError):
            raise InputError("ids are whole numbers or texts, in a one-dimensional array.") from None
        names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        if len(names) != count:
            raise InputError(f"there are {count:,} rows and {len(names):,} ids.")
        if names.null_count:
            raise InputError(f"row {pc.index(pc.is_null(names), True).as_py()} of the public file has no id.")
        return cls(count, names)

    def selection(self, form: str) -> Selection:
        """Which rows of the label file are meant."""
        if self.ids is None:
            return InOrder(0, self.count)
        twice = repeated(self.ids, form)
        if twice is not None:
            raise InputError(
                f"row {twice[0]} of the public file has the same id as row {twice[1]}; ids must be unique."
            )
        return Named.of(self.ids)

    def in_one_order(self, form: str) -> tuple[Places, PublicRows]:
        """By id, so that files of the same rows in another order are the same to everybody: where each row was, and the rows."""
        self.selection(form)  # while rows are still where the file has them
        if self.ids is None:
            return np.arange(self.count), self
        order = pc.sort_indices(comparable(self.ids, form))
        return np.asarray(order.to_numpy(), dtype=np.int64), PublicRows(self.count, self.ids.take(order))

    def places(self, form: str) -> Callable[[Any | None, int, npt.NDArray[np.intp]], Places]:
        """From a batch of label rows (their ids, the number of the first, and which are meant) to rows of the public file."""
        if self.ids is None:
            return lambda ids, first, chosen: (first + chosen).astype(np.int64)
        names = comparable(self.ids, form)

        def find(ids: Any, first: int, chosen: npt.NDArray[np.intp]) -> Places:
            wanted = comparable(ids.take(pa.array(chosen)), form)
            return np.asarray(pc.index_in(wanted, value_set=names).to_numpy(zero_copy_only=False), dtype=np.int64)

        return find


@dataclass(frozen=True)
class StatisticOrder(Deliverable):
    """One statistic of the labels of a source, for the rows of a public file. See `Deliverable` for what is not said here.

    gathering  what looks at labels, once everything is charged
    """

    source: Source
    statistic: Statistic
    data_set: str
    rows: PublicRows
    gathering: Callable[[], Gathering]
    _: KW_ONLY
    about: Mapping[str, Any] = field(default_factory=dict)
    known_by: Mapping[str, Any] = field(default_factory=dict)
    requested_epsilon: float = 0.0
    stamp: tuple[int, ...] | None = None
    handed_over: HandedOver = NOBODY_SAID

    def __post_init__(self) -> None:
        self._check_common()
        if self.statistic.num_classes != self.source.classes.count:
            raise InputError(
                f"the public file is about {self.statistic.num_classes} classes, the labels about {self.source.classes.count}."
            )
        if self.rows.ids is not None and self.source.id_column is None:
            raise InputError("the public file names its rows by id: name the labels' column that does, `id_column`.")

    @property
    def selected(self) -> Selection:  # type: ignore[override]
        """The rows of the public file."""
        return self.rows.selection(self.source.id_form)

    def check(self) -> None:
        """Nothing more than what its parts have checked."""

    def cost(self) -> Cost:
        """The certificate."""
        return self.statistic.certificate()

    def delta(self) -> float:
        """At which its ε is stated."""
        return self.statistic.guarantee().delta

    def unprotected(self) -> None:
        """It always has noise."""

    def details(self) -> dict[str, Any]:
        """The statistic goes where a release has its mechanism."""
        return {"mechanism": self.statistic.to_json()}

    def described(self, survey: Survey, record: ReleaseRecord, book: Book | None) -> dict[str, Any]:
        """The statistic, its certificate, and which arrays there are."""
        return {
            "statistic": self.statistic.to_json(),
            "certificate": certificate_of(self.statistic, record.insecure),  # for readers; computed anew on loading
            "trust": "central",
            "arrays": shapes(self.statistic.arrays()),
            **self.about,
        }

    def readable(self, header: dict[str, Any]) -> bool:
        """By the reader of such files: what it would not take is refused now, and not once it is paid for."""
        if not is_sealed_header(header):
            return False
        self.statistic.read(Sealed(header, as_arrays(self.statistic.arrays()), ""))
        return True

    def size(self, survey: Survey) -> int:
        """Uncompressed."""
        return sum(one.nbytes for one in self.statistic.arrays().values()) + _METADATA_BYTES

    def drawing(
        self, header: dict[str, Any], survey: Survey, record: ReleaseRecord, entropy: Entropy, scratch: Path, progress: Progress
    ) -> Fill:  # fmt: skip
        """All labels are looked at, noise is drawn, and nothing else of them is kept."""

        def fill(file: IO[bytes]) -> str:
            gathering, place = self.gathering(), self.rows.places(self.source.id_form)
            row = done = 0
            with unheard():
                for batch in self.source.batches():
                    chosen = survey.selection.among(batch.ids, row, len(batch.labels))
                    if len(chosen):
                        gathering.add(batch.labels.take(chosen), place(batch.ids, row, chosen))
                    row, done = row + len(batch.labels), done + len(chosen)
                    progress("counting", done, len(survey.rows))
                arrays = gathering.finish(entropy)
            return write_sealed(file, header, arrays)

        return fill


def certificate_of(statistic: Statistic, insecure: str | None) -> dict[str, Any]:
    """(ε, δ) as JSON; null, with a word why, where nothing is guaranteed."""
    if insecure is not None:
        return {"epsilon": None, "delta": None, "reason": insecure}
    guarantee = statistic.guarantee()
    return {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "reason": None}


_File = TypeVar("_File", bound="StatisticFile")


class StatisticFile:
    """What every file of a statistic tells, whatever it holds; its certificate is computed anew."""

    plan: ClassVar[type[Statistic]]  # the kind of statistic that such a file holds
    noun: ClassVar[str]  # what it is called in a sentence
    statistic: Statistic

    @classmethod
    def load(cls: type[_File], path: str | os.PathLike[str]) -> _File:
        """From a file, perhaps another party's."""
        sealed = read_sealed(Path(path))
        if sealed.header["statistic"]["name"] != cls.plan.name:
            ours = our_file(Path(path))
            raise FileFormatError(f"{path} is {ours.words if ours else 'another statistic'}; it is no {cls.noun}.")
        try:
            file = cls(sealed, cls.plan.read(sealed))
            file._check()
        except InputError as error:
            raise FileFormatError(f"{path} is no {cls.noun} that labeldp makes: {str(error).rstrip('.')}.") from None
        return file

    def _check(self) -> None:
        """Whether its numbers can be such a statistic's; an InputError, if not. (Its description is, by now.)"""

    def __init__(self, sealed: Sealed, statistic: Statistic) -> None:
        """Use `load`."""
        self.header, self.checksum, self.statistic = sealed.header, sealed.checksum, statistic
        self._arrays = sealed.arrays
        names = self.header["label_names"]
        if names is not None and len(names) != statistic.num_classes:
            raise InputError(f"it names {len(names):,} classes and is of {statistic.num_classes:,}")
        budget = self.header["budget"]
        promises = [budget[name] for name in ("publishable", "publishable_if_same") if budget.get(name) is not None]
        paid = statistic.guarantee()
        if not paid.delta and any(one["epsilon"] < paid.epsilon * (1 - 1e-9) for one in promises):
            raise InputError("it promises less of all that was released of its data set than it alone has cost")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it once more."""
        place_file(Path(path), lambda file: write_sealed(file, self.header, self._arrays))

    @property
    def data_set(self) -> str:
        """The name under which the owner's ledger knows these labels."""
        return str(self.header["data_set"])

    @property
    def rows(self) -> int:
        """How many labels are in it."""
        return int(self.header["rows"])

    @property
    def insecure(self) -> str | None:
        """Why it protects nobody (a seeded generator), or None."""
        return self.header.get("insecure")

    @property
    def guarantee(self) -> Guarantee | None:
        """(ε, δ) of this one statistic; None where nothing is guaranteed."""
        return None if self.insecure else self.statistic.guarantee()

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called; numerals, if they have no names."""
        names = self.header["label_names"]
        return tuple(names) if names is not None else tuple(str(number) for number in range(self.statistic.num_classes))

    def certificate(self) -> dict[str, Any]:
        """(ε, δ) as JSON."""
        return certificate_of(self.statistic, self.insecure)

    def to_json(self) -> dict[str, Any]:
        """A summary."""
        return self.about()

    def about(self) -> dict[str, Any]:
        """A summary of all but the numbers."""
        return {
            "data_set": self.data_set,
            "label": self.header.get("label"),
            "rows": self.rows,
            "classes": list(self.class_names),
            "statistic": self.statistic.to_json(),
            "describes": self.statistic.describe(),
            "certificate": self.certificate(),
            "adjacency": self.header["adjacency"],
            "trust": "central",
            "insecure": self.insecure,
            "budget": self.header["budget"],
            "made": self.header["made"],
            "ledger": self.header["ledger"],
            "handed_over": self.header.get("handed_over"),
            "checksum": self.checksum,
            "given": NO_FILE_SHOWS,
        }
