import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting.normal import log_upper_tail, upper_quantile
from labeldp.errors import InputError


def exact(z: float) -> mpmath.mpf:
    """log Q(z) in enough digits."""
    with mpmath.workdps(60):
        z = mpmath.mpf(z)
        q = mpmath.erfc(abs(z) / mpmath.sqrt(2)) / 2
        return mpmath.log(q) if z >= 0 else mpmath.log1p(-q)


@given(st.floats(-37, 60) | st.floats(60, 1e5) | st.floats(7.9, 8.1) | st.floats(-1.1, -0.9))
def test_the_logarithm_of_the_tail_is_good_to_13_digits(z):
    truth = exact(z)
    assert abs(float(log_upper_tail(z)) - truth) <= (1e-13 if z > -20 else 1e-12) * abs(truth)


def test_the_ends_and_shapes():
    z = np.array([[-np.inf, 0.0], [1e100, np.inf]])
    assert np.array_equal(log_upper_tail(z)[0], [0.0, math.log(0.5)])
    assert log_upper_tail(z)[1, 0] == pytest.approx(-5e199)
    assert log_upper_tail(z)[1, 1] == -np.inf
    assert log_upper_tail(2.0).shape == ()
    assert log_upper_tail(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(InputError, match="not a number"):
        log_upper_tail(math.nan)


@given(st.floats(0, 40) | st.floats(40, 1e6))
def test_the_quantile_inverts_the_tail(z):
    assert float(upper_quantile(log_upper_tail(z))) == pytest.approx(z, rel=1e-12, abs=1e-15)


def test_the_quantile_is_for_the_upper_half():
    assert float(upper_quantile(math.log(0.5))) == 0
    assert float(upper_quantile(-math.inf)) == math.inf
    with pytest.raises(InputError, match="above 1/2"):
        upper_quantile([-1.0, -0.5])
