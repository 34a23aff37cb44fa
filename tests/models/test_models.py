import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from labeldp import models
from labeldp.training.recipe import PRESETS, Recipe
from labeldp.training.trainer import Trainer


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_wide_resnets_have_their_known_size():
    # Wide-ResNet-28-4: 5.9 M parameters for CIFAR-10; 28-8: 23.4 M for CIFAR-100 (Zagoruyko & Komodakis 2016 give 5.9 and 23.4).
    assert parameters(models.build("wide-resnet-28-4", (3, 32, 32), 10)) == pytest.approx(5.85e6, rel=0.01)
    assert parameters(models.build("wide-resnet-28-8", (3, 32, 32), 100)) == pytest.approx(23.4e6, rel=0.01)


def test_resnet18_has_its_known_size():
    # 11,173,962 parameters for ten classes: the widely used CIFAR variant.
    assert parameters(models.build("resnet18", (3, 32, 32), 10)) == 11_173_962


def test_the_papers_run_costs_what_facts_say():
    """Wide-ResNet-28-4, 200 epochs of 50,000 images: about 5e16 FLOP."""
    model = models.build("wide-resnet-28-4", (3, 32, 32), 10).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 32, 32))
    assert 3 * counter.get_total_flops() * 50_000 * 200 == pytest.approx(5e16, rel=0.1)


@pytest.mark.parametrize("name", ["wide-resnet-28-4", "resnet18", "fast"])
@pytest.mark.parametrize("channels", [1, 3])
def test_shapes_and_gradients(name, channels):
    model = models.build(name, (channels, 32, 32), 7)
    logits = model(torch.randn(2, channels, 32, 32))
    assert logits.shape == (2, 7)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_takes_its_first_step(name):
    preset = PRESETS[name]
    classes = 100 if preset.dataset == "cifar100" else 10
    recipe = Recipe(**{**preset.recipe.to_json(), "epochs": 1, "batch_size": 2})
    torch.manual_seed(0)
    trainer = Trainer(models.build(preset.model, (3, 32, 32), classes), recipe, torch.device("cpu"), torch.float32)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    trainer.prepare(images)
    (metrics,) = trainer.fit(images, np.arange(2), lambda rows: torch.zeros(len(rows), classes).numpy())
    assert metrics["epoch"] == 1


def test_presets_are_the_papers_rows():
    high = PRESETS["alibi-cifar10-high"]
    assert (high.epsilon, high.recipe.learning_rate, high.recipe.weight_decay) == (8.0, 0.308, 0.568e-4)
    assert (high.recipe.epochs, high.recipe.batch_size, high.recipe.momentum) == (200, 128, 0.9)
    rates = [high.recipe.rate(epoch * 390, 390) for epoch in (0, 29, 30, 59, 60, 120, 199)]
    assert rates == pytest.approx([1 / 30, 1, 1, 1, 0.2, 0.04, 0.008])


def test_the_triangle():
    recipe = Recipe(10, 100, 1.0, warmup=0.25)
    rates = [recipe.rate(step, 4) for step in range(40)]
    assert max(rates) == pytest.approx(rates[9], abs=0.06)
    assert rates[0] < 0.06
    assert rates[-1] < 0.02
