"""Plant canaries in a file of labels: what `labeldp canaries plant` does.

    drawn      nothing is there yet
    complete   the planted table is whole and on the disk, under a name that nobody looks for
    begun      the secret file is in its place, durably: from now on these canaries are the ones
    placed     the planted table is in its place

Killed before `begun`, the same command draws anew: nobody saw the first draw. Killed later, it makes the planted table again from the
labels and the secret file. Asked again when both are there, it has nothing to do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.filter import check_again
from labeldp.accounting.journal import canonical
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.rows import RowIds, overlap
from labeldp.audit.canaries import Canaries
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import AlreadyReleasedError, InputError
from labeldp.files.atomic import explain, fill, look_up, place, remove_unfinished, unfinished
from labeldp.files.hashing import ColumnHasher
from labeldp.files.ids import AS_WRITTEN, CANONICAL, NO_IDS, NOT_COMPARED, is_id, repeated
from labeldp.files.tables import TableFile, bare_name, open_table, stated_data_set
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.source import Source, TableSource

USUAL = 1000
MOST_SHARE = 0.02

_WORDS = {  # what makes a request this one
    "labels": "content of the label file",
    "label": "label column",
    "classes": "list of classes",
    "id": "id column",
    "count": "count",
    "candidates": "number of candidates",
    "rows": "range of rows",
    "data_set": "data set",
    "id_form": "form of ids",
    "wrong_only": "way to draw",
}


@dataclass(frozen=True)
class Planting:
    """What was planted where, among the rows `span` of `rows`."""

    canaries: Canaries
    rows: int
    data_set: str
    span: tuple[int, int]
    made: str = "all"  # what this call wrote: all, the rest of what was begun, nothing

    @property
    def share(self) -> float:
        """Of all rows."""
        return len(self.canaries) / self.rows

    @property
    def correction(self) -> float:
        """The `--canary-share` of an accuracy that is estimated from rows of the span (elsewhere it is 0).

        A share s of labels that are uniform over all C classes makes Â = (1 − s)·A + s/C, which `--canary-share s` undoes. Planted among
        the wrong labels only, a canary agrees with a prediction if that is wrong and the draw hit it: Â = (1 − s)·A + s·(1 − A)/(C − 1).
        With s′ = s·C/(C − 1) that is (1 − s′)·A + s′/C: as if s′ of the labels had been drawn from all classes, s′/C of them true.
        """
        start, stop = self.span
        share, classes = len(self.canaries) / (stop - start), self.canaries.num_classes
        return share if self.canaries.true is None else share * classes / (classes - 1)


def plant_file(
    labels: Path,
    out: Path,
    secret: Path,
    *,
    label: str,
    classes: Classes,
    count: int | None = None,
    candidates: int = 2,
    id_column: str | None = None,
    among: tuple[int, int] | None = None,
    data_set: str | None = None,
    wrong_only: bool = False,
    ledger: Path | None = None,
    again: str | None = None,
    other_ids: str | None = None,
    ids_as_written: bool = False,
    entropy: Entropy | None = None,
) -> Planting:
    """Copy `labels` to `out` with `count` labels replaced, and write what was planted to `secret`.

    By default they are 1,000, and not more than 2% of the rows.

    All other columns stay as they are, and `out` keeps the name of its data set, so that the ledger still knows the rows.
    `among` are the rows a:b to plant in, such as those that will be trained on. `wrong_only` is the paper's way.

    Asked for the same again, with the same `secret`, nothing is drawn: what is missing is written, and what is there stays. Rows that the
    `ledger` (default: the user's own) knows as released are refused, unless `again` says that a second release of them is meant.
    """
    if out.resolve() in (labels.resolve(), secret.resolve()) or secret.resolve() == labels.resolve():
        raise InputError("the labels, `out` and `secret` must be three different files.")
    if out.suffix != ".parquet":
        raise InputError(f"the planted labels are written as Parquet: name `out` something.parquet, not {out.name}.")
    check_again(again)
    table = open_table(labels)
    stated = stated_data_set(table)
    if stated and data_set not in (None, stated):
        raise InputError(
            f"this file holds labels of the data set {stated!r}; under another name they would escape its budget. If the ledger knows them "
            f"as {data_set!r}, plant again in the file without canaries, with `data_set={data_set!r}`."
        )
    form = AS_WRITTEN if ids_as_written else CANONICAL
    source = TableSource(table, label, classes, id_column, form)
    stamp = source.stamp()
    rows, ids, parts = 0, [], []
    for batch in source.batches():  # also checks every label
        rows += len(batch.labels)
        if wrong_only:
            parts.append(batch.labels)
        if batch.ids is not None:
            ids.append(batch.ids)
    if rows == 0:
        raise InputError("there are no labels: the input has no rows.")
    names = _checked_ids(pa.chunked_array(ids), form) if ids else None
    start, stop = among or (0, rows)
    if not 0 <= start < stop <= rows:
        raise InputError(f"rows {start}:{stop} are not among the {rows:,} rows (they count from 0).")
    if count is None:
        count = max(1, min(USUAL, int(MOST_SHARE * (stop - start))))
    name = data_set or stated or Path(bare_name(labels)).stem
    asked = {
        "labels": _digest(labels), "label": label, "classes": classes.names or classes.count, "id": id_column, "count": count,
        "candidates": None if wrong_only else candidates, "rows": [start, stop], "data_set": name, "wrong_only": wrong_only,
        "id_form": form,
    }  # fmt: skip
    canaries = _planted_before(secret, asked)
    begun = canaries is not None
    if canaries is None:
        if look_up(out) is not None:
            raise InputError(
                f"{out} is there already, and {secret}, which would say what was planted in it, is not. Put it back, or name another file."
            )
        if again is None:
            _refuse_released(source, name, (start, stop), ledger, other_ids)
        canaries = _draw(asked, parts, entropy or SecureEntropy(), classes.count)
        if names is not None:
            canaries = replace(canaries, ids=_plain_ids(names.take(pa.array(canaries.rows)).combine_chunks()))
        canaries = replace(canaries.planted_in(name, rows), asked=canonical(asked))
    planting = Planting(canaries, rows, name, (start, stop))
    values = _label_values(table, label, classes)

    def planted() -> Iterator[Any]:
        return _planted(source, canaries, values)

    if look_up(out) is not None:
        if not _same(out, planted(), canaries):
            raise InputError(
                f"{out} is there already, and is not (or no longer) the table with the canaries of {secret}. Remove it or name another."
            )
        remove_unfinished(out)
        return replace(planting, made="nothing")
    with unfinished(out) as temporary:
        fill(temporary, out, lambda file: _write(file, planted(), canaries))
        if source.stamp() != stamp:
            raise InputError(f"{labels} changed while canaries were planted in it. Nothing was planted.")
        if not begun:
            canaries.save(secret, replace=False)
        place(temporary, out, private=True)
    return replace(planting, made="the rest" if begun else "all")


def _planted_before(secret: Path, asked: dict[str, Any]) -> Canaries | None:
    """The canaries that this request drew before, if it did."""
    if look_up(secret) is None:
        return None
    try:
        canaries = Canaries.load(secret)
    except InputError:
        raise InputError(f"{secret} is there already, and holds no canaries; name another file for `secret`.") from None
    if canaries.asked != canonical(asked):
        raise InputError(
            f"{secret} holds other canaries ({_differences(canaries, asked)}); name another file for `secret`."
        )
    remove_unfinished(secret)  # killed between its two names
    return canaries


def _differences(canaries: Canaries, asked: dict[str, Any]) -> str:
    try:
        before = dict(json.loads(canaries.asked or ""))
    except (ValueError, TypeError):
        return "it does not say which request they are of"
    different = [word for part, word in _WORDS.items() if canonical(before.get(part)) != canonical(asked[part])]
    return f"with another {', another '.join(different)}"


def _draw(asked: dict[str, Any], labels: list[PrivateLabels], entropy: Entropy, num_classes: int) -> Canaries:
    where = np.arange(*asked["rows"])
    if asked["wrong_only"]:
        return Canaries.draw_wrong(asked["count"], labels=labels, rows=where, entropy=entropy)
    return Canaries.draw(
        asked["count"], rows=where, num_classes=num_classes, candidates=asked["candidates"], entropy=entropy
    )


def _refuse_released(
    source: Source, data_set: str, span: tuple[int, int], ledger: Path | None, other_ids: str | None
) -> None:
    before = released_before(Ledger(ledger, other_ids=other_ids), source, data_set, span)
    if before is not None:
        raise AlreadyReleasedError(
            f"some of these rows were released before (data set {before.data_set!r}, made on {before.made}), without these canaries, and a "
            "second release of them costs again. Plant before the first one; or, if a second one is meant, add `again='charge'`. If "
            "these ids name other people: `other_ids='NAME'`."
        )


def released_before(ledger: Ledger, source: Source, data_set: str, span: tuple[int, int]) -> ReleaseRecord | None:
    """A release that some of these rows were in, under whatever name; None if they are new to the ledger."""
    book = ledger.book()
    if not book.releases:
        return None
    groups = book.groups() if ledger.other_ids is None else (ledger.other_ids,)
    groups = book.data_sets[data_set].groups if data_set in book.data_sets else groups
    with ledger.lock(data_set) as scratch:  # the hashes of ids are for comparing only: they do not stay
        survey = source.survey(book.key, folder=scratch, scratch=scratch, selected=span)
        for release in book.releases.values():
            known = book.data_sets[release.data_set]
            same = known.name == data_set or known.fingerprint.same_file(survey.fingerprint)
            by_id = isinstance(survey.rows, RowIds) and bool(set(groups) & set(known.groups))
            if known.unprotected is None and (same or by_id) and overlap(survey.rows, release.rows):
                return release
    return None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise explain(path, error, "read") from None
    return digest.hexdigest()


def _same(out: Path, planted: Iterable[Any], canaries: Canaries) -> bool:
    """Whether a file is the planted table: its content, whatever version of Arrow wrote it."""
    try:
        with pq.ParquetFile(out) as file:
            if (file.schema_arrow.metadata or {}).get(b"labeldp.planting") != str(canaries.planting).encode():
                return False
            return _content(file.iter_batches()) == _content(planted)
    except (OSError, pa.ArrowException):
        return False


def _content(batches: Iterable[Any]) -> list[tuple[str, bytes]]:
    columns: dict[str, ColumnHasher] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            columns.setdefault(name, ColumnHasher(b"")).add(column)
    return [(name, hasher.digest()) for name, hasher in columns.items()]


def _checked_ids(ids: Any, form: str) -> Any:
    """The id column, if it names every row by a name of its own."""
    if ids.null_count:
        raise InputError(f"row {pc.index(pc.is_null(ids), True).as_py()} has no id.")
    if not is_id(ids.type):
        raise InputError(f"{NO_IDS}; the id column holds {ids.type}.")
    if (twice := repeated(ids, form)) is not None:
        how = "" if form == AS_WRITTEN else f" ({NOT_COMPARED})"
        raise InputError(f"row {twice[0]} has the same id as row {twice[1]}; ids must be unique{how}.")
    return ids


def _plain_ids(names: Any) -> np.ndarray[Any, Any]:
    values = names.to_pylist()
    return np.array(values) if all(isinstance(v, int) for v in values) else np.array([str(v) for v in values])


def _label_values(table: TableFile, label: str, classes: Classes) -> Any:
    """What stands for each class in the label column: of its type, or of a wider one that can hold every class."""
    kind = next(table.batches([label])).column(label).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    named = classes.names is not None or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    values = pa.array(classes.names or list(map(str, range(classes.count))) if named else range(classes.count))
    for wide in (kind, pa.int16(), pa.int32(), pa.int64(), pa.string()):
        with suppress(pa.ArrowException, InputError):
            held = values.cast(wide)
            if np.array_equal(classes.encode(held, 0).reveal(), np.arange(classes.count)):  # as a release will read it
                return held
    raise InputError(f"the label column holds {kind}, which has no value for some of the declared classes.")


def _planted(source: TableSource, canaries: Canaries, values: Any) -> Iterator[Any]:
    """The table's batches, labels replaced by their class's value."""
    table, label = source.table, source.label_column
    assert label is not None
    place = table.columns.index(label)
    first = 0
    for batch in table.batches(table.columns, missing_is_text=source.classes.names or (), ids=source.id_column):
        inside = (canaries.rows >= first) & (canaries.rows < first + batch.num_rows)
        mask = np.zeros(batch.num_rows, dtype=bool)
        mask[canaries.rows[inside] - first] = True
        new = values.take(pa.array(canaries.planted[inside]))
        replaced = pc.replace_with_mask(batch.column(label).cast(values.type), pa.array(mask), new)
        yield batch.set_column(place, pa.field(label, values.type), replaced)
        first += batch.num_rows


def _write(file: IO[bytes], batches: Iterator[Any], canaries: Canaries) -> None:
    first = next(batches)
    said = {"labeldp.data_set": canaries.data_set, "labeldp.planting": canaries.planting}
    schema = first.schema.with_metadata({name.encode(): str(value).encode() for name, value in said.items()})
    with pq.ParquetWriter(file, schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
