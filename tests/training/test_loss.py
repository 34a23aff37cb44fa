import numpy as np
import pytest
import torch

from labeldp import PrivateLabels, SecureEntropy
from labeldp.mechanisms import NoPrivacy
from labeldp.mechanisms.plan import NAMES, calibrate
from labeldp.training import PosteriorLoss, posterior


def batch(name, classes=10, rows=64):
    mechanism = calibrate(name, epsilon=2.0, num_classes=classes)
    labels = np.random.default_rng(0).integers(0, classes, rows)
    observations = mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())
    return mechanism, observations, torch.from_numpy(mechanism.evidence(observations)), labels


def gradient(loss, logits):
    (result,) = torch.autograd.grad(loss, logits)
    return result


@pytest.mark.parametrize("name", [*NAMES, "none"])
def test_gradient_is_that_of_the_posterior_as_soft_label(name):
    _, _, evidence, _ = batch(name)
    logits = torch.randn(64, 10, requires_grad=True)
    soft = posterior(logits, evidence).detach()
    cross_entropy = -(soft * torch.log_softmax(logits, dim=-1)).sum(dim=-1).mean()
    torch.testing.assert_close(gradient(PosteriorLoss()(logits, evidence), logits), gradient(cross_entropy, logits))


def test_laplace_posterior_is_the_papers_equation():
    """SoftMax(f(o_c)/λ + log p(y = c)) with f(o_c) = −Σ_k |o_k − [c = k]|, written out as it stands."""
    mechanism, observations, evidence, _ = batch("laplace")
    o = torch.from_numpy(mechanism.values(observations)).double()
    logits = torch.randn(64, 10)
    f = -(o[:, None, :] - torch.eye(10)).abs().sum(dim=-1)
    theirs = torch.softmax(f / mechanism.scale + torch.log_softmax(logits.double(), dim=-1), dim=-1)
    torch.testing.assert_close(posterior(logits, evidence).double(), theirs, atol=2e-4, rtol=1e-3)


def test_no_privacy_is_cross_entropy():
    mechanism, _, evidence, labels = batch("none")
    assert isinstance(mechanism, NoPrivacy)
    logits = torch.randn(64, 10)
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    torch.testing.assert_close(PosteriorLoss()(logits, evidence), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_stable_in_bfloat16_and_at_large_logits(dtype, size):
    for name in [*NAMES, "none"]:
        _, _, evidence, _ = batch(name)
        logits = (torch.randn(64, 10) * size).to(dtype).requires_grad_()
        loss = PosteriorLoss()(logits, evidence)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient(loss, logits)).all()
        total = posterior(logits, evidence).sum(dim=-1)
        torch.testing.assert_close(total, torch.ones_like(total))


def test_other_priors():
    _, _, evidence, _ = batch("laplace")
    logits = torch.randn(64, 10, requires_grad=True)
    uninformed = PosteriorLoss()(logits, evidence, prior_logits=torch.zeros(10))
    soft = torch.softmax(evidence, dim=-1)
    torch.testing.assert_close(uninformed, -(soft * torch.log_softmax(logits, dim=-1)).sum(dim=-1).mean())
    averaged = torch.randn(64, 10, requires_grad=True)
    loss = PosteriorLoss()(logits, evidence, prior_logits=averaged)
    loss.backward()
    assert averaged.grad is None
    assert logits.grad is not None


def test_numpy_evidence_as_a_release_gives_it():
    mechanism, observations, evidence, _ = batch("subset")
    logits = torch.randn(64, 10)
    torch.testing.assert_close(
        PosteriorLoss()(logits, mechanism.evidence(observations)), PosteriorLoss()(logits, evidence)
    )


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="one shape"):
        PosteriorLoss()(torch.zeros(4, 10), torch.zeros(4, 9))
