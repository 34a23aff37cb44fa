"""One run as the template shows it: pictures drawn, words chosen."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from labeldp.accounting.statement import promise_text
from labeldp.provenance import machine_line
from labeldp.release.release import Release
from labeldp.report import charts
from labeldp.report.acting import Acting, acting
from labeldp.report.reading import EXAMPLES, best_guess, condition
from labeldp.report.runs import Run

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
class View:
    """What a page says of a run."""

    run: Run
    anchor: str
    axis: Markup | None
    loss: Markup | None
    selecting: Markup | None
    violin: Markup | None
    acted: tuple[Acted, ...]
    planted: float
    missing: tuple[str, ...]
    cap: dict[str, Any] | None
    more_to_come: bool  # the owner's cap leaves room for further releases
    cap_guess: float  # what a guess of 10% could become at the cap
    condition: str
    examples: tuple[tuple[float, float], ...]
    matrix: tuple[tuple[str, tuple[dict[str, Any], ...]], ...]
    confusions: tuple[dict[str, Any], ...]
    classes: tuple[dict[str, Any], ...]
    starts: tuple[dict[str, Any], ...]
    two_sided: bool  # some measurement has an upper end too

    @classmethod
    def of(cls, run: Run, number: int) -> View:
        """Draw everything."""
        cap = _cap(run)
        epsilon = run.epsilon
        have = {release.checksum for release in run.releases}
        planted = run.share_planted()
        return cls(
            run=run,
            anchor=f"run-{number}",
            axis=_axis(run, cap),
            loss=charts.curves(run.history, "loss", "Training loss"),
            selecting=charts.curves(run.history, "accuracy_selecting", "Accuracy by which an epoch was chosen", percent=True),
            violin=charts.violin(run.violins) if run.violins is not None else None,
            acted=tuple(Acted.of(release, planted) for release in (*run.releases, *run.others)),
            planted=planted,
            missing=tuple(one for one in run.made_from if one not in have),
            cap=cap,
            more_to_come=cap is not None and epsilon is not None and cap["epsilon"] > epsilon * (1 + 1e-6),
            cap_guess=best_guess(0.1, cap["epsilon"]) if cap is not None else 1.0,
            condition=condition(run.certificate) if run.certificate is not None and epsilon is not None else "",
            examples=tuple((p, best_guess(p, epsilon)) for p in EXAMPLES) if epsilon is not None else (),
            matrix=_matrix(run) if len(run.class_names) <= _MATRIX else (),
            confusions=_confusions(run) if len(run.class_names) > _MATRIX else (),
            classes=_classes(run) if len(run.class_names) <= _BARS else (),
            two_sided=any(m.high is not None for m in run.measured),
            starts=tuple(map(_start, run.starts)),
        )  # fmt: skip


def _axis(run: Run, cap: dict[str, Any] | None) -> Markup | None:
    measured = [m for m in run.measured if math.isfinite(m.low)]
    if run.epsilon is None and not measured:
        return None
    if cap is None:
        return charts.epsilon_axis(run.epsilon, measured, None)
    same = run.certificate is None or cap["delta"] == run.certificate["delta"]
    at = "" if same else f" at δ = {cap['delta']:g}"
    return charts.epsilon_axis(run.epsilon, measured, cap["epsilon"], at)


def _cap(run: Run) -> dict[str, Any] | None:
    """What its owner promises for all releases of the data set together: by the ledger, or else by the newest release, on its day."""
    if run.ledger is not None:
        budget = run.ledger["data_sets"][0]
        promised = budget["publishable"]
        return None if promised is None else {**promised, "when": "by the ledger", "text": promise_text(budget)}
    newest = max(
        _of_its_data(run), key=lambda r: (str(r.header["made"])[:10], r.header["ledger"]["entry"]), default=None
    )
    budget = newest.header["budget"] if newest is not None else {"publishable": None}
    promised = budget["publishable"]
    if newest is None or promised is None or run.insecure is not None:
        return None
    when = f"as promised on {str(newest.header['made'])[:10]}"
    return {**promised, "when": when, "text": promise_text(budget)}


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


def _matrix(run: Run) -> tuple[tuple[str, tuple[dict[str, Any], ...]], ...]:
    """True classes down, what the model says across."""
    if run.confusion is None:
        return ()
    shares, errors = run.confusion["shares"], run.confusion["standard_errors"]
    most = max(max(row) for row in shares) or 1.0
    rows = []
    for true, name in enumerate(run.class_names):
        cells = [
            {
                "share": s,
                "error": e,
                "depth": max(0.0, min(1.0, s / most)),
                "right": said == true,
                "stands_out": abs(s) > 2 * e,
            }
            for said, (s, e) in enumerate(zip(shares[true], errors[true], strict=True))
        ]
        rows.append((name, tuple(cells)))
    return tuple(rows)


def _confusions(run: Run) -> tuple[dict[str, Any], ...]:
    """The commonest mistakes that stand out of the noise."""
    if run.confusion is None:
        return ()
    shares, errors = run.confusion["shares"], run.confusion["standard_errors"]
    wrong = [
        {"true": run.class_names[t], "said": run.class_names[s], "share": shares[t][s], "error": errors[t][s]}
        for t in range(len(shares)) for s in range(len(shares)) if s != t and shares[t][s] > 2 * errors[t][s]
    ]  # fmt: skip
    return tuple(sorted(wrong, key=lambda found: -found["share"])[:20])


def _classes(run: Run) -> tuple[dict[str, Any], ...]:
    """How often the model says a class, how often it is right then, and how many of the class it finds; errors of the first order."""
    if run.confusion is None:
        return ()
    shares, errors, called = (run.confusion[name] for name in ("shares", "standard_errors", "called"))
    rows = []
    for c, name in enumerate(run.class_names):
        there, squares = sum(shares[c]), [error**2 for error in errors[c]]
        # Whether it is shown must not depend on how large the class came out.
        enough = there > 0 and math.sqrt(sum(squares)) < 0.2 * called[c]
        found = min(1.0, max(0.0, shares[c][c] / there)) if enough else 0.0
        spread = (1 - found) ** 2 * squares[c] + found**2 * (sum(squares) - squares[c])
        rows.append({
            "name": name,
            "called": called[c],
            "right": (shares[c][c] / called[c], errors[c][c] / called[c]) if called[c] else None,
            "found": (found, math.sqrt(spread) / there) if enough else None,
        })  # fmt: skip
    return tuple(rows)


def _start(said: dict[str, Any]) -> dict[str, Any]:
    """A command, with what may be missing in a file of another version, or another's."""
    try:
        machine = machine_line(said["machine"])
    except (KeyError, TypeError):
        machine = "machine unknown"
    return {
        "command": _shown(said.get("command")),
        "day": said.get("day"),
        "labeldp": said.get("labeldp"),
        "machine": machine,
    }


def _shown(command: str | None) -> str | None:
    """A command as it was typed, but for the places of files on somebody's disk."""
    if command is None:
        return None
    try:
        words = shlex.split(str(command))
    except ValueError:
        return str(command)
    return " ".join("…/" + PurePath(word).name if word.startswith(("/", "~")) else shlex.quote(word) for word in words)
