"""Plant canaries in a file of labels: what `labeldp canaries plant` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.audit.canaries import Canaries
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import InputError
from labeldp.release.classes import Classes
from labeldp.release.ids import NO_IDS, is_id
from labeldp.release.place import look_up, place_file
from labeldp.release.source import TableSource
from labeldp.release.tables import Table, bare_name, open_table, stated_data_set

USUAL = 1000
MOST_SHARE = 0.02


@dataclass(frozen=True)
class Planting:
    """What was planted where, among the rows `span` of `rows`."""

    canaries: Canaries
    rows: int
    data_set: str
    span: tuple[int, int]

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
    entropy: Entropy | None = None,
) -> Planting:
    """Copy `labels` to `out` with `count` labels replaced, and write what was planted to `secret`.

    By default they are 1,000, and not more than 2% of the rows.

    All other columns stay as they are, and `out` keeps the name of its data set, so that the ledger still knows the rows.
    `among` are the rows a:b to plant in, such as those that will be trained on. `wrong_only` is the paper's way.
    """
    if out.resolve() in (labels.resolve(), secret.resolve()) or secret.resolve() == labels.resolve():
        raise InputError("the labels, --out and --secret must be three different files.")
    if out.suffix != ".parquet":
        raise InputError(f"the planted labels are written as Parquet: name --out something.parquet, not {out.name}.")
    for path in (out, secret):
        if look_up(path) is not None:
            raise InputError(
                f"{path} is there already, and planting again would lose what was planted before. Name another file."
            )
    table = open_table(labels)
    stated = stated_data_set(table)
    if stated and data_set not in (None, stated):
        raise InputError(
            f"this file holds labels of the data set {stated!r}; under another name they would escape its budget. If the ledger knows them "
            f"as {data_set!r}, plant again in the file without canaries, with --data-set {data_set}."
        )
    source = TableSource(table, label, classes, id_column)
    rows, ids, parts = 0, [], []
    for batch in source.batches():  # also checks every label
        rows += len(batch.labels)
        if wrong_only:
            parts.append(batch.labels)
        if batch.ids is not None:
            ids.append(batch.ids)
    if rows == 0:
        raise InputError("there are no labels: the input has no rows.")
    start, stop = among or (0, rows)
    if not 0 <= start < stop <= rows:
        raise InputError(f"rows {start}:{stop} are not among the {rows:,} rows (they count from 0).")
    entropy, where = entropy or SecureEntropy(), np.arange(start, stop)
    if count is None:
        count = max(1, min(USUAL, int(MOST_SHARE * len(where))))
    if wrong_only:
        canaries = Canaries.draw_wrong(count, labels=parts, rows=where, entropy=entropy)
    else:
        canaries = Canaries.draw(count, rows=where, num_classes=classes.count, candidates=candidates, entropy=entropy)
    if ids:
        names = _checked_ids(pa.chunked_array(ids)).take(pa.array(canaries.rows)).combine_chunks()
        canaries = replace(canaries, ids=_plain_ids(names))
    name = data_set or stated or Path(bare_name(labels)).stem
    canaries = canaries.planted_in(name, rows)
    planted = _planted(source, canaries, _label_values(table, label, classes))
    canaries.save(secret)  # first: a planted file of which nobody knows what was planted would be a damaged one
    try:
        place_file(out, lambda file: _write(file, planted, canaries), private=True)
    finally:
        if look_up(out) is None:  # nothing was planted: the next try may have the name
            secret.unlink(missing_ok=True)
    return Planting(canaries, rows, name, (start, stop))


def _checked_ids(ids: Any) -> Any:
    """The id column, if it names every row by a name of its own."""
    if ids.null_count:
        raise InputError(f"row {pc.index(pc.is_null(ids), True).as_py()} has no id.")
    if not is_id(ids.type):
        raise InputError(f"{NO_IDS}; the id column holds {ids.type}.")
    if pc.count_distinct(ids).as_py() != len(ids):
        codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
        first = np.full(len(ids), -1)
        first[codes[::-1]] = np.arange(len(ids))[::-1]
        row = int(np.argmax(first[codes] != np.arange(len(ids))))
        raise InputError(f"row {row} has the same id as row {first[codes[row]]}; ids must be unique.")
    return ids


def _plain_ids(names: Any) -> np.ndarray[Any, Any]:
    values = names.to_pylist()
    return np.array(values) if all(isinstance(v, int) for v in values) else np.array([str(v) for v in values])


def _label_values(table: Table, label: str, classes: Classes) -> Any:
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
