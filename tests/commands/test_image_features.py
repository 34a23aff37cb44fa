"""Rows of numbers from images alone: an encoder is learned once, encodes new images, and what does not fit is said."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp.commands import FeaturesOptions, features
from labeldp.data.features import read_features
from labeldp.errors import InputError

PIL = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 256, (4, 3, 20, 20))
    noisy = shapes[rng.integers(0, 4, 60)] + rng.normal(0, 30, (60, 3, 20, 20))
    return noisy.clip(0, 255).astype(np.uint8)


@pytest.fixture
def folder(tmp_path, drawn):
    place = tmp_path / "images"
    place.mkdir()
    for number, one in enumerate(drawn):
        PIL.fromarray(one.transpose(1, 2, 0)).save(place / f"i{number:02d}.png")
    return place


def test_a_folder_becomes_rows_by_path_and_new_images_the_same(tmp_path, folder, drawn):
    out = tmp_path / "x.parquet"
    options = FeaturesOptions(file=folder, out=out, learn="contrastive", epochs=1, encoder=tmp_path / "encoder")
    done = features(options)
    assert (done["rows"], done["features"], done["id"]) == (60, 128, "image")
    assert done["flop"] > 0
    assert len(done["loss"]) == 1
    read = read_features(out, "image")
    assert read.values.shape == (60, 128)
    assert read.ids[3] == "i03.png"
    np.save(tmp_path / "new.npy", drawn[5:9])
    later = features(
        FeaturesOptions(file=tmp_path / "new.npy", out=tmp_path / "new.parquet", encoder=tmp_path / "encoder")
    )
    assert later["id"] is None
    np.testing.assert_allclose(read_features(tmp_path / "new.parquet").values, read.values[5:9], atol=1e-4)
    # Asked again, nothing is learned again: the encoder is found.
    before = (tmp_path / "encoder" / "contrast.safetensors").stat().st_mtime_ns
    features(options)
    assert (tmp_path / "encoder" / "contrast.safetensors").stat().st_mtime_ns == before
    numbered = features(
        replace(options, file=tmp_path / "new.npy", learn=None, epochs=None, add_id="row", out=tmp_path / "n.parquet")
    )
    assert numbered["id"] == "row"
    assert pq.read_table(tmp_path / "n.parquet").column("row").to_pylist() == [0, 1, 2, 3]


def test_flop_are_whole_epochs(tmp_path, drawn):
    from labeldp.features.contrastive import flop_an_epoch

    np.save(tmp_path / "x.npy", drawn)
    paid = 2.4 * flop_an_epoch(drawn, "fast-medium")
    done = features(
        FeaturesOptions(
            file=tmp_path / "x.npy",
            out=tmp_path / "x.parquet",
            learn="contrastive",
            model="fast-medium",
            flop=paid,
            encoder=tmp_path / "encoder",
        )
    )
    assert len(done["loss"]) == 2
    assert done["features"] == 256
    assert 0.7 * paid < done["flop"] <= paid


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder": None}, "name the directory of an `encoder`"),
        ({"no_label": True}, "`no_label` is for tables"),
        ({"flop": 1e9}, "`flop` says how long to learn by contrast"),
        ({"learn": "contrastive", "flop": 1e9, "epochs": 2}, "not both"),
        ({"learn": "contrastive", "flop": -1.0}, "`flop` is a positive number"),
        ({"learn": "labels"}, "patches, contrastive or both; got 'labels'"),
        ({}, "holds no encoder"),
        ({"id_column": "uid", "learn": "patches"}, "has no ids; `add_id`"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, drawn, changes, said):
    np.save(tmp_path / "x.npy", drawn)
    options = FeaturesOptions(file=tmp_path / "x.npy", out=tmp_path / "x.parquet", encoder=tmp_path / "encoder")
    with pytest.raises(InputError, match=said):
        features(replace(options, **changes))
    assert not (tmp_path / "x.parquet").exists()


def test_tables_need_no_encoder_and_rows_of_numbers_none(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"`encoder` is for images.*t.csv is a table"):
        features(FeaturesOptions(file=tmp_path / "t.csv", out=tmp_path / "x.parquet", no_label=True, encoder=tmp_path))
    np.save(tmp_path / "rows.npy", np.zeros((5, 3), np.float32))
    with pytest.raises(InputError, match="features already"):
        features(FeaturesOptions(file=tmp_path / "rows.npy", out=tmp_path / "x.parquet", encoder=tmp_path / "e"))
