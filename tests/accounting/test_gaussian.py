from decimal import Decimal

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, mills, upper_tail
from labeldp.errors import AccountingError

mpmath.mp.dps = 80


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Balle & Wang's formula as it stands, in 80 digits."""
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@given(st.floats(-12, 60))
def test_mills_ratio_and_tail_agree_with_mpmath(z):
    exact = mpmath.ncdf(-mpmath.mpf(z))
    assert abs(mpmath.mpf(str(upper_tail(Decimal(z)))) / exact - 1) < mpmath.mpf(10) ** -50
    assert abs(mpmath.mpf(str(mills(Decimal(z)))) * mpmath.npdf(mpmath.mpf(z)) / exact - 1) < mpmath.mpf(10) ** -50


@given(st.floats(1e-3, 40), st.floats(0, 50))
def test_delta_is_rounded_up_and_tight(mu, epsilon):
    exact, ours = exact_delta(mu, epsilon), gaussian_delta(mu, epsilon)
    assert ours >= exact
    if exact > 1e-250:
        assert ours <= exact * (1 + mpmath.mpf(2) ** -50)


@given(st.floats(1e-3, 60), st.floats(1e-12, 0.5))
def test_epsilon_inverts_delta_on_the_safe_side(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert exact_delta(mu, epsilon) <= delta
    if epsilon > 1e-6:
        assert exact_delta(mu, epsilon * (1 - 1e-9)) > delta


@given(st.floats(1e-3, 32), st.floats(1e-12, 0.5))
def test_mu_inverts_epsilon_on_the_safe_side(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 1e-9), epsilon) > delta


# FACTS.md: the paper's PATE parameters if every asked query were answered, δ = 1e-5: μ² = asked/σ1² + 2·answered/σ2².
@pytest.mark.parametrize(
    ("sigma1", "sigma2", "answered", "epsilon"),
    [(800, 300, 250, 0.257), (800, 500, 250, 0.156), (90, 30, 1000, 7.23), (45, 15, 1000, 17.1), (7, 2, 9400, 2743),
     (160, 20, 500, 7.55)],
)  # fmt: skip
def test_paper_parameters(sigma1, sigma2, answered, epsilon):
    mu = (answered / sigma1**2 + 2 * answered / sigma2**2) ** 0.5
    assert gaussian_epsilon(mu, 1e-5) == pytest.approx(epsilon, rel=2e-3)


def test_analytic_gaussian_golden():
    # Balle & Wang's reference implementation: sensitivity 1, ε = 1, δ = 1e-5 needs σ = 3.730632.
    assert 1 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-5)


def test_dp_accounting_agrees():
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    for sigma, count in ((0.8, 1), (3.0, 7), (20.0, 500)):
        accountant = PLDAccountant()
        accountant.compose(dp_event.GaussianDpEvent(sigma), count)
        ours = gaussian_epsilon(count**0.5 / sigma, 1e-5)
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)
        assert ours <= accountant.get_epsilon(1e-5) + 1e-6  # theirs is a pessimistic discretisation


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
def test_no_epsilon_without_a_delta(delta):
    with pytest.raises(AccountingError):
        gaussian_epsilon(1.0, delta)
