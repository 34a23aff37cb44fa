"""`labeldp reproduce`: the paper's tables and figures, by commands that anybody can start by hand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.complete import REPRODUCED, SCALES, among
from labeldp.cli.options import JsonOption
from labeldp.cli.output import print_json
from labeldp.errors import InputError, WorkerError


def command(
    name: Annotated[str, typer.Argument(help="table1, table2, table-agibi, table-heuristic, table-pate, figure1, frontier, study-answers or study-threshold.", show_default=False, autocompletion=among(*REPRODUCED))],
    scale: Annotated[str, typer.Option("--scale", help="smoke (digits, minutes), cpu (the `fast` model, hours), paper (its models and epochs, a cluster).", autocompletion=among(*SCALES))] = "smoke",
    out: Annotated[Path, typer.Option("--out", help="Results and, under cells/, the runs they are made of; tables share cells.", readable=False)] = Path("reproduced"),
    seeds: Annotated[int | None, typer.Option("--seeds", help="Seeds a row. Default: 1; the frontier has its own queue.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Run only cells whose names contain this; may be given several times.")] = None,
    processes: Annotated[int, typer.Option("--processes", help="Cells at a time, one thread each.")] = 2,
    data: Annotated[Path | None, typer.Option("--data", help="Where the data sets' files are. Default: $LABELDP_DATA.", readable=False)] = None,
    list_cells: Annotated[bool, typer.Option("--list", help="Print the command of each cell, and run nothing.")] = False,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing; make the tables from the cells that are finished.")] = False,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on in --out; or refuse if it holds any of these cells.")] = True,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write the Markdown to this file too, with its figures beside it.", readable=False)] = None,
    note: Annotated[str | None, typer.Option("--note", help="A sentence of yours below the table: what a reader must know about these runs.")] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Run a table, figure or study cell by cell, and write it as Markdown, HTML and JSON beside the paper's numbers.

    Example: labeldp reproduce table1 --scale smoke

    On a cluster: labeldp reproduce table1 --scale paper --list prints a command a cell; start them anywhere, then --collect.
    """
    from labeldp.cli.progress import Progress
    from labeldp.reproduce.cells import Place, chosen
    from labeldp.reproduce.names import plan as by_name
    from labeldp.reproduce.page import collect as collected
    from labeldp.reproduce.runner import Runner, described

    plan, place = by_name(name, scale, seeds), Place(out, data)
    cells = chosen(plan.cells(), only or ())
    if list_cells and collect:
        raise InputError("--list prints commands, --collect reads what they left: one of the two.")
    if list_cells:
        _print_list([(cell, cell.shell(place.folder(cell), data)) for cell in cells], json)
        return
    if not resume and (begun := [cell.name for cell in cells if place.begun(cell)]):
        raise InputError(
            f"--no-resume: {out} holds {len(begun)} of these cells already ({begun[0]} …); choose another --out, or leave it out to go on."
        )
    made_by = shlex.join(_made_by(name, scale, seeds, only))
    failed: list[Any] = []
    if not collect:
        with Progress("cells") as shown:

            def changed() -> None:
                collected(plan, place, made_by)
                shown.show("cells", sum(place.facts(cell) is not None for cell in cells), len(cells), "finished")

            def told(cell: Any, what: str) -> None:
                shown.line(f"{cell.name} {what}")

            failed = Runner(place, processes, changed, told).run(cells)
    found = collected(plan, place, made_by, [one.cell.name for one in failed], markdown, note)
    if json:
        print_json(found.data)
    else:
        files = ", ".join(str(out / f"{name}.{kind}") for kind in ("md", "html", "json"))
        typer.echo(f"{len(plan.cells()) - len(found.missing)} of {len(plan.cells())} cells are finished: {files}")
        if markdown is not None:
            typer.echo(f"also written: {markdown}")
    if failed:
        raise WorkerError(
            f"{len(failed)} cells failed; the others are kept, and the same command tries again: " + described(failed)
        )


def _print_list(cells: list[tuple[Any, str]], json: bool) -> None:
    if json:
        print_json([{**cell.to_json(), "command": line} for cell, line in cells])
    else:
        for _, line in cells:
            typer.echo(line)


def _made_by(name: str, scale: str, seeds: int | None, only: list[str] | None) -> list[str]:
    given = ["labeldp", "reproduce", name, "--scale", scale]
    given += [] if seeds is None else ["--seeds", str(seeds)]
    return given + [part for text in only or () for part in ("--only", text)]
