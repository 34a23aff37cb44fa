"""Audits that train many models, on public benchmark data: `labeldp audit-repeat` and `labeldp audit-heuristic`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.commands.option import MODEL, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    DATASET,
    DataOption,
    DeltaOption,
    EpochsOption,
    EpsilonOption,
    MechanismOption,
    ProcessesOption,
    SeedOption,
)
from labeldp.commands.values import MODELS
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.audit.result import AuditResult
    from labeldp.experiments.heuristic import Comparison

_CHEAP = Option("As for train; cheap ones.", panel=MODEL, values=MODELS)


# fmt: off
@dataclass(frozen=True, kw_only=True)
class GameOptions(Options):
    """A data set, a mechanism, a model, a place."""

    dataset: Annotated[str, DATASET]
    out: Annotated[Path, Option("A directory for its trainings; interrupted, the same command goes on.")]
    data: DataOption = None
    epsilon: EpsilonOption = None
    mechanism: MechanismOption = None
    delta: DeltaOption = None
    model: Annotated[str, _CHEAP] = "linear"
    processes: ProcessesOption = 2


@dataclass(frozen=True, kw_only=True)
class RepeatOptions(GameOptions):
    """What `labeldp audit-repeat` is told."""

    trainings: Annotated[int, Option("How many times to train; fixed by the first start.")] = 1000
    epochs: Annotated[int, Option("Of each training.", panel=MODEL)] = 5
    row: Annotated[int, Option("The row whose label is at stake.")] = 0
    labels: Annotated[str, Option("The two labels that it may have, as class numbers a,b.")] = "0,1"
    confidence: Annotated[float, Option("Of the bound.")] = 0.95


@dataclass(frozen=True, kw_only=True)
class HeuristicOptions(GameOptions):
    """What `labeldp audit-heuristic` is told."""

    canaries: Annotated[int, Option("In all.")] = 1000
    plantings: Annotated[int, Option("Into how many models' labels they are planted apart.")] = 10
    epochs: EpochsOption = None
    seed: SeedOption = 0
# fmt: on


def audit_repeat(options: RepeatOptions, progress: Progress = SILENT) -> AuditResult:
    """Game 1 of the paper: train on one of two neighbouring data sets, guess which, again and again. No heuristic, many trainings."""
    from labeldp.experiments.repeated import Game, repeat

    game = Game(
        options.dataset, options.epsilon, options.mechanism, options.delta, options.model, options.epochs, row=options.row,
        labels=_two(options.labels), data=_text(options.data),
    )  # fmt: skip
    with progress.doing("training") as shown:
        return repeat(
            game, options.out, options.trainings, processes=options.processes, confidence=options.confidence,
            progress=lambda done, of: shown.show("training", done, of, "trainings", lines=10),
        )  # fmt: skip


def audit_heuristic(options: HeuristicOptions, progress: Progress = SILENT) -> Comparison:
    """The paper's check of its own heuristic: one model with all canaries against ten with a tenth each.

    Example: labeldp audit-heuristic --dataset digits --mechanism none --model mlp --canaries 200 --out check/
    """
    from labeldp.experiments.heuristic import Check, compare

    check = Check(
        options.dataset, options.epsilon, options.mechanism, options.delta, options.model, options.epochs, options.canaries,
        options.plantings, options.seed, _text(options.data),
    )  # fmt: skip
    with progress.doing("training") as shown:
        return compare(
            check, options.out, processes=options.processes,
            progress=lambda done, of: shown.show("training", done, of, "models"),
        )  # fmt: skip


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _two(text: str) -> tuple[int, int]:
    try:
        first, second = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"`labels` takes two class numbers, as in 0,1; got {text!r}.") from None
    return first, second
