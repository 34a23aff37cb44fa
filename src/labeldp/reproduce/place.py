"""Where cells are: <out>/cells/NAME, shared by all tables, each with a cell.json once it is finished."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.provenance import machine, today
from labeldp.release.place import place_file
from labeldp.reproduce.cells import FACTS, Cell


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
            facts = read_json(path)
            if facts["cell"]["arguments"] != list(cell.arguments):
                raise InputError(
                    f"{path.parent} holds another cell, of `labeldp {' '.join(facts['cell']['arguments'])}`; choose another --out."
                )
            return self._measured(cell, facts)
        summary = cell.summary(path.parent)
        if summary is None:
            return None
        if different := cell.unlike(path.parent, summary):
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
        owner = folder / "owner"
        facts = {
            "cell": cell.to_json(),
            "command": cell.shell(folder, self.data),
            "started_elsewhere": seconds is None,  # then the machine is the one that found it
            "seconds": seconds,
            "labeldp": __version__,
            "machine": machine(),
            "written": today(),
            "summary": summary,
            "owner": _owners(owner) if (owner / "summary.json").exists() else None,
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


def _owners(folder: Path) -> dict[str, Any]:
    """What PATE keeps for the owner, and how long students took, which the files of a run do not say."""
    cost = read_json(folder / "cost.json") if (folder / "cost.json").exists() else {}
    return {**read_json(folder / "summary.json"), "students_seconds": cost.get("students_seconds", 0.0)}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of ours."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(
            f"{path} is damaged; remove this one file, and it is written again from the run beside it."
        ) from None
    return data


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
