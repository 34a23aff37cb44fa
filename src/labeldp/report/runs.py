"""A run as a page shows it, whatever command made it. Directories may be somebody else's: nothing in them is executed or believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from labeldp.audit.counts import Bound, Headline, Stated, read_counts
from labeldp.audit.thresholds import MOST_LOOKS
from labeldp.audit.violins import Violins
from labeldp.errors import InputError
from labeldp.evaluation.accuracy import accuracy_parts
from labeldp.evaluation.metrics import metric_text
from labeldp.files.summary import (
    Certificate,
    Metrics,
    Start,
    StatedAudit,
    StatedConfusion,
    StatedCurves,
    StatedMetric,
    StatedSearch,
)
from labeldp.release.release import Release
from labeldp.statistics.reading import Fittable

# What a page says of numbers that these files state and nothing here can check: they may be somebody else's.
FOUND_BY_RUN = "by its own account: that the run found what its files say"
COUNTED_BY_AUDIT = "by its own account: that the audit counted what its file says, and that it is the only one"


@dataclass(frozen=True)
class Accuracy:
    """How often the model is right, and between which ends that surely (95%) is; no ends where nobody recorded of how many rows."""

    unbiased: float  # an estimate may be an impossible accuracy; no page says it
    low: float | None
    high: float | None
    how: str  # "estimated" from released labels, or on public "test" labels
    words: str
    sure: str = "95%"
    rows: int | None = None  # that judged

    @property
    def told(self) -> bool:
        """Whether so many rows tell it: an estimate that had to be clipped, or whose limits are far, is no headline."""
        clipped = self.how == "estimated" and not 0 < self.unbiased < 1
        return not clipped and (self.low is None or self.high is None or _near(self.value, (self.low, self.high)))

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
            "given": FOUND_BY_RUN,
        }


@dataclass(frozen=True)
class ShownMetric:
    """A metric from released labels, as the run states it. No value: the rows were too few to tell."""

    name: str
    words: str
    reading: str  # what it is
    said: StatedMetric
    sure: str = "95%"

    @property
    def told(self) -> bool:
        """Whether the rows tell a metric from 0 to 1; see `Accuracy.told`."""
        value, ends = self.said.value, self.said.interval_95
        return value is not None and 0 < value < 1 and _near(value, ends)

    def parts(self) -> tuple[str, str]:
        """For people: what is said first, and what beside it."""
        said = self.said
        first, _, beside = metric_text(said.value, said.interval_95, said.rows, said.rows_needed).partition(" (")
        return first, beside.removesuffix(")").replace("95%", self.sure, 1)

    @property
    def by_class(self) -> tuple[ShownMetric, ...]:
        """One class against the rest, each."""
        return tuple(replace(self, said=one) for one in self.said.by_class)

    def to_json(self) -> dict[str, Any]:
        """Unrounded."""
        said = {name: value for name, value in asdict(self.said).items() if name not in ("name", "by_class")}
        more = {"by_class": [one.to_json() for one in self.by_class]} if self.by_class else {}
        return {**said, **more, "given": FOUND_BY_RUN}


def shown_metrics(said: Mapping[str, StatedMetric], classes: int, sure: str = "95%") -> tuple[ShownMetric, ...]:
    """Those that a page knows how to read."""
    readings = _readings(classes)
    return tuple(ShownMetric(name, *readings[name], said[name], sure) for name in readings if name in said)


def _readings(classes: int) -> dict[str, tuple[str, str]]:
    """What metrics are called, and what they mean."""
    mean = "; one class against the rest, the mean over classes" if classes > 2 else ""
    brier = 0.25 if classes == 2 else 1 - 1 / classes
    return {
        "roc_auc": ("ROC AUC", f"how often a positive row scores above a negative one: 0.5 is chance, 1 is perfect{mean}"),
        "average_precision": (
            "Average precision",
            f"precision, averaged over recall: chance has the share of positive rows, 1 is perfect{mean}",
        ),
        "log_loss": ("Log loss", f"less is better: equal probabilities for all classes have {math.log(classes):.3f}"),
        "brier": ("Brier score", f"less is better: equal probabilities for all classes have {brier:.3f}"),
        "log_likelihood": (
            "Log-likelihood",
            "of what was released, a row, up to a constant: more is better, and it compares only models that the same released rows judge",
        ),
    }  # fmt: skip


_FAR = 0.15  # limits that are farther from an estimate than this make it none to go by


def _near(value: float, ends: Sequence[float | None]) -> bool:
    return all(end is not None and abs(end - value) <= _FAR for end in ends)


_SHOWN = (
    "guesses", "correct", "abstained", "canaries", "candidates", "confidence", "delta", "method", "assumption", "epsilon_low",
    "epsilon_high",
)  # fmt: skip
_NO_BOUND = "the paper’s interval is no bound"
_NO_COUNTS = "an earlier version kept it without what it counted, so it is at its own confidence and shares nothing"


@dataclass(frozen=True)
class Measured:
    """One attack of an audit, and by whom the guesses were made: a lower bound on ε, once it is `stated` at its share of the page's
    doubt; or, without what such a bound is computed from, something that stands apart and is in no headline.
    """

    who: str
    result: StatedAudit
    bound: Bound | None
    stated: Stated | None = None

    @classmethod
    def of(cls, who: str, said: StatedAudit) -> Measured:
        """From what a file says of one attack."""
        counts = said.looks[0].counts if said.looks and said.method != "paper" else None
        if counts is None:
            return cls(who, said, None)
        if not 1 <= len(counts) <= MOST_LOOKS:
            raise InputError(f"an audit is damaged: an attack looks once at least, and {MOST_LOOKS} times at most.")
        try:
            return cls(who, said, Bound(said.attack, tuple(map(read_counts, counts))))
        except InputError as error:
            raise InputError(f"what the attack “{said.attack}” of an audit counted is damaged: {error}") from None

    @property
    def apart(self) -> str | None:
        """Why it is no part of a headline, if it is none."""
        if self.bound is not None:
            return None
        return _NO_BOUND if self.result.method == "paper" else _NO_COUNTS

    @property
    def low(self) -> float:
        """ε is at least this, at its share of the page's doubt; where it is apart, what its file says. (None stands for infinity.)"""
        if self.stated is not None:
            return self.stated.epsilon
        return math.inf if self.result.epsilon_low is None else self.result.epsilon_low

    @property
    def high(self) -> float | None:
        """The other end, where the method has one."""
        return self.result.epsilon_high

    def shown(self, headline: Headline | None) -> Measured:
        """At its share of the doubt, with the counts of the look that gave it."""
        if headline is None or self.bound is None:
            return self
        stated = next(one for one in headline.bounds if one.bound is self.bound)
        look = stated.look
        said = replace(
            self.result, epsilon_low=stated.epsilon, delta=headline.delta, guesses=look.guesses, correct=look.correct,
            abstained=max(0, self.result.canaries - look.guesses), confidence=headline.confidence, method=look.kind,
            assumption=look.assumption,
        )  # fmt: skip
        return replace(self, stated=stated, result=said)

    def to_json(self, headline: Headline | None) -> dict[str, Any]:
        """What the page says of it, and how many bounds share the confidence."""
        shared_by = headline.shared_by if headline is not None and self.stated is not None else None
        said = {name: getattr(self.result, name) for name in _SHOWN}
        return {"who": self.who, **said, "shared_by": shared_by, "apart": self.apart, "given": COUNTED_BY_AUDIT}


def each_measured(result: StatedAudit, words: Callable[[str], str]) -> Iterator[Measured]:
    """Every attack of an audit's result."""
    for one in result.attacks:
        yield Measured.of(words(one.attack), one)


def who_sees(attack: str) -> str:
    """The attacker, in words."""
    return f"who sees the {attack}" if attack in ("model", "release") else f"the attack “{attack}”"


@dataclass(frozen=True)
class Run:
    """Everything that a page says of one run; None and empty where there is nothing to say."""

    name: str
    kind: str  # "training", "PATE", "audit"
    data_set: str | None
    certificate: Certificate | None
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
    history: tuple[tuple[str, list[Metrics]], ...] = ()
    measured: tuple[Measured, ...] = ()
    more_bounds: int = 0  # known of it and not shown: of audits that were replaced, or are the owner's
    says_not_of_what: bool = False  # an audit of scores that name no model, and of no release
    headline: Headline | None = None  # what the bounds among `measured` prove together
    violins: Violins | None = None
    confusion: StatedConfusion | None = None
    metrics: tuple[ShownMetric, ...] = ()
    curves: StatedCurves | None = None
    search: StatedSearch | None = None  # how its recipe was chosen
    facts: tuple[tuple[str, str], ...] = ()
    starts: tuple[Start, ...] = ()
    releases: tuple[Release, ...] = ()
    others: tuple[Release, ...] = ()  # of other rows, which judged
    statistics: tuple[Fittable, ...] = ()  # in place of releases: what its model was fitted to
    own_ledger: Path | None = None
    ledger: dict[str, Any] | None = None
    unrecorded: bool = False  # a ledger was named, and knows none of its releases
    owner_facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    seed: int | None = None
    folders: tuple[str, ...] = ()  # the names of the directories that it was read from

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
        return None if self.certificate is None else self.certificate.epsilon

    @property
    def files(self) -> tuple[Release | Fittable, ...]:
        """Everything here that an owner handed over."""
        return (*self.releases, *self.others, *self.statistics)

    @property
    def missing(self) -> tuple[str, ...]:
        """The releases behind it that are not here: those that its files name, and those that its releases do."""
        behind = [*self.made_from, *(one for release in self.releases for one in release.behind)]
        have = {one.checksum for one in self.files}
        return tuple(one for one in dict.fromkeys(behind) if one not in have)

    @property
    def bounds(self) -> list[Bound]:
        """Its lower bounds on ε, at no level yet."""
        return [found.bound for found in self.measured if found.bound is not None]

    @property
    def subjects(self) -> frozenset[str]:
        """What its bounds are bounds of: a model, and the releases behind it."""
        return frozenset(one for one in (self.model, self.release, *self.made_from) if one is not None)

    def with_headline(self, others: int) -> Run:
        """Its bounds, sharing the doubt with so many others, at the δ of the certificate that they stand beside."""
        bounds = self.bounds
        if not bounds:
            return self
        delta = self.certificate.delta if self.certificate is not None and self.epsilon is not None else None
        if delta is None:
            delta = max(found.result.delta for found in self.measured if found.bound is not None)
        headline = Headline.of(bounds, delta=delta, others=others)
        return replace(self, headline=headline, measured=tuple(found.shown(headline) for found in self.measured))

    @property
    def strongest(self) -> Measured | None:
        """Whose bound is the headline."""
        best = self.headline.best if self.headline is not None else None
        return next((found for found in self.measured if best is not None and found.stated is best), None)

    @property
    def accuracy(self) -> Accuracy | None:
        """The one to compare runs by: on public test labels where there are some."""
        return next((a for a in self.accuracies if a.how == "test"), self.accuracies[0] if self.accuracies else None)

    @property
    def roc_auc(self) -> ShownMetric | None:
        """How well the model ranks."""
        return next((metric for metric in self.metrics if metric.name == "roc_auc"), None)

    def to_json(self) -> dict[str, Any]:
        """As `labeldp report --json` prints it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "data_set": self.data_set,
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "checked": self.checked,
            "trust": self.trust,
            "insecure": self.insecure,
            "accuracies": [accuracy.to_json() for accuracy in self.accuracies],
            "metrics": {metric.name: metric.to_json() for metric in self.metrics},
            "search": None if self.search is None else {**self.search.to_json(), "given": FOUND_BY_RUN},
            "headline": self._headline_json(),
            "measured": [one.to_json(self.headline) for one in self.measured],
            "releases": [release.checksum for release in self.releases],
            "missing_releases": list(self.missing),
        }

    def _headline_json(self) -> dict[str, Any] | None:
        if self.headline is None or self.strongest is None:
            return None
        return {
            "epsilon_low": self.headline.epsilon,
            "delta": self.headline.delta,
            "confidence": self.headline.confidence,
            "shared_by": self.headline.shared_by,
            "who": self.strongest.who,
            "assumption": self.strongest.result.assumption,
            "given": COUNTED_BY_AUDIT,
        }
