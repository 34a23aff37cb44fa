"""A run as a page shows it, whatever command made it. Directories may be somebody else's: nothing in them is executed or believed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeldp.audit.guesses import Guesses
from labeldp.evaluation import accuracy_parts
from labeldp.release.core import Release


@dataclass(frozen=True)
class Accuracy:
    """How often the model is right, and between which ends that surely (95%) is; no ends where nobody recorded of how many rows."""

    unbiased: float  # an estimate may be an impossible accuracy; no page says it
    low: float | None
    high: float | None
    how: str  # "estimated" from released labels, or on public "test" labels
    words: str
    sure: str = "95%"

    @property
    def value(self) -> float:
        """The possible accuracy that is nearest."""
        return min(1.0, max(0.0, self.unbiased))

    def parts(self, digits: int = 1) -> tuple[str, str]:
        """For people: what is said first, and what beside it."""
        ends = None if self.low is None or self.high is None else (self.low, self.high)
        return accuracy_parts(self.unbiased, ends, self.sure, digits)

    def to_json(self) -> dict[str, Any]:
        """Unrounded."""
        return {
            "value": self.value,
            "unbiased": self.unbiased,
            "interval_95": None if self.low is None else [self.low, self.high],
            "how": self.how,
        }


_RESULT: dict[str, Callable[[Any], Any]] = {
    "guesses": int, "correct": int, "abstained": int, "canaries": int, "candidates": int, "confidence": float,
    "method": str, "assumption": str,
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """An audit's result, and by whom the guesses were made."""

    who: str
    result: dict[str, Any]

    @classmethod
    def of(cls, who: str, said: dict[str, Any]) -> Measured:
        """From a file, of which every number is one. (Null stands for infinity.)"""
        typed = {name: kind(said[name]) for name, kind in _RESULT.items()}
        ends = {name: None if said[name] is None else float(said[name]) for name in ("epsilon_low", "epsilon_high")}
        if any(isinstance(value, float) and not math.isfinite(value) for value in (*typed.values(), *ends.values())):
            raise ValueError
        return cls(who, {**typed, **ends})

    @property
    def low(self) -> float:
        """ε is at least this. (None in a file stands for infinity.)"""
        return float("inf") if self.result["epsilon_low"] is None else float(self.result["epsilon_low"])

    @property
    def high(self) -> float | None:
        """The other end, where the method has one."""
        return None if self.result["epsilon_high"] is None else float(self.result["epsilon_high"])


def who_sees(attack: str) -> str:
    """The attacker, in words."""
    return f"who sees the {attack}" if attack in ("model", "release") else f"the attack “{attack}”"


@dataclass(frozen=True)
class Run:
    """Everything that a page says of one run; None and empty where there is nothing to say."""

    name: str
    kind: str  # "training", "PATE", "audit"
    data_set: str | None
    certificate: dict[str, Any] | None
    trust: str | None
    insecure: str | None
    mechanism: str | None
    release: str | None = None  # the checksum of what was trained on; of joined releases, theirs together
    trained_on: tuple[str, ...] = ()  # the releases that it was trained on
    made_from: tuple[str, ...] = ()  # these, and those behind their public priors
    checked: bool = False  # the certificate was computed from the releases, not read
    model: str | None = None  # a digest
    canaries: int | None = None  # planted labels in the releases, as far as these files know
    canary_share: float | None = None
    class_names: tuple[str, ...] = ()
    accuracies: tuple[Accuracy, ...] = ()
    commonest: float | None = None
    history: tuple[tuple[str, list[dict[str, Any]]], ...] = ()
    measured: tuple[Measured, ...] = ()
    violins: Guesses | None = None
    confusion: dict[str, Any] | None = None
    facts: tuple[tuple[str, str], ...] = ()
    starts: tuple[dict[str, Any], ...] = ()
    releases: tuple[Release, ...] = ()
    others: tuple[Release, ...] = ()  # of other rows, which judged
    own_ledger: Path | None = None
    ledger: dict[str, Any] | None = None
    owner_facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    seed: int | None = None

    def with_releases(self, given: dict[str, Release]) -> Run:
        """With those of the given releases that it was made from."""
        found = [given[one] for one in self.made_from if one in given]
        known = {release.checksum: release for release in (*self.releases, *found)}
        return replace(self, releases=tuple(known.values()))

    def share_planted(self) -> float:
        """The share of the released labels that were planted, as far as these files know."""
        if self.canary_share:
            return self.canary_share
        rows = sum(len(release) for release in self.releases)
        whole = rows and all(one in {r.checksum for r in self.releases} for one in self.trained_on)
        return (self.canaries or 0) / rows if whole else 0.0

    @property
    def epsilon(self) -> float | None:
        """The proven one; None where nothing is proven."""
        return None if self.certificate is None else self.certificate["epsilon"]

    @property
    def accuracy(self) -> Accuracy | None:
        """The one to compare runs by: on public test labels where there are some."""
        return next((a for a in self.accuracies if a.how == "test"), self.accuracies[0] if self.accuracies else None)

    def to_json(self) -> dict[str, Any]:
        """As `labeldp report --json` prints it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "data_set": self.data_set,
            "certificate": self.certificate,
            "checked": self.checked,
            "trust": self.trust,
            "insecure": self.insecure,
            "accuracies": [accuracy.to_json() for accuracy in self.accuracies],
            "measured": [{"who": one.who, **one.result} for one in self.measured],
            "releases": [release.checksum for release in self.releases],
            "missing_releases": [one for one in self.made_from if one not in {r.checksum for r in self.releases}],
        }
