"""Arithmetic that errs on the safe side: a stated privacy cost is never below the true one."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

# Decimal's exp, ln and sqrt are correctly rounded and the same on every machine, which libm's are not:
# tables built with them are rebuilt bit for bit by whoever loads a release.
DIGITS = 60
CONTEXT = Context(prec=DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)


def up(value: float, steps: int = 1) -> float:
    """The float `steps` places above."""
    for _ in range(steps):
        value = math.nextafter(value, math.inf)
    return value


def add_up(a: float, b: float) -> float:
    """An upper bound on a + b; exact where the float sum is."""
    total = a + b
    exact = math.fsum((total, -a, -b)) == 0.0
    return total if exact else up(total)


def log_ratio_up(p: int, q: int) -> float:
    """An upper bound, tight to a few parts in 2^52, on log(p/q) for positive integers p ≥ q."""
    if not p >= q > 0:
        raise ValueError("log_ratio_up needs p ≥ q > 0")
    if p == q:
        return 0.0
    # int / int is correctly rounded, log1p is within an ulp or two: four steps up cover both.
    return up(math.log1p(up((p - q) / q)), 4)


def float_up(value: Decimal) -> float:
    """The smallest float that is at least `value` (or one above it)."""
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else up(nearest)


def float_down(value: Decimal) -> float:
    """The largest float that is at most `value` (or one below it)."""
    nearest = float(value)
    return nearest if Decimal(nearest) <= value else math.nextafter(nearest, -math.inf)


def exp(value: float | Decimal) -> Decimal:
    """e^value to 60 digits."""
    with localcontext(CONTEXT):
        return Decimal(value).exp()
