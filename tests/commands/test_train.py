"""`labeldp train`: what it refuses and warns of before, and after, a network of images is trained."""

from dataclasses import replace

import numpy as np
import pytest

from labeldp import Ledger, recommend
from labeldp.commands import MomentsOptions, TrainOptions, moments, train
from labeldp.errors import InputError
from tests.runs.stripes import KINDS, stripes

pytest.importorskip("torch")
ROWS = 120


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Images, and a release of their labels."""
    folder = tmp_path_factory.mktemp("train")
    images, labels = stripes(ROWS)
    mechanism = recommend(epsilon=8.0, num_classes=KINDS)
    with pytest.warns(UserWarning, match="without ids"):
        release = mechanism.release(labels, data_set="stripes", ledger=Ledger(folder / "l.ledger", budget=8.0))
    release.save(folder / "r.parquet")
    np.save(folder / "x.npy", images)
    return TrainOptions(
        release=(folder / "r.parquet",),
        features=folder / "x.npy",
        out=folder / "run",
        epochs=1,
        threads=1,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strong_from": 0.4}, "there are none: give `randaugment`, `cutout` or `consistency`"),
        ({"cutout": 40}, "would blank whole images"),
        ({"consistency": 0.5}, "averaged model"),
        ({"flop": 1e12, "epochs": 3}, "not both|`epochs`"),
        ({"release": ()}, "or `moments`, one statistic"),
        ({"model": "fsat"}, "for tables also lightgbm"),
    ],
)
def test_what_cannot_be_is_refused(usual, tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        train(replace(usual, out=tmp_path / "run", **changes))
    assert not (tmp_path / "run" / "summary.json").exists()


def test_few_steps_are_warned_of(usual, tmp_path):
    few = train(replace(usual, out=tmp_path / "few"))
    assert "3 steps in all" in few["warnings"][0]
    assert "--batch-size" in few["warnings"][0] or "`batch_size`" in few["warnings"][0]
    enough = train(replace(usual, out=tmp_path / "enough", batch_size=16, epochs=7))
    assert "warnings" not in enough


def test_a_statistic_is_of_numbers_not_of_a_folder(tmp_path):
    (tmp_path / "images").mkdir()
    said = MomentsOptions(
        features=tmp_path / "images", labels=tmp_path / "y.csv", label="y", classes=2, epsilon=1.0, out=tmp_path / "m.parquet",
        ledger=tmp_path / "l.ledger",
    )  # fmt: skip
    with pytest.raises(InputError, match="is a folder: a statistic is of rows of numbers"):
        moments(said)
    assert not (tmp_path / "l.ledger").exists()
