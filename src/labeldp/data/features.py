"""Your own features: .npy, .npz, Parquet (number columns, or one list column), CSV, or a folder of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.folder import folder_of_class, read_folder
from labeldp.errors import InputError
from labeldp.release.tables import CSVTable, open_table


@dataclass(frozen=True)
class Features:
    """One row of numbers (or an image) for each id.

    `named` says that ids are names, from an id column or of image files, by which to join with a release; otherwise they
    are row numbers. `folder` is where images came from, if they did.
    """

    values: npt.NDArray[Any]
    ids: npt.NDArray[Any]
    columns: tuple[str, ...] = ()
    named: bool = False
    folder: Path | None = None

    def places(self) -> dict[str, int]:
        """The row of each id, as text. Ids that repeat are refused."""
        found = {str(name): row for row, name in enumerate(self.ids.tolist())}
        if len(found) != len(self.ids):
            raise InputError(
                f"{len(self.ids) - len(found):,} ids of the features repeat; each row needs one of its own."
            )
        return found

    def ordered(self, columns: Sequence[str]) -> npt.NDArray[Any]:
        """The values with columns in this order; refused if they are others. Features without names are taken as they come."""
        if not columns or not self.columns or tuple(columns) == self.columns:
            return self.values
        if sorted(columns) != sorted(self.columns):
            missing = [name for name in columns if name not in self.columns]
            extra = [name for name in self.columns if name not in columns]
            raise InputError(
                f"the model was trained on other columns: missing here {', '.join(missing[:8]) or 'none'}, new here "
                f"{', '.join(extra[:8]) or 'none'}. (`labeldp features --like` encodes new rows as the first ones were.)"
            )
        return np.asarray(self.values[:, [self.columns.index(name) for name in columns]])

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


def read_features(path: Path, id_column: str | None = None, image_size: int | None = None) -> Features:
    """Read and check public features. `image_size` is for a folder of images: see `read_folder`."""
    if path.is_dir():
        return _from_folder(path, id_column, image_size)
    if image_size is not None:
        raise InputError(f"{path} is not a folder of images; leave out the image size (`image_size`).")
    if path.suffix in (".npy", ".npz"):
        if id_column is not None:
            raise InputError(f"{path} has no columns, and so no {id_column!r}; use Parquet or CSV to join by id.")
        values = _from_numpy(path)
        ids: npt.NDArray[Any] = np.arange(len(values))
        columns: tuple[str, ...] = ()
    else:
        values, ids, columns = _from_table(path, id_column)
    if values.ndim < 2 or len(values) == 0:
        raise InputError(f"{path} must hold one row of features for each example; it holds shape {values.shape}.")
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if bad.any():
            raise InputError(f"row {int(np.argmax(bad))} of {path} holds a feature that is NaN or infinite.")
    return Features(values, ids, columns, named=id_column is not None)


_INDEX = ("", "__index_level_0__", "Unnamed: 0")


def _from_folder(path: Path, id_column: str | None, image_size: int | None) -> Features:
    if id_column is not None:
        raise InputError(
            f"{path} is a folder: its images are named by their paths in it, not by a column {id_column!r}; leave out `id_column`. "
            "A release whose ids are these paths is joined by them."
        )
    pixels, names = read_folder(path, image_size)
    return Features(pixels, np.array(names, dtype=object), named=True, folder=path)


def _from_numpy(path: Path) -> npt.NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
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
    return values if values.dtype == np.uint8 else values.astype(np.float32)


def _from_table(path: Path, id_column: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[str, ...]]:
    table = open_table(path)
    if id_column is not None and id_column not in table.columns:
        raise InputError(f"{path} has no column {id_column!r}; its columns are {', '.join(table.columns[:12])}.")
    names = [name for name in table.columns if name != id_column]
    index = next((name for name in names if name in _INDEX), None)
    if index is not None:
        raise InputError(
            f"{path} has a column {index!r}, an index that pandas wrote: it says where a row stood, which is no feature. Write the file "
            "with index=False, or name the column with `id_column`."
        )
    wanted = names if id_column is None else [*names, id_column]
    blocks, ids = [], []
    for batch in table.batches(wanted):
        blocks.append(_numbers(path, batch, names, text=isinstance(table, CSVTable)))
        if id_column is not None:
            ids.append(batch.column(id_column).to_numpy(zero_copy_only=False))
    if not blocks:
        raise InputError(f"{path} has no rows.")
    values = np.concatenate(blocks)
    return values, np.concatenate(ids) if ids else np.arange(len(values)), tuple(names)


def _numbers(path: Path, batch: Any, names: list[str], *, text: bool) -> npt.NDArray[np.float32]:
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
                f"column {name!r} of {path} holds {kind}, not numbers: `labeldp features` encodes it. Is it an id? `id_column={name!r}`."
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
