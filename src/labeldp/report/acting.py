"""Did it act? What the noise did to these labels, as far as the release alone can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import AccuracyEstimate
from labeldp.evaluation.confusion import estimate_class_shares
from labeldp.mechanisms import Mechanism, PateAnswers, PriorAware, RowMechanism, Selected
from labeldp.mechanisms.joint import Joint
from labeldp.release.release import Release

MOST_ROWS = 200_000  # that are looked at, from all over the file
MOST_CLASSES = 200  # whose shares are estimated


@dataclass(frozen=True)
class ClassShare:
    """How often a class is what the release speaks for most, and how common it is by the estimate."""

    name: str
    released: float
    estimate: AccuracyEstimate | None

    def to_json(self) -> dict[str, Any]:
        """Null where nothing can be estimated."""
        known = self.estimate
        return {
            "class": self.name,
            "released": self.released,
            "estimated": known.accuracy if known else None,
            "unbiased": known.unbiased if known else None,
            "interval_95": list(known.interval()) if known else None,
        }


@dataclass(frozen=True)
class Acting:
    """One release, looked at by whoever has the file."""

    rows: int
    looked_at: int
    flipped: float | None  # the share of labels that the mechanism changes, by its own probabilities
    why_unknown: str
    silent: float  # the share of rows that say nothing
    information: float | None  # nats a row, uniform prior
    most_information: float  # nats that there are to tell
    strongest: float  # the widest range of evidence in any row
    typical: float  # its median
    shares: tuple[ClassShare, ...]
    why_no_shares: str

    def to_json(self) -> dict[str, Any]:
        """As `labeldp report --json` prints it."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "shares"}
        return {**facts, "shares": [share.to_json() for share in self.shares]}


def acting(release: Release, planted: float = 0.0) -> Acting:
    """Look at a release, of whose labels a share was `planted`, uniformly from all classes."""
    step = -(-len(release) // MOST_ROWS)
    observations = release.observations[::step]  # from all over the file, which may be sorted
    mechanism = release.mechanism
    evidence = mechanism.evidence(observations)
    wide = evidence.max(axis=1) - evidence.min(axis=1)
    told = mechanism.informative(observations)
    flipped, why_unknown = _flipped(mechanism)
    shares, why_no_shares = _shares(release, observations[told], planted)
    return Acting(
        len(release), len(observations), flipped, why_unknown, float(1 - told.mean()), _information(mechanism),
        float(np.log(mechanism.num_classes)), float(wide.max()), float(np.median(wide[told])) if told.any() else 0.0, shares, why_no_shares,
    )  # fmt: skip


_UNKNOWN: dict[type[Mechanism], str] = {
    Joint: "how often a row of a joint release keeps its label depends on its part.",
    PateAnswers: "how often a teacher ensemble's answers are right is private, so how often they keep a label is not known.",
    PriorAware: "how often a prior-aware mechanism keeps a label depends on the row's candidates, so there is no one answer.",
    Selected: "a selected release is the one of several whose noise served best, so how often it kept a label is not known.",
}


def _flipped(mechanism: Mechanism) -> tuple[float | None, str]:
    if isinstance(mechanism, RowMechanism):
        return 1 - mechanism.probability_kept(), ""
    return None, _UNKNOWN.get(type(mechanism), "this mechanism does not say how often it keeps a label.")


def _information(mechanism: Mechanism) -> float | None:
    return mechanism.information() if isinstance(mechanism, RowMechanism | Selected) else None


def _shares(release: Release, observations: Any, planted: float) -> tuple[tuple[ClassShare, ...], str]:
    """Of rows that say something; ties are shared."""
    mechanism = release.mechanism
    if mechanism.num_classes > MOST_CLASSES:
        return (), f"there are more than {MOST_CLASSES} classes."
    if len(observations) < 2:
        return (), "hardly any row says anything."
    evidence = mechanism.evidence(observations)
    most = evidence == evidence.max(axis=1, keepdims=True)
    released = (most / most.sum(axis=1, keepdims=True)).mean(axis=0)
    estimates: list[AccuracyEstimate | None] = [None] * mechanism.num_classes
    why = ""
    try:
        found = estimate_class_shares(mechanism, observations)
        estimates = [share.without_canaries(planted, mechanism.num_classes) for share in found]
    except InputError as error:
        why = str(error)
    return tuple(map(ClassShare, release.class_names, map(float, released), estimates)), why
