"""Number columns from anybody's CSV or Parquet file; the label in it is not read: `labeldp features`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import IdOption
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.data.encode import Encoding


# fmt: off
@dataclass(frozen=True, kw_only=True)
class FeaturesOptions(Options):
    """What `labeldp features` is told."""

    file: Annotated[Path, Argument("A CSV or Parquet file.")]
    out: Annotated[Path, Option("The features, a .parquet file: for train, predict, evaluate, audit and pate run.")]
    labels: Annotated[tuple[str, ...], Option("A secret column, which is never read. Several times, if there are several.", flag="--label")] = ()
    no_label: Annotated[bool, Option("The file has no secret column.")] = False
    id_column: IdOption = None
    most_values: Annotated[int | None, Option("Leave out text columns with more different values than this. Default: 50.")] = None
    like: Annotated[Path | None, Option("Encode new rows as they were for this file, which this command wrote. With --label: refused if it reads that column.")] = None
# fmt: on


def features(options: FeaturesOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Make features of a table: numbers stay, dates become days, texts a column for each value. The label is never read.

    New rows, encoded the same way: labeldp features later.csv --like x.parquet --out later-x.parquet
    """
    encoding = _encoding(options)
    written = encoding.write(options.file, options.out)
    new = [
        f"column {name!r} has values that {options.like} has not, in {rows:,} rows: there all its columns are 0."
        for name, rows in written.new.items()
    ]
    return {
        "out": str(options.out),
        "rows": written.rows,
        "columns": list(encoding.outputs),
        "became": {column.name: progress.said(column.became()) for column in encoding.columns},
        "encoding": encoding.to_json(),
        "warnings": [*map(progress.said, [] if options.like else encoding.warnings()), *new],
    }


def _encoding(options: FeaturesOptions) -> Encoding:
    """As an earlier file has it, or found for this one."""
    from labeldp.data.encode import MOST_VALUES, Encoding, check_out

    check_out(options.out, options.file)
    if options.like is not None:
        if options.no_label or options.id_column is not None or options.most_values is not None:
            raise InputError(
                f"{options.like} says which columns there are; leave out `no_label`, `id_column`, `most_values`."
            )
        check_out(options.out, options.like)
        encoding = Encoding.load(options.like)
        _refuse_labels(encoding, options)
        return encoding
    if bool(options.labels) == options.no_label:
        raise InputError(
            "name the secret column with `labels`, so that it is never read; or say `no_label=True` if none is."
        )
    most = MOST_VALUES if options.most_values is None else options.most_values
    return Encoding.fit(options.file, labels=options.labels, id_column=options.id_column, most_values=most)


def _refuse_labels(encoding: Encoding, options: FeaturesOptions) -> None:
    """What another file says to read may be a secret of this one."""
    read = {column.name for column in encoding.columns} | {encoding.id}
    for label in options.labels:
        if label in read:
            raise InputError(
                f"{options.like} makes features of the column {label!r}, which is secret here: it was made for another file, or by somebody "
                "who would like to read it."
            )
