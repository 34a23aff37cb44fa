"""Files of a statistic: whole or refused, in memory that is no larger than they are."""

import io
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.errors import FileFormatError, InputError
from labeldp.release.sealed import read_sealed, shapes, statistic_name, write_sealed

ARRAYS = {"b": np.arange(6.0).reshape(2, 3), "a": np.array([3, -4, 5])}


def header(arrays=ARRAYS, **changes):
    return {
        "format": 1, "labeldp": "0", "adjacency": "one label replaced", "label": "y", "label_names": None, "rows": 3, "ids": None,
        "data_set": "d", "insecure": None, "budget": {"caps": None, "publishable": None, "raised": []}, "made": "2026-01-01",
        "ledger": {"id": "i", "entry": 1, "head": "h"}, "statistic": {"name": "test"}, "arrays": shapes(arrays), **changes,
    }  # fmt: skip


def written(path, arrays=ARRAYS, **changes):
    with path.open("wb") as file:
        write_sealed(file, header(arrays, **changes), arrays)
    return path


def test_written_and_read(tmp_path):
    path = written(tmp_path / "s.parquet")
    read = read_sealed(path)
    assert read.header == header()
    assert list(read.arrays) == ["b", "a"]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read.arrays[name], array)
    with (tmp_path / "again.parquet").open("wb") as file:
        assert write_sealed(file, read.header, read.arrays) == read.checksum
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_arrays_of_one_length_are_columns(tmp_path):
    path = written(tmp_path / "s.parquet", {"x": np.arange(5), "y": np.ones(5)})
    assert pq.read_table(path).to_pydict() == {"x": [0, 1, 2, 3, 4], "y": [1.0] * 5}


def test_the_size_depends_on_shapes_alone(tmp_path):
    draw = np.random.default_rng(0)
    for number, values in enumerate((np.zeros(5000), draw.normal(size=5000), np.full(5000, 1e300))):
        whole = (values * 0).astype(int) if number else np.arange(5000)
        written(tmp_path / f"{number}.parquet", {"x": values, "y": whole})
        written(tmp_path / f"{number}.list", {"x": values.reshape(50, 100), "y": whole[:7]})
    for kind in ("parquet", "list"):
        assert len({path.stat().st_size for path in tmp_path.glob(f"*.{kind}")}) == 1


def test_a_folder_that_is_called_like_a_partition_adds_nothing(tmp_path):
    (tmp_path / "a=1").mkdir()
    assert list(read_sealed(written(tmp_path / "a=1" / "s.parquet")).arrays) == ["b", "a"]


def forged(path, table, said=None, **options):
    """Whatever was written there, with a description that fits."""
    metadata = {b"labeldp": json.dumps(said or header()).encode(), b"labeldp.checksum": b"0" * 64}
    pq.write_table(table.replace_schema_metadata(metadata), path, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "ZSTD"}, {"compression": "NONE", "use_dictionary": True},
        {"compression": "NONE", "use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"},
    ],
)  # fmt: skip
def test_a_small_file_that_unfolds_is_not_read(tmp_path, options):
    count = 4_000_000
    table = pa.table({"x": np.zeros(count, np.int64)})
    path = forged(tmp_path / "bomb", table, header({"x": np.zeros(count, int)}), **options)
    assert path.stat().st_size < count
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(FileFormatError, match="other arrays than it describes"):
        read_sealed(path)
    assert tracemalloc.get_traced_memory()[1] < count
    assert pa.total_allocated_bytes() - before < count
    tracemalloc.stop()


def test_missing_numbers_do_not_unfold_either(tmp_path):
    table = pa.table({"x": pa.nulls(4_000_000, pa.int64())})
    path = forged(
        tmp_path / "n", table, header({"x": np.zeros(4_000_000, int)}), compression="NONE", use_dictionary=False
    )
    assert path.stat().st_size < 1 << 20
    with pytest.raises(FileFormatError, match="other arrays"):
        read_sealed(path)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "i8", "shape": [1 << 39]}, {"kind": "i8", "shape": [3, 1]}, {"kind": "f8", "shape": [3]}, {"kind": "i8", "shape": [4]},
    ],
)  # fmt: skip
def test_shapes_must_fit(tmp_path, said):
    wrong = header({"a": ARRAYS["a"]}) | {"arrays": {"a": said}}
    path = forged(tmp_path / "s", pa.table({"a": ARRAYS["a"]}), wrong, compression="NONE", use_dictionary=False)
    with pytest.raises(FileFormatError):
        read_sealed(path)


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": []}, {"arrays": {"a": {"kind": ["i8"], "shape": [1]}}},
        {"arrays": {"b": {"kind": "i8", "shape": [True]}}}, {"statistic": {}}, {"statistic": {"name": "a\x1b"}},
        {"budget": {"raised": []}}, {"budget": {"raised": [], "publishable": None, "of": "ids"}}, {"rows": -1}, {"insecure": ""},
        {"handed_over": {"recipient": "a\nb"}}, {"handed_over": {"who": "x"}}, {"made": "a\x1b[2J"}, {"label_names": [1]},
    ],
)  # fmt: skip
def test_a_description_of_another_kind(tmp_path, change):
    path = written(tmp_path / "s.parquet", **change) if "arrays" not in change else None
    if path is None:
        path = forged(tmp_path / "s.parquet", pa.table({"a": [1]}), header() | change)
    with pytest.raises(FileFormatError, match="damaged description"):
        read_sealed(path)


def test_what_is_no_such_file(tmp_path):
    path = written(tmp_path / "s.parquet")
    content = path.read_bytes()
    for damage in (b"", content[: len(content) // 2], b"x" * 100, content.replace(b"one label", b"two label")):
        path.write_bytes(damage)
        with pytest.raises(FileFormatError):
            read_sealed(path)
    with pytest.raises(InputError, match="there is no file"):
        read_sealed(tmp_path / "none")
    with pytest.raises(InputError, match="there is no file"):
        read_sealed(tmp_path)
    with pytest.raises(FileFormatError, match="newer labeldp"):
        read_sealed(written(tmp_path / "new.parquet", format=2))
    deep = b'{"statistic":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"labeldp": deep}), out)
    path.write_bytes(out.getvalue())
    assert statistic_name(path) is None
    with pytest.raises(FileFormatError, match="not a whole file"):
        read_sealed(path)


def test_what_a_file_says_that_it_holds(tmp_path):
    assert statistic_name(written(tmp_path / "s.parquet")) == "test"
    for name in ("a\x1b", "", 3, None):
        assert statistic_name(written(tmp_path / "s.parquet", statistic={"name": name})) is None
    assert statistic_name(tmp_path / "none") is None
    assert statistic_name(tmp_path) is None
