"""`Order`: what shall be released of whom, and what is said of it, to the ledger and in the file. Nothing here depends on a label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import labeldp
from labeldp.accounting.book import Book, DataSet, ReleaseRecord
from labeldp.accounting.filter import Request, check_name
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.mechanisms.base import Observations, row_wise
from labeldp.private import PrivateLabels
from labeldp.release.format import FORMAT, is_header
from labeldp.release.prior import PriorOrigin, PublicPrior
from labeldp.release.release import certificate_json
from labeldp.release.rows import Selection
from labeldp.release.source import Source, Survey

# From some rows' labels, and the position of the first in the release, to what is observed of them.
Observe: TypeAlias = Callable[[PrivateLabels, int], Observations]

Draw: TypeAlias = Callable[[Entropy, ReleaseRecord], Observe]


@dataclass(frozen=True)
class Order:
    """The labels of a source (of rows `selected`), through a mechanism, under the name by which the ledger knows them.

    shuffle    whether the rows are written in a random order
    about      what else the file says; an order with another is another request
    known_by   what else makes this order this one, and is said to the ledger alone
    behind     what is behind the public prior of its rows, by the ledger at the time of the charge
    requested_epsilon  the pure ε that the user named: a new data set's cap, where no budget is given
    draw       for mechanisms that need more than labels: once everything is charged it returns how to observe rows
    stamp      the source's, when `draw` was prepared from it
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

    def __post_init__(self) -> None:
        check_name(self.data_set)
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
            requested_epsilon=epsilon, draw=draw, stamp=stamp,
        )  # fmt: skip

    def drawing(self) -> Draw:
        """How rows are observed; refused where the mechanism needs more than labels, and nobody has said how."""
        if self.draw is not None:
            return self.draw
        plain = row_wise(self.mechanism)
        return lambda entropy, record: lambda labels, first: plain.observe_uncharged(labels, entropy)

    def current_stamp(self) -> tuple[int, ...]:
        """The source's; refused if it is another than the one that the order was prepared from."""
        stamp = self.source.stamp()
        if self.stamp not in (None, stamp):
            raise InputError("the label file changed while its release was being prepared. Nothing was charged.")
        return stamp

    def survey(self, key: bytes, scratch: Path, progress: Callable[[int], None] = lambda rows: None) -> Survey:
        """Every row checked, and what is public about them; refused if no reader would accept a file of it."""
        survey = self.source.survey(key, folder=scratch, scratch=scratch, selected=self.selected, progress=progress)
        if not is_header(self._header(survey, _draft(self.data_set, survey), _NO_BUDGET, "draft", {})):
            raise InputError("the names of the label and id columns must be printable text, and not empty.")
        return survey

    # ── to the ledger ──

    def request(
        self, survey: Survey, book: Book, ledger: Ledger, entropy: Entropy, again: str | None, delivered: str | None = None
    ) -> Request:  # fmt: skip
        """What the ledger is asked for; a request with the same details is the same request."""
        plain = isinstance(self.mechanism, NoPrivacy)
        cost = None if plain else self.mechanism.certificate()
        return Request(
            self.data_set,
            survey.fingerprint,
            survey.rows,
            cost,
            self._details(entropy),
            self._insecure(entropy),
            again,
            0.0 if plain else self.mechanism.guarantee().delta,
            delivered,
            0.0 if cost is None or cost.gaussian else self.requested_epsilon,
            survey.ids,
            ledger.other_ids,
            book.ledger,
        )

    def _details(self, entropy: Entropy) -> dict[str, Any]:
        planting = self.source.planting
        return {
            "mechanism": self.mechanism.to_json(),
            "label": self.source.label_column,
            "label_names": self._label_names(),
            "shuffle": self.shuffle,
            "entropy": None if entropy.secure else repr(entropy),
            # Said only where it is so: requests of before stay the same requests.
            **({"planting": planting} if planting is not None else {}),
            **self.about,
            **self.known_by,
        }

    def _insecure(self, entropy: Entropy) -> str | None:
        if isinstance(self.mechanism, NoPrivacy):
            return NoPrivacy.reason
        return None if entropy.secure else "the noise comes from a known seed"

    def _label_names(self) -> list[str] | None:
        return list(self.source.classes.names) if self.source.classes.names else None

    # ── in the file ──

    def header(self, survey: Survey, record: ReleaseRecord, book: Book) -> dict[str, Any]:
        """All that a release says beside its rows, once it is charged."""
        data_set, about = book.data_sets[self.data_set], dict(self.about)
        if self.behind is not None:
            about["public_prior"] = self.behind(data_set, record).to_json()
        return self._header(survey, record, data_set.budget_json(), book.ledger, about)

    def _header(
        self, survey: Survey, record: ReleaseRecord, budget: dict[str, Any], ledger: str, about: Mapping[str, Any]
    ) -> dict[str, Any]:
        source, mechanism = self.source, self.mechanism
        certificate = certificate_json(mechanism, record.insecure, origins_in(about))
        return {
            "format": FORMAT,
            "labeldp": labeldp.__version__,
            "mechanism": mechanism.to_json(),
            "certificate": certificate,  # for readers; computed anew on loading
            "adjacency": "one label replaced",
            "trust": mechanism.trust,
            "label": source.label_column,
            "label_names": self._label_names(),
            "rows": len(survey.rows),
            "first_row": survey.first_row,
            "ids": None if source.id_column is None else {"column": source.id_column, "form": source.id_form},
            "shuffled": self.shuffle,
            "data_set": record.data_set,
            "insecure": record.insecure,
            "budget": budget,
            "made": record.made,
            "ledger": {"id": ledger, "entry": record.number, "head": record.head},
            **(
                {"chosen_by_id": True} if survey.selection.by_id else {}
            ),  # and so not one after the other in the source
            **about,
        }


_NO_BUDGET: dict[str, Any] = {"caps": None, "publishable": None, "raised": []}


def _draft(data_set: str, survey: Survey) -> ReleaseRecord:
    return ReleaseRecord(0, "draft", data_set, survey.rows, None, {}, None, "draft")


def origins_in(header: Mapping[str, Any]) -> list[PriorOrigin]:
    """Of the public prior that a release was made with, if it was."""
    origin = PriorOrigin.from_json(header.get("public_prior"))
    return [origin] if origin is not None else []
