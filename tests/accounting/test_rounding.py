from fractions import Fraction

import mpmath
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting.rounding import add_up, log_ratio_up

mpmath.mp.dps = 60


@given(st.integers(1, 2**130), st.integers(0, 2**130))
def test_log_ratio_is_above_and_tight(q, more):
    exact = mpmath.log(mpmath.mpf(q + more) / q)
    ours = log_ratio_up(q + more, q)
    assert ours >= exact
    assert ours <= exact * (1 + mpmath.mpf(2) ** -48) + mpmath.mpf(10) ** -300


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_sums_are_never_below(a, b):
    exact = Fraction(a) + Fraction(b)
    assert exact <= Fraction(add_up(a, b)) <= exact * (1 + Fraction(1, 2**51))
    assert add_up(0.5, 0.25) == 0.75
