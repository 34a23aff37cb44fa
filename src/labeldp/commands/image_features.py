"""Rows of numbers from images, by an encoder that learned from images alone: `labeldp features images/`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.commands.progress import Progress
from labeldp.commands.shared import use_threads
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.commands.features import FeaturesOptions
    from labeldp.data.features import Features
    from labeldp.features.encoder import Encoder, EncoderRecipe

_PART = 2000  # images that are encoded at a time
_OF_TABLES = ("labels", "no_label", "categories", "most_values")
ID = "image"  # what the column of images' paths is called, unless it is named


def features_of_images(options: FeaturesOptions, progress: Progress) -> dict[str, Any]:
    """Learn an encoder or open one, and write what it makes of these images."""
    from labeldp.data.encode import check_out
    from labeldp.data.features import read_features

    _check(options)
    check_out(options.out, options.file)
    use_threads(options.threads)
    with progress.doing("reading images"):
        read = read_features(options.file, None, options.image_size)
    if read.values.ndim != 4:
        raise InputError(
            f"{options.file} holds rows of numbers, which are features already; an encoder is for images, (n, channels, height, width)."
        )
    encoder = _encoder(options, read, progress)
    with progress.doing("encoding images") as shown:
        written = _write(options, read, encoder, shown)
    return {
        "out": str(options.out), "rows": len(read.values), "features": written, "encoder": str(options.encoder),
        "flop": encoder.flop, "id": _id(options, read),
        "loss": None if encoder.contrast is None else list(encoder.contrast.losses),
    }  # fmt: skip


def _check(options: FeaturesOptions) -> None:
    if options.encoder is None:
        raise InputError(
            f"{options.file} holds images: name the directory of an `encoder`; with `learn='contrastive'` it is learned there, from these "
            "images alone."
        )
    given = next((name for name in _OF_TABLES if getattr(options, name)), None)
    if given is not None:
        raise InputError(f"`{given}` is for tables; an encoder of images reads no label.")
    if options.like is not None:
        raise InputError(
            f"images are encoded as earlier ones by their `encoder` ({options.encoder}); leave out `like`."
        )
    long = [name for name in ("flop", "epochs") if getattr(options, name) is not None]
    if long and options.learn not in ("contrastive", "both"):
        raise InputError(f"`{long[0]}` says how long to learn by contrast; give `learn='contrastive'` or 'both'.")
    if len(long) == 2:
        raise InputError("say how long to learn in `flop` or in `epochs`, not both.")
    if options.flop is not None and not 0 < options.flop < float("inf"):
        raise InputError(f"`flop` is a positive number, 4e14 for instance; got {options.flop:g}.")


def _encoder(options: FeaturesOptions, read: Features, progress: Progress) -> Encoder:
    from labeldp.features.encoder import Encoder, learned_encoder

    assert options.encoder is not None
    if options.learn is None:
        return Encoder.load(options.encoder)
    learning = _learning(options, read.values)
    with progress.doing("learning an encoder") as shown:
        shown.begin(learning.epochs)
        return learned_encoder(
            read.values, options.encoder, learning, device=options.device, named="encoder",
            on_epoch=lambda epoch, loss: shown.epoch({"epoch": epoch, "loss": loss}),
        )  # fmt: skip


def _learning(options: FeaturesOptions, images: Any) -> EncoderRecipe:
    """So many whole epochs as the budget pays for, one at least."""
    from labeldp.features.contrastive import flop_an_epoch
    from labeldp.features.encoder import EncoderRecipe

    assert options.learn is not None
    if options.learn == "patches":
        return EncoderRecipe("patches")
    epochs = options.epochs or 6
    if options.flop is not None:
        epochs = max(1, round(options.flop / flop_an_epoch(images, options.model)))
    return EncoderRecipe(options.learn, epochs, options.model, options.seed)


def _id(options: FeaturesOptions, read: Features) -> str | None:
    """What the column of ids is called; images in an array have none, unless their numbers are to be one."""
    if read.named:
        return options.id_column or options.add_id or ID
    if options.id_column is not None:
        raise InputError(f"{options.file} has no ids; `add_id` adds a column of row numbers.")
    return options.add_id


def _write(options: FeaturesOptions, read: Features, encoder: Encoder, shown: Progress) -> int:
    """One column a feature, part by part; how many there are."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from labeldp.features.encoder import COLUMN, column_names
    from labeldp.files.atomic import place_file

    name, width = _id(options, read), 0
    if name is not None and name.startswith(f"{COLUMN} "):
        raise InputError(f"{name!r} is what a feature is called; name the ids otherwise.")

    def tables() -> Iterator[pa.Table]:
        nonlocal width
        for start in range(0, len(read.values), _PART):
            some = slice(start, start + _PART)
            made = encoder.transform(np.ascontiguousarray(read.values[some]))
            width = made.shape[1]
            columns = {} if name is None else {name: pa.array(read.ids[some])}
            yield pa.table(columns | {called: pa.array(made[:, i]) for i, called in enumerate(column_names(width))})
            shown.show("images", min(start + _PART, len(read.values)), len(read.values))

    def write(file: Any) -> None:
        made = tables()
        first = next(made)
        with pq.ParquetWriter(file, first.schema) as writer:
            writer.write_table(first)
            for table in made:
                writer.write_table(table)

    place_file(Path(options.out), write)
    return width
