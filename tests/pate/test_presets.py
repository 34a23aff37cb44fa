"""The paper's PATE table by name."""

import pytest

from labeldp import models
from labeldp.errors import InputError
from labeldp.mechanisms import PateAnswers
from labeldp.pate.presets import NAMES, filled, preset, recipe_for


@pytest.mark.parametrize("name", NAMES)
def test_every_row_can_be_built(name):
    row = preset(name)
    classes = 10 if row["dataset"] == "cifar10" else 100
    mechanism = PateAnswers(
        classes, row["teachers"], row["sigma1"], row["sigma2"], row["threshold"], row["max_asked"], row["max_answered"]
    )
    assert mechanism.guarantee().epsilon > 0
    assert row["model"] in models.NAMES


def test_the_papers_numbers():
    """Its Table of PATE-FM hyperparameters; epochs from the text."""
    high, low = preset("pate-cifar10-high"), preset("pate-cifar100-low")
    assert [high[k] for k in ("teachers", "sigma1", "sigma2", "threshold", "max_answered", "epochs", "student_epochs")] == [
        200, 160, 20, 100, 500, 40, 200,
    ]  # fmt: skip
    assert [low[k] for k in ("teachers", "sigma1", "sigma2", "threshold", "max_answered", "epochs", "student_epochs")] == [
        100, 90, 30, 10, 1000, 125, 125,
    ]  # fmt: skip


def test_options_that_are_given_win():
    given = {"teachers": 3, "sigma1": None, "dataset": None, "unknown": None}
    filled(given, "pate-cifar10-high")
    assert given == {"teachers": 3, "sigma1": 160.0, "dataset": "cifar10", "unknown": None}
    with pytest.raises(InputError, match="unknown preset"):
        filled({}, "pate-none")


def test_fixmatchs_recipe_for_small_images_and_for_tables():
    import numpy as np

    images = np.zeros((2, 1, 28, 28), np.uint8)
    paper, short = (recipe_for("fast", images, 10, 3, 1, paper=paper) for paper in (True, False))
    assert (paper.epochs, paper.seed, paper.unlabelled, paper.cutout, paper.learning_rate) == (3, 1, 7, 14, 0.03)
    assert (short.epochs, short.seed, short.unlabelled, short.cutout) == (3, 1, 3, 14)
    table = recipe_for("mlp", np.zeros((2, 5), np.float32), 10, None, 0)
    assert (table.randaugment, table.cutout) == (0, 0)
