"""Plant canaries in a file of labels: what `labeldp canaries plant` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.audit.canaries import Canaries
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import InputError
from labeldp.release.classes import Classes
from labeldp.release.place import look_up, place_file
from labeldp.release.source import TableSource
from labeldp.release.tables import Table, bare_name, open_table, stated_data_set

MOST_SHARE = 0.02


@dataclass(frozen=True)
class Planting:
    """What was planted where; `share` of the rows tells the feature owner how to correct an accuracy."""

    canaries: Canaries
    rows: int
    data_set: str

    @property
    def share(self) -> float:
        """Of all rows."""
        return len(self.canaries) / self.rows


def plant_file(
    labels: Path,
    out: Path,
    secret: Path,
    *,
    label: str,
    classes: Classes,
    count: int,
    candidates: int = 2,
    id_column: str | None = None,
    among: tuple[int, int] | None = None,
    data_set: str | None = None,
    wrong_only: bool = False,
    entropy: Entropy | None = None,
) -> Planting:
    """Copy `labels` to `out` with `count` labels replaced, and write what was planted to `secret`.

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
            f"this file holds labels of the data set {stated!r}; under another name they would escape its budget."
        )
    source = TableSource(table, label, classes, id_column)
    rows, ids, parts = 0, [], []
    for batch in source.batches():  # also checks every label
        rows += len(batch.labels)
        if wrong_only:
            parts.append(batch.labels)
        if batch.ids is not None:
            ids.append(batch.ids)
    start, stop = among or (0, rows)
    if not 0 <= start < stop <= rows:
        raise InputError(f"rows {start}:{stop} are not among the {rows:,} rows (they count from 0).")
    entropy, where = entropy or SecureEntropy(), np.arange(start, stop)
    if wrong_only:
        canaries = Canaries.draw_wrong(count, labels=parts, rows=where, entropy=entropy)
    else:
        canaries = Canaries.draw(count, rows=where, num_classes=classes.count, candidates=candidates, entropy=entropy)
    if ids:
        names = pa.chunked_array(ids).take(pa.array(canaries.rows)).combine_chunks()
        canaries = replace(canaries, ids=_plain_ids(names))
    name = data_set or stated or Path(bare_name(labels)).stem
    planted = _planted(table, label, classes, canaries)
    canaries.save(secret)  # first: a planted file of which nobody knows what was planted would be a damaged one
    place_file(out, lambda file: _write(file, planted, name), private=True)
    return Planting(canaries, rows, name)


def _plain_ids(names: Any) -> np.ndarray[Any, Any]:
    values = names.to_pylist()
    return np.array(values) if all(isinstance(v, int) for v in values) else np.array([str(v) for v in values])


def _planted(table: Table, label: str, classes: Classes, canaries: Canaries) -> Iterator[Any]:
    """The table's batches, labels replaced."""
    names = np.array(classes.names or [str(i) for i in range(classes.count)])
    place = table.columns.index(label)
    first = 0
    for batch in table.batches(table.columns, missing_is_text=classes.names or ()):
        inside = (canaries.rows >= first) & (canaries.rows < first + batch.num_rows)
        column = batch.column(label)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        codes = canaries.planted[inside]
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or classes.names is not None
        new = pa.array(names[codes].tolist() if text else codes.tolist()).cast(column.type)
        mask = np.zeros(batch.num_rows, dtype=bool)
        mask[canaries.rows[inside] - first] = True
        replaced = pa.compute.replace_with_mask(column, pa.array(mask), new)
        yield batch.set_column(place, pa.field(label, column.type), replaced)
        first += batch.num_rows


def _write(file: IO[bytes], batches: Iterator[Any], data_set: str) -> None:
    first = next(batches)
    schema = first.schema.with_metadata({b"labeldp.data_set": data_set.encode()})
    with pq.ParquetWriter(file, schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
