"""Recipes that follow what the rows tell."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import labeldp
from labeldp import models
from labeldp.training.recipe import Recipe, default_recipe, lp2st_recipe
from labeldp.training.trainer import Trainer, _share_told

MLP = default_recipe("mlp")


def test_others_are_what_they_are():
    recipe = default_recipe("linear")
    assert recipe.adapted_to(10**6, 0.01) is recipe
    assert "adapted" not in recipe.to_json()
    assert Recipe(**MLP.to_json()) == MLP


@pytest.mark.parametrize(
    ("rows", "share", "batch", "rate", "decay"),
    [
        (50_000, 1.0, 256, 0.02, 0.02),
        (50_000, 0.25, 512, 0.08, 0.02),
        (500_000, 0.25, 512, 0.08, 0.002),
        (2000, 0.25, 100, 0.08, 0.02),  # 20 steps an epoch
        (200, 1.0, 32, 0.02, 0.02),
        (10**6, 0.0, 1478, 0.02 / 0.03, 0.001),  # a limit
    ],
)
def test_batches_steps_and_decay(rows, share, batch, rate, decay):
    adapted = MLP.adapted_to(rows, share)
    assert adapted.batch_size == batch
    assert (adapted.learning_rate, adapted.weight_decay) == pytest.approx((rate, decay))


def test_a_small_batch_that_was_asked_for_stays_small():
    assert replace(MLP, batch_size=16).adapted_to(100, 1.0).batch_size == 16


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_share_told_is_the_mechanisms_information(classes, epsilon):
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=epsilon, num_classes=classes)
    evidence = mechanism.evidence(np.arange(200, dtype=np.uint8) % classes)
    assert _share_told(evidence) == pytest.approx(mechanism.information() / np.log(classes), rel=1e-4)
    certain = labeldp.NoPrivacy(classes)
    assert _share_told(certain.evidence(np.zeros(5, np.uint8))) == pytest.approx(1)
    assert _share_told(np.zeros((5, classes), np.float32)) == pytest.approx(0)


def test_a_trainer_goes_by_it_also_resumed(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 600)
    x = torch.from_numpy((labels[:, None] + rng.normal(size=(600, 4))).astype(np.float32))
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    seen = mechanism.observe_uncharged(labeldp.PrivateLabels(labels, 2), labeldp.SeededEntropy(0))

    def made():
        torch.manual_seed(0)
        return Trainer(models.build("mlp", (4,), 2), replace(MLP, epochs=3), torch.device("cpu"), torch.float32)

    def fit(trainer):
        return trainer.fit(x, np.arange(600), lambda rows: mechanism.evidence(seen[rows]))

    whole, first, second = made(), made(), made()
    whole.prepare(x)
    first.prepare(x)
    list(fit(whole))
    share = mechanism.information() / np.log(2)
    assert whole._rates == pytest.approx([0.02 / share] * len(whole._rates), rel=1e-3)
    next(fit(first))
    first.save(tmp_path / "model.safetensors")
    second.load(tmp_path / "model.safetensors")
    list(fit(second))
    np.testing.assert_array_equal(second.probabilities(x), whole.probabilities(x))


@pytest.mark.parametrize(("epochs", "steps"), [(200, 87), (3, 7), (200, 1)])
def test_plateaus_are_lp_2sts(epochs, steps):
    """As google-research/label-dp joins optax's schedules: the second one counts its steps from where the first ended."""
    recipe, every = replace(lp2st_recipe(), epochs=epochs), epochs * steps
    rising = int(0.15 * every)
    drops = [int(share * every) for share in (0.3, 0.6, 0.9)]
    for step in range(every):
        naive = step / rising if step < rising else 1.0
        for drop in drops:
            if step >= rising and step - rising >= drop:
                naive *= 0.1
        assert recipe.rate(step, steps) == pytest.approx(naive)


def test_few_images_take_smaller_steps():
    """20 steps an epoch, if batches of 32 allow; a CIFAR has enough."""
    usual = default_recipe("fast")
    assert default_recipe("fast", rows=45_000) == usual
    few, some = default_recipe("fast", rows=400), default_recipe("fast-medium", rows=4000)
    assert (few.batch_size, few.learning_rate) == (32, 0.1)
    assert (some.batch_size, some.learning_rate) == (200, 0.25)
    assert default_recipe("mlp", rows=400) == default_recipe("mlp")
