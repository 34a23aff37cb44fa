"""Making a release: checked, reserved, charged; drawn, complete, published; and only then visible.

    charged    the ledger has the cost, durably; no noise has been drawn
    complete   the private temporary file is whole and on the disk
    published  the ledger knows that the file may be seen; the rename follows
    delivered  the caller has it

Killed before `published`, the same command throws the temporary file away and draws again under the same charge: nobody saw the first draw.
Killed later, it only finishes the rename.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from labeldp.accounting.book import DataSet, ReleaseRecord
from labeldp.accounting.entries import COMPLETE, DELIVERED, LOST, PUBLISHED
from labeldp.accounting.filter import Request
from labeldp.accounting.ledger import BegunMeanwhileError, Ledger
from labeldp.entropy import Entropy
from labeldp.errors import AccountingError, InputError, LedgerError, LostReleaseError, UnfinishedError
from labeldp.files.atomic import explain, fill_and_place, open_private, reserve, sync_folder, temporary_beside
from labeldp.release.copies import check_out, copy_into, date_copies, intact
from labeldp.release.deliverable import Deliverable, Fill, Progress
from labeldp.release.source import Survey
from labeldp.requirements import check_requirements


@dataclass(frozen=True)
class Made:
    """A release as it lies in the ledger's folder, and how it came about."""

    path: Path
    record: ReleaseRecord
    data_set: DataSet
    charged_now: bool
    resumed: bool

    def followed(self, path: Path) -> AbstractContextManager[None]:
        """For what a command does after the release, on the way to `path`: if this command paid, whatever fails there says so."""
        return charged(self.record, path) if self.charged_now or self.resumed else nullcontext()


def make_release(
    order: Deliverable,
    *,
    ledger: Ledger,
    entropy: Entropy,
    again: str | None = None,
    out: Path | None = None,
    progress: Progress = lambda what, rows, of: None,
) -> Made:
    """Release what is ordered once, through the ledger; deliver to `out` if it is given.

    `progress` is told how far it is: the rows are read once to be checked, and once more to be released.
    """
    check_requirements()
    order.check()
    if out is not None:
        check_out(out, ledger)
    with ledger.lock(order.data_set) as scratch, _temporary(out, scratch) as out_temporary:
        stamp = order.current_stamp()
        delivered = intact(out) if out is not None else None

        def charge() -> tuple[Survey, ReleaseRecord | None, ReleaseRecord]:
            """What is there to release, the earlier release that it repeats or resumes, if it does, and the one that is charged."""
            book = ledger.book()
            survey = order.survey(book.key, scratch, lambda rows: progress("checking", rows, order.source.length))
            request = order.request(survey, book, ledger, entropy, again, delivered)
            earlier = _look(ledger, request)
            done = earlier is not None and earlier.reached(PUBLISHED)
            if out is not None and os.path.lexists(out) and not (earlier and done and delivered == earlier.checksum):
                raise InputError(f"{out} exists already and is another file; remove it or choose another `out`.")
            _reserve_room(0 if done else order.size(survey), scratch, out_temporary, order.shuffle)
            return survey, earlier, ledger.charge(request)

        try:
            survey, earlier, record = charge()
        except BegunMeanwhileError:  # the ledger has another key than the one that ids were hashed with
            survey, earlier, record = charge()
        path = ledger.copy_of(record)
        with charged(record, path):
            book = ledger.book()
            made_now = not record.reached(PUBLISHED)
            if made_now:
                header = order.header(survey, record, book)
                fill = order.drawing(header, survey, record, entropy, scratch, progress)
                checksum = _write(scratch / "release", fill)
                if order.source.stamp() != stamp:
                    raise InputError("the label file changed while it was being released.")
                record = _publish(ledger, record, scratch / "release", checksum)
            _finish_rename(record, path)
            if not made_now and intact(path) != record.checksum:
                raise LostReleaseError(f"{path} is not the file that was released: it was altered or damaged.")
            if out is not None and out_temporary is not None and delivered != record.checksum:
                fill_and_place(out_temporary, out, lambda file: copy_into(path, file))
            if not record.reached(DELIVERED):
                record = ledger.advance(record, DELIVERED)
            date_copies(ledger, record, out)
        resumed = earlier is not None and not earlier.reached(PUBLISHED)
        return Made(path, record, book.data_sets[order.data_set], charged_now=earlier is None, resumed=resumed)


@contextmanager
def charged(record: ReleaseRecord, path: Path) -> Iterator[None]:
    """For what follows a charge, up to the end of the command: what fails there (on the way to `path`) says that it is paid for."""
    try:
        yield
    except LostReleaseError:
        raise
    except (InputError, AccountingError, LedgerError, OSError) as error:
        what = explain(path, error) if isinstance(error, OSError) else error
        raise UnfinishedError(
            f"{what} The release is charged (entry {record.number}): the same command finishes it, and nothing more is charged."
        ) from None


def check_release(order: Deliverable, *, ledger: Ledger, entropy: Entropy, again: str | None = None) -> None:
    """Raise what `make_release` would raise now; for those who put much work into it first. Nothing is charged."""
    check_requirements()
    with ledger.lock(order.data_set) as scratch:
        book = ledger.book()
        ledger.look(order.request(order.survey(book.key, scratch), book, ledger, entropy, again))


@contextmanager
def _temporary(out: Path | None, scratch: Path) -> Iterator[Path | None]:
    """A name beside `out` for its unfinished copy. It is noted where the next holder of the lock finds it, should we be killed."""
    note = scratch.with_suffix(".unfinished")
    with suppress(OSError, ValueError):
        left = os.fsdecode(note.read_bytes())
        if left:
            Path(left).unlink(missing_ok=True)
    if out is None:
        yield None
        return
    temporary = temporary_beside(out.absolute())
    try:
        try:
            with open_private(note) as file:
                file.write(os.fsencode(temporary))
        except OSError as error:
            raise explain(note, error) from None
        yield temporary
    finally:
        for path in (temporary, note):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _look(ledger: Ledger, request: Request) -> ReleaseRecord | None:
    """The release that this request repeats or resumes. One whose file is lost is closed, if another is paid for."""
    earlier = ledger.look(request)
    if earlier is None or request.again is None or not earlier.reached(PUBLISHED) or earlier.reached(DELIVERED):
        return earlier
    copy = ledger.copy_of(earlier)
    if earlier.checksum not in (intact(copy), intact(_partial(copy))):
        ledger.advance(earlier, LOST)
        return ledger.look(request)
    return earlier


def _reserve_room(size: int, scratch: Path, out_temporary: Path | None, shuffle: bool) -> None:
    """Claim the room that the release, its copy, and the buckets of a shuffle will take."""
    for path in (scratch / "release", out_temporary):
        if path is not None:
            _remove(path)
            reserve(path, size)
    if shuffle:
        reserve(scratch / "room", size)
        _remove(scratch / "room")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise explain(path, error, "removed") from None


def _write(path: Path, fill: Fill) -> str:
    """Fill the reserved private file, make it durable, return its checksum."""
    try:
        with path.open("r+b") as file:
            checksum = fill(file)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise explain(path, error) from None
    return checksum


def _publish(ledger: Ledger, record: ReleaseRecord, finished: Path, checksum: str) -> ReleaseRecord:
    """From a finished private file to a release that the ledger knows; the rename that makes it visible comes after."""
    os.replace(finished, _partial(ledger.copy_of(record)))
    sync_folder(ledger.folder)
    complete = ledger.advance(record, COMPLETE)
    # The checksum only now: that of a draw which is thrown away would be a second look at the labels.
    return ledger.advance(complete, PUBLISHED, checksum=checksum)


def _partial(copy: Path) -> Path:
    return copy.with_suffix(".partial")


def _finish_rename(record: ReleaseRecord, path: Path) -> None:
    if not path.exists():
        try:
            os.replace(_partial(path), path)
            sync_folder(path.parent)
        except FileNotFoundError:
            raise LostReleaseError(
                f"release {record.number} was published on {record.made}, but its file {path} is gone. Put it back from a backup or from "
                "whoever received it, or add `again='charge'` for a new one."
            ) from None
