"""How many held-out rows it takes to tell a ROC AUC, before there are any: for `labeldp plan`.

With π the share of positive rows, a the AUC, w the unbiased indicator of a positive row (see `labeldp.evaluation.indicators`), whose
noise has variance v₁ at positive rows and v₀ at others, and F₁, F₀ the laws of their scores, a row's part in the error of the
estimated AUC is (Hájek's projection of Σ w_i(1 − w_j)(K_ij − a), over its expected denominator)

    ψ = [w·(1 − π)·(F₀(s) − a) + (1 − w)·π·(1 − F₁(s) − a)] / π(1 − π)

Given the label and the score its noise is (w − y)·g(s), g = (1 − π)(F₀(s) − a) − π(1 − F₁(s) − a), so that

    n·Var = Var₁(F₀)/π + Var₀(F₁)/(1 − π)                         drawing rows: what true labels cost too
          + [π·v₁·E₁(g²) + (1 − π)·v₀·E₀(g²)] / π²(1 − π)²        the noise

where Var₁, E₁ are over positive rows and Var₀, E₀ over others. Scores are taken to be normal with one variance, √2·Φ⁻¹(a) apart (the
binormal model).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from labeldp.accounting.normal import log_upper_tail
from labeldp.errors import InputError
from labeldp.evaluation.indicators import told_twice
from labeldp.mechanisms import Judge
from labeldp.mechanisms.base import check_prior
from labeldp.mechanisms.coordinates import Coordinatewise

Floats = npt.NDArray[np.float64]

AUC = 0.8  # of the model that is to be judged, if nobody says
STANDARD_ERROR = 0.01
_ENDS, _STEPS = 8.5, 340  # scores in standard deviations: the trapezoidal rule is exact to 1e-12 there


def noise_variances(mechanism: Judge) -> tuple[float, float]:
    """Of the indicator of a class, at its own rows and at others: v₁ and v₀."""
    law = mechanism.law()
    if mechanism.num_classes == 2 and isinstance(mechanism, Coordinatewise):
        law = told_twice(law)
    if not law.gap > 0:
        raise InputError("this mechanism's observations say nothing about the label, and so nothing about a model.")
    return law.variance_true / law.gap**2, law.variance_other / law.gap**2


def rarest_share(num_classes: int, prior: npt.ArrayLike | None = None) -> float | None:
    """Of the rarest class that is there at all: the hardest to judge, one against the rest. None if there is no other one."""
    if prior is None:
        return 1 / num_classes
    shares = check_prior(prior, num_classes)
    share = float(shares[shares > 0].min())
    return share if share < 1 else None


def scores_apart(auc: float) -> float:
    """The means of normal scores with this AUC, in standard deviations: √2·Φ⁻¹(a)."""
    return math.sqrt(2) * NormalDist().inv_cdf(auc)


def auc_variance(share: float, auc: float, noise: tuple[float, float] = (0.0, 0.0)) -> float:
    """n times the variance of an AUC that is estimated from n rows, of which this share is positive; without noise, from true labels."""
    if not 0 < share < 1:
        raise InputError(f"the share of positive rows is between 0 and 1; got {share:g}.")
    if not 0.5 <= auc < 1:
        raise InputError(f"an AUC to plan for is from 0.5 (chance) to below 1; got {auc:g}.")
    apart, rest = scores_apart(auc), 1 - share
    z = np.linspace(-_ENDS, _ENDS, _STEPS + 1)
    weights = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (2 * _ENDS / _STEPS)

    def chances(s: Floats) -> Floats:
        return np.exp(log_upper_tail(-s))

    # Others score z, positive rows z + d.
    above_others, above_positives = chances(z + apart) - auc, 1 - chances(z - apart) - auc
    drawn = float(weights @ above_others**2) / share + float(weights @ above_positives**2) / rest
    at_positives = rest * above_others - share * (1 - chances(z) - auc)
    at_others = rest * (chances(z) - auc) - share * above_positives
    noisy = share * noise[0] * float(weights @ at_positives**2) + rest * noise[1] * float(weights @ at_others**2)
    return drawn + noisy / (share * rest) ** 2


def rows_for_auc(mechanism: Judge, share: float, standard_error: float = STANDARD_ERROR, *, auc: float = AUC) -> int:
    """About how many held-out rows, released by this mechanism, tell an AUC with this standard error where this share is positive."""
    return math.ceil(auc_variance(share, auc, noise_variances(mechanism)) / check_error(standard_error) ** 2)


def check_error(standard_error: float) -> float:
    """One that an AUC can be asked for."""
    if not 1e-6 <= standard_error <= 0.2:
        raise InputError(
            f"the standard error of an AUC is from 0.000001 to 0.2; got {standard_error:g}. With 0.01, it is known within ± 0.02."
        )
    return standard_error
