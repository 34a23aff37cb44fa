import hashlib
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from labeldp.data.bundled import load
from labeldp.data.download import PUBLISHED
from labeldp.data.official import OFFICIAL, load_pickle
from labeldp.errors import InputError
from tests.data.batches import batch10, batch100, declare, packed, small
from tests.data.test_bundled import write_cifar
from tests.data.test_pickles import Reduced

NAMES = ("cifar10", "cifar100")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def unpack(folder, name, files):
    place = folder / OFFICIAL[name].folder
    place.mkdir()
    for file, content in files.items():
        (place / file).write_bytes(content)
    return place


def archive(folder, name, content):
    path = folder / PUBLISHED[name].files[0].name
    path.write_bytes(content)
    return path


def expect_small(name, folder):
    _, pixels, labels = small(name)
    bundle = load(name, folder)
    np.testing.assert_array_equal(bundle.features, np.concatenate(pixels[:-1]))
    np.testing.assert_array_equal(bundle.test_features, pixels[-1])
    assert bundle.labels.reveal().tolist() == [y for part in labels[:-1] for y in part]
    assert bundle.test_labels.tolist() == labels[-1]
    assert bundle.labels.num_classes == (10 if name == "cifar10" else 100)
    assert bundle.features.flags.writeable


@pytest.mark.parametrize("name", NAMES)
def test_from_the_folder(data, monkeypatch, name):
    files, _, _ = small(name)
    declare(monkeypatch, name, files)
    unpack(data, name, files)
    expect_small(name, data)


@pytest.mark.parametrize("name", NAMES)
def test_from_the_archive_in_memory(data, monkeypatch, name):
    """In the files' order, whatever the archive's is; members with evil paths are passed over and nothing is written."""
    files, _, _ = small(name)
    evil = [(tarfile.TarInfo(path), b"x") for path in ("../evil", "/tmp/evil", f"{OFFICIAL[name].folder}/../../evil")]
    content = packed(OFFICIAL[name].folder, files, evil)
    declare(monkeypatch, name, files, content)
    archive(data, name, content)
    expect_small(name, data)
    assert [path.name for path in data.parent.rglob("*") if path.is_file()] == [PUBLISHED[name].files[0].name]


def test_the_archive_serves_where_the_folder_lacks_a_file(data, monkeypatch):
    files, _, _ = small("cifar10")
    content = packed(OFFICIAL["cifar10"].folder, files)
    declare(monkeypatch, "cifar10", files, content)
    place = unpack(data, "cifar10", files)
    (place / "data_batch_3").unlink()
    with pytest.raises(InputError, match=r"lacks data_batch_3; .*labeldp download cifar10"):
        load("cifar10", data)
    archive(data, "cifar10", content)
    expect_small("cifar10", data)


def test_parquet_goes_first(data, monkeypatch):
    files, _, _ = small("cifar10")
    declare(monkeypatch, "cifar10", files)
    unpack(data, "cifar10", files)
    write_cifar(data)
    assert len(load("cifar10", data).features) == 6
    (data / "cifar10-test.parquet").unlink()
    expect_small("cifar10", data)


def test_an_altered_file_is_not_opened(data, tmp_path):
    """With the official table: a pickle that would run a command has another md5, and is not even unpickled."""
    mark = tmp_path / "mark"
    evil = pickle.dumps({b"data": Reduced(os.system, (f"touch {mark}",))}, 2)
    place = unpack(data, "cifar10", dict.fromkeys(OFFICIAL["cifar10"].files, evil))
    with pytest.raises(InputError, match=r"data_batch_1 is not the published file .*was not opened"):
        load("cifar10", data)
    (place / "test_batch").unlink()
    archive(data, "cifar10", packed(OFFICIAL["cifar10"].folder, {"data_batch_1": evil}))
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz is not the published file"):
        load("cifar10", data)
    assert not mark.exists()


def test_members_are_verified_too(data, monkeypatch):
    files, _, _ = small("cifar100")
    content = packed(OFFICIAL["cifar100"].folder, {**files, "train": b"x"})
    declare(monkeypatch, "cifar100", files, content)
    archive(data, "cifar100", content)
    with pytest.raises(InputError, match=r"train is not the published file"):
        load("cifar100", data)


def test_a_malicious_file_of_the_right_md5_is_not_run(data, monkeypatch, tmp_path):
    files, _, _ = small("cifar100")
    files["train"] = pickle.dumps({b"data": Reduced(os.system, (f"touch {tmp_path / 'mark'}",))}, 2)
    declare(monkeypatch, "cifar100", files)
    unpack(data, "cifar100", files)
    with pytest.raises(InputError, match="nothing of it was run"):
        load("cifar100", data)
    assert not (tmp_path / "mark").exists()


def test_a_link_in_the_archive_is_no_file(data, monkeypatch):
    files, _, _ = small("cifar100")
    link = tarfile.TarInfo(f"{OFFICIAL['cifar100'].folder}/train")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    content = packed(OFFICIAL["cifar100"].folder, {"test": files["test"]}, [(link, b"")])
    declare(monkeypatch, "cifar100", files, content)
    archive(data, "cifar100", content)
    with pytest.raises(InputError, match="lacks train"):
        load("cifar100", data)


@pytest.mark.parametrize(
    "content", [b"junk", b"\x1f\x8b junk", packed("x", {"a": bytes(3000)})[:-40]], ids=["junk", "no gzip", "cut"]
)
def test_a_damaged_archive(data, monkeypatch, content):
    files, _, _ = small("cifar10")
    declare(monkeypatch, "cifar10", files, content)
    archive(data, "cifar10", content)
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz (is damaged|cannot be read|lacks)"):
        load("cifar10", data)


@pytest.mark.parametrize(
    "train",
    [
        batch10(np.zeros((2, 3072), np.uint8), [1, 2], [b"a", b"b"], b"t"),  # no fine labels
        batch100(np.zeros((2, 3071), np.uint8), [1, 2], [0, 0], [b"a", b"b"], b"t"),
        batch100(np.zeros((2, 3072), np.uint8), [1], [0, 0], [b"a", b"b"], b"t"),
    ],
)
def test_other_content(data, monkeypatch, train):
    files, _, _ = small("cifar100")
    declare(monkeypatch, "cifar100", {**files, "train": train})
    unpack(data, "cifar100", {**files, "train": train})
    with pytest.raises(InputError, match="one of 'fine_labels' for each"):
        load("cifar100", data)


def test_a_label_outside_is_named_by_its_row(data, monkeypatch):
    files, _, _ = small("cifar100")
    files["train"] = batch100(np.zeros((2, 3072), np.uint8), [1, 8765], [0, 0], [b"a", b"b"], b"t")
    declare(monkeypatch, "cifar100", files)
    unpack(data, "cifar100", files)
    with pytest.raises(InputError, match="row 1 holds a label outside the 100 declared classes") as caught:
        load("cifar100", data)
    assert "8765" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_real_files(data, name):
    """Parquet and file names give the official test file to the byte, by its md5; read back, the same pixels and labels."""
    source = Path(os.environ.get("LABELDP_DATA", "")) / f"{name}-test.parquet"
    if not source.exists():
        pytest.skip("LABELDP_DATA has no CIFAR")
    table = pq.read_table(source)
    cells = table.column("img").to_pylist()
    images = [np.asarray(Image.open(io.BytesIO(cell["bytes"])).convert("RGB")) for cell in cells]
    pixels = np.stack(images).transpose(0, 3, 1, 2).reshape(len(images), 3072)
    labels = [table.column(column).to_pylist() for column in table.column_names if column != "img"]
    write = batch10 if name == "cifar10" else batch100
    content = write(pixels, *labels, [cell["path"].encode() for cell in cells], b"testing batch 1 of 1")
    ((_, md5),) = OFFICIAL[name].test.items()
    assert hashlib.md5(content).hexdigest() == md5
    loaded = load_pickle(content, "the real file")
    np.testing.assert_array_equal(loaded[b"data"], pixels)
    assert loaded[OFFICIAL[name].label] == labels[0]
