"""`Deliverable`: what is paid for through the ledger, and then written as one file that may be handed over.

An `Order` wants rows, a `labeldp.statistics.order.StatisticOrder` one statistic. `labeldp.release.make` takes both through the same states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import labeldp
from labeldp.accounting.book import Book, ReleaseRecord
from labeldp.accounting.cost import Cost
from labeldp.accounting.filter import Request, check_name
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.release.header import FORMAT, HandedOver
from labeldp.release.rows import Selection
from labeldp.release.source import Source, Survey

Progress: TypeAlias = Callable[[str, int, int | None], None]  # what is being done, rows so far, rows in all if known
Fill: TypeAlias = Callable[[IO[bytes]], str]  # writes into an open file, and returns the checksum


class Deliverable(ABC):
    """Something of the labels of a source, under the name by which the ledger knows them.

    about      what else the file says; what is wanted with another is another request
    known_by   what else makes this request this one, and is said to the ledger alone
    requested_epsilon  the pure ε that the user named: a new data set's cap, where no budget is given
    stamp      the source's, when this was prepared from it
    handed_over  is on the record, and no part of the request: the same again is the same, whoever gets it
    """

    source: Source
    data_set: str
    selected: Selection | tuple[int, int] | None
    about: Mapping[str, Any]
    known_by: Mapping[str, Any]
    requested_epsilon: float
    stamp: tuple[int, ...] | None
    handed_over: HandedOver
    shuffle: bool = False

    # ── what kinds of it differ in ──

    @abstractmethod
    def check(self) -> None:
        """Refuse, before anything is charged, what cannot be made."""

    @abstractmethod
    def cost(self) -> Cost | None:
        """What each row pays; None where nothing is protected."""

    @abstractmethod
    def delta(self) -> float:
        """At which its ε is stated."""

    @abstractmethod
    def unprotected(self) -> str | None:
        """Why nothing is protected, if it is so whatever the noise."""

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What, beside labels and noise, makes it what it is: `mechanism`, with its name, among it."""

    @abstractmethod
    def described(self, survey: Survey, record: ReleaseRecord, book: Book | None) -> dict[str, Any]:
        """What the file says that only this kind of file does; `book` is None for a draft, which nobody reads."""

    @abstractmethod
    def readable(self, header: dict[str, Any]) -> bool:
        """Whether a reader will accept this header."""

    @abstractmethod
    def size(self, survey: Survey) -> int:
        """How many bytes the file takes, at most."""

    @abstractmethod
    def drawing(
        self, header: dict[str, Any], survey: Survey, record: ReleaseRecord, entropy: Entropy, scratch: Path, progress: Progress
    ) -> Fill:  # fmt: skip
        """Once it is charged: what draws, and fills the file."""

    # ── what they have in common ──

    def _check_common(self) -> None:
        check_name(self.data_set)

    def current_stamp(self) -> tuple[int, ...]:
        """The source's; refused if it is another than the one that this was prepared from."""
        stamp = self.source.stamp()
        if self.stamp not in (None, stamp):
            raise InputError("the label file changed while its release was being prepared. Nothing was charged.")
        return stamp

    def survey(self, key: bytes, scratch: Path, progress: Callable[[int], None] = lambda rows: None) -> Survey:
        """Every row checked, and what is public about them; refused if no reader would accept a file of it."""
        survey = self.source.survey(key, folder=scratch, scratch=scratch, selected=self.selected, progress=progress)
        draft = ReleaseRecord(0, "draft", self.data_set, survey.rows, None, {}, None, "draft")
        if not self.readable(self._header(survey, draft, None)):
            raise InputError("the names of the label and id columns must be printable text, and not empty.")
        return survey

    def request(
        self, survey: Survey, book: Book, ledger: Ledger, entropy: Entropy, again: str | None, delivered: str | None = None
    ) -> Request:  # fmt: skip
        """What the ledger is asked for; a request with the same details is the same request."""
        cost = self.cost()
        return Request(
            self.data_set,
            survey.fingerprint,
            survey.rows,
            cost,
            self._identity(entropy),
            self.unprotected() or (None if entropy.secure else "the noise comes from a known seed"),
            again,
            self.delta(),
            delivered,
            0.0 if cost is None or cost.gaussian else self.requested_epsilon,
            survey.ids,
            ledger.other_ids,
            book.ledger,
            self.handed_over.to_json(),
        )

    def _identity(self, entropy: Entropy) -> dict[str, Any]:
        planting = self.source.planting
        return {
            "label": self.source.label_column,
            "label_names": self._label_names(),
            "entropy": None if entropy.secure else repr(entropy),
            **self.details(),
            # Said only where it is so: requests of before stay the same requests.
            **({"planting": planting} if planting is not None else {}),
            **self.about,
            **self.known_by,
        }

    def _label_names(self) -> list[str] | None:
        return list(self.source.classes.names) if self.source.classes.names else None

    def header(self, survey: Survey, record: ReleaseRecord, book: Book) -> dict[str, Any]:
        """All that the file says beside what was drawn, once it is charged."""
        return self._header(survey, record, book)

    def _header(self, survey: Survey, record: ReleaseRecord, book: Book | None) -> dict[str, Any]:
        source = self.source
        told = HandedOver.from_json(record.handed_over)
        return {
            "format": FORMAT,
            "labeldp": labeldp.__version__,
            "adjacency": "one label replaced",
            "label": source.label_column,
            "label_names": self._label_names(),
            "rows": len(survey.rows),
            "ids": None if source.id_column is None else {"column": source.id_column, "form": source.id_form},
            "data_set": record.data_set,
            "insecure": record.insecure,
            "budget": _NO_BUDGET if book is None else book.data_sets[self.data_set].budget_json(),
            "made": record.made,
            "ledger": {"id": "draft" if book is None else book.ledger, "entry": record.number, "head": record.head},
            # Rows that were chosen by id are not one after the other in the source.
            **({"chosen_by_id": True} if survey.selection.by_id else {}),
            **({"handed_over": told.to_json()} if told is not None else {}),
            **self.described(survey, record, book),
        }


_NO_BUDGET: dict[str, Any] = {"caps": None, "publishable": None, "raised": []}
