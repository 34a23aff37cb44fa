"""Is the ledger whole, and does it know every release that is out there?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeldp.accounting.book import DELIVERED
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.statement import broken_promise, published
from labeldp.errors import VerificationError
from labeldp.release.core import Description
from labeldp.release.format import stated_checksum


def verify(ledger: Ledger, releases: Sequence[Path]) -> dict[str, Any]:
    """Check that the ledger is whole, its copies, each release file, and that its head is in the chain. Raises on the first fault."""
    entries = ledger.verify()
    book = ledger.book()
    for kept in book.releases.values():
        if kept.state == DELIVERED and stated_checksum(ledger.kept(kept)) != kept.checksum:
            raise VerificationError(
                f"the ledger's copy of release {kept.number}, {ledger.kept(kept)}, is not the file that was released: it was altered."
            )
    known = {entry.number: entry.hash for entry in entries}
    checked = []
    for path in releases:
        release = Description.read(path)
        stated = release.header["ledger"]
        if stated["id"] != book.ledger:
            raise VerificationError(
                f"{path} was released through another ledger ({stated['id']}), not through {ledger.path}."
            )
        if stated["entry"] not in known:
            raise VerificationError(
                f"{path} was released as entry {stated['entry']}, but {ledger.path} ends at entry {len(entries)}: the ledger was "
                "rolled back (an old copy restored?), and what was spent since is missing."
            )
        if known[stated["entry"]] != stated["head"]:
            raise VerificationError(
                f"entry {stated['entry']} of {ledger.path} is not the one that {path} was released as: rewritten."
            )
        recorded = book.releases.get(stated["entry"])
        if recorded is None or recorded.checksum != release.checksum:
            raise VerificationError(f"{path} is not the file that {ledger.path} recorded as release {stated['entry']}.")
        checked.append({"file": str(path), "entry": stated["entry"], "checksum": release.checksum})
    for data_set in book.data_sets.values():
        broken = broken_promise(data_set)
        if broken is not None:
            raise VerificationError(f"{broken} What may be published is what they have paid (`labeldp ledger show`).")
    said = {data_set.name: published(data_set) for data_set in book.data_sets.values()}
    return {
        "ledger": str(ledger.path.absolute()),
        "entries": len(entries),
        "releases": checked,
        "published": said,
        "ok": True,
    }
