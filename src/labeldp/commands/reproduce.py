"""The paper's tables and figures, by commands that anybody can start by hand: `labeldp reproduce`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import DataOption, ProcessesOption
from labeldp.commands.values import REPRODUCED, SCALES
from labeldp.errors import InputError, WorkerError

if TYPE_CHECKING:
    from labeldp.reproduce.cells import Cell, Place
    from labeldp.reproduce.plan import Reproduction
    from labeldp.reproduce.runner import Failed


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Options):
    """What `labeldp reproduce` is told."""

    name: Annotated[str, Argument("table1, table2, table-agibi, table-heuristic, table-pate, figure1, frontier, equal-compute, tabular, moments, study-answers or study-threshold.", values=REPRODUCED)]
    scale: Annotated[str, Option("smoke (digits, minutes), cpu (the `fast` model, hours; all tables), paper (its models and epochs, a cluster).", values=SCALES)] = "smoke"
    out: Annotated[Path, Option("Results and, under cells/, the runs they are made of; tables share cells.")] = Path("reproduced")
    seeds: Annotated[int | None, Option("Seeds a row. Default: 1; of tabular 5, of moments 10; frontier and equal-compute have their own queues.")] = None
    only: Annotated[tuple[str, ...], Option("Run only cells whose names contain this; may be given several times.")] = ()
    list_cells: Annotated[bool, Option("Print the command of each cell, and run nothing.", flag="--list")] = False
    collect: Annotated[bool, Option("Run nothing; make the tables from the cells that are finished.")] = False
    resume: Annotated[bool, Option("Go on in --out; or refuse if it holds any of these cells.", flag="--resume/--no-resume")] = True
    markdown: Annotated[Path | None, Option("Write the Markdown to this file too, with its figures beside it.")] = None
    note: Annotated[str | None, Option("A sentence of yours below the table: what a reader must know about these runs.")] = None
    data: DataOption = None
    processes: ProcessesOption = 2
# fmt: on


@dataclass(frozen=True)
class Reproduced:
    """A table as far as its cells are finished. `error` says which failed, if some did; the others are kept."""

    data: Any
    finished: int
    cells: int
    error: WorkerError | None = None

    def to_json(self) -> Any:
        """As in the table's own JSON file."""
        return self.data


def reproduce(options: ReproduceOptions, progress: Progress = SILENT) -> Reproduced | list[dict[str, Any]]:
    """Run a table, figure or study cell by cell, and write it as Markdown, HTML and JSON beside the paper's numbers.

    Example: labeldp reproduce table1 --scale smoke

    On a cluster: labeldp reproduce table1 --scale paper --list prints a command a cell; start them anywhere, then --collect.
    """
    from labeldp.reproduce.cells import Place, chosen
    from labeldp.reproduce.names import plan as by_name
    from labeldp.reproduce.page import collect as collected
    from labeldp.reproduce.runner import described

    plan, place = by_name(options.name, options.scale, options.seeds), Place(options.out, options.data)
    cells = chosen(plan.cells(), options.only)
    if options.list_cells and options.collect:
        raise InputError("`list_cells` prints commands, `collect` reads what they left: one of the two.")
    if options.list_cells:
        return [{**cell.to_json(), "command": cell.shell(place.folder(cell), options.data)} for cell in cells]
    if not options.resume and (begun := [cell.name for cell in cells if place.begun(cell)]):
        raise InputError(
            f"{options.out} holds {len(begun)} of these cells already ({begun[0]} …), and is not to be resumed; choose another `out`, or "
            "leave that out to go on."
        )
    made_by = shlex.join(_made_by(options))
    failed = [] if options.collect else _run(plan, cells, place, options.processes, made_by, progress)
    found = collected(plan, place, made_by, [one.cell.name for one in failed], options.markdown, options.note)
    count = len(plan.cells())
    why = f"{len(failed)} cells failed; the others are kept, and the same command tries again: {described(failed)}"
    return Reproduced(found.data, count - len(found.missing), count, WorkerError(why) if failed else None)


def _run(
    plan: Reproduction, cells: list[Cell], place: Place, processes: int, made_by: str, progress: Progress
) -> list[Failed]:
    """Whatever is not finished; the table is written anew after every cell."""
    from labeldp.reproduce.page import collect as collected
    from labeldp.reproduce.runner import Runner

    with progress.doing("cells") as shown:

        def changed() -> None:
            collected(plan, place, made_by)
            shown.show("cells", sum(place.facts(cell) is not None for cell in cells), len(cells), "finished")

        def told(cell: Cell, what: str) -> None:
            shown.line(f"{cell.name} {what}")

        return Runner(place, processes, changed, told).run(cells)


def _made_by(options: ReproduceOptions) -> list[str]:
    given = ["labeldp", "reproduce", options.name, "--scale", options.scale]
    given += [] if options.seeds is None else ["--seeds", str(options.seeds)]
    return given + [part for text in options.only for part in ("--only", text)]
