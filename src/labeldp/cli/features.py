"""`labeldp features`: number columns from anybody's CSV or Parquet file; the label in it is not read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.arguments import as_options
from labeldp.cli.options import JsonOption
from labeldp.cli.output import print_json, print_table, warn
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.data.encode import Encoding


def command(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file.", show_default=False, readable=False)],
    out: Annotated[Path, typer.Option("--out", help="The features, a .parquet file: for train, predict, evaluate, audit and pate run.", readable=False)],
    labels: Annotated[list[str] | None, typer.Option("--label", help="A secret column, which is never read. Several times, if there are several.")] = None,
    no_label: Annotated[bool, typer.Option("--no-label", help="The file has no secret column.")] = False,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names the rows: kept as it is. Default: rows go by their number.")] = None,
    most_values: Annotated[int | None, typer.Option("--most-values", help="Leave out text columns with more different values than this. Default: 50.")] = None,
    like: Annotated[Path | None, typer.Option("--like", help="Encode new rows as they were for this file, which this command wrote.", readable=False)] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Make features of a table: numbers stay, dates become days, texts a column for each value. The label is never read.

    New rows, encoded the same way: labeldp features later.csv --like x.parquet --out later-x.parquet
    """
    from labeldp.data.encode import MOST_VALUES, Encoding, check_out

    check_out(out, file)
    if like is not None:
        if labels or no_label or id_column is not None or most_values is not None:
            raise InputError(
                f"{like} says which columns there are; leave out --label, --no-label, --id, --most-values."
            )
        check_out(out, like)
        encoding = Encoding.load(like)
    elif bool(labels) == no_label:
        raise InputError("name the secret column with --label, so that it is never read; or say --no-label if none is.")
    else:
        most = MOST_VALUES if most_values is None else most_values
        encoding = Encoding.fit(file, labels=labels or (), id_column=id_column, most_values=most)
    written = encoding.write(file, out)
    warnings = encoding.warnings() + [
        f"column {name!r} has values that {like} has not, in {rows:,} rows: there all its columns are 0."
        for name, rows in written.new.items()
    ]
    for warning in warnings:
        warn(warning)
    if json:
        print_json(_summary(encoding, written.rows, out, warnings))
        return
    became = _became(encoding)
    print_table(("column", "what became of it"), [*_kept_apart(encoding), *became.items()])
    typer.echo(f"{out}: {written.rows:,} rows, {len(encoding.outputs):,} columns of features")


def _became(encoding: Encoding) -> dict[str, str]:
    return {column.name: as_options(column.became()) for column in encoding.columns}


def _kept_apart(encoding: Encoding) -> list[tuple[str, str]]:
    named = [] if encoding.id is None else [(encoding.id, "names the rows: kept as it is")]
    return [*named, *((label, "the label: not read") for label in encoding.labels)]


def _summary(encoding: Encoding, rows: int, out: Path, warnings: list[str]) -> dict[str, Any]:
    return {
        "out": str(out),
        "rows": rows,
        "columns": list(encoding.outputs),
        "became": _became(encoding),
        "encoding": encoding.to_json(),
        "warnings": warnings,
    }
