"""Are these the canaries that a release was made with? A release does not say, but its observations would show it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from labeldp.audit.attack import ReleaseAttack
from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.release.release import Release

_REFUSED, _DOUBTED = 1e-9, 1e-4  # of right canaries, with at most these probabilities
_TILTS = np.geomspace(1e-3, 1e3, 121)


def check_planted_here(release: Release, canaries: Canaries, places: npt.NDArray[np.int64]) -> list[str]:
    """Refuse canaries that were planted elsewhere, which an audit would find to give nothing away; where few show little, a doubt.

    If candidates are equally likely beforehand, then given the observation the planted one is candidate k with probability
    w_k = p(observation | k)/Σ, canary by canary. So the sum of the planted ones' w has the mean M = ΣΣw², and by Chernoff's bound it
    falls short of it by t or more with a probability of at most exp(Σ log Σ_k w_k e^{λ(m − w_k)} − λt), for every λ > 0. Of labels that
    were drawn for another file, w has mean 1/K. Rows whose labels moved teachers, or chose a winner, do not follow this law and are
    not judged.
    """
    if release.mechanism.trust != "local" or not (places >= 0).any():
        return []
    here = places >= 0
    candidates = canaries.candidates[here]
    scores = np.take_along_axis(ReleaseAttack(release).scores(places[here]), candidates, axis=1)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(scores - scores.max(axis=1, keepdims=True)), nan=1.0)
    weights /= weights.sum(axis=1, keepdims=True)
    planted = weights[candidates == canaries.planted[here][:, None]]
    mean = (weights**2).sum(axis=1)
    chance = _log_chance(weights, mean, float(mean.sum() - planted.sum()))
    if chance < math.log(_REFUSED):
        raise InputError(
            "these canaries were not planted in this release (or it was not drawn as it says): their labels fit its observations no "
            "better than others do. Release the file that `canaries plant` wrote, and keep the secret file that it wrote with it."
        )
    if chance < math.log(_DOUBTED):
        return ["these canaries fit this release badly: were they planted in *this* release? A release does not say."]
    return []


def _log_chance(weights: npt.NDArray[np.float64], mean: npt.NDArray[np.float64], short: float) -> float:
    """The log of a bound on the probability that right canaries fall so much short."""
    if short <= 0:
        return 0.0
    bounds = []
    for tilt in _TILTS:
        powers = tilt * (mean[:, None] - weights)
        top = powers.max(axis=1, keepdims=True)
        bounds.append(
            float((top[:, 0] + np.log((weights * np.exp(powers - top)).sum(axis=1) + 1e-300)).sum() - tilt * short)
        )
    return min(bounds)
