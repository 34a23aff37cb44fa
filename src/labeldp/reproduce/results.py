"""What a finished cell has to say, whatever its command was."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Interval:
    """The paper's ε_m: its 95% interval, from so many canaries. An upper end of None is infinite."""

    low: float
    high: float | None
    canaries: int


@dataclass(frozen=True)
class Result:
    """Numbers of one cell. ε is None where there is no privacy; measured ones where nothing was planted."""

    accuracy: float | None
    epsilon: float | None
    delta: float | None
    model_low: float | None
    release_low: float | None
    interval: Interval | None
    flop: float
    seconds: float
    summary: Mapping[str, Any]
    owner: Mapping[str, Any]
    folder: Path

    @classmethod
    def of(cls, facts: Mapping[str, Any], folder: Path) -> Result:
        """From what stands in cell.json."""
        summary, owner = facts["summary"], facts.get("owner") or {}
        audit, certificate = summary.get("audit") or {}, summary["certificate"]
        pate = "students" in summary
        interval = facts.get("interval")
        return cls(
            accuracy=summary["accuracy_test"]["mean"] if pate else summary["accuracy_test"],
            epsilon=certificate["epsilon"],
            delta=certificate["delta"],
            model_low=audit["model"]["epsilon_low"] if audit else None,
            release_low=audit["release"]["epsilon_low"] if audit else None,
            interval=None if interval is None else Interval(**interval),
            flop=summary["teachers_flop"] + summary["students_flop"] if pate else summary["train_flop"],
            seconds=(
                sum(owner.get(name, 0.0) for name in ("teachers_seconds", "students_seconds"))
                + sum(student.get("seconds", 0.0) for student in summary["students"])  # as earlier versions noted it
                if pate
                else summary["seconds"]
            ),
            summary=summary,
            owner=owner,
            folder=folder,
        )


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n − 1) over seeds."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Of what is there; None of nothing."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))

    def percent(self) -> str:
        """For people; a single seed has no deviation."""
        return f"{self.mean:.2%} (n = 1)" if self.std is None else f"{self.mean:.2%} ± {self.std:.2%} (n = {self.n})"

    def to_json(self) -> dict[str, Any]:
        """Never rounded."""
        return {"mean": self.mean, "std": self.std, "n": self.n}


def found(cells: Iterable[Any], results: Mapping[str, Result]) -> list[Result]:
    """The results of those cells that are finished."""
    return [results[cell.name] for cell in cells if cell.name in results]


def span(values: Sequence[float], digits: str = ".3g") -> str:
    """One value, or from the smallest to the largest."""
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return low if low == high else f"{low} to {high}"
