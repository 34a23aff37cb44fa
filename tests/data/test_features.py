import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data.features import read_features
from labeldp.errors import InputError
from labeldp.files.ids import as_id_text, find
from labeldp.files.tables import open_table

VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(folder, kind):
    path = folder / f"x.{kind.split()[0]}"
    columns = {"uid": ["a", "b", "c", "d"], **{f"c{j}": VALUES[:, j] for j in range(3)}}
    if kind == "npy":
        np.save(path, VALUES)
    elif kind == "npz":
        np.savez(path, features=VALUES, other=np.zeros(3))
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "parquet list":
        pq.write_table(pa.table({"uid": columns["uid"], "embedding": VALUES.tolist()}), path)
    else:
        path.write_text(
            "uid,c0,c1,c2\n" + "".join(f"{u},{a},{b},{c}\n" for u, (a, b, c) in zip("abcd", VALUES, strict=True))
        )
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "parquet list", "csv"])
def test_every_format(tmp_path, kind):
    has_ids = kind not in ("npy", "npz")
    read = read_features(write(tmp_path, kind), "uid" if has_ids else None)
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.values.dtype == np.float32
    assert read.ids.tolist() == (["a", "b", "c", "d"] if has_ids else [0, 1, 2, 3])
    assert read.named == has_ids
    assert find(read.ids, read.ids, "the features").tolist() == list(range(len(read.ids)))


def test_images_stay_bytes(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 4, 4), np.uint8))
    assert read_features(tmp_path / "x.npy").values.dtype == np.uint8


def test_pickles_are_never_opened(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="not a NumPy array of numbers"):
        read_features(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: np.save(p / "x.npy", np.zeros(4)), "one row of features"),
        (lambda p: np.save(p / "x.npy", np.array(["a"])), "not numbers"),
        (lambda p: np.save(p / "x.npy", np.full((2, 2), np.inf)), "row 0"),
        (lambda p: (p / "x.npy").write_bytes(b"junk"), "not a NumPy array"),
        (lambda p: None, "there is no file"),
    ],
)
def test_bad_arrays(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "x.npy")


def test_bad_tables(tmp_path):
    pq.write_table(pa.table({"x": [[1.0], [1.0, 2.0]]}), tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="one length"):
        read_features(tmp_path / "ragged.parquet")
    np.savez(tmp_path / "two.npz", a=VALUES, b=VALUES)
    with pytest.raises(InputError, match="call the right one"):
        read_features(tmp_path / "two.npz")
    pq.write_table(pa.table({"x": pa.array([], pa.float32())}), tmp_path / "empty.parquet")
    with pytest.raises(InputError, match="no rows"):
        read_features(tmp_path / "empty.parquet")


def test_ids_that_repeat_have_no_place(tmp_path):
    pq.write_table(pa.table({"uid": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="the ids in the features repeat"):
        find(["a"], read_features(tmp_path / "x.parquet", "uid").ids, "the features")


def test_a_column_of_the_labels_name_is_refused(tmp_path):
    read = read_features(write(tmp_path, "parquet"), "uid")
    with pytest.raises(InputError, match="have a column 'c1'"):
        read.refuse_label("c1")
    read.refuse_label("y", ("a", "b"))


def test_ids_of_other_types_join_by_their_text(tmp_path):
    columns = {
        "date": pa.array([datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)]),
        "decimal": pa.array([Decimal("1.50"), Decimal("2")], pa.decimal128(20, 4)),
        "uuid": pa.array([bytes(15) + b"\1", bytes(15) + b"\2"], pa.binary(16)),
    }
    for name, column in columns.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({name: column, "x": pa.array([Decimal("0.5"), Decimal("1.25")])}), path)
        read = read_features(path, name)
        assert find(as_id_text(column), read.ids, "the features").tolist() == list(range(len(column)))
        assert read.values.tolist() == [[0.5], [1.25]]  # decimals are numbers


def test_missing_and_odd_ids(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,x\nNA,1\nNone,2\n")
    assert find(["NA", "None"], read_features(path, "id").ids, "the features").tolist() == [0, 1]
    path.write_text("id,x\na,1\n,2\n")
    with pytest.raises(InputError, match=r"row 1 of .* has no id"):
        read_features(path, "id")
    pq.write_table(pa.table({"id": [0.5, 1.5], "x": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"the id column of .* holds double"):
        read_features(tmp_path / "x.parquet", "id")


def test_a_directory_of_tables_is_said(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "part-0.parquet")
    with pytest.raises(InputError, match="Directories of Parquet files are not read yet"):
        read_features(tmp_path)
    with pytest.raises(InputError, match="Directories of them are not read yet"):
        open_table(tmp_path)


def test_features_without_a_header_are_refused_and_their_first_line_shown(tmp_path):
    """Taken for a header, it would shift every row against its label. Features hold no label: the line may be shown."""
    path = tmp_path / "x.csv"
    for text, shown in (
        ("5.1,3.5\n4.9,3.0\n", "'5.1, 3.5'"),
        ("1,1,NA\n2,3,4\n", None),
        (f"{'7' * 40},1\n2,3\n", "7…, 1'"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match="looks like data, not like a header") as caught:
            read_features(path)
        assert shown is None or shown in str(caught.value)
    path.write_text("u17,3.5\nu18,3.0\n")
    with pytest.raises(InputError, match=r"no column 'uid': its first line looks like data.*'u17, 3\.5'"):
        read_features(path, "uid")
    for header in ("0,1", "a,2019", "2019,2020", "1.5x,y"):
        path.write_text(f"{header}\n1,2\n")
        assert read_features(path).columns == tuple(header.split(","))
