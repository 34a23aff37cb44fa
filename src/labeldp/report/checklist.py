"""The checklist of whoever signs: its lines, which docs/tutorials/privacy-engineer.md has too, and how far files answer each of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from markupsafe import Markup, escape

from labeldp.accounting.statement import promise_text
from labeldp.report.again import planted_by_ledger
from labeldp.report.promise import Cap, raised_in
from labeldp.report.runs import Run
from labeldp.wording import downward, upward

# done: these files answer it, and well. look: they answer it, and somebody should look. not done: what answers it is not here.
# ask: no file can answer it.
Status: TypeAlias = Literal["done", "look", "not done", "ask"]
Told: TypeAlias = tuple[Status, str]

WORDS: Mapping[Status, str] = {
    "done": "done",
    "look": "look at this",
    "not done": "not done",
    "ask": "cannot be seen from files",
}


@dataclass(frozen=True)
class ChecklistLine:
    """A question, and where its answer is; both as the tutorial's Markdown has them."""

    question: str
    where: str
    answer: Callable[[Run, Cap | None], Told]


@dataclass(frozen=True)
class CheckedLine:
    """A line of the checklist for one run."""

    number: int
    question: str
    where: Markup
    status: Status
    why: str

    @property
    def words(self) -> str:
        """The status, for people."""
        return WORDS[self.status]

    def to_json(self) -> dict[str, Any]:
        """As `labeldp report --json` prints it."""
        return {"line": self.number, "question": self.question, "status": self.status, "why": self.why}


def checklist(run: Run, cap: Cap | None) -> tuple[CheckedLine, ...]:
    """Every line, as far as the files of this run tell."""
    return tuple(
        CheckedLine(number, _plain(line.question), _marked(line.where), *line.answer(run, cap))
        for number, line in enumerate(CHECKLIST, start=1)
    )


def counted(lines: Sequence[CheckedLine]) -> str:
    """How far one has come, in a sentence."""
    count = Counter(line.status for line in lines)
    parts = [(count["done"], "done"), (count["look"], "to be looked at"), (count["not done"], "not done")]
    said = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"The checklist has {len(lines)} lines: {said}, and {count['ask']} that only people can answer."


# ── the answers ──

_NO_LEDGER = "the owner’s ledger was not given (--ledger)"
_NO_RELEASE = "the release file is not here (--release)"


def _entry(run: Run) -> dict[str, Any] | None:
    """What the ledger says of the data set, where it was given."""
    found: dict[str, Any] | None = run.ledger["data_sets"][0] if run.ledger is not None else None
    return found


def _promised(run: Run, cap: Cap | None) -> Told:
    entry = _entry(run)
    if run.insecure is not None or (entry is not None and entry["publishable"] is None):
        return "look", "nothing may be promised: labels were released without protection"
    if entry is not None and entry["broken"]:
        return "look", "a promise was broken: some labels have paid more than the budget allowed"
    if entry is not None:
        return "done", f"by the owner’s ledger: {promise_text(entry)}"
    said = "" if cap is None or not run.checked else f"; the newest release here says: {cap.text}, {cap.when}"
    return "not done", _NO_LEDGER + said


def _in_the_file(run: Run, cap: Cap | None) -> Told:
    if not run.checked or run.certificate is None:
        return "not done", _NO_RELEASE
    if run.epsilon is None:
        return "look", f"the file promises nothing: {run.certificate.reason}"
    at = f" at δ = {run.certificate.delta:g}" if run.certificate.delta else " (pure)"
    return (
        "done",
        f"ε = {upward(run.epsilon)}{at}, computed anew from the release; for all releases of the data set see line 1",
    )


def _raised(run: Run, cap: Cap | None) -> Told:
    days = raised_in(run)
    if days:
        return "look", f"it was raised on {', '.join(days)}"
    if run.ledger is not None:
        return "done", "never, by the owner’s ledger"
    if not run.checked:
        return "not done", f"{_NO_RELEASE}, and {_NO_LEDGER}"
    return "not done", f"not before the newest release here was made; {_NO_LEDGER}"


def _record(run: Run, cap: Cap | None) -> Told:
    entry = _entry(run)
    if run.unrecorded:
        return "look", "none of these releases is recorded in the ledger that was given"
    if entry is None:
        return "not done", _NO_LEDGER
    kept = {one["checksum"] for one in entry["releases"]}
    if not all(file.checksum in kept for file in run.files):
        return "look", "its hashes are whole, but some release here is not recorded in it"
    return (
        "done",
        "its hashes were computed anew, and the releases here are in it; release files that are kept elsewhere show more",
    )


def _secure(run: Run, cap: Cap | None) -> Told:
    entry = _entry(run)
    if run.insecure is not None:
        return "look", f"yes: {run.insecure}"
    if entry is not None and (entry["unprotected"] or any(one["insecure"] for one in entry["releases"])):
        return "look", "yes, another release of this data set"
    if entry is not None:
        return "done", "none in the owner’s ledger"
    return "not done", f"none that is here; of others, {_NO_LEDGER}" if run.checked else _NO_RELEASE


def _mechanism(run: Run, cap: Cap | None) -> Told:
    if not run.checked:
        return "not done", _NO_RELEASE
    rows = (release.mechanism.name for release in (*run.releases, *run.others))
    names = dict.fromkeys((*rows, *(one.statistic.name for one in run.statistics)))
    return "look" if run.epsilon is None else "done", f"{', '.join(names)}, as the release says"


def _trust(run: Run, cap: Cap | None) -> Told:
    if not run.checked:
        return "not done", _NO_RELEASE
    if run.trust == "local":
        return "done", "local: the owner released each label on its own"
    return "done", "central: whoever made the release saw features and labels together, and must be trusted"


def _order(run: Run, cap: Cap | None) -> Told:
    if not run.checked:
        return "not done", _NO_RELEASE
    if run.statistics:
        return "done", "no row is in the file: sums over all of them"
    if all(release.header["shuffled"] for release in (*run.releases, *run.others)):
        return "done", "the rows were shuffled, as the release says"
    return "ask", "the rows are in the order of the owner’s file: ask how that was sorted"


def _declared(run: Run, cap: Cap | None) -> Told:
    priors = any(release.origins for release in (*run.releases, *run.others))
    prior = (
        "a public prior is behind a release: ask who made it, from what" if priors else "no release here names a prior"
    )
    return (
        "ask",
        f"labeldp takes classes from its command, never from labels; where the team’s script has them from, no file says; {prior}",
    )


def _measured(run: Run, cap: Cap | None) -> Told:
    if run.headline is None:
        return "not done", "no audit with a bound is among these files"
    if planted_by_ledger(run):
        return (
            "done",
            "the owner’s ledger noted the canaries with the release; what the audit counted is by its own account",
        )
    if run.ledger is not None:
        return (
            "ask",
            "an audit is here, by its own account; the owner’s ledger does not note canaries for every release",
        )
    return (
        "not done",
        f"an audit is here, by its own account; when canaries were planted, only the ledger shows, and {_NO_LEDGER}",
    )


def _below(run: Run, cap: Cap | None) -> Told:
    if run.headline is None:
        return "not done", "nothing was measured"
    if run.epsilon is None or not run.checked:
        return "not done", "nothing is proven that it could be compared with"
    if run.headline.epsilon > run.epsilon:
        return "look", f"no: at least {downward(run.headline.epsilon)} was measured, {upward(run.epsilon)} is proven"
    return (
        "done",
        f"yes: at least {downward(run.headline.epsilon)}, by the audit’s own account; {upward(run.epsilon)} is proven",
    )


def _same_people(run: Run, cap: Cap | None) -> Told:
    if cap is not None and cap.if_same:
        return "look", "its owner says that equal ids in another data set are other people: ask"
    return "ask", "a ledger knows ids, not people, and nothing of other ledgers"


def _rows_of_one(run: Run, cap: Cap | None) -> Told:
    return "ask", "no file says which rows are one person’s; k rows whose labels move together have k·ε where δ = 0"


def _readable(run: Run, cap: Cap | None) -> Told:
    return "ask", "a file does not say what its columns mean"


def _who_has_it(run: Run, cap: Cap | None) -> Told:
    return "ask", "files do not say where their copies are"


def _version(run: Run, cap: Cap | None) -> Told:
    made = dict.fromkeys(str(file.header["labeldp"]) for file in run.files)
    ran = dict.fromkeys(start.labeldp for start in run.starts if start.labeldp)
    if not made and not ran:
        return "not done", "no file here says so"
    said = [f"{what} by labeldp {', '.join(found)}" for what, found in (("released", made), ("run", ran)) if found]
    return "done", f"{'; '.join(said)}, as the files say; the lock file is the team’s"


CHECKLIST: tuple[ChecklistLine, ...] = (
    ChecklistLine(
        "Which ε, δ do I sign, for *all* releases together?",
        '`labeldp ledger show`: "may be published"',
        _promised,
    ),
    ChecklistLine(
        "Is it what the file promises, too?",
        '`labeldp inspect released.parquet`: "certificate", "data set"',
        _in_the_file,
    ),
    ChecklistLine(
        "Was the budget ever raised, and when?",
        "`labeldp ledger show --json`: `raised`; also in every later release, `inspect --json`",
        _raised,
    ),
    ChecklistLine(
        "Is the record whole, and not an older copy?",
        "`labeldp ledger verify --releases FILES`, with files kept elsewhere",
        _record,
    ),
    ChecklistLine(
        "Is any release of this data set insecure (known seed, no noise)?",
        "`ledger show --json`: `unprotected`, and each release's `insecure`",
        _secure,
    ),
    ChecklistLine(
        "Which mechanism, and why is its ε right?",
        '`inspect`: "mechanism"; [a page each](../proofs/index.md)',
        _mechanism,
    ),
    ChecklistLine(
        "Local or central trust: who saw features and labels together?",
        '`inspect`: "trust". PATE and `select` are central: [trust.md](../concepts/trust.md)',
        _trust,
    ),
    ChecklistLine(
        "Is the row order free of the label?",
        '`inspect`: "rows … shuffled"; else ask how the file was sorted',
        _order,
    ),
    ChecklistLine(
        "Were classes declared, and any prior public?",
        "the command in the team's script: `--classes`, `--prior`, `--public-prior`; [pitfalls.md](../pitfalls.md)",
        _declared,
    ),
    ChecklistLine(
        "Was it measured, by canaries planted *before* the release?",
        "`labeldp audit … --out audit`; `ledger show --json`: `planting` of the release",
        _measured,
    ),
    ChecklistLine(
        "Is the measured ε below the certificate?",
        "`sign-off.html`, or the last line of `audit`",
        _below,
    ),
    ChecklistLine(
        "Are the same people in other data sets or ledgers?",
        "**nobody but the team knows**: list every ledger and name; ε adds up",
        _same_people,
    ),
    ChecklistLine(
        "How many rows has one person?",
        "**ask**; multiply ε by it ([groups.md](../concepts/groups.md))",
        _rows_of_one,
    ),
    ChecklistLine(
        "Can a label be read off the features or the ids?",
        "**ask, and look**; `labeldp train` refuses only a column of the label's own name and folders sorted by class",
        _readable,
    ),
    ChecklistLine(
        "Who has the true labels, the canaries' secret, the ledger, the backups?",
        "**ask**; none of them may be where the partner is",
        _who_has_it,
    ),
    ChecklistLine(
        "Which version ran?",
        "`labeldp --version`, and the team's lock file",
        _version,
    ),
)


# ── their Markdown, on a page that links to nothing ──


def _plain(markdown: str) -> str:
    """Without any marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("*", "").replace("`", "")


def _marked(markdown: str) -> Markup:
    """With commands marked as such."""
    parts = re.split(r"`([^`]*)`", markdown)
    shown = [Markup("<code>{}</code>").format(part) if i % 2 else escape(_plain(part)) for i, part in enumerate(parts)]
    return Markup("").join(shown)
