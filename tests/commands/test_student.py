"""`labeldp train --moments --start`: feature owner and label owner in parts, each with what is theirs."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.commands import FeaturesOptions, MomentsOptions, TrainOptions, features, moments, train
from labeldp.errors import InputError
from labeldp.files.predictions import read_predictions
from labeldp.runs.student import epochs_for
from labeldp.statistics.reading import load_fittable
from tests.runs.stripes import KINDS, stripes

PIL = pytest.importorskip("PIL.Image")
ROWS = 120


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of images, their labels by file name in another order, an encoder, and one statistic."""
    folder = tmp_path_factory.mktemp("parts")
    images, labels = stripes(ROWS)
    (folder / "images").mkdir()
    names = [f"i{row:03d}.png" for row in range(ROWS)]
    for name, one in zip(names, images, strict=True):
        PIL.fromarray(one.transpose(1, 2, 0)).save(folder / "images" / name)
    order = np.random.default_rng(1).permutation(ROWS)
    pq.write_table(pa.table({"image": np.array(names)[order], "y": labels[order]}), folder / "y.parquet")
    features(
        FeaturesOptions(
            file=folder / "images", out=folder / "x.parquet", learn="contrastive", epochs=1, encoder=folder / "encoder"
        )
    )
    moments(
        MomentsOptions(
            features=folder / "x.parquet", labels=folder / "y.parquet", label="y", id_column="image", classes=KINDS,
            epsilon=8.0, out=folder / "moments.parquet", ledger=folder / "l.ledger",
        )
    )  # fmt: skip
    return folder


def options(place, out, **changes):
    usual = TrainOptions(
        moments=place / "moments.parquet", features=place / "images", start=place / "encoder", out=out, epochs=1,
        batch_size=40,
    )  # fmt: skip
    return replace(usual, **changes)


def test_in_parts_and_as_users_type_it(place, tmp_path, cli):
    words = ("--moments", place / "moments.parquet", "--features", place / "images", "--start", place / "encoder")
    more = ("--epochs", 2, "--learning-rate", 0.2, "--mixup", 0.4, "--average", 0.9, "--randaugment", 1, "--cutout", 4)
    run = tmp_path / "run"
    code, out, err = cli("train", *words, *more, "--seed", 3, "--dtype", "float32", "--out", run, "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["certificate"] == load_fittable(place / "moments.parquet").certificate()
    assert (summary["epochs"], summary["dtype"], summary["model"]) == (2, "float32", "fast")
    recipe = json.loads((run / "config.json").read_text())["recipe"]
    given = {"learning_rate": 0.2, "mixup": 0.4, "average": 0.9, "randaugment": 1, "cutout": 4, "seed": 3}
    assert {name: recipe[name] for name in given} == given
    code, out, err = cli("predict", run, "--features", place / "images", "--out", tmp_path / "p.parquet")
    assert code == 0, err
    assert read_predictions(tmp_path / "p.parquet").values.shape == (ROWS, KINDS)
    code, out, err = cli("report", run, "--out", tmp_path / "r.html", "--json")
    assert json.loads(out)["runs"][0]["checked"]
    code, out, err = cli("train", *words, *more, "--seed", 3, "--dtype", "float32", "--out", run)
    assert code == 0
    assert "it was finished before" in out
    assert "labeldp score" in out
    code, out, err = cli("train", *words, *more, "--seed", 4, "--dtype", "float32", "--out", run)
    assert code == 2
    assert "another seed" in err


def test_so_many_flop(place, tmp_path):
    images, _ = stripes(ROWS)
    wanted = epochs_for(3e10, "fast", images, KINDS)
    summary = train(options(place, tmp_path / "run", epochs=None, flop=3e10))
    assert summary["epochs"] == wanted > 1
    assert summary["train_flop"] == pytest.approx(3e10, rel=0.25)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"holdout": 0.1, "select": "best"}, "leave out `holdout`, `select`"),
        ({"prior": "model"}, "leave out `prior`"),
        ({"denoise": "none", "fixmatch": True}, "leave out `denoise`, `fixmatch`"),
        ({"id_column": "image"}, "its images are named by their paths"),
        ({"model": "resnet18"}, "'fast', and 'resnet18' is to be trained"),
        ({"epochs": 1, "flop": 1e9}, "`flop` or in `epochs`, not both"),
        ({"image_size": 20}, r"images of shape \(3, 17, 17\); these have \(3, 20, 20\)"),
        ({"mixup": -1.0}, "`mixup` is not negative"),
    ],
)
def test_what_cannot_be_begins_no_run(place, tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        train(options(place, tmp_path / "run", **change))
    assert not (tmp_path / "run").exists()


def test_other_features_and_no_encoder_are_refused(place, tmp_path):
    with pytest.raises(InputError, match="images of bytes"):
        train(options(place, tmp_path / "run", features=place / "x.parquet", id_column="image"))
    with pytest.raises(InputError, match="no encoder to start from"):
        train(options(place, tmp_path / "run", start=tmp_path))
    np.save(tmp_path / "other.npy", stripes(ROWS, seed=9)[0] // 2)
    with pytest.raises(InputError, match="not the features that the moments were summed over"):
        train(options(place, tmp_path / "run", features=tmp_path / "other.npy"))
    with pytest.raises(InputError, match="fitted by their own rule: leave out `epochs`, `batch_size`"):
        train(options(place, tmp_path / "run", start=None))
    assert not (tmp_path / "run").exists()


def test_images_that_are_sorted_by_class_are_refused(place, tmp_path):
    images, labels = stripes(ROWS)
    for row, (one, label) in enumerate(zip(images, labels, strict=True)):
        (tmp_path / "sorted" / str(label)).mkdir(parents=True, exist_ok=True)
        PIL.fromarray(one.transpose(1, 2, 0)).save(tmp_path / "sorted" / str(label) / f"{row}.png")
    with pytest.raises(InputError, match="which is what a class of the release is called"):
        train(options(place, tmp_path / "run", features=tmp_path / "sorted"))
