"""How many rows tell an AUC: the variance that is planned with is the one that estimates have."""

from statistics import NormalDist

import numpy as np
import pytest

from labeldp import RandomizedResponse, SecureEntropy
from labeldp.errors import InputError
from labeldp.evaluation.indicators import Indicators
from labeldp.evaluation.ranking import Ranked, auc_ranking
from labeldp.evaluation.rows import auc_variance, noise_variances, rarest_share, rows_for_auc
from labeldp.mechanisms import NoPrivacy
from labeldp.mechanisms.plan import calibrate
from labeldp.private import PrivateLabels


@pytest.mark.parametrize(
    ("name", "classes", "epsilon", "share", "rows"),
    [
        ("response", 2, 1.0, 0.5, 4000),
        ("response", 2, 4.0, 0.02, 20_000),
        ("laplace", 2, 2.0, 0.3, 8000),
        ("subset", 5, 3.0, 0.1, 10_000),
    ],
)
def test_the_spread_of_estimates_is_as_planned(name, classes, epsilon, share, rows):
    """Over 400 draws of rows and noise a standard deviation is known to 3.5%: beyond 14% once in 10,000 tests."""
    rng, auc = np.random.default_rng(0), 0.8
    apart = np.sqrt(2) * NormalDist().inv_cdf(auc)
    mechanism = calibrate(name, epsilon=epsilon, num_classes=classes)
    found = []
    for _ in range(400):
        positive = rng.random(rows) < share
        labels = np.where(positive, 1, 0 if classes == 2 else rng.integers(2, classes, rows))
        observations = mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())
        indicators = Indicators.of(mechanism, observations)
        scores = rng.normal(size=rows) + apart * positive
        ranking = auc_ranking(Ranked.by(scores), indicators.of_class(1), indicators.noise(share))
        found.append(ranking.ratio.value)
    planned = np.sqrt(auc_variance(share, auc, noise_variances(mechanism)) / rows)
    assert np.std(found, ddof=1) == pytest.approx(planned, rel=0.14)
    assert np.mean(found) == pytest.approx(auc, abs=planned / 4)


def test_without_noise_it_is_delongs_variance():
    """At chance both rows' placements are uniform: (1/π + 1/(1 − π))/12."""
    assert auc_variance(0.2, 0.5) == pytest.approx((1 / 0.2 + 1 / 0.8) / 12, rel=1e-9)
    assert rows_for_auc(NoPrivacy(2), 0.2) == pytest.approx(auc_variance(0.2, 0.8) * 1e4, abs=1)


def test_the_noise_at_chance():
    """At chance g = F − ½, whatever the share, with E[g²] = 1/12."""
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    v1, v0 = noise_variances(mechanism)
    expected = (1 / 0.2 + 1 / 0.8 + (0.2 * v1 + 0.8 * v0) / (0.2 * 0.8) ** 2) / 12
    assert auc_variance(0.2, 0.5, (v1, v0)) == pytest.approx(expected, rel=1e-9)


def test_the_rarer_and_the_noisier_the_more():
    rows = [
        [rows_for_auc(calibrate("response", epsilon=e, num_classes=2), s) for s in (0.5, 0.1, 0.01)] for e in (4, 2, 1)
    ]
    assert (np.diff(rows, axis=0) > 0).all()
    assert (np.diff(rows, axis=1) > 0).all()
    assert rarest_share(4) == 0.25
    assert rarest_share(3, [0.0, 0.3, 0.7]) == pytest.approx(0.3)
    assert rarest_share(2, [1.0, 0.0]) is None


def test_refused():
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="share of positive rows"):
            rows_for_auc(mechanism, share)
    for error in (0.0, -1.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="standard error"):
            rows_for_auc(mechanism, 0.1, error)
    with pytest.raises(InputError, match="AUC to plan for"):
        rows_for_auc(mechanism, 0.1, auc=1.0)
