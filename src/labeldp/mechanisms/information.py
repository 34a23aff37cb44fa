"""Mutual information of a channel and its label, without enumerating what cannot be enumerated.

Whatever the mechanism, with X = p(observation)/p₀(observation) for a suitable reference law p₀, the information is
E[evidence of the truth] − E₀[X log X]. X is a weighted sum of many small terms, whose law would take 256^C cells, but
its Laplace transform is a product, and (Frullani's integral)

    X log X = ∫₀^∞ (X e^{−t} − X e^{−tX}) dt/t        so that        E₀[X log X] = ∫ (E₀[X] e^{−t} − E₀[X e^{−tX}]) du,  t = e^u.

The integrand is analytic in the strip |Im u| < π/2 and decays at both ends, so the trapezoidal rule with step h errs by about
e^{−π²/h}: nothing at h = 0.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

Array = npt.NDArray[np.float64]

_STEP = 0.2
_MOST_DISTINCT = 4096
# ε ≤ 32 keeps every X within e^±32: beyond these ends the integrand is below 1e-17.
_T: Array = np.exp(np.arange(-72.0, 40.0 + _STEP / 2, _STEP))


def expected_x_log_x(mean: float | Array, tilted: Callable[[Array], Array]) -> Array:
    """E[X log X] from E[X] and the function t ↦ E[X e^{−tX}] (points along the last axis)."""
    integrand = np.asarray(mean)[..., None] * np.exp(-_T) - tilted(_T)
    return np.asarray(_STEP * integrand.sum(axis=-1))


def coordinatewise(other: Array, evidence: Array, prior: Array) -> float:
    """Nats carried by a product of one table a class.

    `other` are the cells' probabilities at a class that is not the true one, `evidence` the log-ratio of the
    true class's to them. Reference law: every class "other"; X = Σ_c π_c e^{evidence of cell at c}.
    """
    ratio = np.exp(evidence)
    probabilities, counts = np.unique(prior[prior > 0], return_counts=True)
    if len(probabilities) > _MOST_DISTINCT:
        raise InputError(
            f"a prior with more than {_MOST_DISTINCT:,} different probabilities is too much work; round it."
        )

    def tilted(t: Array) -> Array:
        log_product = np.zeros_like(t)
        mean = np.zeros_like(t)
        for p, n in zip(probabilities, counts, strict=True):
            weights = other[:, None] * np.exp(-np.outer(ratio, t * p))
            transform = weights.sum(axis=0)
            alive = transform > 0
            with np.errstate(divide="ignore"):
                log_product += n * np.log(transform)
            mean[alive] += n * p * (ratio @ weights[:, alive]) / transform[alive]
        return np.exp(log_product) * mean

    truth = float((other * ratio) @ evidence)
    return max(0.0, truth - float(expected_x_log_x(1.0, tilted)))


def subset(epsilon: float, prior: Array, largest: int) -> Array:
    """Nats carried by k-subset selection at ε, for each k = 1 … `largest`, exactly for this prior.

    Reference law: a uniform k-subset U; X = 1 + (e^ε − 1)·π(U). Its transform is an elementary symmetric polynomial,
    built class by class; Bernoulli(q) weights keep it within range and are divided out again.
    """
    classes = len(prior)
    gain = np.expm1(epsilon)
    sizes = np.arange(1, largest + 1)
    q = min(0.5, largest / classes)

    def tilted(t: Array) -> Array:
        # value[k] = Σ_{|U|=k} weight·e^{−t·gain·π(U)}, slope[k] = the same with gain·π(U) in front, chance[k] = Σ weight
        value = np.zeros((largest + 1, t.size))
        slope = np.zeros_like(value)
        chance = np.zeros(largest + 1)
        value[0] = chance[0] = 1.0
        for p in prior:
            factor = q * np.exp(-t * (gain * p))
            slope[1:] = (1 - q) * slope[1:] + factor * (slope[:-1] + gain * p * value[:-1])
            slope[0] *= 1 - q
            value[1:] = (1 - q) * value[1:] + factor * value[:-1]
            value[0] *= 1 - q
            chance[1:] = (1 - q) * chance[1:] + q * chance[:-1]
            chance[0] *= 1 - q
        result: Array = np.exp(-t) * (value + slope)[1:] / chance[1:, None]
        return result

    mean = 1 + gain * sizes / classes
    holds = sizes * np.exp(epsilon) / classes / mean
    return np.asarray(np.maximum(0.0, holds * epsilon - expected_x_log_x(mean, tilted) / mean))


def subset_uniform(epsilon: float, num_classes: int, sizes: Array) -> Array:
    """The same for the uniform prior, in closed form: X does not vary."""
    mean = 1 + np.expm1(epsilon) * sizes / num_classes
    holds = sizes * np.exp(epsilon) / num_classes / mean
    return np.asarray(holds * epsilon - np.log(mean))
