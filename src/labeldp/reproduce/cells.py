"""A cell: one command in a directory of its own, independent of all others."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import InputError

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
        where = [] if data is None or self.dataset == "digits" else ["--data", str(data)]
        return [*self.arguments, *where, "--out", str(folder)]

    def shell(self, folder: Path, data: Path | None = None) -> str:
        """A line for a shell."""
        return shlex.join(["labeldp", *self.command(folder, data)])

    def summary(self, folder: Path) -> dict[str, Any] | None:
        """What the command summed up; None while it is not finished. Canaries that were planted must have been audited, too."""
        try:
            summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return None if "--canaries" in self.arguments and "audit" not in summary else summary

    def unlike(self, folder: Path, summary: dict[str, Any]) -> list[str]:
        """In what a run that somebody else started there differs from this command, as far as it can be seen."""
        given = {"--denoise": "bayes", **dict(zip(self.arguments, self.arguments[1:], strict=False))}
        said: dict[str, Any] = {}
        if self.arguments[0] == "train" and (folder / "config.json").exists():
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            recipe = {"denoise": "bayes", **config["recipe"]}  # which is not written where it is the usual
            said = {"model": config["model"], **{name: recipe[name] for name in ("epochs", "seed", "denoise")}}
        elif self.arguments[:2] == ("pate", "run"):
            said = dict(summary["mechanism"]["parameters"])
        pairs = ((name, given.get(f"--{name.replace('_', '-')}"), value) for name, value in said.items())
        return [name for name, wanted, value in pairs if wanted is not None and not _same(wanted, value)]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        said = {name: getattr(self, name) for name in ("name", "dataset", "method", "epsilon", "seed")}
        return said | {"arguments": list(self.arguments)}


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
