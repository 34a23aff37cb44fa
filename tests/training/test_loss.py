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


@pytest.mark.parametrize(
    "evidence", [torch.zeros(4), torch.zeros(4, dtype=torch.int64), torch.eye(4, dtype=torch.int64)]
)
def test_labels_in_place_of_evidence(evidence):
    """A row of labels, as CrossEntropyLoss and BCEWithLogitsLoss take them, or one-hot ones."""
    for logits in (torch.zeros(4, 4), torch.zeros(4), torch.zeros(4, 1)):
        with pytest.raises(ValueError, match="not labels or rows"):
            PosteriorLoss()(logits, evidence)


# ── a single logit ──

SINGLE = [(), (1,)]  # what follows the rows in the logits' shape


@pytest.mark.parametrize("tail", SINGLE)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("name", ["laplace", "gaussian", "response", "none"])
def test_a_single_logit_is_two_of_which_one_is_zero(name, size, tail):
    _, _, evidence, _ = batch(name, classes=2)
    z = (size * torch.randn(64)).requires_grad_()
    two = torch.stack((torch.zeros(64), z), dim=-1)
    single = z.reshape(64, *tail)
    for reduction in ("mean", "sum", "none"):
        criterion = PosteriorLoss(reduction)
        torch.testing.assert_close(criterion(single, evidence), criterion(two, evidence))
        torch.testing.assert_close(
            gradient(criterion(single, evidence).sum(), z), gradient(criterion(two, evidence).sum(), z), atol=1e-6, rtol=1e-4
        )  # fmt: skip
    torch.testing.assert_close(posterior(single, evidence), posterior(two, evidence))
    averaged = torch.randn(64)
    pair = torch.stack((torch.zeros(64), averaged), dim=-1)
    for prior, its_pair in (
        (averaged, pair), (averaged[:, None], pair), (torch.zeros(()), torch.zeros(2)), (torch.ones(1), torch.tensor([0.0, 1.0])),
    ):  # fmt: skip
        torch.testing.assert_close(
            PosteriorLoss()(single, evidence, prior_logits=prior), PosteriorLoss()(two, evidence, prior_logits=its_pair)
        )


def test_certain_labels_and_a_single_logit_are_bce():
    _, _, evidence, labels = batch("none", classes=2)
    z = 20 * torch.randn(64)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, torch.from_numpy(labels).float())
    torch.testing.assert_close(PosteriorLoss()(z, evidence), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_a_single_logit_is_stable(dtype, size):
    for name in [*NAMES, "none"]:
        _, _, evidence, _ = batch(name, classes=2)
        z = (torch.randn(64) * size).to(dtype).requires_grad_()
        loss = PosteriorLoss()(z, evidence)
        assert loss.dtype == torch.float32
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient(loss, z)).all()


@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 2), (8, 5)])
def test_gradients_in_float64(shape):
    classes = shape[1] if len(shape) == 2 and shape[1] > 1 else 2
    evidence = torch.randn(8, classes, dtype=torch.float64)
    logits = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert PosteriorLoss()(logits, evidence).dtype == torch.float64
    assert torch.autograd.gradcheck(lambda z: PosteriorLoss("none")(z, evidence), (logits,))


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_logit_does_not_tell_ten_classes_apart(shape):
    with pytest.raises(ValueError, match="needs 10 outputs"):
        PosteriorLoss()(torch.zeros(shape), torch.zeros(4, 10))
    with pytest.raises(ValueError, match="tells two classes apart"):
        posterior(torch.zeros(4, 1), torch.zeros(4, 1))


def test_priors_of_another_kind():
    evidence = torch.zeros(4, 2)
    for logits, prior in (((4,), (2,)), ((4, 1), (4, 2)), ((4, 2), (4, 1))):
        with pytest.raises(ValueError, match="another kind"):
            PosteriorLoss()(torch.zeros(logits), evidence, prior_logits=torch.zeros(prior))


# ── weights ──


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_certain_labels_are_those_of_cross_entropy(reduction):
    _, _, evidence, labels = batch("none")
    weight, logits = torch.rand(10) + 0.1, torch.randn(64, 10, requires_grad=True)
    theirs = torch.nn.CrossEntropyLoss(weight, reduction=reduction)(logits, torch.from_numpy(labels))
    ours = PosteriorLoss(reduction, weight=weight)(logits, evidence)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours.sum(), logits), gradient(theirs.sum(), logits))


@pytest.mark.parametrize("shape", [(64,), (64, 2)])
def test_equal_weights_have_the_gradient_of_none(shape):
    _, _, evidence, _ = batch("laplace", classes=2)
    logits = torch.randn(shape, requires_grad=True)
    weighted = PosteriorLoss(weight=[3.0, 3.0])(logits, evidence)
    torch.testing.assert_close(gradient(weighted, logits), gradient(PosteriorLoss()(logits, evidence), logits))


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_with_weights_noisy_labels_teach_what_clean_ones_do(epsilon):
    """In expectation over what is released, exactly: for one x with p(label) known, the loss is flat at p^w ∝ w·p, and only there does
    its gradient vanish. With the model's own output as the prior, as if there were no weights, it would not be."""
    p, w = torch.tensor([0.7, 0.2, 0.1]).double(), torch.tensor([1.0, 2.0, 8.0])
    keep = np.exp(epsilon) / (np.exp(epsilon) + 2)
    channel = torch.full((3, 3), (1 - keep) / 2, dtype=torch.float64).fill_diagonal_(keep)  # [label, observation]
    seen = p @ channel
    wanted = (w * p) / (w * p).sum()

    def push(logits):
        logits = logits.clone().requires_grad_()
        losses = PosteriorLoss("none", weight=w)(logits.expand(3, 3), channel.T.log())
        return gradient((seen * losses).sum(), logits)

    torch.testing.assert_close(push(wanted.log()), torch.zeros(3).double(), atol=1e-7, rtol=0)
    assert push(p.log()).abs().max() > 1e-3
    logits = torch.zeros(3).double()
    for _ in range(20000 if epsilon < 1 else 2000):
        logits -= push(logits)
    torch.testing.assert_close(torch.softmax(logits, -1), wanted, atol=2e-3, rtol=0)


def test_weights_move_with_the_loss_and_must_make_sense():
    assert list(PosteriorLoss(weight=[1.0, 2.0]).to(torch.float64).state_dict()) == ["weight"]
    assert PosteriorLoss().state_dict() == {}
    for wrong in ([1.0, 0.0], [1.0, -1.0], [[1.0, 2.0]], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="one positive number a class"):
            PosteriorLoss(weight=wrong)
    with pytest.raises(ValueError, match="3 weights for 2 classes"):
        PosteriorLoss(weight=[1.0, 2.0, 3.0])(torch.zeros(4, 2), torch.zeros(4, 2))
