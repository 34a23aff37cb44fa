"""Making a release: checked, reserved, charged; drawn, complete, published; and only then visible.

    charged    the ledger has the cost, durably; no noise has been drawn
    complete   the private temporary file is whole and on the disk
    published  the ledger knows that the file may be seen; the rename follows
    delivered  the caller has it

Killed before `published`, the same command throws the temporary file away and draws again under the same charge: nobody saw the first draw.
Killed later, it only finishes the rename.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa

from labeldp.accounting.book import COMPLETE, DELIVERED, LOST, PUBLISHED, DataSet, ReleaseRecord
from labeldp.accounting.filter import Request, check_name
from labeldp.accounting.ledger import BegunMeanwhileError, Ledger
from labeldp.entropy import Entropy
from labeldp.errors import AccountingError, InputError, LedgerError, LostReleaseError, UnfinishedError
from labeldp.files.atomic import (
    explain,
    fill_and_place,
    look_up,
    open_private,
    place_file,
    reserve,
    sync_folder,
    temporary_beside,
)
from labeldp.mechanisms import Mechanism, RowMechanism
from labeldp.mechanisms.base import Observations, row_wise
from labeldp.private import PrivateLabels
from labeldp.provenance import date_files
from labeldp.release import format as files
from labeldp.release.origin import PriorOrigin
from labeldp.release.rows import Positions, Selection
from labeldp.release.shuffle import Part, shuffled
from labeldp.release.source import Source, Survey
from labeldp.release.statement import check_statable, header_for, request_for
from labeldp.requirements import check_requirements

# From some rows' labels, and the position of the first in the release, to what is observed of them.
Observe: TypeAlias = Callable[[PrivateLabels, int], Observations]

Draw: TypeAlias = Callable[[Entropy, ReleaseRecord], Observe]

Progress: TypeAlias = Callable[[str, int, int | None], None]  # what is being done, rows so far, rows in all if known

_PIECE_BYTES = 1 << 24
_METADATA_BYTES = 1 << 20  # room for footers and row-group headers, beside the rows themselves


@dataclass(frozen=True)
class Made:
    """A release as it lies in the ledger's folder, and how it came about."""

    path: Path
    record: ReleaseRecord
    data_set: DataSet
    charged_now: bool
    resumed: bool


def make_release(
    source: Source,
    mechanism: Mechanism,
    *,
    data_set: str,
    ledger: Ledger,
    entropy: Entropy,
    again: str | None = None,
    shuffle: bool = False,
    selected: Selection | tuple[int, int] | None = None,
    out: Path | None = None,
    draw: Draw | None = None,
    about: dict[str, Any] | None = None,
    known_by: dict[str, Any] | None = None,
    behind: Callable[[DataSet, ReleaseRecord], PriorOrigin] | None = None,
    asked: float = 0.0,
    stamp: tuple[int, ...] | None = None,
    progress: Progress = lambda what, rows, of: None,
) -> Made:
    """Release the source's labels (of rows `selected`) once, through the ledger; deliver to `out` if it is given.

    draw      for mechanisms that need more than labels: once everything is charged it returns how to observe rows
    about     what else the file says; a request with another is another request
    known_by  what else makes this request this one, and is said to the ledger alone
    behind    what is behind the public prior of its rows, by the ledger at the time of the charge
    asked     the pure ε that was asked for: a new data set's cap, where no budget is given
    stamp     the source's, when `draw` was prepared from it
    progress  is told how far it is: the rows are read once to be checked, and once more to be released
    """
    check_requirements()
    draw = draw or _by_row(row_wise(mechanism))
    check_name(data_set)
    if shuffle and source.id_column is None:
        raise InputError("shuffled rows can only be found again by an id: `shuffle` needs `id_column`.")
    if out is not None:
        _check_out(out, ledger)
    with ledger.lock(data_set) as scratch, _temporary(out, scratch) as out_temporary:
        if stamp is not None and stamp != source.stamp():
            raise InputError("the label file changed while its release was being prepared. Nothing was charged.")
        stamp = source.stamp()
        delivered = _stated(out) if out is not None else None

        def charge() -> tuple[Survey, ReleaseRecord | None, ReleaseRecord]:
            """What is there to release, the earlier release that it repeats or resumes, if it does, and the one that is charged."""
            book = ledger.book()
            survey = source.survey(
                book.key, folder=scratch, scratch=scratch, selected=selected,
                progress=lambda rows: progress("checking", rows, source.length),
            )  # fmt: skip
            request = request_for(
                source, mechanism, survey, data_set, entropy, again, shuffle, delivered, about, known_by, asked, ledger.other_ids,
                book.ledger,
            )  # fmt: skip
            check_statable(source, mechanism, survey, data_set, shuffle)
            earlier = _look(ledger, request)
            done = earlier is not None and earlier.reached(PUBLISHED)
            if out is not None and os.path.lexists(out) and not (earlier and done and delivered == earlier.checksum):
                raise InputError(f"{out} exists already and is another file; remove it or choose another `out`.")
            _reserve_room(0 if done else _size(survey, mechanism), scratch, out_temporary, shuffle)
            return survey, earlier, ledger.charge(request)

        try:
            survey, earlier, record = charge()
        except BegunMeanwhileError:  # the ledger has another key than the one that ids were hashed with
            survey, earlier, record = charge()
        done = earlier is not None and earlier.reached(PUBLISHED)
        with charged(record, ledger.kept(record)):
            book = ledger.book()
            made = Made(
                ledger.kept(record), record, book.data_sets[data_set], charged_now=earlier is None,
                resumed=earlier is not None and not done,
            )  # fmt: skip
            if not record.reached(PUBLISHED):
                if behind is not None:
                    about = {**(about or {}), "public_prior": behind(made.data_set, record).to_json()}
                header = header_for(
                    source, mechanism, survey, record, made.data_set.budget_json(), book.ledger, shuffle, about
                )
                observe = draw(entropy, record)
                parts = _observed(source, survey, observe, mechanism.observation_bytes, progress)
                if shuffle:
                    parts = shuffled(parts, len(record.rows), entropy, scratch / "buckets")
                checksum = _write(scratch / "release", header, mechanism, survey.id_type, parts)
                if source.stamp() != stamp:
                    raise InputError("the label file changed while it was being released.")
                _publish(ledger, made, scratch / "release", checksum)
            _finish_rename(made)
            if out is not None and out_temporary is not None and delivered != record.checksum:
                fill_and_place(out_temporary, out, lambda file: _copy(made.path, file))
            if not record.reached(DELIVERED):
                ledger.advance(record, DELIVERED)
            _date(ledger, record, out)
        return made


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


def check_release(
    source: Source, mechanism: Mechanism, *, data_set: str, ledger: Ledger, entropy: Entropy, again: str | None = None,
    selected: Selection | tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Raise what `make_release` would raise now; for those who put much work into it first. Nothing is charged."""
    check_requirements()
    check_name(data_set)
    with ledger.lock(data_set) as scratch:
        book = ledger.book()
        survey = source.survey(book.key, folder=scratch, scratch=scratch, selected=selected)
        request = request_for(
            source, mechanism, survey, data_set, entropy, again, False, None, other_ids=ledger.other_ids, ledger=book.ledger,
        )  # fmt: skip
        check_statable(source, mechanism, survey, data_set, False)
        ledger.look(request)


def fetch(ledger: Ledger, number: int, out: Path) -> bool:
    """Write the ledger's copy of a release that was published before. False if it is there already, byte for byte."""
    record = ledger.book().releases.get(number)
    if record is None or not record.reached(PUBLISHED):
        raise InputError(f"{ledger.path} has no finished release {number}; `labeldp ledger show` lists them.")
    _check_out(out, ledger)
    if look_up(out) and _stated(out) != record.checksum:
        raise InputError(f"{out} exists already and is another file; remove it or choose another `out`.")
    if _stated(ledger.kept(record)) != record.checksum:
        raise LedgerError(f"{ledger.kept(record)} is missing or was altered.")
    if look_up(out) and filecmp.cmp(out, ledger.kept(record), shallow=False):
        return False
    place_file(out, lambda file: _copy(ledger.kept(record), file))
    _date(ledger, record, out)
    return True


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
    kept = ledger.kept(earlier)
    if earlier.checksum not in (_stated(kept), _stated(_partial(kept))):
        ledger.advance(earlier, LOST)
        return ledger.look(request)
    return earlier


def _reserve_room(size: int, scratch: Path, out_temporary: Path | None, shuffle: bool) -> None:
    """Claim the room that the release, its copy, and the buckets of a shuffle will take."""
    for path in (scratch / "release", out_temporary):
        if path is not None:
            path.unlink(missing_ok=True)
            reserve(path, size)
    if shuffle:
        reserve(scratch / "room", size)
        try:
            (scratch / "room").unlink()
        except OSError as error:
            raise explain(scratch / "room", error, "removed") from None


def _size(survey: Survey, mechanism: Mechanism) -> int:
    """The uncompressed size of the file."""
    return len(survey.rows) * (mechanism.observation_bytes + 8) + survey.id_bytes + _METADATA_BYTES


def _check_out(out: Path, ledger: Ledger) -> None:
    if ledger.folder in (out.parent.resolve(), *out.parent.resolve().parents):
        raise InputError(f"{ledger.folder} belongs to the ledger; choose another place for the release.")
    if look_up(out) and out.is_dir():
        raise InputError(f"{out} is a directory; name a file for the release.")
    if not (look_up(out.parent) and out.parent.is_dir()):
        raise InputError(f"there is no directory {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"no permission to write into {out.parent}.")


def _stated(path: Path) -> str | None:
    return files.stated_checksum(path) if path.is_file() else None


def _write(path: Path, header: dict[str, Any], mechanism: Mechanism, id_type: Any | None, parts: Iterable[Part]) -> str:
    """Fill the reserved private file, make it durable, return its checksum."""
    try:
        with path.open("r+b") as file:
            writer = files.Writer(file, header, mechanism, id_type)
            try:
                for ids, observations in parts:
                    writer.write(ids, observations)
                checksum = writer.close()
            except BaseException:
                writer.abandon()
                raise
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise explain(path, error) from None
    return checksum


def _publish(ledger: Ledger, made: Made, finished: Path, checksum: str) -> None:
    """From a finished private file to a release that the ledger knows; the rename that makes it visible comes after."""
    os.replace(finished, _partial(made.path))
    sync_folder(ledger.folder)
    ledger.advance(made.record, COMPLETE)
    # The checksum only now: that of a draw which is thrown away would be a second look at the labels.
    ledger.advance(made.record, PUBLISHED, checksum=checksum)


def _partial(kept: Path) -> Path:
    return kept.with_suffix(".partial")


def _by_row(mechanism: RowMechanism) -> Draw:
    return lambda entropy, record: lambda labels, first: mechanism.observe_uncharged(labels, entropy)


def _observed(source: Source, survey: Survey, observe: Observe, width: int, progress: Progress) -> Iterator[Part]:
    """Ids and observations, piece by piece."""
    row = done = 0
    # Observations may be far wider than labels: what is held at a time is bounded by their bytes.
    step = max(1, _PIECE_BYTES // width)
    for batch in source.batches():
        chosen = survey.selection.among(batch.ids, row, len(batch.labels))
        row += len(batch.labels)
        for start in range(0, len(chosen), step):
            piece = chosen[start : start + step]
            ids = None if batch.ids is None else _take(batch.ids, piece)
            yield ids, observe(batch.labels.take(piece), done)
            done += len(piece)
            progress("releasing", done, len(survey.rows))


def _take(ids: Any, piece: Positions) -> Any:
    first, last = int(piece[0]), int(piece[-1])
    return ids[first : last + 1] if last - first + 1 == len(piece) else ids.take(pa.array(piece))


def _finish_rename(made: Made) -> None:
    if not made.path.exists():
        try:
            os.replace(_partial(made.path), made.path)
            sync_folder(made.path.parent)
        except FileNotFoundError:
            raise LostReleaseError(
                f"release {made.record.number} was published on {made.record.made}, but its file {made.path} is gone. Put it "
                "back from a backup or from whoever received it, or add `again='charge'` for a new one."
            ) from None
    if _stated(made.path) != made.record.checksum:
        raise LostReleaseError(f"{made.path} is not the file that was released: it was altered or damaged.")


def _date(ledger: Ledger, record: ReleaseRecord, out: Path | None) -> None:
    """Nothing that may be handed over has a finer time than the day of its charge. (The ledger has: backups must see that it changed.)"""
    with suppress(OSError):  # a file system that has no times to set is no reason to keep a release back
        date_files(ledger.folder.iterdir(), record.made, younger=True)
        date_files([] if out is None else [out], record.made)


def _copy(path: Path, file: IO[bytes]) -> None:
    with path.open("rb") as kept:
        shutil.copyfileobj(kept, file, 1 << 20)
