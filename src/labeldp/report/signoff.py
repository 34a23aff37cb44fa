"""May I sign? One sentence for somebody who knows no statistics, what speaks against it, and what to do next.

It is computed from the files, and nothing that another party wrote makes it better: an audit, whose counts are by its own account, can
only speak against signing; what a run's summary says of ε counts for nothing until the release is here.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from labeldp.files.summary import Certificate
from labeldp.release.prior import GIVEN
from labeldp.report.again import columns, is_planted, plant_command
from labeldp.report.checklist import CheckedLine
from labeldp.report.handed_over import HOW, stated_in
from labeldp.report.promise import Cap, best_guess, budget_of, condition, raised_in, up_to
from labeldp.report.runs import Run
from labeldp.wording import downward, upward

State: TypeAlias = Literal["fine", "look", "stop"]
TITLES: dict[State, str] = {
    "fine": "Nothing wrong was found",
    "look": "Look at this before you sign",
    "stop": "Do not sign",
}
_WORSE: tuple[State, ...] = ("fine", "look", "stop")
_LARGE = 4.0  # from this ε on the bound alone promises little to one person: see the tutorial
_STEPS = 4


@dataclass(frozen=True)
class Step:
    """Something to do; words in capitals in its command are the reader's to fill in."""

    words: str
    command: str | None = None


@dataclass(frozen=True)
class Finding:
    """Something that speaks against signing, and what helps."""

    state: State
    words: str
    step: Step | None = None


@dataclass(frozen=True)
class SignOff:
    """What is to be said at the top of a page."""

    state: State
    sentence: str
    promised: tuple[str, ...]
    measured: tuple[str, ...]
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, run: Run, cap: Cap | None, lines: Sequence[CheckedLine]) -> SignOff:
        """Of one run, as far as its files tell."""
        found = sorted(_findings(run, cap), key=lambda one: -_WORSE.index(one.state))
        state = found[0].state if found else "fine"
        return cls(
            state,
            _sentence(run, cap, state, found),
            _promised(run, cap),
            _measured(run),
            tuple(found),
            _steps(run, found, lines),
        )

    @property
    def title(self) -> str:
        """The state in words."""
        return TITLES[self.state]

    def to_json(self) -> dict[str, Any]:
        """As `labeldp report --json` prints it."""
        found = [{"state": one.state, "words": one.words} for one in self.findings]
        steps = [{"words": one.words, "command": one.command} for one in self.steps]
        return {"state": self.state, "sentence": self.sentence, "findings": found, "next": steps}


# ── what speaks against it ──


def _findings(run: Run, cap: Cap | None) -> Iterator[Finding]:
    yield from _unproven(run)
    yield from _of_the_data_set(run, cap)
    if run.epsilon is not None and run.certificate is not None and run.checked:
        yield from _too_much(run, run.certificate, cap)
    yield from _contradicted(run)


def _unproven(run: Run) -> Iterator[Finding]:
    """What keeps an ε from being proven."""
    name_it = _report(run, "--release", "FILE")
    if run.insecure is not None:
        words = "Do not hand it over. What went out unprotected cannot be made secret again; other labels are released with fresh noise:"
        said = f"the release is insecure ({run.insecure}), so nothing is guaranteed to anybody"
        yield Finding("stop", said, Step(words, _release_again(run)))
    elif run.certificate is None:
        what = "these files hold a measurement and no release"
        if run.made_from:
            what = "the release that was measured is not here, or the model saw another one"
        words = "Name what is to be handed over, a run that was trained from a release, and the release:"
        said = f"{what}, so there is no promise that could be signed"
        yield Finding("stop", said, Step(words, "labeldp report RUN AUDIT --release FILE --out sign-off.html"))
    elif run.epsilon is None:
        yield Finding("stop", f"nothing is proven: {run.certificate.reason or 'the release has no bounded ε'}")
    if run.certificate is not None and not run.checked:
        where = "is not here" if run.made_from else "is not named by these files"
        said = f"the release {where}, so what these files say of ε is not checked and counts for nothing"
        yield Finding("stop", said, Step("Name the release file, so that ε is computed from it:", name_it))
    elif run.missing:
        count = "1 release" if len(run.missing) == 1 else f"{len(run.missing)} releases"
        said = f"{count} behind those that were looked at cannot be shown: the files are not here"
        yield Finding("look", said, Step("Name the release files that are missing:", name_it))


def _of_the_data_set(run: Run, cap: Cap | None) -> Iterator[Finding]:
    """What the owner's ledger, or the releases, say of all releases together."""
    budget, _ = budget_of(run)
    entry = run.ledger["data_sets"][0] if run.ledger is not None else {}
    ask = Step("Ask the label owner why; the record says when:", "labeldp ledger show --json")
    if budget is not None and budget["publishable"] is None and run.insecure is None:
        said = "labels of this data set were released without protection before, so nothing may be promised of it"
        yield Finding("stop", said, ask)
    if entry.get("broken"):
        yield Finding("stop", "some labels have paid more than their budget ever allowed, by the owner’s ledger", ask)
    days = raised_in(run)
    if days:
        said = f"the budget was raised on {', '.join(days)}: before that day less was promised than what you sign now"
        yield Finding("look", said, ask)
    if cap is not None and cap.if_same:
        said = "the owner says that equal ids in other data sets are other people; if they are the same, more was spent"
        yield Finding("look", said, ask)
    if budget is not None and budget.get("of") == "this name":
        said = (
            "the rows have no ids: the same labels could be released again under another name, and nobody would notice"
        )
        yield Finding("look", said)
    if run.unrecorded:
        step = Step("Give the ledger that charged them:", _report(run, "--ledger", "LEDGER"))
        yield Finding("look", "none of these releases is recorded in the ledger that was given", step)


def _too_much(run: Run, certificate: Certificate, cap: Cap | None) -> Iterator[Finding]:
    """What is proven, and promises little."""
    most = max(run.epsilon or 0.0, cap.epsilon if cap is not None else 0.0)
    if most > _LARGE * (1 - 1e-6):
        after = f"a guess that is right 1 time in 10 may become right up to {up_to(best_guess(0.1, most))} of the time"
        plan = f"labeldp plan --classes {max(2, len(run.class_names))} --epsilon 1 --html plan.html"
        step = Step("See what a smaller ε would carry, before more is released:", plan)
        yield Finding("look", f"an ε of {upward(most)} alone promises little to one person: {after}", step)
    rows = max((len(release) for release in (*run.releases, *run.others)), default=0)
    delta = max(certificate.delta or 0.0, cap.delta if cap is not None else 0.0)
    if delta * rows >= 1:
        said = f"a δ of {delta:g} is large for {rows:,} rows: it would allow a mechanism that gives some of them away"
        yield Finding("look", said)
    if certificate.given is not None and GIVEN in certificate.given:
        step = Step("Ask the team who made the public prior, and from what: line 9 of the checklist.")
        yield Finding("look", f"the ε takes for granted {GIVEN}", step)


def _contradicted(run: Run) -> Iterator[Finding]:
    """Measurements above what is proven."""
    if run.epsilon is None:
        return
    words = "Hand nothing over yet. Plant fresh canaries, release, train and audit anew; if the bound is above ε again, report a defect:"
    again = Step(words, plant_command(run.releases[0]) if run.releases else None)
    if run.headline is not None and run.headline.epsilon > run.epsilon:
        said = f"an attack measured ε of at least {downward(run.headline.epsilon)}, and only {upward(run.epsilon)} is proven"
        yield Finding("stop", f"{said}: by chance that happens once in twenty pages, by a defect every time", again)
    elif any(one.apart is not None and one.result.method != "paper" and one.low > run.epsilon for one in run.measured):
        yield Finding("look", "an older audit states more than the proven ε, without what it counted", again)


# ── in words ──


def _sentence(run: Run, cap: Cap | None, state: State, found: Sequence[Finding]) -> str:
    if state == "stop":
        return f"{_capital(found[0].words)}."
    beside = f"{_protected(run, cap)}, and {_beside(run)}"
    if state == "fine":
        return f"Nothing in these files speaks against signing: {beside}."
    more = f" (and {len(found) - 1} more below)" if len(found) > 1 else ""
    return f"{_capital(found[0].words)}{more}. Otherwise, {beside}."


def _protected(run: Run, cap: Cap | None) -> str:
    """What is promised, in half a sentence."""
    if run.certificate is None or run.epsilon is None:
        return "nothing is proven"
    which = "this release" if len(run.releases) + len(run.others) == 1 else "these releases together"
    whose = f" of “{run.data_set}”" if run.data_set else ""
    said = f"every label{whose} is protected with ε = {upward(run.epsilon)}{_at(run.certificate.delta)} by {which}"
    if cap is not None and cap.exceeds(run.certificate):
        said += (
            f" (the owner’s promise for all releases, made or still to come: ε = {upward(cap.epsilon)}{_at(cap.delta)})"
        )
    return said


def _beside(run: Run) -> str:
    if run.headline is None:
        return "nothing was measured"
    return f"what was measured (at least {downward(run.headline.epsilon)}) does not contradict it"


def _promised(run: Run, cap: Cap | None) -> tuple[str, ...]:
    if run.certificate is None or run.epsilon is None or run.insecure is not None:
        return ("Nothing that could be relied on.",)
    if not run.checked:
        return (f"The files state ε = {upward(run.epsilon)}{_at(run.certificate.delta)}. Nothing here proves it.",)
    before = condition(run.certificate)
    guess = (
        f"{'a' if before else 'A'} guess at one label that would be right half of the time without it is right at most"
    )
    plain = f"In plain words: {before}{guess} {up_to(best_guess(0.5, run.epsilon))} of the time with it"
    if cap is not None and cap.exceeds(run.certificate):
        plain += f" ({up_to(best_guess(0.5, cap.epsilon))} once all is released that the owner’s promise allows)"
    covered = "It covers whatever is made from the release"
    if run.kind != "audit":
        covered += ", and the model if it saw the labels through nothing else, which is by the run’s own account"
    return (
        f"{_capital(_protected(run, cap))}.",
        f"{plain}. The smaller ε is, the less can be learned of one label.",
        f"{covered}.",
    )


def _measured(run: Run) -> tuple[str, ...]:
    if run.headline is None:
        nothing = "Nothing: no audit with a bound is among these files."
        if run.epsilon is None or not run.checked:
            return (nothing,)
        return (
            nothing,
            "What is proven holds without one. An audit would notice if the proof was carried out wrongly.",
        )
    found = f"At least ε = {downward(run.headline.epsilon)}{_at(run.headline.delta)}, by an attack that guessed planted labels"
    if run.headline.epsilon == 0:
        found = "No leak that stands out of chance (at least ε = 0), by attacks that guessed planted labels"
    found += "; all of this by the audit’s own account."
    lower = "A measured value is a lower limit: so much an attack did find out, and a better attack may find out more."
    if run.epsilon is None or not run.checked:
        return (found, lower)
    upper = f"The proven value ({upward(run.epsilon)}) is an upper limit: more than that no attack can find out, whatever it tries."
    if run.headline.epsilon > run.epsilon:
        return (found, upper, lower, "Here the lower limit is above the upper one: both cannot be right.")
    fits = "The measured value is below the proven one. That is expected, and contradicts nothing: the truth lies between them."
    return (found, upper, lower, fits)


def _at(delta: float | None) -> str:
    return f" at δ = {delta:g}" if delta else ""


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


# ── what to do next ──


def _steps(run: Run, found: Sequence[Finding], lines: Sequence[CheckedLine]) -> tuple[Step, ...]:
    steps = list(dict.fromkeys(one.step for one in found if one.step is not None))
    if not any(one.state == "stop" for one in found):
        steps += _usual(run)
    asked = [str(line.number) for line in lines if line.status == "ask"]
    ask = Step(f"Ask the team what no file can show: lines {', '.join(asked[:-1])} and {asked[-1]} of the checklist.")
    return (*steps[: _STEPS - 1], ask)


def _usual(run: Run) -> Iterator[Step]:
    """What is left to do where nothing is wrong."""
    file = shlex.quote(run.releases[0].paths[0].name) if run.releases and run.releases[0].paths else "RELEASED"
    if run.ledger is None:
        yield Step(
            "The label owner shows all releases of these labels, not only this one:",
            _report(run, "--ledger", "LEDGER", "--owner"),
        )
    else:
        yield Step(
            "Hold the record against release files that another hand has kept:",
            "labeldp ledger verify --releases FILES",
        )
    if any(judged is not None and not judged.told for judged in (run.accuracy, run.roc_auc)):
        words = "The label owner measures how good the model is, for a small ε of its own (rows that were released pay again):"
        yield Step(words, score_command(run))
    if run.headline is None and is_planted(run):
        words = "Canaries are among the labels, and nobody has looked for them here. The label owner audits:"
        yield Step(words, f"labeldp audit PREDICTIONS --canaries SECRET.npz --release {file} --out audit")
    elif run.headline is None and run.releases:
        yield Step(
            "Nothing was measured. Canaries are planted before the next release of fresh labels:",
            plant_command(run.releases[0]),
        )
    if not all(stated_in(release.header).to_json() for release in run.releases):
        yield Step("State in the next file to whom it goes, for what, and who allowed it:", f"labeldp release … {HOW}")


def score_command(run: Run) -> str:
    """What measures a model on the owner's labels."""
    told = columns(run.releases[0]) if run.releases else ["--label", "LABEL", "--classes", "CLASSES", "--id", "ID"]
    return shlex.join(
        ["labeldp", "score", "PREDICTIONS", "--labels", "LABELS", *told, "--epsilon", "0.1", "--out", "score.parquet"]
    )


def _report(run: Run, *more: str) -> str:
    return shlex.join(["labeldp", "report", *(run.folders or (run.name,)), *more, "--out", "sign-off.html"])


def _release_again(run: Run) -> str:
    told = columns(run.releases[0]) if run.releases else ["--label", "LABEL", "--classes", "CLASSES", "--id", "ID"]
    return shlex.join(
        ["labeldp", "release", "OTHER-LABELS", *told, "--epsilon", "1", "--shuffle", "--out", "RELEASED.parquet"]
    )
