"""A ledger's contents for people and programs."""

from __future__ import annotations

from typing import Any

from labeldp.accounting.book import DataSet, ReleaseRecord
from labeldp.accounting.filter import describe_caps
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.rows import RowNumbers
from labeldp.errors import InputError


def statement(ledger: Ledger, only: str | None = None) -> dict[str, Any]:
    """Data sets with budget, spending and releases, as `labeldp ledger show --json` prints them."""
    book = ledger.book()
    if only is not None and only not in book.data_sets:
        raise InputError(f"the ledger {ledger.path} knows no data set {only!r}.")
    chosen = [d for d in book.data_sets.values() if only in (None, d.name)]
    return {
        "ledger": str(ledger.path.absolute()),
        "id": book.ledger,
        "data_sets": [_data_set(d) for d in chosen],
    }


def budget_text(data_set: DataSet) -> str:
    """In a line: the caps, what is spent of them, and what may be published."""
    if data_set.caps is None:
        return f"none: the data set is unprotected for good ({data_set.unprotected})"
    spent = describe_caps(data_set.spent())
    return f"{describe_caps(data_set.caps)}, spent so far {spent}; may be published: {published(data_set)}"


def _data_set(data_set: DataSet) -> dict[str, Any]:
    spent = data_set.spent()
    text = f"none: unprotected for good ({data_set.unprotected})"
    if data_set.caps is not None:
        text = f"{describe_caps(data_set.caps)}; spent so far {describe_caps(spent)}\n  may be published: {published(data_set)}"
    return {
        "name": data_set.name,
        "rows": data_set.fingerprint.rows,
        "known_by": data_set.fingerprint.by,
        **data_set.budget_json(),
        "spent": spent.to_json(),
        "unprotected": data_set.unprotected,
        "text": text,
        "releases": [_release(r) for r in data_set.releases],
    }


def _release(release: ReleaseRecord) -> dict[str, Any]:
    rows = release.rows
    text = f"{rows.start:,} to {rows.stop - 1:,}" if isinstance(rows, RowNumbers) else f"{rows.count:,} ids"
    return {
        "entry": release.number,
        "made": release.made,
        "rows": rows.to_json(),
        "rows_text": text,
        "mechanism": release.request["mechanism"]["name"],
        "request": release.request,
        "cost": release.cost.to_json() if release.cost else None,
        "cost_text": describe_caps(release.cost) if release.cost else "unbounded",
        "insecure": release.insecure,
        "state": release.state,
        "checksum": release.checksum,
    }


def published(data_set: DataSet) -> str:
    """What may be said of all releases of a data set together."""
    promise = data_set.publishable()
    if promise is None:
        return f"nothing: unprotected for good ({data_set.unprotected})"
    if not promise["delta"]:
        return f"every label has ε = {promise['epsilon']:.6g} (pure label-DP)"
    return f"every label has (ε, δ) = ({promise['epsilon']:.6g}, {promise['delta']:g}) (label-DP)"
