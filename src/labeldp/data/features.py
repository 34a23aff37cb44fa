"""Your own features: .npy, .npz, Parquet (number columns, or one list column), CSV, or a folder of images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.encode import Encoding, damaged
from labeldp.data.images import folder_of_class, read_folder
from labeldp.errors import InputError
from labeldp.files.ids import NO_IDS, find, is_id, plain_ids
from labeldp.files.tables import CSVTable, TableFile, open_table
from labeldp.release.release import Release


@dataclass(frozen=True)
class Features:
    """One row of numbers (or an image) for each id.

    `named` says that ids are names, from an id column or of image files, by which to join with a release; otherwise they
    are row numbers. `folder` is where images came from, if they did.

    categorical  columns whose numbers are codes of categories (`labeldp features --categories keep`), 0 … k−1, NaN where nothing is
    codes        what these codes stand for, as a digest: two files with equal ones mean the same by them
    numbered     ids come from a column that holds row numbers (`labeldp features --add-id`)
    """

    values: npt.NDArray[Any]
    ids: npt.NDArray[Any]
    columns: tuple[str, ...] = ()
    named: bool = False
    folder: Path | None = None
    categorical: tuple[str, ...] = ()
    codes: str = ""
    numbered: bool = False

    def ordered(self, columns: Sequence[str], codes: str | None = None) -> npt.NDArray[Any]:
        """The values with columns in this order; refused if they are others. Features without names are taken as they come.

        `codes` are those that a model was trained on: the same columns, encoded anew, would have other numbers.
        """
        if columns and self.columns and sorted(columns) != sorted(self.columns):
            missing = [name for name in columns if name not in self.columns]
            extra = [name for name in self.columns if name not in columns]
            raise InputError(
                f"the model was trained on other columns: missing here {', '.join(missing[:8]) or 'none'}, new here "
                f"{', '.join(extra[:8]) or 'none'}. (`labeldp features --like` encodes new rows as the first ones were.)"
            )
        if codes is not None and codes != self.codes:
            raise InputError(
                "the codes of categories stand for other values here than where the model was trained: encode these rows as those were, by "
                "`labeldp features --like`."
            )
        if not columns or not self.columns or tuple(columns) == self.columns:
            return self.values
        return np.asarray(self.values[:, [self.columns.index(name) for name in columns]])

    def refuse_categories(self) -> None:
        """For models that take numbers alone: a category's code is none."""
        if self.categorical:
            raise InputError(
                f"column {self.categorical[0]!r} holds codes of categories, which are no quantities, and this takes numbers only. {_KEPT}"
            )

    def refuse_label(self, label: str | None, label_names: Sequence[str] | None = None) -> None:
        """The released label must not be among the features, nor must an image's path tell its class: no promise would be kept.

        `label_names` are the release's classes; where these are numbers, their numerals.
        """
        refuse_label_column(label, self.columns, label_names or ())
        if self.folder is not None and label_names:
            found = folder_of_class(self.ids.tolist(), label_names)
            if found is not None:
                raise InputError(
                    f"{self.folder} has a sub-folder {found!r}, which is what a class of the release is called: whoever has images "
                    "that are sorted by class has their labels, and a release protects nothing. Keep them under names that do not tell it."
                )


def refuse_label_column(label: str | None, columns: Sequence[str], label_names: Sequence[str] = ()) -> None:
    """A column that is called like the label, or like the label and one of its classes (`income_>50K`), whatever the case."""
    if label is None:
        return
    plain = label.strip().casefold()
    called = {plain} | {f"{plain}{sign}{name.strip().casefold()}" for name in label_names for sign in "_=-.: "}
    found = next((name for name in columns if name.strip().casefold() in called), None)
    if found is not None:
        raise InputError(
            f"the features have a column {found!r}, which is what the released labels are called; leave it out."
        )


_KEPT = "Make features without `categories='keep'`, or use `model='lightgbm'`."


def check_complete(features: Features) -> None:
    """For models that take numbers alone: a category's code is none, and neither is what is missing."""
    features.refuse_categories()
    if features.values.dtype.kind == "f":
        gaps = np.isnan(features.values)
        if gaps.any():
            row, *place = (int(i) for i in np.unravel_index(np.argmax(gaps), gaps.shape))
            where = f"column {features.columns[place[0]]!r}" if len(features.columns) == gaps.shape[1] else "a column"
            raise InputError(f"row {row} has nothing in {where}, and this needs numbers everywhere. {_KEPT}")


def read_features(
    path: Path, id_column: str | None = None, image_size: int | None = None, *, missing: bool = False
) -> Features:
    """Read and check public features, all of them. `image_size` is for a folder of images: see `read_folder`.

    `missing` is for models that take categories, and NaN where something is missing: without it, both are refused.
    """
    parts = list(read_parts(path, id_column, image_size, array_bytes=None, missing=missing))
    if len(parts) == 1:
        return parts[0]
    values, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "ids"))
    return replace(parts[0], values=values, ids=ids)


def read_parts(
    path: Path,
    id_column: str | None = None,
    image_size: int | None = None,
    *,
    array_bytes: int | None = 32 << 20,
    missing: bool = False,
) -> Iterator[Features]:
    """The same, some rows at a time: one part at least, in memory that does not grow with the file.

    Arrays come in parts of `array_bytes` (None: in one), tables in those that their reader makes; a folder of images is one part.
    """
    if path.is_dir():
        yield _from_folder(path, id_column, image_size)
        return
    if image_size is not None:
        raise InputError(f"{path} is not a folder of images; leave out the image size (`image_size`).")
    if path.suffix in (".npy", ".npz"):
        if id_column is not None:
            raise InputError(f"{path} has no columns, and so no {id_column!r}; use Parquet or CSV to join by id.")
        parts, encoding = _from_numpy(path, array_bytes), None
    else:
        table = open_table(path)
        encoding = Encoding.of_table(table)
        parts = _from_table(table, id_column, encoding)
    row = 0
    for part in parts:
        if part.values.dtype.kind == "f":
            _check_finite(path, part, row, encoding, missing=missing)
        if not missing and part.categorical:
            check_complete(part)
        yield part
        row += len(part.values)


def _check_finite(path: Path, part: Features, row: int, encoding: Encoding | None, *, missing: bool) -> None:
    """Numbers everywhere, but for what may be missing; and codes that are some."""
    values = part.values.reshape(len(part.values), -1)
    bad = (np.isinf(values) if missing else ~np.isfinite(values)).any(axis=1)
    if bad.any():
        first = int(np.argmax(bad))
        if encoding is not None and encoding.kept and not np.isinf(values[first]).any():
            raise InputError(
                f"row {row + first} of {path} has nothing in column {part.columns[int(np.argmax(np.isnan(values[first])))]!r}, and this "
                f"needs numbers everywhere. {_KEPT}"
            )
        which = "infinite" if missing else "NaN or infinite"
        raise InputError(f"row {row + first} of {path} holds a feature that is {which}.")
    for name in part.categorical:
        assert encoding is not None
        codes = values[:, part.columns.index(name)]
        there = codes[~np.isnan(codes)]
        if ((there < 0) | (there >= encoding.codes[name]) | (there != np.floor(there))).any():
            raise InputError(
                f"column {name!r} of {path} holds a number that is none of its {encoding.codes[name]:,} codes; make the file again."
            )


_INDEX = ("", "__index_level_0__", "Unnamed: 0")


def _from_folder(path: Path, id_column: str | None, image_size: int | None) -> Features:
    if id_column is not None:
        raise InputError(
            f"{path} is a folder: its images are named by their paths in it, not by a column {id_column!r}; leave out `id_column`. "
            "A release whose ids are these paths is joined by them."
        )
    pixels, names = read_folder(path, image_size)
    return Features(pixels, np.array(names, dtype=object), named=True, folder=path)


def _from_numpy(path: Path, part_bytes: int | None) -> Iterator[Features]:
    try:
        loaded = np.load(path, allow_pickle=False, mmap_mode="r")
        if isinstance(loaded, np.ndarray):
            values = loaded
        else:
            names = loaded.files
            name = "features" if "features" in names else names[0] if len(names) == 1 else None
            if name is None:
                raise InputError(f"{path} holds {', '.join(names)}; call the right one 'features'.")
            values = loaded[name]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError):
        raise InputError(f"{path} is not a NumPy array of numbers.") from None
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path} holds {values.dtype}, not numbers.")
    if values.ndim < 2 or len(values) == 0:
        raise InputError(f"{path} must hold one row of features for each example; it holds shape {values.shape}.")
    step = len(values) if part_bytes is None else max(1, part_bytes // max(1, values[0].nbytes))
    for start in range(0, len(values), step):
        part = np.array(values[start : start + step], np.uint8 if values.dtype == np.uint8 else np.float32)
        yield Features(part, np.arange(start, start + len(part)))


def _from_table(table: TableFile, id_column: str | None, encoding: Encoding | None) -> Iterator[Features]:
    path = table.path
    named = id_column is not None
    if id_column is None and encoding is not None and encoding.id in table.columns:
        if not encoding.numbered:
            raise InputError(
                f"column {encoding.id!r} of {path} names its rows, and is no feature: say `id_column={encoding.id!r}`."
            )
        id_column = encoding.id
    if id_column is not None and id_column not in table.columns:
        raise table.lacks(id_column, holds_labels=False)
    if id_column is None and table.looks_headless(all_cells=True) and any(table.columns):
        # Read as a header, it would be one row less, and every row would be joined to the next one's label.
        raise InputError(f"{path} has no header: {table.headless(holds_labels=False)}")
    names = [name for name in table.columns if name != id_column]
    index = next((name for name in names if name in _INDEX), None)
    if index is not None:
        raise InputError(
            f"{path} has a column {index!r}, an index that pandas wrote: it says where a row stood, which is no feature. Write the file "
            "with index=False, or name the column with `id_column`."
        )
    wanted = names if id_column is None else [*names, id_column]
    numbered = encoding is not None and encoding.numbered and id_column == encoding.id
    categorical, codes = _categories(encoding, names)
    row, width = 0, None
    for batch in table.batches(wanted, ids=id_column):
        if batch.num_rows == 0:
            continue
        values = _numbers(path, batch, names, text=isinstance(table, CSVTable), named=id_column is not None)
        if width not in (None, values.shape[1:]):
            raise InputError(f"the lists in column {names[0]!r} of {path} must all be there and of one length.")
        if categorical and values.shape[1:] != (len(names),):
            raise damaged(path)
        here = np.arange(row, row + len(values))
        ids = here if id_column is None else _ids(path, batch.column(id_column), row)
        if numbered and not named and not np.array_equal(ids, here):
            raise InputError(
                f"the rows of {path} are not all there, or no longer in their order: join by their numbers, `id_column={id_column!r}`."
            )
        yield Features(values, ids, tuple(names), named=named, categorical=categorical, codes=codes, numbered=numbered)
        row, width = row + len(values), values.shape[1:]
    if row == 0:
        raise InputError(f"{path} has no rows.")


def _categories(encoding: Encoding | None, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Which of these columns hold codes, as the file says; and a digest of what they stand for, whatever their order."""
    if encoding is None:
        return (), ""
    here = {column.name: column for column in encoding.columns if column.codes and column.name in names}
    stand_for = [(name, here[name].values, here[name].rest, here[name].buckets) for name in sorted(here)]
    digest = hashlib.sha256(json.dumps(stand_for).encode()).hexdigest() if here else ""
    return tuple(name for name in names if name in here), digest


def _ids(path: Path, column: Any, first_row: int) -> npt.NDArray[Any]:
    names = plain_ids(column)
    if not is_id(names.type):
        raise InputError(f"{NO_IDS}; the id column of {path} holds {names.type}.")
    if names.null_count:
        raise InputError(f"row {first_row + pc.index(pc.is_null(names), True).as_py()} of {path} has no id.")
    return np.asarray(names.to_numpy(zero_copy_only=False))


def _numbers(path: Path, batch: Any, names: list[str], *, text: bool, named: bool) -> npt.NDArray[np.float32]:
    if len(names) == 1 and pa.types.is_nested(batch.column(names[0]).type):
        return _lists(path, names[0], batch.column(names[0]))
    columns = []
    for name in names:
        column = batch.column(name)
        try:
            columns.append(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            kind = "text" if text else str(column.type)
            raise InputError(
                f"column {name!r} of {path} holds {kind}, not numbers: `labeldp features` encodes it, or leaves it out if it is the label."
                + ("" if named else f" If it names the rows: `id_column={name!r}`.")
            ) from None
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return np.stack(columns, axis=1).astype(np.float32)


def _lists(path: Path, name: str, column: Any) -> npt.NDArray[np.float32]:
    """Lists of numbers, all of one length: rows of another length would lend their numbers to the next."""
    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        raise InputError(f"column {name!r} of {path} holds {kind}, not lists of numbers.")
    lengths = pc.list_value_length(column)
    if column.null_count or pc.count_distinct(lengths).as_py() > 1:
        raise InputError(f"the lists in column {name!r} of {path} must all be there and of one length.")
    rows = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(rows.reshape(len(column), -1), dtype=np.float32)


def features_digest(features: npt.NDArray[Any]) -> str:
    """Other features make another run."""
    digest = hashlib.blake2b(digest_size=16)
    step = max(1, (1 << 24) // max(1, features[:1].nbytes))
    for start in range(0, len(features), step):
        digest.update(np.ascontiguousarray(features[start : start + step]).data)
    return digest.hexdigest()


def _unfound(features: Features) -> str:
    if features.folder is None:
        return "Does the release belong to this data, and is `id_column` the right column?"
    return (
        f"An image's id is its path below {features.folder}, {str(features.ids[0])!r} for one: is this the folder from which the owner's "
        "ids are counted?"
    )


def join(release: Release, features: Features) -> npt.NDArray[Any]:
    """One row of features for each position of the release: by id where both have ids, else by row number."""
    features.refuse_label(release.label, release.class_names)
    if not features.named:
        if release.header["ids"] is not None:
            raise InputError("the release names its rows by id: name the features' id column with `id_column`.")
        if release.ids.max() >= len(features.values):
            raise InputError(
                f"the release goes up to row {release.ids.max():,}, but there are {len(features.values):,} rows of features."
            )
        rows: npt.NDArray[Any] = release.ids
        return np.asarray(features.values[rows])
    if release.header["ids"] is not None and features.numbered:
        raise InputError(
            "the features' ids are row numbers (`labeldp features --add-id`), and the release has ids of its own: equal numbers would not "
            "mean the same row. Make features with the id column that the release names its rows by."
        )
    if release.header["ids"] is None and not features.numbered:
        raise InputError(
            "the release goes by row number, not by id: leave out `id_column`, and give the features in the owner's order."
        )
    rows = find(release.comparable_ids(), features.ids, "the features", release.id_form, "in this release")
    if (rows < 0).any():
        raise InputError(
            f"{(rows < 0).sum():,} of the {len(rows):,} released rows have no features, the first at position "
            f"{int(np.argmax(rows < 0))} of the release. {_unfound(features)}"
        )
    return np.asarray(features.values[rows])


# ----------------------------------------------------------------
# Test labels that are public: the only clean labels that a feature owner may have.


def read_public_labels(
    path: Path, features: Features, release: Release, id_column: str | None
) -> npt.NDArray[np.int64]:
    """One class number for each row of `features`: .npy with class numbers, or a table with the label.

    A table is joined by `id_column`; for a folder of images by a column `id` that holds their paths.
    """
    names = release.class_names
    values: Sequence[Any]
    if path.suffix == ".npy":
        values, names = _class_numbers(path), tuple(str(number) for number in range(len(names)))
    else:
        values = _column(path, features, release.label, id_column or ("id" if features.named else None))
    if len(values) != len(features.values):
        raise InputError(f"{path} has {len(values):,} labels for {len(features.values):,} rows of test features.")
    codes = {name: code for code, name in enumerate(names)}
    found = np.array([codes.get(str(value), -1) for value in values], dtype=np.int64)
    if (found < 0).any():
        raise InputError(f"row {int(np.argmax(found < 0))} of {path} holds none of the release's {len(names)} classes.")
    return found


def _class_numbers(path: Path) -> Sequence[Any]:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InputError(f"{path} is not a NumPy array of class numbers.") from None
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(f"{path} must hold one whole number a row.")
    numbers: Sequence[Any] = values.tolist()
    return numbers


def _column(path: Path, features: Features, label: str | None, id_column: str | None) -> list[Any]:
    table = open_table(path)
    others = [name for name in table.columns if name != id_column]
    name = label if label in others else others[0] if len(others) == 1 else None
    if name is None:
        called = f", or one called {label!r}" if label else ""
        raise InputError(f"{path} must have one column beside the id{called}; it has {', '.join(others[:12])}.")
    if id_column is None:
        return [value for batch in table.batches([name]) for value in batch.column(name).to_pylist()]
    if id_column not in table.columns:
        raise InputError(f"{path} has no column {id_column!r}.")
    read = pa.Table.from_batches(list(table.batches([id_column, name], ids=id_column)))
    places = find(features.ids, read.column(id_column), str(path), whose="of the test features")
    if (places < 0).any():
        raise InputError(
            f"{(places < 0).sum():,} rows of the test features have no label in {path}, the first is row {np.argmax(places < 0)}."
        )
    values: list[Any] = read.column(name).take(pa.array(places)).to_pylist()
    return values
