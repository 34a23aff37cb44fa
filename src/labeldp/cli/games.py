"""`labeldp audit-repeat` and `audit-heuristic`: audits that train many models, on public benchmark data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.complete import DATASETS, MECHANISMS, MODELS, among
from labeldp.cli.options import DATA, MACHINE, MODEL, PRIVACY, JsonOption
from labeldp.cli.output import print_facts, print_json
from labeldp.errors import InputError

# fmt: off
DatasetOption = Annotated[str, typer.Option("--dataset", help="digits, fashion, cifar10 or cifar100.", rich_help_panel=DATA, autocompletion=among(*DATASETS))]
DataOption = Annotated[Path | None, typer.Option("--data", help="Where the data set's files are. Default: $LABELDP_DATA.", readable=False, rich_help_panel=DATA)]
EpsilonOption = Annotated[float | None, typer.Option("--epsilon", help="The ε to spend on each label.", rich_help_panel=PRIVACY)]
MechanismOption = Annotated[str | None, typer.Option("--mechanism", help="As for release, or none.", rich_help_panel=PRIVACY, autocompletion=among(*MECHANISMS, "none"))]
DeltaOption = Annotated[float | None, typer.Option("--delta", help="For the Gaussian mechanism.", rich_help_panel=PRIVACY)]
ModelOption = Annotated[str, typer.Option("--model", help="As for train; cheap ones.", rich_help_panel=MODEL, autocompletion=among(*MODELS))]
ProcessesOption = Annotated[int, typer.Option("--processes", help="At a time, one thread each.", rich_help_panel=MACHINE)]
# fmt: on


def repeat(
    dataset: DatasetOption,
    out: Annotated[Path, typer.Option("--out", help="A directory for the games; interrupted, the same command goes on.", readable=False)],
    trainings: Annotated[int, typer.Option("--trainings", help="How many times to train; fixed by the first start.")] = 1000,
    epsilon: EpsilonOption = None,
    mechanism: MechanismOption = None,
    delta: DeltaOption = None,
    model: ModelOption = "linear",
    epochs: Annotated[int, typer.Option("--epochs", help="Of each training.", rich_help_panel=MODEL)] = 5,
    row: Annotated[int, typer.Option("--row", help="The row whose label is at stake.")] = 0,
    labels: Annotated[str, typer.Option("--labels", help="The two labels that it may have, as class numbers a,b.")] = "0,1",
    confidence: Annotated[float, typer.Option("--confidence", help="Of the bound.")] = 0.95,
    data: DataOption = None,
    processes: ProcessesOption = 2,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Game 1 of the paper: train on one of two neighbouring data sets, guess which, again and again. No heuristic, many trainings."""
    from labeldp.cli.progress import Progress
    from labeldp.experiments.repeated import Game
    from labeldp.experiments.repeated import repeat as run

    game = Game(
        dataset, epsilon, mechanism, delta, model, epochs, row=row, labels=_two(labels), data=str(data) if data is not None else None
    )  # fmt: skip
    with Progress("training") as shown:
        result = run(
            game, out, trainings, processes=processes, confidence=confidence,
            progress=lambda done, of: shown.show("training", done, of, "trainings", lines=10),
        )  # fmt: skip
    if json:
        print_json(result.to_json())
    else:
        typer.echo(result.summary())


def _two(text: str) -> tuple[int, int]:
    try:
        first, second = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--labels takes two class numbers, as in 0,1; got {text!r}.") from None
    return first, second


def heuristic(
    dataset: DatasetOption,
    out: Annotated[Path, typer.Option("--out", help="A directory for the runs; interrupted, the same command goes on.", readable=False)],
    canaries: Annotated[int, typer.Option("--canaries", help="In all.")] = 1000,
    plantings: Annotated[int, typer.Option("--plantings", help="Into how many models' labels they are planted apart.")] = 10,
    epsilon: EpsilonOption = None,
    mechanism: MechanismOption = None,
    delta: DeltaOption = None,
    model: ModelOption = "linear",
    epochs: Annotated[int | None, typer.Option("--epochs", help="Of each training. Default: the model's own.", rich_help_panel=MODEL)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the trainings; never of the noise.", rich_help_panel=MODEL)] = 0,
    data: DataOption = None,
    processes: ProcessesOption = 2,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The paper's check of its own heuristic: one model with all canaries against ten with a tenth each.

    Example: labeldp audit-heuristic --dataset digits --mechanism none --model mlp --canaries 200 --out check/
    """
    from labeldp.cli.progress import Progress
    from labeldp.experiments.heuristic import Check, compare

    check = Check(
        dataset,
        epsilon,
        mechanism,
        delta,
        model,
        epochs,
        canaries,
        plantings,
        seed,
        str(data) if data is not None else None,
    )
    with Progress("training") as shown:
        found = compare(
            check, out, processes=processes, progress=lambda done, of: shown.show("training", done, of, "models")
        )
    if json:
        print_json(found.to_json())
        return
    mean = sum(found.accuracy_apart) / len(found.accuracy_apart)
    rows = (
        (f"1 × {canaries:,}", found.together, f"test accuracy {found.accuracy_together:.2%}"),
        (
            f"{plantings} × {'about ' if canaries % plantings else ''}{canaries / plantings:.0f}",
            found.apart,
            f"test accuracy {mean:.2%} on average",
        ),
    )
    print_facts([(name, f"{result.summary().splitlines()[0]}; {accuracy}") for name, result, accuracy in rows])
    empty = [
        name for name, result, _ in rows if result.epsilon_low == 0 and result.epsilon_high in (None, float("inf"))
    ]
    if empty:
        typer.echo(
            f"{' and '.join(empty)}: the model is sure of too few canaries, and the interval says nothing; nothing can be compared"
        )
    else:
        agree = (
            "the intervals overlap"
            if found.overlap()
            else "the intervals do not overlap: the heuristic is doubtful here"
        )
        typer.echo(agree)
    typer.echo(f"assumes {found.together.assumption}")
