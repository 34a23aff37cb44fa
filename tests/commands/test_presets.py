"""The paper's rows by name: values of the options that commands take."""

import numpy as np
import pytest
import torch

from labeldp import models
from labeldp.commands import ExperimentOptions
from labeldp.commands.presets import EXPERIMENTS, PATE, filled
from labeldp.commands.train import recipe_of
from labeldp.errors import InputError
from labeldp.mechanisms import PateAnswers
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer


def row(name, **given):
    """The options of an experiment by this preset, and its recipe."""
    options = filled(ExperimentOptions(out="run", **given), EXPERIMENTS, name)
    return options, recipe_of(options, options.model, 100 if options.dataset == "cifar100" else 10)


def test_options_that_are_given_win():
    options, recipe = row("alibi-cifar10-high", epsilon=3.0, learning_rate=0.5)
    assert (options.epsilon, options.dataset, recipe.learning_rate, recipe.weight_decay) == (
        3.0,
        "cifar10",
        0.5,
        0.568e-4,
    )
    assert filled(options, EXPERIMENTS, None) == options
    with pytest.raises(InputError, match="unknown preset"):
        row("alibi-none")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_preset_builds_and_takes_its_first_step(name):
    preset, recipe = row(name)
    classes = 100 if preset.dataset == "cifar100" else 10
    recipe = Recipe(**{**recipe.to_json(), "epochs": 1, "batch_size": 2})
    torch.manual_seed(0)
    trainer = Trainer(models.build(preset.model, (3, 32, 32), classes), recipe, torch.device("cpu"), torch.float32)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    trainer.prepare(images)
    (metrics,) = trainer.fit(images, np.arange(2), lambda rows: torch.zeros(len(rows), classes).numpy())
    assert metrics["epoch"] == 1


def test_presets_are_the_papers_rows():
    high, recipe = row("alibi-cifar10-high")
    assert (high.epsilon, recipe.learning_rate, recipe.weight_decay) == (8.0, 0.308, 0.568e-4)
    assert (recipe.epochs, recipe.batch_size, recipe.momentum) == (200, 128, 0.9)
    rates = [recipe.rate(epoch * 390, 390) for epoch in (0, 29, 30, 59, 60, 120, 199)]
    assert rates == pytest.approx([1 / 30, 1, 1, 1, 0.2, 0.04, 0.008])


def test_lp_2st_is_as_published():
    """google-research/label-dp: label_dp/profiles/p100_cifar10.py, lr_schedules.py."""
    published = {1: (0.8, 0.6, 16, 8), 2: (0.7, 0.5, 8, 8), 4: (0.6, 0.5, 8, 4)}
    for epsilon, (share, temperature, *mixup) in published.items():
        options, recipe = row(f"lp-2st-cifar10-eps{epsilon}")
        assert (options.epsilon, options.stage_share, options.prior_temperature) == (epsilon, share, temperature)
        assert [options.stage_mixup, recipe.mixup] == mixup
        assert (options.stages, options.warm_start, options.drop_unlikely) == (2, True, "mean")
        assert (options.mechanism, options.denoise, options.model) == ("response", "none", "resnet18")
        assert (recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (200, 512, 0.4, 1e-4)
        assert (recipe.momentum, recipe.norm_decay, recipe.bias_decay, recipe.cutout) == (0.9, True, True, 8)
    with pytest.raises(InputError, match="unknown preset"):
        row("lp-2st-cifar10-eps3")


@pytest.mark.parametrize("name", PATE)
def test_every_row_of_pate_can_be_built(name):
    row = PATE[name]
    classes = 10 if row["dataset"] == "cifar10" else 100
    mechanism = PateAnswers(
        classes, row["teachers"], row["sigma1"], row["sigma2"], row["threshold"], row["max_asked"], row["max_answered"]
    )
    assert mechanism.guarantee().epsilon > 0
    assert row["model"] in models.NAMES


def test_the_papers_numbers():
    """Its Table of PATE-FM hyperparameters; epochs from the text."""
    high, low = PATE["pate-cifar10-high"], PATE["pate-cifar100-low"]
    assert [high[k] for k in ("teachers", "sigma1", "sigma2", "threshold", "max_answered", "epochs", "student_epochs")] == [
        200, 160, 20, 100, 500, 40, 200,
    ]  # fmt: skip
    assert [low[k] for k in ("teachers", "sigma1", "sigma2", "threshold", "max_answered", "epochs", "student_epochs")] == [
        100, 90, 30, 10, 1000, 125, 125,
    ]  # fmt: skip
