"""Files of probabilities: from parts as from one piece; and predictions that never hold the table."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.files import tables
from labeldp.files.predictions import read_predictions, write_parts, write_predictions

ROWS, CLASSES = 1000, 3
VALUES = np.random.default_rng(0).dirichlet(np.ones(CLASSES), ROWS).astype(np.float32)
NAMES = np.array([f"u{i}" for i in range(ROWS)], dtype=object)


@pytest.mark.parametrize("name", ["p.parquet", "p.npy"])
@pytest.mark.parametrize("step", [1, 7, 999, ROWS])
def test_parts_make_the_same_file_as_one_piece(tmp_path, name, step):
    write_predictions(tmp_path / name, NAMES, VALUES, {"named": True})
    whole = read_predictions(tmp_path / name)
    parts = ((NAMES[start : start + step], VALUES[start : start + step]) for start in range(0, ROWS, step))
    assert write_parts(tmp_path / name, parts, {"named": True}) == ROWS
    read = read_predictions(tmp_path / name)
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.values.dtype == whole.values.dtype
    assert (read.ids is None) == (name == "p.npy")
    assert read.ids is None or read.ids.to_pylist() == whole.ids.to_pylist()
    assert read.about == whole.about


def test_an_array_is_numpys_own(tmp_path):
    write_predictions(tmp_path / "ours.npy", NAMES, VALUES)
    np.save(tmp_path / "numpys.npy", VALUES)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_predictions_do_not_depend_on_how_a_file_is_cut(cli, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "owner.ledger"))
    rows = 4096
    x = np.random.default_rng(1).normal(size=(rows, 2)).astype(np.float32)
    columns = {"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] > 0).astype(int)}
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    features = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(features, x)
    elif kind == "csv":
        features.write_text("a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in x.tolist()))
    else:
        pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), features, row_group_size=500)

    def done(*arguments):
        code, out, err = cli(*arguments)
        assert code == 0, err
        return out

    released = ("--label", "y", "--classes", "2", "--epsilon", "4", "--out", tmp_path / "r.parquet")
    done("release", tmp_path / "labels.parquet", *released)
    done(
        "train", "--release", tmp_path / "r.parquet", "--features", features, "--epochs", "1", "--out", tmp_path / "run"
    )
    out = [tmp_path / f"{number}.parquet" for number in range(2)]
    done("predict", tmp_path / "run", "--features", features, "--out", out[0])
    monkeypatch.setattr(tables, "_MAX_BATCH_ROWS", 64)
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 4096)
    assert "4,096 rows" in done("predict", tmp_path / "run", "--features", features, "--out", out[1])
    whole, cut = map(read_predictions, out)
    np.testing.assert_allclose(whole.values, cut.values, atol=1e-6)
    assert whole.ids.to_pylist() == cut.ids.to_pylist() == list(range(rows))
    assert pq.read_metadata(out[1]).num_row_groups > 1 or kind == "npy"
