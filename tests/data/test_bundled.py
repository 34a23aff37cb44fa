import gzip
import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from labeldp import PrivateLabels
from labeldp.data.bundled import digits_order, load
from labeldp.errors import InputError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_CACHE", str(tmp_path / "cache"))


def encoded(image):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def write_cifar(folder, rows=6):
    images = np.random.default_rng(0).integers(0, 256, (rows, 32, 32, 3)).astype(np.uint8)
    for split in ("train", "test"):
        table = pa.table({"img": [encoded(i) for i in images], "label": list(range(rows))})
        pq.write_table(table, folder / f"cifar10-{split}.parquet")
    return images


def test_digits():
    bundle = load("digits")
    assert (len(bundle.features), len(bundle.labels), len(bundle.test_labels)) == (1437, 1437, 360)
    assert isinstance(bundle.labels, PrivateLabels)


def test_the_digits_are_in_a_fixed_order_that_mixes_writers():
    """Golden: `printf 'digit %d' ROW | sha256sum` for every row, sorted. As stored, the last 360 rows are all late ones."""
    order = digits_order(1797)
    assert sorted(order) == list(range(1797))
    assert order[:8] == [1486, 168, 347, 1140, 566, 1455, 429, 851]
    late = np.mean(np.array(order[-360:]) >= 1437)
    assert abs(late - 360 / 1797) < 0.1
    digits = load_digits()
    bundle = load("digits")
    np.testing.assert_array_equal(bundle.features[:3], digits.data[order[:3]])
    np.testing.assert_array_equal(bundle.test_labels, digits.target[order[-360:]])


def test_cifar_from_parquet_and_from_the_cache(tmp_path):
    images = write_cifar(tmp_path)
    for _ in range(2):
        bundle = load("cifar10", tmp_path)
        np.testing.assert_array_equal(bundle.features, images.transpose(0, 3, 1, 2))
        assert bundle.labels.reveal().tolist() == list(range(6))
        assert bundle.test_labels.tolist() == list(range(6))
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_damaged_images_name_the_row(tmp_path):
    write_cifar(tmp_path)
    table = pa.table(
        {"img": [encoded(np.zeros((32, 32, 3), np.uint8)), {"bytes": b"x", "path": None}], "label": [0, 1]}
    )
    pq.write_table(table, tmp_path / "cifar10-train.parquet")
    with pytest.raises(InputError, match="row 1 of"):
        load("cifar10", tmp_path)


def test_fashion(tmp_path):
    for split, rows in (("train", 5), ("t10k", 2)):
        images = bytes(16) + bytes(range(rows)) * 784
        (tmp_path / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes(range(rows))))
    bundle = load("fashion", tmp_path)
    assert bundle.features.shape == (5, 1, 28, 28)
    assert bundle.test_labels.tolist() == [0, 1]


def test_a_damaged_fashion(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16 + 783)))
    with pytest.raises(InputError, match="is damaged or missing; `labeldp download fashion`"):
        load("fashion", tmp_path)


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("cifar10", ("cifar10-train.parquet", "cifar-10-batches-py", "data_batch_5", "cifar-10-python.tar.gz")),
        ("cifar100", ("cifar100-test.parquet", "cifar-100-python", "train, test", "cifar-100-python.tar.gz")),
        ("fashion", ("t10k-labels-idx1-ubyte.gz", "fashion-mnist", "dataset-fashion-mnist")),
    ],
)
def test_what_is_missing_is_said_in_all_its_forms(tmp_path, monkeypatch, name, forms):
    monkeypatch.setattr("labeldp.data.bundled._DEBIAN", ())  # where Debian's package is installed it is not missing
    with pytest.raises(InputError, match="there is no") as caught:
        load(name, tmp_path)
    for words in (*forms, f"labeldp download {name}", "`data`", str(tmp_path)):
        assert words in str(caught.value)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(InputError, match="choose one of"):
        load("moons", tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "cifar100-train.parquet")
    with pytest.raises(InputError, match="needs columns"):
        load("cifar100", tmp_path)


@pytest.mark.slow
def test_the_real_cifar():
    folder = Path(os.environ.get("LABELDP_DATA", ""))
    if not (folder / "cifar10-test.parquet").exists():
        pytest.skip("LABELDP_DATA has no CIFAR-10")
    bundle = load("cifar10", folder)
    assert bundle.features.shape == (50_000, 3, 32, 32)
    assert np.bincount(bundle.test_labels).tolist() == [1000] * 10
