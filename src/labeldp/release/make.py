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
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt

import labeldp
from labeldp.accounting.book import COMPLETE, DELIVERED, PUBLISHED, DataSet, ReleaseRecord
from labeldp.accounting.filter import Request
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.rows import RowIds, Rows
from labeldp.entropy import Entropy
from labeldp.errors import InputError, LedgerError
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.release import file as files
from labeldp.release.core import certificate_json
from labeldp.release.place import explain, fill_and_place, look_up, reserve, sync_folder, temporary_beside
from labeldp.release.shuffle import shuffled
from labeldp.release.source import Source, Survey

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
    selected: tuple[int, int] | None = None,
    out: Path | None = None,
) -> Made:
    """Release the source's labels (of rows `selected`) once, through the ledger; deliver to `out` if it is given."""
    if shuffle and source.id_column is None:
        raise InputError("shuffled rows can only be found again by an id: --shuffle needs --id.")
    if out is not None:
        _check_out(out)
    with ledger.lock(data_set) as scratch, _temporary(out, scratch) as out_temporary:
        _check_not_rolled_back(ledger)
        stamp = source.stamp()
        survey = source.survey(ledger.book().key, folder=ledger.folder, scratch=scratch, selected=selected)
        request = _request(source, mechanism, survey, data_set, entropy, again, shuffle)
        reserved = scratch / "release"
        try:
            earlier = ledger.look(request)
            done = earlier is not None and earlier.reached(PUBLISHED)
            if out is not None and look_up(out) and not (done and _stated(out) == (earlier and earlier.checksum)):
                raise InputError(f"{out} exists already and is another file; remove it or choose another --out.")
            size = 0 if done else _size(survey, mechanism)
            reserve(reserved, size)
            if shuffle:
                reserve(scratch / "room", size)
            if out_temporary is not None:
                reserve(out_temporary, size)
            record = ledger.charge(request)
        except BaseException:
            _drop_unused_ids(ledger, survey.rows)
            raise
        made = Made(
            ledger.folder / f"{record.number}-{record.head[:16]}.parquet", record, ledger.book().data_sets[data_set],
            charged_now=earlier is None, resumed=earlier is not None and not done,
        )  # fmt: skip
        partial = made.path.with_suffix(".partial")
        if not record.reached(PUBLISHED):
            os.replace(reserved, partial)
            (scratch / "room").unlink(missing_ok=True)
            checksum = _draw(partial, source, mechanism, survey, made, ledger, entropy, shuffle, scratch)
            if source.stamp() != stamp:
                raise InputError("the label file changed while it was being released; run the same command again.")
            ledger.advance(record, COMPLETE, checksum=checksum)
            ledger.advance(record, PUBLISHED)
        _finish_rename(partial, made)
        if out is not None and out_temporary is not None:
            _deliver(made, out_temporary, out)
        if not record.reached(DELIVERED):
            ledger.advance(record, DELIVERED)
        return made


@contextmanager
def _temporary(out: Path | None, scratch: Path) -> Iterator[Path | None]:
    """A name beside `out` for its unfinished copy. It is noted where the next holder of the lock finds it, should we be killed."""
    note = scratch.with_suffix(".unfinished")
    if note.exists():
        Path(os.fsdecode(note.read_bytes())).unlink(missing_ok=True)
        note.unlink()
    if out is None:
        yield None
        return
    temporary = temporary_beside(out.absolute())
    try:
        note.write_bytes(os.fsencode(temporary))
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        note.unlink(missing_ok=True)


def _check_not_rolled_back(ledger: Ledger) -> None:
    """A release in the ledger's folder that the ledger does not know: an old copy was put back, and spending is missing."""
    known = {f"{r.number}-{r.head[:16]}" for r in ledger.book().releases.values()}
    for path in ledger.folder.glob("*.parquet"):
        if path.stem not in known:
            raise LedgerError(
                f"{path} was released through {ledger.path}, which does not know it: the ledger was rolled back to an old "
                "copy, and what was spent since is missing from it. Put the newer copy back. Nothing was charged."
            )


def _drop_unused_ids(ledger: Ledger, rows: Rows) -> None:
    """The sorted ids of a request that was refused are of no use."""
    if isinstance(rows, RowIds) and all(release.rows != rows for release in ledger.book().releases.values()):
        (rows.folder / f"ids-{rows.digest}.u64").unlink(missing_ok=True)


def _request(
    source: Source,
    mechanism: Mechanism,
    survey: Survey,
    data_set: str,
    entropy: Entropy,
    again: str | None,
    shuffle: bool,
) -> Request:
    secure = isinstance(mechanism, NoPrivacy) is False and entropy.secure
    insecure = None
    if not secure:
        insecure = NoPrivacy.reason if isinstance(mechanism, NoPrivacy) else "the noise comes from a known seed"
    details = {
        "mechanism": mechanism.to_json(),
        "label": source.label_column,
        "label_names": list(source.classes.names) if source.classes.names else None,
        "shuffle": shuffle,
        "entropy": None if entropy.secure else repr(entropy),
    }
    cost = None if isinstance(mechanism, NoPrivacy) else mechanism.certificate()
    return Request(data_set, survey.fingerprint, survey.rows, cost, details, insecure, again)


def _size(survey: Survey, mechanism: Mechanism) -> int:
    """The uncompressed size of the file."""
    rows = survey.stop - survey.start
    return rows * (mechanism.observation_bytes + 8) + survey.id_bytes + _METADATA_BYTES


def _check_out(out: Path) -> None:
    if look_up(out) and out.is_dir():
        raise InputError(f"{out} is a directory; name a file for the release.")
    if not (look_up(out.parent) and out.parent.is_dir()):
        raise InputError(f"there is no directory {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"no permission to write into {out.parent}.")


def _stated(path: Path) -> str | None:
    return files.stated_checksum(path) if path.is_file() else None


def _header(
    source: Source, mechanism: Mechanism, survey: Survey, made: Made, ledger_id: str, shuffle: bool
) -> dict[str, Any]:
    """All that a release says beside its rows. Nothing in it depends on a label."""
    record = made.record
    return {
        "format": files.FORMAT,
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
        "budget": made.data_set.budget_json(),
        "made": record.made,
        "ledger": {"id": ledger_id, "entry": record.number, "head": record.head},
    }


def _draw(
    partial: Path, source: Source, mechanism: Mechanism, survey: Survey, made: Made, ledger: Ledger, entropy: Entropy,
    shuffle: bool, scratch: Path,
) -> str:  # fmt: skip
    header = _header(source, mechanism, survey, made, ledger.book().ledger, shuffle)
    parts = _observed(source, mechanism, survey, entropy)
    if shuffle:
        parts = shuffled(parts, survey.stop - survey.start, entropy, scratch / "buckets")
    try:
        with partial.open("r+b") as file:
            writer = files.Writer(file, header, mechanism, survey.id_type)
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
        raise explain(partial, error) from None
    return checksum


def _observed(
    source: Source, mechanism: Mechanism, survey: Survey, entropy: Entropy
) -> Iterator[tuple[Any | None, npt.NDArray[Any]]]:
    row = 0
    for batch in source.batches():
        low = max(0, survey.start - row)
        high = min(len(batch.labels), survey.stop - row)
        row += len(batch.labels)
        # Observations may be far wider than labels: what is held at a time is bounded by their bytes.
        step = max(1, _PIECE_BYTES // mechanism.observation_bytes)
        for start in range(low, high, step):
            stop = min(start + step, high)
            ids = batch.ids[start:stop] if batch.ids is not None else None
            yield ids, mechanism.observe_uncharged(batch.labels.slice(start, stop), entropy)


def _finish_rename(partial: Path, made: Made) -> None:
    if not made.path.exists():
        try:
            os.replace(partial, made.path)
            sync_folder(made.path.parent)
        except FileNotFoundError:
            raise LedgerError(
                f"release {made.record.number} was published on {made.record.made}, but its file {made.path} is gone. Put it "
                "back from a backup or from whoever received it, or add `--again charge` for a new one."
            ) from None
    if _stated(made.path) != made.record.checksum:
        raise LedgerError(f"{made.path} is not the file that was released: it was altered or damaged.")


def _deliver(made: Made, temporary: Path, out: Path) -> None:
    if _stated(out) == made.record.checksum:
        return

    def copy(file: IO[bytes]) -> None:
        with made.path.open("rb") as kept:
            shutil.copyfileobj(kept, file, 1 << 20)

    try:
        fill_and_place(temporary, out, copy)
    except InputError as error:
        raise InputError(
            f"{error} The release is safe in {made.path}: the same command delivers it, and nothing more is charged."
        ) from None
