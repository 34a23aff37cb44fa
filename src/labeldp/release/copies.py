"""The ledger's copies of its releases: handed out once more, and compared with what it recorded and what is out there."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.entries import DELIVERED, PUBLISHED
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.statement import broken_promise, published
from labeldp.errors import InputError, LedgerError, VerificationError
from labeldp.files.atomic import look_up, place_file
from labeldp.provenance import date_files
from labeldp.release.release import Description
from labeldp.release.sealed import read_sealed, statistic_name


def fetch(ledger: Ledger, number: int, out: Path) -> bool:
    """Write the ledger's copy of a release that was published before. False if it is there already, byte for byte."""
    record = ledger.book().releases.get(number)
    if record is None or not record.reached(PUBLISHED):
        raise InputError(f"{ledger.path} has no finished release {number}; `labeldp ledger show` lists them.")
    check_out(out, ledger)
    if look_up(out) and intact(out) != record.checksum:
        raise InputError(f"{out} exists already and is another file; remove it or choose another `out`.")
    copy = ledger.copy_of(record)
    if intact(copy) != record.checksum:
        raise LedgerError(f"{copy} is missing or was altered.")
    if look_up(out) and filecmp.cmp(out, copy, shallow=False):
        return False
    place_file(out, lambda file: copy_into(copy, file))
    date_copies(ledger, record, out)
    return True


def verify(ledger: Ledger, releases: Sequence[Path]) -> dict[str, Any]:
    """Check that the ledger is whole, its copies, each release file, and that its head is in the chain. Raises on the first fault."""
    entries = ledger.verify()
    book = ledger.book()
    for record in book.releases.values():
        copy = ledger.copy_of(record)
        if record.state == DELIVERED and intact(copy) != record.checksum:
            raise VerificationError(
                f"the ledger's copy of release {record.number}, {copy}, is not the file that was released: it was altered."
            )
    known = {entry.number: entry.hash for entry in entries}
    checked = []
    for path in releases:
        header, checksum = _read(path)
        told = header["ledger"]
        if told["id"] != book.ledger:
            raise VerificationError(
                f"{path} was released through another ledger ({told['id']}), not through {ledger.path}."
            )
        if told["entry"] not in known:
            raise VerificationError(
                f"{path} was released as entry {told['entry']}, but {ledger.path} ends at entry {len(entries)}: the ledger was "
                "rolled back (an old copy restored?), and what was spent since is missing."
            )
        if known[told["entry"]] != told["head"]:
            raise VerificationError(
                f"entry {told['entry']} of {ledger.path} is not the one that {path} was released as: rewritten."
            )
        recorded = book.releases.get(told["entry"])
        if recorded is None or recorded.checksum != checksum:
            raise VerificationError(f"{path} is not the file that {ledger.path} recorded as release {told['entry']}.")
        checked.append({"file": str(path), "entry": told["entry"], "checksum": checksum})
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


def check_out(out: Path, ledger: Ledger) -> None:
    """Whether a release can be written there."""
    if ledger.folder in (out.parent.resolve(), *out.parent.resolve().parents):
        raise InputError(f"{ledger.folder} belongs to the ledger; choose another place for the release.")
    if look_up(out) and out.is_dir():
        raise InputError(f"{out} is a directory; name a file for the release.")
    if not (look_up(out.parent) and out.parent.is_dir()):
        raise InputError(f"there is no directory {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"no permission to write into {out.parent}.")


def intact(path: Path) -> str | None:
    """The checksum of a release file whose content has it, read piece by piece; None where there is no file, or it was altered."""
    try:
        return _read(path)[1] if path.is_file() else None
    except InputError:
        return None


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """Header and checksum of a file of rows, or of a statistic, whose content has it."""
    if statistic_name(path) is not None:
        sealed = read_sealed(path)
        return sealed.header, sealed.checksum
    release = Description.read(path)
    return release.header, release.checksum


def date_copies(ledger: Ledger, record: ReleaseRecord, out: Path | None) -> None:
    """Nothing that may be handed over has a finer time than the day of its charge. (The ledger has: backups must see that it changed.)"""
    with suppress(OSError):  # a file system that has no times to set is no reason to keep a release back
        date_files(ledger.folder.iterdir(), record.made, younger=True)
        date_files([] if out is None else [out], record.made)


def copy_into(path: Path, file: IO[bytes]) -> None:
    """In bounded memory."""
    with path.open("rb") as copy:
        shutil.copyfileobj(copy, file, 1 << 20)
