"""What is said about a release, to the ledger and in the file. Nothing here depends on a label."""

from __future__ import annotations

from typing import Any

import labeldp
from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.filter import Request
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.release.core import certificate_json
from labeldp.release.format import FORMAT, is_header
from labeldp.release.origin import PriorOrigin
from labeldp.release.source import Source, Survey


def request_for(
    source: Source, mechanism: Mechanism, survey: Survey, data_set: str, entropy: Entropy, again: str | None, shuffle: bool,
    delivered: str | None, about: dict[str, Any] | None = None, known_by: dict[str, Any] | None = None, asked: float = 0.0,
    other_ids: str | None = None, ledger: str | None = None,
) -> Request:  # fmt: skip
    """What the ledger is asked for; a request with the same details is the same request."""
    insecure = None if entropy.secure else "the noise comes from a known seed"
    if isinstance(mechanism, NoPrivacy):
        insecure = NoPrivacy.reason
    details = {
        "mechanism": mechanism.to_json(),
        "label": source.label_column,
        "label_names": list(source.classes.names) if source.classes.names else None,
        "shuffle": shuffle,
        "entropy": None if entropy.secure else repr(entropy),
    }
    if source.planting is not None:  # said only where it is so: requests of before stay the same requests
        details["planting"] = source.planting
    details |= {**(about or {}), **(known_by or {})}
    if isinstance(mechanism, NoPrivacy):
        return Request(
            data_set, survey.fingerprint, survey.rows, None, details, insecure, again, delivered=delivered,
            ids=survey.ids, other_ids=other_ids, ledger=ledger,
        )  # fmt: skip
    cost, delta = mechanism.certificate(), mechanism.guarantee().delta
    return Request(
        data_set, survey.fingerprint, survey.rows, cost, details, insecure, again, delta, delivered, 0.0 if cost.gaussian else asked,
        survey.ids, other_ids, ledger,
    )  # fmt: skip


def header_for(
    source: Source,
    mechanism: Mechanism,
    survey: Survey,
    record: ReleaseRecord,
    budget: dict[str, Any],
    ledger_id: str,
    shuffle: bool,
    about: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """All that a release says beside its rows."""
    return {
        "format": FORMAT,
        "labeldp": labeldp.__version__,
        "mechanism": mechanism.to_json(),
        "certificate": certificate_json(
            mechanism, record.insecure, origins_in(about)
        ),  # for readers; computed anew on loading
        "adjacency": "one label replaced",
        "trust": mechanism.trust,
        "label": source.label_column,
        "label_names": list(source.classes.names) if source.classes.names else None,
        "rows": len(survey.rows),
        "first_row": survey.first_row,
        "ids": None if source.id_column is None else {"column": source.id_column, "form": source.id_form},
        "shuffled": shuffle,
        "data_set": record.data_set,
        "insecure": record.insecure,
        "budget": budget,
        "made": record.made,
        "ledger": {"id": ledger_id, "entry": record.number, "head": record.head},
        **({"chosen_by_id": True} if survey.selection.by_id else {}),  # and so not one after the other in the source
        **(about or {}),
    }


def origins_in(about: dict[str, Any] | None) -> list[PriorOrigin]:
    """Of the public prior that a release is made with, if it is."""
    origin = PriorOrigin.from_json((about or {}).get("public_prior"))
    return [origin] if origin is not None else []


def check_statable(source: Source, mechanism: Mechanism, survey: Survey, data_set: str, shuffle: bool) -> None:
    """Whether a reader will accept what the file is going to say; asked before anything is charged for it."""
    record = ReleaseRecord(0, "draft", data_set, survey.rows, None, {}, None, "draft")
    budget: dict[str, Any] = {"caps": None, "publishable": None, "raised": []}
    if not is_header(header_for(source, mechanism, survey, record, budget, "draft", shuffle)):
        raise InputError("the names of the label and id columns must be printable text, and not empty.")
