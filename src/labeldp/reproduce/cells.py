"""A cell: one command in a directory of its own, <out>/cells/NAME, shared by all tables; a cell.json says that it is finished."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labeldp.data.public import WITH_SCIKIT_LEARN
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.run import OwnerFolder, RunFolder, read_as, read_json
from labeldp.files.summary import PateSummary, TablesSummary, TeachersCost, TrainingSummary
from labeldp.provenance import machine, today

FACTS, LOG = "cell.json", "log.txt"


@dataclass(frozen=True)
class Cell:
    """One row of a table, from one seed. `arguments` are those of `labeldp`, without --out and --data.

    The name is that of its directory, so it says everything that distinguishes the command; tables that need the same cell share it.
    """

    name: str
    dataset: str
    method: str
    epsilon: float | None
    seed: int
    arguments: tuple[str, ...]
    features: str | None = None  # frozen features that several cells would learn alike: they are learned once

    def command(self, folder: Path, data: Path | None = None) -> list[str]:
        """The arguments with a place for the result."""
        where = [] if data is None or self.dataset in WITH_SCIKIT_LEARN else ["--data", str(data)]
        return [*self.arguments, *where, "--out", str(folder)]

    def shell(self, folder: Path, data: Path | None = None) -> str:
        """A line for a shell."""
        return shlex.join(["labeldp", *self.command(folder, data)])

    def summary(self, folder: Path) -> dict[str, Any] | None:
        """What the command summed up; None while it is not finished. Canaries that were planted must have been audited, too."""
        try:
            summary = read_json(RunFolder(folder).summary)
        except InputError:
            return None
        return None if "--canaries" in self.arguments and "audit" not in summary else summary

    def unlike(self, folder: Path) -> list[str]:
        """In what a run that somebody else started there differs from this command, as far as it can be seen."""
        given = {"--denoise": "bayes", **dict(zip(self.arguments, self.arguments[1:], strict=False))}
        said: dict[str, Any] = {}
        run = RunFolder(folder)
        summary = run.read_summary()
        if self.arguments[0] == "experiment" and run.config.exists():
            config = run.read_config()
            recipe = {"denoise": "bayes", **config.recipe}  # which is not written where it is the usual
            said = {"model": config.model, **{name: recipe[name] for name in ("epochs", "seed", "denoise")}}
        elif self.arguments[:2] == ("pate", "run") and isinstance(summary, PateSummary | TrainingSummary):
            said = asdict(summary.mechanism.parameters)
        elif isinstance(summary, TablesSummary):
            said = {name: getattr(summary, name) for name in ("dataset", "epsilon", "seed")}
        pairs = ((name, given.get(f"--{name.replace('_', '-')}"), value) for name, value in said.items())
        return [name for name, wanted, value in pairs if wanted is not None and not _same(wanted, value)]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        said = {name: getattr(self, name) for name in ("name", "dataset", "method", "epsilon", "seed")}
        return said | {"arguments": list(self.arguments)}


def _as_now(arguments: list[str]) -> list[str]:
    """As the command is called today: cells were finished when `experiment` was `train --dataset`."""
    return ["experiment", *arguments[1:]] if arguments[:1] == ["train"] else arguments


def _same(wanted: str, value: Any) -> bool:
    try:
        return float(wanted) == float(value)
    except (TypeError, ValueError):
        return wanted == str(value)


def options(**given: Any) -> list[str]:
    """`max_asked=3` as --max-asked 3; None leaves an option out."""
    return [
        part
        for name, value in given.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", f"{value:.10g}" if isinstance(value, float) else str(value))
    ]


def chosen(cells: Iterable[Cell], only: Iterable[str]) -> list[Cell]:
    """Each cell once, in order; with `only`, those whose names contain one of these texts."""
    every = list({cell.name: cell for cell in cells}.values())
    wanted = tuple(only)
    found = [cell for cell in every if not wanted or any(text in cell.name for text in wanted)]
    if not found:
        raise InputError(f"--only {' '.join(wanted)} fits none of the {len(every)} cells; --list shows them.")
    return found


@dataclass(frozen=True)
class Place:
    """A directory of results, and where data sets are."""

    out: Path
    data: Path | None = None

    def __post_init__(self) -> None:
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"{self.out} is a file; name a directory for the results.")

    @property
    def cells(self) -> Path:
        """The directory of all cells."""
        return self.out / "cells"

    def folder(self, cell: Cell) -> Path:
        """Of one cell."""
        return self.cells / cell.name

    def facts(self, cell: Cell) -> dict[str, Any] | None:
        """What is known of a finished cell; None while it is not finished.

        A cell that somebody else started (by hand, on another machine) and that has no cell.json yet gets one.
        """
        path = self.folder(cell) / FACTS
        if path.exists():
            facts = read_facts(path)
            if _as_now(facts["cell"]["arguments"]) != list(cell.arguments):
                raise InputError(
                    f"{path.parent} holds another cell, of `labeldp {' '.join(facts['cell']['arguments'])}`; choose another --out."
                )
            return self._measured(cell, facts)
        if cell.summary(path.parent) is None:
            return None
        if different := cell.unlike(path.parent):
            raise InputError(
                f"{path.parent} holds another run (with another {', '.join(different)}); choose another --out."
            )
        return self.finish(cell, None)

    def finish(self, cell: Cell, seconds: float | None) -> dict[str, Any]:
        """Write cell.json: the cell, its command, its summary, where it was computed. `seconds` None: started by somebody else."""
        from labeldp import __version__

        folder = self.folder(cell)
        summary = cell.summary(folder)
        assert summary is not None
        owner = RunFolder(folder).owner
        facts = {
            "cell": cell.to_json(),
            "command": cell.shell(folder, self.data),
            "started_elsewhere": seconds is None,  # then the machine is the one that found it
            "seconds": seconds,
            "labeldp": __version__,
            "machine": machine(),
            "written": today(),
            "summary": summary,
            "owner": _owners(owner) if owner.summary.exists() else None,
            "interval": None,
        }
        write_text(folder / FACTS, to_text(facts))
        return self._measured(cell, facts)

    def _measured(self, cell: Cell, facts: dict[str, Any]) -> dict[str, Any]:
        """With the paper's interval, where canaries were planted; it waits for a machine that has the data set's files."""
        if facts["interval"] is None and "audit" in facts["summary"]:
            from labeldp.reproduce.memorized import interval, memorized

            folder = self.folder(cell)
            if (canaries := memorized(folder, cell.dataset, self.data)) is not None:
                facts = facts | {"interval": interval([canaries])}
                write_text(folder / FACTS, to_text(facts))
        return facts

    def begun(self, cell: Cell) -> bool:
        """Whether anything of it is there."""
        return self.folder(cell).exists()


def _owners(owner: OwnerFolder) -> dict[str, Any]:
    """What PATE keeps for the owner, and how long students took, which the files of a run do not say."""
    seconds = read_as(TeachersCost, owner.cost).students_seconds if owner.cost.exists() else 0.0
    return {**read_json(owner.summary), "students_seconds": seconds}


def read_facts(path: Path) -> dict[str, Any]:
    """Of a finished cell."""
    try:
        return read_json(path)
    except InputError:
        raise InputError(
            f"{path} is damaged; remove this one file, and it is written again from the run beside it."
        ) from None


def to_text(data: Any) -> str:
    """JSON, full precision, never NaN or Infinity."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"{path.parent} cannot be made a directory: is there a file of that name?") from None
    place_file(path, lambda file: file.write(text.encode()))
