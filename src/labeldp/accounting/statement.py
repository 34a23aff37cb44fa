"""A ledger's contents for people and programs."""

from __future__ import annotations

from typing import Any

from labeldp.accounting.book import DataSet, ReleaseRecord
from labeldp.accounting.entries import ORIGINAL
from labeldp.accounting.filter import describe_caps
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.rows import RowNumbers
from labeldp.errors import InputError
from labeldp.wording import upward


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


def broken_promise(data_set: DataSet) -> str | None:
    """Where some label has paid more than the budget ever allowed (an older labeldp let ids be released under two names), or None."""
    if data_set.caps is None or data_set.spent().within(data_set.most_promised()):
        return None
    others = [peer.name for peer in data_set.peers()[1:] if any(r.cost is not None for r in peer.releases)]
    return (
        f"the budget of {data_set.name!r} is {describe_caps(data_set.most_promised())}, but ids of it were released in other data sets too "
        f"({', '.join(map(repr, others))}): some labels have paid {describe_caps(data_set.spent())}."
    )


def _data_set(data_set: DataSet) -> dict[str, Any]:
    spent, together = data_set.spent(), data_set.spent_if_same()
    text = f"none: unprotected for good ({data_set.unprotected})"
    if data_set.caps is not None:
        text = f"{describe_caps(data_set.caps)}; spent so far {describe_caps(spent)}\n  may be published: {published(data_set)}"
    broken = broken_promise(data_set)
    if broken is not None:
        text += f"\n  BROKEN: {broken}"
    return {
        "name": data_set.name,
        "rows": data_set.fingerprint.rows,
        "known_by": data_set.fingerprint.by,
        **data_set.budget_json(),
        "spent": spent.to_json(),
        "spent_if_same": together.to_json() if together is not None else None,
        "broken": broken,
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
        "handed_over": release.handed_over,
        "cost": release.cost.to_json() if release.cost else None,
        "cost_text": describe_caps(release.cost) if release.cost else "unbounded",
        "insecure": release.insecure,
        "state": release.state,
        "checksum": release.checksum,
        "handed_over": release.handed_over,
    }


def published(data_set: DataSet) -> str:
    """What may be said of every label of a data set: of all its releases, and of all others of the ledger that hold its ids."""
    if data_set.caps is None:
        return f"nothing: unprotected for good ({data_set.unprotected})"
    return promise_text(data_set.budget_json())


def promise_text(budget: dict[str, Any]) -> str:
    """The same from what a release's header says of its budget."""
    text = f"every label has {_promise(budget['publishable'])}"
    if budget.get("of") != "ids":  # as in older headers, which spoke of one name
        return f"{text}, under this name"
    if budget["groups"] != [ORIGINAL]:
        text += f", its ids being those of the group {' and '.join(map(repr, budget['groups']))}"
    together = budget["publishable_if_same"]
    if budget.get("unprotected_if_same") is not None:
        text += (
            "; if equal ids of all groups name the same people, nothing: some of them were released without protection"
        )
    elif together is not None:
        text += f"; if equal ids of all groups name the same people, {_promise(together)} so far"
    return text


def _promise(promise: dict[str, float]) -> str:
    if not promise["delta"]:
        return f"ε = {upward(promise['epsilon'], 6)} (pure label-DP)"
    return f"(ε, δ) = ({upward(promise['epsilon'], 6)}, {promise['delta']:g}) (label-DP)"
