"""One run as the template shows it: pictures drawn, words chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import AccuracyEstimate
from labeldp.evaluation.confusion import estimate_class_shares
from labeldp.mechanisms import Mechanism, PateAnswers, PriorAware, RowMechanism, Selected
from labeldp.mechanisms.joint import Joint
from labeldp.release.header import HandedOver
from labeldp.release.release import Release
from labeldp.report import charts
from labeldp.report.again import Before, Worked, owners_commands
from labeldp.report.checklist import CheckedLine, checklist
from labeldp.report.handed_over import stated_in
from labeldp.report.promise import EXAMPLES, Cap, best_guess, cap_of, condition
from labeldp.report.runs import Run
from labeldp.report.scorecard import Scorecard
from labeldp.report.signoff import SignOff
from labeldp.statistics.reading import Fittable

# ----------------------------------------------------------------
# Did it act? What the noise did to these labels, as far as the release alone can tell.

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


_BARS = 20  # classes that a chart of shares shows


@dataclass(frozen=True)
class Acted:
    """One release and what its noise did."""

    release: Release
    found: Acting
    chart: Markup | None
    more_classes: int

    @classmethod
    def of(cls, release: Release, planted: float) -> Acted:
        """Look at it."""
        found = acting(release, planted)
        shown = sorted(found.shares, key=lambda s: -s.released)[:_BARS] if len(found.shares) > _BARS else found.shares
        return cls(release, found, charts.balance(shown) if shown else None, len(found.shares) - len(shown))


@dataclass(frozen=True)
class View:
    """What a page says of a run."""

    run: Run
    anchor: str
    signoff: SignOff
    checklist: tuple[CheckedLine, ...]
    handed_over: tuple[tuple[Release | Fittable, HandedOver], ...]
    axis: Markup | None
    loss: Markup | None
    selecting: Markup | None
    selected_by: str
    search: Markup | None
    violin: Markup | None
    acted: tuple[Acted, ...]
    planted: float
    cap: Cap | None
    more_to_come: bool  # the owner's cap leaves room for further releases
    cap_guess: float  # what a guess of 10% could become at the cap
    condition: str
    examples: tuple[tuple[float, float], ...]
    starts: tuple[Worked, ...]
    before: tuple[Before, ...]  # what the owner did first
    two_sided: bool  # some measurement has an upper end too
    scorecard: Scorecard

    @classmethod
    def of(cls, run: Run, number: int) -> View:
        """Draw everything."""
        cap = cap_of(run)
        epsilon = run.epsilon
        lines = checklist(run, cap)
        planted = run.share_planted()
        selecting, selected_by = _chosen_by(run)
        return cls(
            run=run,
            anchor=f"run-{number}",
            signoff=SignOff.of(run, cap, lines),
            checklist=lines,
            handed_over=tuple((file, stated_in(file.header)) for file in run.files),
            axis=_axis(run, cap),
            loss=charts.curves(run.history, "loss", "Training loss"),
            selecting=selecting,
            selected_by=selected_by,
            search=None if run.search is None else charts.trials(run.search),
            scorecard=Scorecard.of(run.class_names, run.metrics, run.curves, run.confusion),
            violin=charts.violin(run.violins) if run.violins is not None else None,
            acted=tuple(Acted.of(release, planted) for release in (*run.releases, *run.others)),
            planted=planted,
            cap=cap,
            more_to_come=cap is not None and run.certificate is not None and cap.exceeds(run.certificate),
            cap_guess=best_guess(0.1, cap.epsilon) if cap is not None else 1.0,
            condition=condition(run.certificate) if run.certificate is not None and epsilon is not None else "",
            examples=tuple((p, best_guess(p, epsilon)) for p in EXAMPLES) if epsilon is not None else (),
            two_sided=any(m.high is not None for m in run.measured),
            starts=tuple(map(Worked.of, run.starts)),
            before=owners_commands(run),
        )  # fmt: skip


def _chosen_by(run: Run) -> tuple[Markup | None, str]:
    """What an epoch was chosen by: the likelihood; in runs of earlier versions, accuracy."""
    if any(one.accuracy_selecting is not None for _, epochs in run.history for one in epochs):
        drawn = charts.curves(run.history, "accuracy_selecting", "Accuracy by which an epoch was chosen", percent=True)
        return drawn, "The accuracy by which an epoch was chosen, estimated from half of the rows held out."
    drawn = charts.curves(run.history, "likelihood_selecting", "Log-likelihood by which an epoch was chosen")
    return drawn, (
        "The log-likelihood of what was released of half of the rows held out, by which an epoch was chosen. These rows report nothing."
    )


def _axis(run: Run, cap: Cap | None) -> Markup | None:
    measured = [m for m in run.measured if math.isfinite(m.low)]
    if run.epsilon is None and not measured:
        return None
    if cap is None:
        return charts.epsilon_axis(run.epsilon, measured, None)
    same = run.certificate is None or cap.delta == run.certificate.delta
    at = "" if same else f" at δ = {cap.delta:g}"
    return charts.epsilon_axis(run.epsilon, measured, cap.epsilon, at)
