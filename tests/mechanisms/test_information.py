import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import SubsetSelection
from labeldp.errors import InputError
from labeldp.mechanisms import information as nats

from .channels import calibrated, channel


def enumerated(mechanism, prior):
    """Σ π_y p(o|y) log(p(o|y)/p(o)) over the channel written out."""
    table = np.array([[float(p) for p in row] for row in channel(mechanism).values()])
    marginal = table @ prior
    joint = table * prior
    return float((joint[joint > 0] * np.log((table / marginal[:, None])[joint > 0])).sum())


priors = st.lists(st.floats(0.01, 1), min_size=2, max_size=7).map(lambda v: np.array(v) / sum(v))


@settings(deadline=None)
@given(st.sampled_from(["response", "subset", "unary"]), st.floats(0.05, 8), priors)
def test_information_equals_the_enumerated_channels(name, epsilon, prior):
    mechanism = calibrated(name, epsilon, len(prior))
    uniform = np.full(len(prior), 1 / len(prior))
    assert mechanism.information(prior) == pytest.approx(enumerated(mechanism, prior), rel=1e-6, abs=1e-12)
    assert mechanism.information() == pytest.approx(enumerated(mechanism, uniform), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_two_class_additive_information_by_two_dimensional_sum(name, epsilon):
    mechanism = calibrated(name, epsilon, 2)
    p = mechanism._probabilities()
    first, second = np.outer(p[::-1], p), np.outer(p, p[::-1])  # the true class is the first, the second
    for prior in (np.array([0.5, 0.5]), np.array([0.9, 0.1])):
        marginal = prior[0] * first + prior[1] * second
        exact = sum(
            w * (joint * np.log(joint / marginal)).sum() for w, joint in zip(prior, (first, second), strict=True)
        )
        assert mechanism.information(prior) == pytest.approx(exact, rel=1e-6)


# FACTS.md's table; the Laplace column there is a simulation, good to 0.002.
@pytest.mark.parametrize(
    ("classes", "epsilon", "response", "subset", "size", "laplace"),
    [(2, 1, 0.111, 0.111, 1, 0.051), (10, 1, 0.073, 0.122, 3, 0.096), (10, 2, 0.408, 0.474, 2, 0.324),
     (10, 4, 1.584, 1.584, 1, 0.938), (100, 3, 0.331, 1.007, 11, 0.713), (100, 8, 4.315, 4.315, 1, 2.842)],
)  # fmt: skip
def test_golden(classes, epsilon, response, subset, size, laplace):
    assert calibrated("response", epsilon, classes).information() == pytest.approx(response, abs=5e-4)
    chosen = calibrated("subset", epsilon, classes)
    assert chosen.information() == pytest.approx(subset, abs=5e-4)
    assert chosen.size == size
    assert calibrated("laplace", epsilon, classes).information() == pytest.approx(laplace, abs=2e-3)


def test_256_cells_lose_little_of_continuous_laplace_noise():
    """Against 4 million draws of continuous noise with the paper's evidence (seeded; standard error below 0.0003)."""
    rng = np.random.default_rng(5)
    scale, gained = 1.0, []
    for _ in range(4):
        o = rng.laplace(0, scale, (1_000_000, 10))
        o[:, 0] += 1
        evidence = (np.abs(o) - np.abs(o - 1)) / scale
        gained.append(evidence[:, 0] - np.log(np.exp(evidence).mean(axis=1)))
    values = np.concatenate(gained)
    assert (
        abs(calibrated("laplace", 2.0, 10).information() - values.mean()) < 4 * values.std() / len(values) ** 0.5 + 5e-4
    )


@settings(deadline=None, max_examples=30)
@given(st.floats(0.1, 6), priors)
def test_the_chosen_size_is_the_best(epsilon, prior):
    classes = len(prior)
    chosen = SubsetSelection.calibrated(epsilon=epsilon, num_classes=classes, prior=prior)
    best = max(
        SubsetSelection.calibrated(epsilon=epsilon, num_classes=classes, size=k).information(prior)
        for k in range(1, classes)
    )
    assert chosen.information(prior) >= best * (1 - 1e-9) - 1e-15


def test_the_prior_changes_the_best_size():
    skewed = np.array([0.97] + [0.03 / 19] * 19)
    uniform = SubsetSelection.calibrated(epsilon=3.0, num_classes=20)
    informed = SubsetSelection.calibrated(epsilon=3.0, num_classes=20, prior=skewed)
    assert informed.size != uniform.size
    assert informed.information(skewed) > uniform.information(skewed)


@pytest.mark.parametrize("name", ["response", "subset", "unary", "laplace", "gaussian"])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_information_grows_with_epsilon_up_to_the_entropy(name, classes):
    values = [calibrated(name, e, classes).information() for e in (0.01, 0.1, 1.0, 4.0, 16.0, 32.0)]
    assert all(a < b for a, b in itertools.pairwise(values))
    assert values[0] > 0
    assert values[-1] <= np.log(classes) * (1 + 1e-9)


def test_zero_probabilities_are_allowed():
    for name in ("response", "subset", "unary", "laplace"):
        assert calibrated(name, 2.0, 3).information([0.5, 0.5, 0.0]) < np.log(2)
        assert calibrated(name, 2.0, 3).information([1.0, 0.0, 0.0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "prior", [[0.5, 0.6], [1.0], [[0.5, 0.5]], [-0.5, 1.5], [np.nan, 1.0], "ab", [0.5, 0.25, 0.25]]
)
def test_bad_priors(prior):
    with pytest.raises(InputError, match="prior"):
        calibrated("response", 1.0, 2).information(prior)


def test_too_much_work_is_refused():
    with pytest.raises(InputError, match="too much work"):
        SubsetSelection.calibrated(epsilon=0.1, num_classes=20_000).information(np.full(20_000, 1 / 20_000))


def test_quadrature_of_a_known_law():
    """X log X for X uniform on {0.5, 1.5, 4}."""
    x = np.array([0.5, 1.5, 4.0])
    ours = nats.expected_x_log_x(float(x.mean()), lambda t: (x[:, None] * np.exp(-np.outer(x, t))).mean(axis=0))
    assert float(ours) == pytest.approx(float((x * np.log(x)).mean()), rel=1e-12)
