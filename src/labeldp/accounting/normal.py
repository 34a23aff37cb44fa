"""The normal tail on arrays, in logarithms and in floats: Q(z) = P[N(0,1) > z], good to 1e-13 (relative) in log Q for every z
(to 1e-12 below −20, where log Q is 0 to 88 digits).

`labeldp.accounting.gaussian` has the same tail in 60 digits, one number at a time.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

Floats = npt.NDArray[np.float64]

_FAR = 8.0  # above, the continued fraction; below, the C library's erfc, which is nowhere near underflow there
_TERMS = 80  # at z = 8 the fraction has converged to the last bit with 40
_NEWTON = 60  # a bound; six steps or so are enough

_erfc = np.frompyfunc(math.erfc, 1, 1)


def log_upper_tail(z: npt.ArrayLike) -> Floats:
    """log Q(z), of the shape of z: log1p(−Q(−z)) below −1, log(erfc(z/√2)/2) in the middle, φ(z) times Mills' ratio above 8."""
    z = np.asarray(z, dtype=np.float64)
    if np.isnan(z).any():
        raise InputError("a normal tail is asked for at a value that is not a number.")
    flat = z.reshape(-1)
    low, far = flat < -1, flat > _FAR
    middle = ~(low | far)
    result = np.empty_like(flat)
    result[low] = np.log1p(-_tail(-flat[low]))
    result[middle] = np.log(_tail(flat[middle]))
    result[far] = log_density(flat[far]) + _log_mills(flat[far])
    return result.reshape(z.shape)


def _tail(z: Floats) -> Floats:
    return np.asarray(_erfc(z / math.sqrt(2)), dtype=np.float64) / 2


def log_density(z: Floats) -> Floats:
    """log φ(z)."""
    result: Floats = -(z * z) / 2 - math.log(2 * math.pi) / 2
    return result


def _log_mills(z: Floats) -> Floats:
    """log of Q(z)/φ(z) = 1/(z + 1/(z + 2/(z + 3/(z + …)))), Laplace's continued fraction from the far end."""
    fraction = z
    for n in range(_TERMS, 0, -1):
        fraction = z + n / fraction
    result: Floats = -np.log(fraction)
    return result


def upper_quantile(log_p: npt.ArrayLike) -> Floats:
    """The z ≥ 0 with log Q(z) = log p, for p ≤ 1/2.

    log Q is concave and falls, so Newton's steps from z = √(2 log(1/(2p))), which is too large (Q(z) ≤ e^(−z²/2)/2), come down to
    the answer from one side.
    """
    shape = np.shape(log_p)
    log_p = np.asarray(log_p, dtype=np.float64).reshape(-1)
    if np.isnan(log_p).any() or (log_p > -math.log(2) + 1e-12).any():
        raise InputError("an upper quantile is asked for at a probability above 1/2, or at none.")
    z: Floats = np.sqrt(2 * np.maximum(0.0, -log_p - math.log(2)))
    finite = np.isfinite(log_p)
    for _ in range(_NEWTON):
        log_q = log_upper_tail(z[finite])
        step = (log_q - log_p[finite]) * np.exp(log_q - log_density(z[finite]))
        z[finite] = np.maximum(0.0, z[finite] + step)
        if (np.abs(step) <= 1e-12 * (1 + z[finite])).all():  # what is left is its square
            break
    return z.reshape(shape)
