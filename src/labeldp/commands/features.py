"""Number columns from anybody's CSV or Parquet file, whose label is not read, or from images alone: `labeldp features`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import MODEL, Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import DeviceOption, IdOption, ImageSizeOption, ThreadsOption
from labeldp.commands.values import ENCODERS, LEARNED
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.data.encode import Encoding


# fmt: off
@dataclass(frozen=True, kw_only=True)
class FeaturesOptions(Options):
    """What `labeldp features` is told."""

    file: Annotated[Path, Argument("A CSV or Parquet file; or images: a folder, .npy or .npz.")]
    out: Annotated[Path, Option("The features, a .parquet file: for train, moments, predict, evaluate, audit and pate run.")]
    labels: Annotated[tuple[str, ...], Option("A secret column, which is never read. Several times, if there are several.", flag="--label")] = ()
    no_label: Annotated[bool, Option("The file has no secret column.")] = False
    id_column: IdOption = None
    add_id: Annotated[str | None, Option("The file has no ids: add a column of this name that holds each row's number, from 0. Joins with a release that goes by row number.", metavar="NAME")] = None
    categories: Annotated[str | None, Option("one-hot (default): a text becomes a column for each value, and missing one more. keep, for boosted trees: one column of codes; missing stays NaN.", values=("one-hot", "keep"))] = None
    most_values: Annotated[int | None, Option("Leave out text columns with more different values than this (default: 50); with --categories keep, the rarest share a code (default: 1,000).")] = None
    like: Annotated[Path | None, Option("Encode new rows as they were for this file, which this command wrote. With --label: refused if it reads that column.")] = None
    learn: Annotated[str | None, Option("Of images: learn an encoder from them, no label needed. contrastive: a network; patches: in a minute; both.", panel=MODEL, values=LEARNED)] = None
    encoder: Annotated[Path | None, Option("Of images: the encoder's directory. With --learn it is learned there (interrupted: gone on with); without, it encodes new images.", panel=MODEL)] = None
    model: Annotated[str, Option("With --learn contrastive or both: the network, fast, fast-medium or fast-wide.", panel=MODEL, values=ENCODERS)] = "fast"
    flop: Annotated[float | None, Option("With --learn contrastive or both: learn for so many floating-point operations (4e14: an hour of a core), in whole epochs.", panel=MODEL)] = None
    epochs: Annotated[int | None, Option("The same in epochs. Default: 6.", panel=MODEL)] = None
    seed: Annotated[int, Option("Of contrastive learning.", panel=MODEL)] = 0
    image_size: ImageSizeOption = None
    device: DeviceOption = "cpu"
    threads: ThreadsOption = None
# fmt: on


def features(options: FeaturesOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Make features of a table: numbers stay, dates become days, texts a column for each value. The label is never read.

    New rows, encoded the same way: labeldp features later.csv --like x.parquet --out later-x.parquet

    Of images, by an encoder that learns from them alone: labeldp features images/ --learn contrastive --flop 4e14 --encoder encoder/ --out x.parquet
    """
    if options.file.is_dir() or options.file.suffix in (".npy", ".npz"):
        from labeldp.commands.image_features import features_of_images

        return features_of_images(options, progress)
    _refuse_images(options)
    encoding = _encoding(options)
    written = encoding.write(options.file, options.out)
    kept = {column.name for column in encoding.columns if column.kept}
    new = [
        f"column {name!r} has values that {options.like} has not, in {rows:,} rows: "
        + ("there it is missing." if name in kept else "there all its columns are 0.")
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


def _refuse_images(options: FeaturesOptions) -> None:
    """What is for images alone."""
    usual = FeaturesOptions(file=options.file, out=options.out)
    names = ("learn", "encoder", "model", "flop", "epochs", "seed", "image_size", "device", "threads")
    given = next((name for name in names if getattr(options, name) != getattr(usual, name)), None)
    if given is not None:
        raise InputError(f"`{given}` is for images, a folder or .npy of them; {options.file} is a table.")


def _encoding(options: FeaturesOptions) -> Encoding:
    """As an earlier file has it, or found for this one."""
    from labeldp.data.columns import ONE_HOT
    from labeldp.data.encode import Encoding, check_out

    check_out(options.out, options.file)
    if options.like is not None:
        given = (options.id_column, options.add_id, options.categories, options.most_values)
        if options.no_label or any(one is not None for one in given):
            raise InputError(
                f"{options.like} says which columns there are, and what becomes of them; leave out `no_label`, `id_column`, `add_id`, "
                "`categories`, `most_values`."
            )
        check_out(options.out, options.like)
        encoding = Encoding.load(options.like)
        _refuse_labels(encoding, options)
        return encoding
    if bool(options.labels) == options.no_label:
        raise InputError(
            "name the secret column with `labels`, so that it is never read; or say `no_label=True` if none is."
        )
    return Encoding.fit(
        options.file,
        labels=options.labels,
        id_column=options.id_column,
        most_values=options.most_values,
        categories=ONE_HOT if options.categories is None else options.categories,
        add_id=options.add_id,
    )


def _refuse_labels(encoding: Encoding, options: FeaturesOptions) -> None:
    """What another file says to read may be a secret of this one."""
    read = {column.name for column in encoding.columns} | {encoding.id}
    for label in options.labels:
        if label in read:
            raise InputError(
                f"{options.like} makes features of the column {label!r}, which is secret here: it was made for another file, or by somebody "
                "who would like to read it."
            )
