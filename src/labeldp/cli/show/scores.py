"""What a score says, for whoever has it: after `labeldp score`, and in `labeldp inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.output import guarantee_text, print_facts, print_table

if TYPE_CHECKING:
    from labeldp.statistics.confusion_file import NoisyConfusion
    from labeldp.statistics.score_file import Score
    from labeldp.statistics.statistic import StatisticFile

_SHOWN = 12  # classes
_WORDS = {
    "accuracy": "accuracy", "roc_auc": "ROC AUC", "average_precision": "average precision", "log_loss": "log loss", "brier": "Brier score",
}  # fmt: skip


def score_table(score: Score) -> None:
    """A line a metric, a column a model."""
    found = {model: score.metrics(model) for model in score.models}
    rows = [(word, *(str(found[model][name]) for model in score.models)) for name, word in _WORDS.items()]
    shares = score.class_shares(score.models[0])
    typer.echo("")
    print_table(("metric", *score.models), rows)
    if score.statistic.num_classes == 2:
        typer.echo(f"{score.class_names[1]}: {shares[1]} of all rows")
    typer.echo(
        "Limits carry the noise and that the rows are a sample. Log loss and Brier score are of the binned probabilities."
    )


def confusion_table(file: NoisyConfusion) -> None:
    """True classes down, what the model says across, in percent of all rows; of many classes nothing but the diagonal's sum."""
    found = file.confusion()
    right = float(found.shares.trace())
    typer.echo(f"right: {right:.3f} of all rows")
    names = file.class_names
    if len(names) > _SHOWN:
        typer.echo(f"{len(names)} classes: `--json` has the matrix")
        return
    rows = [
        (name, *(f"{100 * share:.1f} ± {100 * error:.1f}" for share, error in zip(shares, errors, strict=True)))
        for name, shares, errors in zip(names, found.shares, found.standard_errors, strict=True)
    ]
    print_table(("truly \\ called, % of rows", *(f">{name}" for name in names)), rows)


def handed_over_facts(header: Mapping[str, Any]) -> list[tuple[str, str]]:
    """To whom a file goes, what for, and who said so, where its owner did."""
    return list((header.get("handed_over") or {}).items())


def inspect_statistic(path: str, file: StatisticFile) -> None:
    """What the file says of itself, and what follows from it."""
    from labeldp.accounting.statement import promise_text
    from labeldp.statistics.choice_file import ModelChosen
    from labeldp.statistics.confusion_file import NoisyConfusion
    from labeldp.statistics.score_file import Score

    budget = file.header["budget"]
    promise = promise_text(budget) if budget["publishable"] else "nothing"
    facts = [
        (
            file.statistic.name,
            f"{path}: {file.rows:,} rows of data set {file.data_set!r}, made on {file.header['made']}",
        ),
        ("holds", file.statistic.describe()),
        ("certificate", guarantee_text(file.certificate())),
        ("data set", f"what its owner promises of all releases together: {promise}"),
        ("trust", "central: the label owner computed this; nobody else saw a label"),
        ("classes", ", ".join(file.class_names)),
        ("ledger", f"{file.header['ledger']['id']}, entry {file.header['ledger']['entry']}"),
        ("checksum", file.checksum),
        *[("raised", f"the data set's budget was raised on {r['at']}") for r in budget["raised"]],
        *handed_over_facts(file.header),
        *([("INSECURE", file.insecure)] if file.insecure else []),
    ]
    print_facts(facts)
    if isinstance(file, Score):
        score_table(file)
    if isinstance(file, NoisyConfusion):
        confusion_table(file)
    if isinstance(file, ModelChosen):
        typer.echo(f"chosen: {file.model}")
    typer.echo("The file is whole. That its owner ran this, and how the noise was drawn, no file can show.")
