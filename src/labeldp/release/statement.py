"""What is said about a release, to the ledger and in the file. Nothing here depends on a label."""

from __future__ import annotations

from typing import Any

import labeldp
from labeldp.accounting.book import Book, ReleaseRecord
from labeldp.accounting.filter import Request
from labeldp.accounting.rows import shared_ids
from labeldp.entropy import Entropy
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.release.core import certificate_json
from labeldp.release.format import FORMAT
from labeldp.release.source import Source, Survey


def request_for(
    source: Source, mechanism: Mechanism, survey: Survey, data_set: str, entropy: Entropy, again: str | None, shuffle: bool,
    delivered: str | None,
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
    if isinstance(mechanism, NoPrivacy):
        return Request(data_set, survey.fingerprint, survey.rows, None, details, insecure, again, delivered=delivered)
    cost, delta = mechanism.certificate(), mechanism.guarantee().delta
    return Request(data_set, survey.fingerprint, survey.rows, cost, details, insecure, again, delta, delivered)


def header_for(
    source: Source, mechanism: Mechanism, survey: Survey, record: ReleaseRecord, book: Book, shuffle: bool
) -> dict[str, Any]:
    """All that a release says beside its rows."""
    return {
        "format": FORMAT,
        "labeldp": labeldp.__version__,
        "mechanism": mechanism.to_json(),
        "certificate": certificate_json(mechanism, record.insecure),  # for readers; computed anew on loading
        "adjacency": "one label replaced",
        "trust": "local",
        "label_names": list(source.classes.names) if source.classes.names else None,
        "rows": survey.stop - survey.start,
        "first_row": survey.start,
        "ids": None if source.id_column is None else {"column": source.id_column},
        "shuffled": shuffle,
        "data_set": record.data_set,
        "insecure": record.insecure,
        "budget": book.data_sets[record.data_set].budget_json(),
        "made": record.made,
        "ledger": {"id": book.ledger, "entry": record.number, "head": record.head},
    }


def familiar_ids(book: Book, request: Request) -> tuple[str, ...]:
    """Ids that the ledger knows from other data sets. They may be other people's; it cannot tell."""
    warnings = []
    for other in book.data_sets.values():
        shared = max((shared_ids(request.rows, r.rows) for r in other.releases), default=0)
        if other.name != request.data_set and shared:
            warnings.append(
                f"{shared:,} of these ids are known to the ledger from data set {other.name!r}. If they are the same people and the "
                "same labels, this spends outside that budget."
            )
    return tuple(warnings)
