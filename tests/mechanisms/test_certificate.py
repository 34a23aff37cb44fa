"""The certificate against exact arithmetic: for every pure mechanism, ε and C that the issue names."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Gaussian, Laplace, RandomizedResponse, SubsetSelection, UnaryEncoding
from labeldp.accounting.cost import Cost
from labeldp.errors import AccountingError, InputError
from labeldp.mechanisms import NoPrivacy

from .channels import CLASSES, EPSILONS, WHOLE, calibrated, channel, weights

mpmath.mp.dps = 60
PURE = ("response", "subset", "unary", "laplace")


def worst_ratio(mechanism) -> Fraction:
    """The largest p(o|y)/p(o|y'), from the integers."""
    if isinstance(mechanism, RandomizedResponse):
        true = WHOLE - (mechanism.num_classes - 1) * mechanism.other
        return max(Fraction(true, mechanism.other), Fraction(mechanism.other, true))
    if isinstance(mechanism, SubsetSelection):
        c, k, p = mechanism.num_classes, mechanism.size, mechanism.holds
        ratio = Fraction(p, WHOLE - p) * Fraction(c - k, k)  # C(c−1, k)/C(c−1, k−1) = (c−k)/k
        return max(ratio, 1 / ratio)
    w = weights(mechanism)
    assert sum(w) == WHOLE
    up = max(Fraction(w[-1 - j], w[j]) for j in range(len(w)))
    down = max(Fraction(w[j], w[-1 - j]) for j in range(len(w)))
    return up * down


def log(ratio: Fraction) -> mpmath.mpf:
    return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", PURE)
def test_worst_log_ratio_is_at_most_epsilon(name, epsilon, num_classes):
    mechanism = calibrated(name, epsilon, num_classes)
    exact = log(worst_ratio(mechanism))
    certificate = mechanism.certificate()
    assert exact <= certificate.pure <= epsilon
    assert certificate == Cost(pure=certificate.pure)
    assert exact >= epsilon * (1 - (0.01 if name == "laplace" else 0.001))
    assert mechanism.guarantee().epsilon == certificate.pure
    assert mechanism.guarantee().delta == 0.0


@given(st.sampled_from(PURE), st.floats(1e-5, 32), st.integers(2, 3000))
def test_certificate_holds_for_any_epsilon_and_classes(name, epsilon, num_classes):
    mechanism = calibrated(name, epsilon, num_classes)
    exact = log(worst_ratio(mechanism))
    assert exact <= mechanism.certificate().pure <= epsilon
    assert exact >= epsilon * 0.99


@pytest.mark.parametrize("name", ["response", "subset", "unary"])
@pytest.mark.parametrize("num_classes", [2, 3, 5, 9])
def test_channels_written_out(name, num_classes):
    """Rows of the channel add up to exactly 1, and no entry's ratio exceeds the certificate."""
    mechanism = calibrated(name, 1.3, num_classes)
    rows = list(channel(mechanism).values())
    for y in range(num_classes):
        assert sum(row[y] for row in rows) == 1
    worst = max(Fraction(max(row), min(row)) for row in rows)
    assert worst == worst_ratio(mechanism)


def test_a_third_of_a_budget_fits_it_three_times():
    cost = Cost()
    for _ in range(3):
        cost = cost + Laplace.calibrated(epsilon=0.1, num_classes=10).certificate()
    assert cost.pure <= 0.3


class TestGaussian:
    @staticmethod
    def naive_delta(mechanism, epsilon) -> mpmath.mpf:
        """Σ max(0, P − e^ε Q) over all pairs of cells of the two coordinates that differ."""
        w = [mpmath.mpf(x) / WHOLE for x in weights(mechanism)]
        e = mpmath.exp(mpmath.mpf(epsilon))
        total = mpmath.mpf(0)
        for i in range(len(w)):
            for j in range(len(w)):
                total += max(mpmath.mpf(0), w[-1 - i] * w[j] - e * w[i] * w[-1 - j])
        return total

    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("delta", [1e-5, 2.0**-40])
    def test_delta_at_epsilon_is_at_most_delta(self, epsilon, delta):
        mechanism = Gaussian.calibrated(epsilon=epsilon, num_classes=10, delta=delta)
        w = weights(mechanism)
        assert sum(w) == WHOLE
        assert min(w) >= 2**24
        assert self.naive_delta(mechanism, epsilon) <= delta
        guarantee = mechanism.guarantee()
        assert guarantee.delta == delta
        assert epsilon * 0.99 <= guarantee.epsilon <= epsilon
        assert mechanism.certificate().epsilon(delta) <= epsilon
        assert mechanism.certificate().within(Cost.gaussian_cap(epsilon, delta))

    def test_the_curve_is_exact(self):
        mechanism = Gaussian.calibrated(epsilon=1.0, num_classes=2)
        for epsilon in (0.0, 0.3, 0.9, 1.0, 2.5):
            exact = self.naive_delta(mechanism, epsilon)
            assert exact <= mechanism.delta_at(epsilon) <= exact * (1 + mpmath.mpf(2) ** -50)
        epsilon = mechanism.guarantee().epsilon
        assert self.naive_delta(mechanism, epsilon) <= mechanism.delta
        assert self.naive_delta(mechanism, epsilon * (1 - 1e-12)) > mechanism.delta

    def test_the_slack_covers_every_cell(self):
        """The integers are within η of the Gaussian's masses, η as the certificate states it."""
        mechanism = Gaussian.calibrated(epsilon=2.0, num_classes=10)
        sigma = mpmath.mpf(mechanism.sigma)
        edges = [mpmath.mpf(str(e)) for e in mechanism._edges()]
        tails = [mpmath.mpf(1), *(mpmath.ncdf(-e / sigma) for e in edges), mpmath.mpf(0)]
        certificate = mechanism.certificate()
        eta = mpmath.tanh(mpmath.mpf(certificate.slack_ratio) / 4)  # slack = 2·log((1+η)/(1−η)) = 4·atanh(η)
        for weight, above, below in zip(weights(mechanism), tails, tails[1:], strict=False):
            assert abs(mpmath.mpf(weight) / WHOLE / (above - below) - 1) <= eta
        assert certificate.slack_ratio < 1e-6
        assert certificate.slack_mass == 0.0
        assert certificate.gaussian == pytest.approx(2 / mechanism.sigma**2, rel=1e-12)

    def test_sensitivity_is_root_two(self):
        """The paper's σ = √(2 ln(1.25/δ))/ε forgets that one-hot labels differ by √2; the right one is larger."""
        mechanism = Gaussian.calibrated(epsilon=1.0, num_classes=10)
        assert mechanism.sigma == pytest.approx(2**0.5 * 3.730632, rel=2e-3)

    @pytest.mark.parametrize("delta", [0.0, 1.0, 2.0**-41])
    def test_bad_delta_is_refused(self, delta):
        with pytest.raises(InputError, match="delta"):
            Gaussian.calibrated(epsilon=1.0, num_classes=10, delta=delta)

    def test_no_pure_epsilon(self):
        with pytest.raises(AccountingError):
            Gaussian.calibrated(epsilon=1.0, num_classes=10).certificate().epsilon()


def test_randomized_response_golden_of_attribution_reporting():
    # WICG attribution-reporting-api, privacy.ts: 2,925 outcomes, ε = 14.
    mechanism = RandomizedResponse.calibrated(epsilon=14.0, num_classes=2925)
    assert mechanism.other / WHOLE * 2925 == pytest.approx(0.0024263221679834087, rel=1e-9)
    assert mechanism.information() / np.log(2) == pytest.approx(11.461727965384876, rel=1e-9)


def test_opendp_agrees_on_randomized_response():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    for epsilon in EPSILONS:
        mechanism = RandomizedResponse.calibrated(epsilon=epsilon, num_classes=10)
        keep = (WHOLE - 9 * mechanism.other) / WHOLE
        theirs = dp.m.make_randomized_response(list(range(10)), keep).map(1)
        assert mechanism.certificate().pure == pytest.approx(theirs, rel=1e-9)


def test_no_privacy_has_no_certificate():
    with pytest.raises(AccountingError, match="no privacy"):
        NoPrivacy(10).certificate()


@pytest.mark.parametrize("cls", [RandomizedResponse, SubsetSelection, UnaryEncoding, Laplace, Gaussian])
@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), 32.5])
def test_bad_epsilon_is_refused(cls, epsilon):
    with pytest.raises(InputError, match="epsilon"):
        cls.calibrated(epsilon=epsilon, num_classes=10)


@pytest.mark.parametrize("cls", [RandomizedResponse, SubsetSelection, UnaryEncoding, Laplace, Gaussian])
@pytest.mark.parametrize("num_classes", [1, 0, -3, 2.5, True, 65_537])
def test_bad_num_classes_is_refused(cls, num_classes):
    with pytest.raises(InputError, match="num_classes"):
        cls.calibrated(epsilon=1.0, num_classes=num_classes)
