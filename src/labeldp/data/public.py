"""Public tables for comparisons: Adult, bank, Diabetes-130, Criteo; and, from scikit-learn, digits and breast cancer.

Each is there twice: with codes for categories and NaN for what is missing, as trees take it, and as columns of numbers, one for each
frequent value of a category. What becomes of a column follows from the training rows' features alone. Training labels are private; those
of test rows are a public benchmark's.
"""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from labeldp.data.bundled import load
from labeldp.data.columns import KEEP, MOST_VALUES, ONE_HOT
from labeldp.data.download import data_folder
from labeldp.data.encode import Encoding
from labeldp.errors import InputError
from labeldp.private import PrivateLabels

Floats = npt.NDArray[np.float32]
_TEST_SHARE = 0.3
_SPLIT = 20231  # a public number, so that a split is nobody's choice
_OTHERS = "(all others)"  # the value that rare ones share


@dataclass(frozen=True)
class PublicTable:
    """Rows to train on, and rows to test on.

    coded, coded_test    float32, codes of categories, NaN for what is missing
    categorical          which columns of these hold codes
    plain, plain_test    the same rows with a column of 0 and 1 for each value
    labels               of the rows to train on
    test_labels          of the others: public
    """

    name: str
    coded: Floats
    coded_test: Floats
    categorical: tuple[int, ...]
    plain: Floats
    plain_test: Floats
    labels: PrivateLabels
    test_labels: npt.NDArray[np.int64]

    @property
    def num_classes(self) -> int:
        """As declared."""
        return self.labels.num_classes


def load_table(name: str, seed: int = 0, folder: Path | None = None) -> PublicTable:
    """The named table, from files in `folder` (default: $LABELDP_DATA, else ./data).

    Another seed is another split, where none is official.
    """
    if name not in _LOADERS:
        raise InputError(f"unknown table {name!r}; choose one of {', '.join(_LOADERS)}.")
    if seed < 0:
        raise InputError(f"`seed` is a whole number from 0; got {seed}.")
    return _LOADERS[name](name, seed, data_folder(folder))


# ----------------------------------------------------------------
# Files.


def _content(path: Path, what: str) -> bytes:
    """Of a .gz file."""
    if not path.exists():
        raise _missing(path, what)
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path} is damaged, or no gzip file.") from None


def _missing(path: Path, what: str) -> InputError:
    return InputError(
        f"there is no {path}: {what}, which is not downloaded by labeldp. Data is looked for in the folder that `data` names, else in "
        "$LABELDP_DATA, else in ./data."
    )


def _cells(content: bytes, path: Path, names: list[str] | None, delimiter: str = ",") -> pa.Table:
    """All as text, without the spaces around it; null where a question mark stands."""
    try:
        table = pa.csv.read_csv(
            io.BytesIO(content),
            read_options=pa.csv.ReadOptions(column_names=names),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names or _header(content, delimiter), pa.string()),
                strings_can_be_null=True,
                null_values=["?", " ?"],
            ),
        )
    except pa.ArrowInvalid:
        raise InputError(f"{path} is damaged: it is no table of the columns that it should have.") from None
    return pa.table({name: pc.utf8_trim_whitespace(table[name]) for name in table.column_names})


def _header(content: bytes, delimiter: str) -> list[str]:
    return [name.strip('"') for name in content.split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(delimiter)]


def _checked(table: pa.Table, path: Path, needed: Iterable[str]) -> pa.Table:
    lacking = [name for name in needed if name not in table.column_names]
    if lacking:
        raise InputError(f"{path} lacks the columns {', '.join(lacking)}: is it another file of that name?")
    return table


def _classes(cells: Any, names: tuple[str, ...], path: Path) -> npt.NDArray[np.int64]:
    codes = pc.index_in(cells, value_set=pa.array(names))
    if codes.null_count:
        raise InputError(f"{path} has a row whose label is none of {', '.join(names)}.")
    return np.asarray(codes.to_numpy(), dtype=np.int64)


# ----------------------------------------------------------------
# The tables.

_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
    "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip


def _adult(name: str, seed: int, folder: Path) -> PublicTable:
    """UCI Adult, in its official split; of the rows of income over 50K."""
    parts = []
    for file in ("adult.data.gz", "adult.test.gz"):
        path = folder / file
        lines = [
            line for line in _content(path, "UCI's Adult").split(b"\n") if line.strip() and not line.startswith(b"|")
        ]
        table = _cells(b"\n".join(lines), path, [*_ADULT, "income"])
        classes = _classes(pc.utf8_rtrim(table["income"], "."), ("<=50K", ">50K"), path)
        parts.append((table.drop_columns(["income"]), classes))
    (train, y), (test, test_y) = parts
    return _made(name, train, y, test, test_y, 2)


def _bank(name: str, seed: int, folder: Path) -> PublicTable:
    """UCI bank marketing: who subscribed."""
    path = folder / "bank-full.csv.gz"
    table = _cells(_content(path, "UCI's bank marketing"), path, None, ";")
    _checked(table, path, ("age", "duration", "y"))
    y = _classes(table["y"], ("no", "yes"), path)
    return _split(name, table.drop_columns(["y"]), y, _drawn(len(y), seed), 2)


_READMITTED = ("NO", ">30", "<30")
_DIABETES_IDS = ("encounter_id", "patient_nbr")
_DIABETES_CODES = ("admission_type_id", "discharge_disposition_id", "admission_source_id")


def _diabetes(name: str, seed: int, folder: Path) -> PublicTable:
    """UCI Diabetes-130: who was readmitted within 30 days; as `diabetes3` also who later. Nobody is in both halves of the split."""
    path = folder / "diabetic_data.csv.gz"
    table = _cells(_content(path, "UCI's Diabetes-130"), path, None)
    _checked(table, path, (*_DIABETES_IDS, *_DIABETES_CODES, "readmitted"))
    y = _classes(table["readmitted"], _READMITTED, path)
    people = table["patient_nbr"].combine_chunks().dictionary_encode()
    tested = _drawn(len(people.dictionary), seed)[people.indices.to_numpy()]
    texts = {one: pc.binary_join_element_wise("code", table[one], " ") for one in _DIABETES_CODES}  # not numbers
    kept = [one for one in table.column_names if one not in (*_DIABETES_IDS, "readmitted")]
    table = pa.table({one: texts.get(one, table[one]) for one in kept})
    return (
        _split(name, table, y, tested, 3)
        if name == "diabetes3"
        else _split(name, table, (y == 2).astype(np.int64), tested, 2)
    )


def _criteo(name: str, seed: int, folder: Path) -> PublicTable:
    """Criteo's privacy competition at AdKDD'21: who clicked. All columns are hashes; `sale` is another outcome, and no feature."""
    path = folder / "criteo_ppml_adkdd21_train.parquet"
    if not path.exists():
        raise _missing(path, "the sample of Criteo's AdKDD'21 competition, whose licence is not stated")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise InputError(f"{path} is damaged, or no Parquet file.") from None
    _checked(table, path, ("hash_0", "click"))
    hashes = [one for one in table.column_names if one.startswith("hash_")]
    features = pa.table({one: pc.binary_join_element_wise("hash", table[one].cast(pa.string()), " ") for one in hashes})
    y = _classes(table["click"].cast(pa.string()), ("0", "1"), path)
    return _split(name, features, y, _drawn(len(y), seed), 2)


def _digits(name: str, seed: int, folder: Path) -> PublicTable:
    bundle = load("digits", folder)
    x, test_x = bundle.features.astype(np.float32), bundle.test_features.astype(np.float32)
    return PublicTable(name, x, test_x, (), x, test_x, bundle.labels, bundle.test_labels)


def _cancer(name: str, seed: int, folder: Path) -> PublicTable:
    """Wisconsin's breast cancer, small: malignant or not."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise InputError("this table comes with scikit-learn: pip install scikit-learn") from None
    data = load_breast_cancer()
    x, y, tested = data.data.astype(np.float32), 1 - data.target.astype(np.int64), _drawn(len(data.target), seed)
    labels = PrivateLabels(y[~tested], 2)
    return PublicTable(name, x[~tested], x[tested], (), x[~tested], x[tested], labels, y[tested])


_LOADERS: dict[str, Callable[[str, int, Path], PublicTable]] = {
    "adult": _adult,
    "bank": _bank,
    "diabetes": _diabetes,
    "criteo": _criteo,
    "diabetes3": _diabetes,
    "digits": _digits,
    "cancer": _cancer,
}
TABLES = tuple(_LOADERS)
WITH_SCIKIT_LEARN = ("digits", "cancer")  # no files are needed


# ----------------------------------------------------------------
# From cells to numbers.


def _drawn(count: int, seed: int) -> npt.NDArray[np.bool_]:
    """Which of so many are tested on: 30%, by a public draw that anybody can repeat."""
    order = np.random.default_rng([_SPLIT, seed]).permutation(count)
    tested = np.zeros(count, dtype=np.bool_)
    tested[order[: round(_TEST_SHARE * count)]] = True
    return tested


def _split(
    name: str, table: pa.Table, y: npt.NDArray[np.int64], tested: npt.NDArray[np.bool_], classes: int
) -> PublicTable:
    train, test = table.filter(pa.array(~tested)), table.filter(pa.array(tested))
    return _made(name, train, y[~tested], test, y[tested], classes)


def _made(
    name: str, train: pa.Table, y: npt.NDArray[np.int64], test: pa.Table, test_y: npt.NDArray[np.int64], classes: int
) -> PublicTable:  # fmt: skip
    numbers = [one for one in train.column_names if _is_number(train[one])]
    train, test = (_typed(part, numbers) for part in (train, test))
    coded, coded_test, codes = _encoded(train, test, KEEP)
    plain, plain_test, _ = _encoded(train, test, ONE_HOT)
    return PublicTable(name, coded, coded_test, codes, plain, plain_test, PrivateLabels(y, classes), test_y)


def _is_number(cells: Any) -> bool:
    try:
        pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _typed(table: pa.Table, numbers: list[str]) -> pa.Table:
    return pa.table(
        {one: table[one].cast(pa.float64()) if one in numbers else table[one] for one in table.column_names}
    )


def _encoded(train: pa.Table, test: pa.Table, categories: str) -> tuple[Floats, Floats, tuple[int, ...]]:
    """By the encoding that `labeldp features` would fit on the training rows. Rare values of a column share one."""
    most = MOST_VALUES[categories]
    common = {one: _common(train[one], most - 2) for one in train.column_names if pa.types.is_string(train[one].type)}
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / f"{part}.parquet" for part in ("train", "test")]
        for table, path in zip((train, test), paths, strict=True):
            pq.write_table(_gathered(table, common), path)
        encoding = Encoding.fit(paths[0], labels=(), categories=categories)
        arrays = [_array(encoding.apply(path)) for path in paths]
    return arrays[0], arrays[1], tuple(encoding.outputs.index(one) for one in encoding.codes)


def _common(cells: Any, most: int) -> Any | None:
    """The most frequent values, where there are more."""
    counts = pc.value_counts(cells.drop_null())
    if len(counts) <= most:
        return None
    places = pc.sort_indices(
        pa.table({"count": counts.field("counts"), "value": counts.field("values")}),
        sort_keys=[("count", "descending"), ("value", "ascending")],
    )
    return counts.field("values").take(places[:most])


def _gathered(table: pa.Table, common: dict[str, Any | None]) -> pa.Table:
    def cells(one: str) -> Any:
        known, given = common.get(one), table[one]
        return given if known is None else pc.if_else(pc.or_(pc.is_in(given, known), pc.is_null(given)), given, _OTHERS)

    return pa.table({one: cells(one) for one in table.column_names})


def _array(batches: Iterable[Any]) -> Floats:
    parts = [np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1) for batch in batches]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)
