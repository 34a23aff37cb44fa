"""One run as the template shows it: pictures drawn, words chosen."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from markupsafe import Markup

from labeldp.accounting.statement import promise_text
from labeldp.errors import InputError
from labeldp.evaluation.accuracy import AccuracyEstimate
from labeldp.evaluation.confusion import estimate_class_shares
from labeldp.files.summary import Certificate, Start
from labeldp.mechanisms import Mechanism, PateAnswers, PriorAware, RowMechanism, Selected
from labeldp.mechanisms.joint import Joint
from labeldp.provenance import machine_line
from labeldp.release.release import Release
from labeldp.report import charts
from labeldp.report.runs import Run, ShownMetric

# ----------------------------------------------------------------
# What ε means for one guess, in words that are right.

EXAMPLES = (0.01, 0.1, 0.5, 0.9)


def best_guess(before: float, epsilon: float) -> float:
    """A guess about one label that was right with this probability can become right with at most p·e^ε/(1 − p + p·e^ε).

    e^ε multiplies the *odds*: by Bayes' rule, posterior odds are prior odds times the likelihood ratio of what was released, and that is
    at most e^ε, also against any mixture of the other classes.
    """
    return 1 / (1 + (1 - before) / before * math.exp(-epsilon)) if before > 0 else 0.0


def condition(certificate: Certificate) -> str:
    """What is to be said before the bound; nothing for a pure ε.

    (ε, δ) does not bound the odds of every outcome. But for one guess and one belief about the others there are two laws, "it is so" and
    "it is not", which are (ε, δ)-close, and such a *pair* is within δ of a pair that is ε-close (Dwork, Rothblum, Vadhan 2010). For all
    guesses at once that would not be so: see docs/concepts/inference.md.
    """
    if not certificate.delta:
        return ""
    return f"For any one such guess, and but for an event of probability at most {certificate.delta:g} (δ): "


def up_to(share: float) -> str:
    """A share in percent, never less than it is: what is bounded must not look better."""
    if share >= 0.999:
        return "over 99.9%" if share < 1 else "100%"
    return f"{math.ceil(1000 * share) / 10:.1f}%"


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


_MATRIX = 15  # classes that a matrix shows; of more, the commonest confusions are listed
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
class Cap:
    """What the owner promises for all releases of a data set together, and since when."""

    epsilon: float
    delta: float
    when: str
    text: str

    @classmethod
    def of(cls, promised: Mapping[str, float], when: str, text: str) -> Cap:
        """From what a budget says to be publishable."""
        return cls(promised["epsilon"], promised["delta"], when, text)


@dataclass(frozen=True)
class Taken:
    """A cell of a confusion matrix; `depth` is its colour's."""

    share: float
    error: float
    depth: float
    right: bool
    stands_out: bool


@dataclass(frozen=True)
class Mistake:
    """A class that is taken for another."""

    true: str
    said: str
    share: float
    error: float


@dataclass(frozen=True)
class OneClass:
    """How often it is said, right, and found; with errors, where there is enough of it."""

    name: str
    called: float
    right: tuple[float, float] | None
    found: tuple[float, float] | None


@dataclass(frozen=True)
class Worked:
    """A command, where and when."""

    command: str | None
    day: str | None
    labeldp: str | None
    machine: str


@dataclass(frozen=True)
class View:
    """What a page says of a run."""

    run: Run
    anchor: str
    axis: Markup | None
    loss: Markup | None
    selecting: Markup | None
    selected_by: str
    violin: Markup | None
    acted: tuple[Acted, ...]
    planted: float
    missing: tuple[str, ...]
    cap: Cap | None
    more_to_come: bool  # the owner's cap leaves room for further releases
    cap_guess: float  # what a guess of 10% could become at the cap
    condition: str
    examples: tuple[tuple[float, float], ...]
    matrix: tuple[tuple[str, tuple[Taken, ...]], ...]
    confusions: tuple[Mistake, ...]
    classes: tuple[OneClass, ...]
    starts: tuple[Worked, ...]
    two_sided: bool  # some measurement has an upper end too
    roc: Markup | None
    lift: Markup | None
    calibration: Markup | None
    by_class: tuple[
        tuple[str, tuple[ShownMetric, ...]], ...
    ]  # the metrics of a class against the rest, for the first classes

    @classmethod
    def of(cls, run: Run, number: int) -> View:
        """Draw everything."""
        cap = _cap(run)
        epsilon = run.epsilon
        have = {release.checksum for release in run.releases}
        planted = run.share_planted()
        selecting, selected_by = _chosen_by(run)
        return cls(
            run=run,
            anchor=f"run-{number}",
            axis=_axis(run, cap),
            loss=charts.curves(run.history, "loss", "Training loss"),
            selecting=selecting,
            selected_by=selected_by,
            roc=charts.roc(run.curves) if run.curves is not None else None,
            lift=charts.lift(run.curves) if run.curves is not None else None,
            calibration=charts.calibration(run.curves) if run.curves is not None else None,
            by_class=_by_class(run),
            violin=charts.violin(run.violins) if run.violins is not None else None,
            acted=tuple(Acted.of(release, planted) for release in (*run.releases, *run.others)),
            planted=planted,
            missing=tuple(one for one in run.made_from if one not in have),
            cap=cap,
            more_to_come=cap is not None and epsilon is not None and cap.epsilon > epsilon * (1 + 1e-6),
            cap_guess=best_guess(0.1, cap.epsilon) if cap is not None else 1.0,
            condition=condition(run.certificate) if run.certificate is not None and epsilon is not None else "",
            examples=tuple((p, best_guess(p, epsilon)) for p in EXAMPLES) if epsilon is not None else (),
            matrix=_matrix(run) if len(run.class_names) <= _MATRIX else (),
            confusions=_confusions(run) if len(run.class_names) > _MATRIX else (),
            classes=_classes(run) if len(run.class_names) <= _BARS else (),
            two_sided=any(m.high is not None for m in run.measured),
            starts=tuple(map(_start, run.starts)),
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


def _cap(run: Run) -> Cap | None:
    """What its owner promises for all releases of the data set together: by the ledger, or else by the newest release, on its day."""
    if run.ledger is not None:
        budget = run.ledger["data_sets"][0]
        promised = budget["publishable"]
        return None if promised is None else Cap.of(promised, "by the ledger", promise_text(budget))
    newest = max(
        _of_its_data(run), key=lambda r: (str(r.header["made"])[:10], r.header["ledger"]["entry"]), default=None
    )
    budget = newest.header["budget"] if newest is not None else {"publishable": None}
    promised = budget["publishable"]
    if newest is None or promised is None or run.insecure is not None:
        return None
    when = f"as promised on {str(newest.header['made'])[:10]}"
    return Cap.of(promised, when, promise_text(budget))


def _of_its_data(run: Run) -> list[Release]:
    """The releases of the data set that was trained on, by the ledger that released it: others promise nothing of it."""
    first = next(
        (release for one in run.trained_on or run.made_from for release in run.releases if release.checksum == one),
        None,
    )
    if first is None:
        return []
    same = (first.header["ledger"]["id"], first.data_set)
    return [release for release in run.releases if (release.header["ledger"]["id"], release.data_set) == same]


def _matrix(run: Run) -> tuple[tuple[str, tuple[Taken, ...]], ...]:
    """True classes down, what the model says across."""
    if run.confusion is None:
        return ()
    shares, errors = run.confusion.shares, run.confusion.standard_errors
    most = max(max(row) for row in shares) or 1.0
    rows = []
    for true, name in enumerate(run.class_names):
        cells = [
            Taken(s, e, depth=max(0.0, min(1.0, s / most)), right=said == true, stands_out=abs(s) > 2 * e)
            for said, (s, e) in enumerate(zip(shares[true], errors[true], strict=True))
        ]
        rows.append((name, tuple(cells)))
    return tuple(rows)


def _confusions(run: Run) -> tuple[Mistake, ...]:
    """The commonest mistakes that stand out of the noise."""
    if run.confusion is None:
        return ()
    shares, errors = run.confusion.shares, run.confusion.standard_errors
    wrong = [
        Mistake(run.class_names[t], run.class_names[s], shares[t][s], errors[t][s])
        for t in range(len(shares)) for s in range(len(shares)) if s != t and shares[t][s] > 2 * errors[t][s]
    ]  # fmt: skip
    return tuple(sorted(wrong, key=lambda found: -found.share)[:20])


def _classes(run: Run) -> tuple[OneClass, ...]:
    """How often the model says a class, how often it is right then, and how many of the class it finds; errors of the first order."""
    if run.confusion is None:
        return ()
    shares, errors = run.confusion.shares, run.confusion.standard_errors
    called = [share / sum(run.confusion.called) for share in run.confusion.called]
    rows = []
    for c, name in enumerate(run.class_names):
        there, squares = sum(shares[c]), [error**2 for error in errors[c]]
        # Whether it is shown must not depend on how large the class came out.
        enough = there > 0 and math.sqrt(sum(squares)) < 0.2 * called[c]
        found = min(1.0, max(0.0, shares[c][c] / there)) if enough else 0.0
        spread = (1 - found) ** 2 * squares[c] + found**2 * (sum(squares) - squares[c])
        right = (shares[c][c] / called[c], errors[c][c] / called[c]) if called[c] else None
        rows.append(OneClass(name, called[c], right, (found, math.sqrt(spread) / there) if enough else None))
    return tuple(rows)


def _by_class(run: Run) -> tuple[tuple[str, tuple[ShownMetric, ...]], ...]:
    """One class against the rest, where there are more than two."""
    each = [metric.by_class for metric in run.metrics if metric.by_class]
    return tuple(zip(run.class_names, zip(*each, strict=True), strict=True))[:MOST_CLASSES] if each else ()


def _start(said: Start) -> Worked:
    """A command, with what may be missing in a file of another version."""
    known = said.machine is not None and said.machine.cpu is not None
    machine = machine_line(asdict(said.machine)) if known and said.machine is not None else "machine unknown"
    return Worked(_shown(said.command), said.day, said.labeldp, machine)


def _shown(command: str | None) -> str | None:
    """A command as it was typed, but for the places of files on somebody's disk."""
    if command is None:
        return None
    try:
        words = shlex.split(str(command))
    except ValueError:
        return str(command)
    return " ".join("…/" + PurePath(word).name if word.startswith(("/", "~")) else shlex.quote(word) for word in words)
