import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data.features import read_features
from labeldp.errors import InputError
from labeldp.release.ids import find

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
