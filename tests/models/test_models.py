import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from labeldp import models
from labeldp.training.recipe import Recipe


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


def test_the_triangle():
    recipe = Recipe(10, 100, 1.0, warmup=0.25)
    rates = [recipe.rate(step, 4) for step in range(40)]
    assert max(rates) == pytest.approx(rates[9], abs=0.06)
    assert rates[0] < 0.06
    assert rates[-1] < 0.02


def test_the_mlp_begins_as_a_linear_model():
    torch.manual_seed(0)
    model, x = models.build("mlp", (5,), 3), torch.randn(64, 5)
    torch.nn.init.normal_(model.linear.weight)
    for training in (True, False):
        torch.testing.assert_close(model.train(training)(x), 2 * x @ model.linear.weight.T)


def test_what_the_mlp_leaves_out_follows_from_the_epochs_seed_alone():
    torch.manual_seed(0)
    model, x = models.build("mlp", (5,), 3), torch.randn(64, 5)
    torch.nn.init.normal_(model.head.weight)
    outputs = []
    for seed in (1, 1, 2):
        model.begin_epoch(seed)
        state = torch.get_rng_state()
        outputs.append((model(x), model(x)))
        assert (torch.get_rng_state() == state).all()
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=0)
    assert (outputs[0][0] != outputs[0][1]).any()
    assert (outputs[0][0] != outputs[2][0]).any()
    model.eval()
    torch.testing.assert_close(model(x), model(x), rtol=0, atol=0)
