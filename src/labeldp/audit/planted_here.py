"""Are these the canaries that a release was made with? A release does not say, but its observations would show it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labeldp.audit.attack import ReleaseAttack
from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.release.core import Release

_REFUSED, _DOUBTED = 6.0, 4.0  # standard deviations: a right audit is refused with probability 1e-9, doubted with 3e-5


def check_planted_here(release: Release, canaries: Canaries, places: npt.NDArray[np.int64]) -> list[str]:
    """Refuse canaries that were planted elsewhere, which an audit would find to give nothing away; where few show little, a doubt.

    If candidates are equally likely beforehand, then given the observation the planted one is candidate k with probability
    w_k = p(observation | k)/Σ. So w of the planted one has mean Σw² and variance Σw³ − (Σw²)², canary by canary; of a label that was
    drawn for another file it has mean 1/K. Rows whose labels moved teachers, or chose a winner, do not follow this law and are not judged.
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
    mean, square = (weights**2).sum(axis=1), (weights**3).sum(axis=1)
    deviation = float(np.sqrt(np.maximum(square - mean**2, 0).sum()))
    behind = float(mean.sum() - planted.sum()) - 1e-6 * len(planted)
    if behind > _REFUSED * deviation:
        raise InputError(
            "these canaries were not planted in this release (or it was not drawn as it says): their labels fit its observations no "
            "better than others do. Release the file that `canaries plant` wrote, and keep the secret file that it wrote with it."
        )
    if behind > _DOUBTED * deviation:
        return ["these canaries fit this release badly: were they planted in *this* release? A release does not say."]
    return []
