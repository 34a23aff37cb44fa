"""What the label owner's commands show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.output import cost_text, guarantee_text, ledger_text, number, order_text, print_facts, print_table
from labeldp.cli.show.scores import confusion_table, score_table

if TYPE_CHECKING:
    from labeldp.audit.plant import Planting
    from labeldp.audit.result import AuditResult
    from labeldp.commands import (
        AuditOptions,
        CanariesOptions,
        LedgerGetOptions,
        LedgerShowOptions,
        LedgerVerifyOptions,
        PlanOptions,
        ReleaseOptions,
        SelectOptions,
    )
    from labeldp.commands.canaries import Planted
    from labeldp.commands.plan import Planned
    from labeldp.commands.statistic import StatisticMade, StatisticOptions

_MADE = {
    "all": "",
    "the rest": " (begun before, finished now)",
    "nothing": " (planted before: both files are there, unaltered)",
}


def plan(options: PlanOptions, result: Planned) -> None:
    """A table, the best first."""
    found, judging = result.plan, result.judging
    rows = []
    for option in sorted(found.options, key=lambda o: (o.mechanism != found.recommended, -o.information)):
        g = option.mechanism.guarantee()
        rows.append((
            ("> " if option.mechanism == found.recommended else "  ") + option.mechanism.name,
            f"{option.information:.4f}",
            f"{option.information / found.prior_entropy:.1%}" if found.prior_entropy else "",
            f"{option.flip_probability:.1%}",
            _rows(judging.mechanisms[option.mechanism.name]) if judging is not None else "",
            f"{g.epsilon:.4g}" + (f", {g.delta:g}" if g.delta else ""),
            str(option.mechanism.observation_bytes),
            option.mechanism.describe(),
        ))  # fmt: skip
    under = "a uniform prior" if options.prior is None else f"the prior in {options.prior}"
    typer.echo(
        f"{result.classes} classes, ε = {number(options.epsilon)}: what one observation tells about its label, in nats,\n"
        f"and as a share of the {found.prior_entropy:.4f} nats that there are to tell under {under}"
    )
    print_table(("mechanism", ">nats", ">share", ">flipped", ">to judge", ">ε, δ", ">bytes", "what is released"), rows)
    typer.echo("flipped: how often the class for which an observation speaks most is not the label")
    if judging is not None:
        of = "are positive" if result.classes == 2 else "are of the rarest class, which is told from the rest"
        typer.echo(
            f"to judge: about so many held-out rows tell a ROC AUC of {judging.auc:g} with a standard error of {judging.standard_error:g} "
            f"(--auc-error),\nif {100 * judging.share:.3g}% {of}; with true labels, {_rows(judging.true_labels)}"
        )
    best = f"take {found.recommended.name}: it carries the most"
    typer.echo(best + (" without a δ." if options.delta is None else "."))
    if result.moments is not None:
        which = (
            "`labeldp moments` tells a linear model more than rows do"
            if result.moments
            else "rows tell a linear model more than `labeldp moments`"
        )
        typer.echo(
            f"of {options.rows:,} labels beside {options.columns:,} columns, {which}, at δ = {options.delta or 1e-5:g}."
        )
        which = (
            "`labeldp moments --pure` tells more than rows do"
            if result.pure
            else "rows tell more than `labeldp moments --pure`"
        )
        typer.echo(f"without a δ, {which}: docs/statistics.md.")
    for name, why in found.skipped.items():
        typer.echo(f"{name} is left out: {why}")
    if result.html is not None:
        typer.echo(f"page: {result.html}")


def _rows(count: int) -> str:
    """Three digits: it is about so many."""
    return f"{float(f'{count:.3g}'):,.0f}"


def release(options: ReleaseOptions, done: dict[str, Any]) -> None:
    """What was released, and what it cost."""
    mechanism, budget = done["mechanism"], done["budget"]
    what = f"{done['rows']:,} rows of data set {done['data_set']!r}"
    if done["data_set_from"]:
        what += f" ({done['data_set_from']})"
    facts = [
        ("released", f"{done['out']}: {what}"),
        ("mechanism", f"{mechanism['name']}: {done['describes']}"),
        ("certificate", guarantee_text(done["certificate"])),
        ("cost", cost_text(done)),
        ("budget", budget["text"]),
        ("row order", order_text(done)),
        ("ledger", ledger_text(done)),
    ]
    facts += [("raised", f"the budget was raised on {r['at']}") for r in budget["raised"]]
    if done["insecure"]:
        facts.append(("INSECURE", done["insecure"]))
    print_facts(facts)


def statistic(options: StatisticOptions, result: StatisticMade) -> None:
    """What it cost, and what it says."""
    from labeldp.statistics.choice_file import ModelChosen
    from labeldp.statistics.confusion_file import NoisyConfusion
    from labeldp.statistics.score_file import Score

    file, done = result.file, result.done
    what = f"{file.rows:,} rows of data set {file.data_set!r}"
    if done["data_set_from"]:
        what += f" ({done['data_set_from']})"
    facts = [
        ("made", f"{done['out']}: {what}"),
        ("holds", file.statistic.describe()),
        ("certificate", guarantee_text(file.certificate())),
        ("cost", cost_text(done)),
        ("budget", done["budget"]["text"]),
        ("ledger", ledger_text(done)),
    ]
    facts += [("raised", f"the budget was raised on {r['at']}") for r in done["budget"]["raised"]]
    if file.insecure:
        facts.append(("INSECURE", file.insecure))
    print_facts(facts)
    if isinstance(file, Score):
        score_table(file)
    elif isinstance(file, NoisyConfusion):
        confusion_table(file)
    elif isinstance(file, ModelChosen):
        typer.echo(f"chosen: {file.model}. How good it is was not released: score it alone, for another ε.")


def ledger_show(options: LedgerShowOptions, facts: dict[str, Any]) -> None:
    """A table for each data set."""
    typer.echo(f"ledger {facts['ledger']}")
    names = ("entry", "made", "rows_text", "mechanism", "cost_text", "state")
    for entry in facts["data_sets"]:
        typer.echo(f"\n{entry['name']}: {entry['rows']:,} rows, known by {entry['known_by']}\n  budget {entry['text']}")
        for raised in entry["raised"]:
            typer.echo(f"  the budget was raised on {raised['at']}")
        to = any(made["handed_over"] for made in entry["releases"])
        rows = [
            (*(str(made[name]) for name in names), *([", ".join((made["handed_over"] or {}).values())] if to else []))
            for made in entry["releases"]
        ]
        print_table(
            (
                ">release",
                "made (UTC)",
                "rows",
                "mechanism",
                "cost",
                "state",
                *(["to whom, what for, approved by"] if to else []),
            ),
            rows,
        )


def ledger_verify(options: LedgerVerifyOptions, result: dict[str, Any]) -> None:
    """What was checked."""
    typer.echo(
        f"{result['ledger']}: {result['entries']} entries, each follows from the one before, and none that its folder knows of is missing; "
        "copies of all releases are there."
    )
    for name, text in result["published"].items():
        typer.echo(f"{name}: {text}")
    for checked in result["releases"]:
        typer.echo(f"{checked['file']}: recorded as entry {checked['entry']}, unaltered")


def ledger_get(options: LedgerGetOptions, found: dict[str, Any]) -> None:
    """Where it is."""
    how = "nothing charged" if found["fetched"] else "there already and unaltered"
    typer.echo(f"{options.out}: release {options.entry}, {how}")


def select(options: SelectOptions, done: dict[str, Any]) -> None:
    """Who won, and what it cost."""
    certificate = done["certificate"]
    chosen = ", ".join(f"{name} {value}" for name, value in done["options"].items())
    facts = [
        ("run", f"{done['out']}: {done['rows']:,} rows of data set {done['data_set']!r}"),
        ("chosen", f"candidate {done['candidate']} of 0 to {done['candidates'] - 1}: {chosen}"),
        (
            "score",
            f"{done['score']:.2%} of {done['scoring_rows']:,} rows, with noise of ±{done['score_deviation']:.2%}; of the best, and so a little too high",
        ),
        ("certificate", guarantee_text(certificate, "selection")),
        ("one run", f"ε = {done['base_epsilon']:.6g} for release and score alike"),
        ("trust", "central: whoever ran this saw features and labels; how long it took must stay secret"),
        ("cost", cost_text(done, "charged now, once for all runs")),
        ("budget", done["budget"]),
        ("row order", order_text(done)),
        ("ledger", ledger_text(done)),
    ]  # fmt: skip
    if done["insecure"]:
        facts.append(("INSECURE", done["insecure"]))
    print_facts(facts)


def audit(options: AuditOptions, result: AuditResult) -> None:
    """The bound, and what it rests on."""
    typer.echo(result.summary())


def canaries(options: CanariesOptions, result: Planted) -> None:
    """What is to be released, what is to be kept, and what to tell."""
    done = result.planting
    replaced = f"{len(done.canaries):,} of {done.rows:,} labels of data set {done.data_set!r} replaced"
    print_facts([
        ("planted", f"{result.out}: {replaced}; release this file{_MADE[done.made]}"),
        ("secret", f"{result.secret}: what was planted where; it stays with you"),
        ("accuracy", "estimated from rows with canaries it is too low: " + _advice(done)),
    ])  # fmt: skip


def _advice(done: Planting) -> str:
    start, stop = done.span
    if done.correction >= 1:
        return "with so many of them nothing can be corrected"
    told = f"tell the feature owner --canary-share {done.correction:.6g}"
    if (start, stop) == (0, done.rows):
        return told
    return f"{told} if it is estimated from rows {start}:{stop}; no other row has canaries (share 0), and among all rows it is {done.correction * (stop - start) / done.rows:.6g}"
