"""From finished cells to <name>.json, .md, .html and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeldp.provenance import machine_line
from labeldp.reproduce.figures import NO_FIGURES, can_draw
from labeldp.reproduce.html import to_html
from labeldp.reproduce.markdown import to_markdown
from labeldp.reproduce.place import Place, to_text, write_text
from labeldp.reproduce.plan import Plan
from labeldp.reproduce.report import Picture, Report
from labeldp.reproduce.results import Result
from labeldp.reproduce.sheets import rows_json


@dataclass(frozen=True)
class Collected:
    """What there is, what is not, and the page about it."""

    data: dict[str, Any]
    report: Report
    missing: tuple[str, ...]


def collect(
    plan: Plan,
    place: Place,
    made_by: str,
    failed: Sequence[str] = (),
    markdown: Path | None = None,
    note: str | None = None,
) -> Collected:
    """Read every finished cell and write the plan's files anew; the Markdown also to a path of one's choice, figures beside it."""
    known = {cell.name: place.facts(cell) for cell in plan.cells()}
    facts = {name: one for name, one in known.items() if one is not None}
    missing = tuple(name for name, one in known.items() if one is None)
    results = {name: Result.of(one, place.cells / name) for name, one in facts.items()}
    machines = tuple(dict.fromkeys(_machine(one) for one in facts.values()))
    notes = plan.notes if can_draw() or not plan.drawings else (*plan.notes, NO_FIGURES)
    notes = notes if note is None else (*notes, f"Said by whoever collected this: {note}")
    report = Report(
        f"{plan.title} (scale {plan.scale})", made_by, machines, tuple(plan.layout(plan, results)), notes, missing, tuple(failed)
    )  # fmt: skip
    data = {
        "name": plan.name, "scale": plan.scale, "made_by": made_by, "rows": rows_json(plan, results), "beside": plan.beside(plan, results),
        "missing": list(missing), "failed": list(failed), "cells": list(facts.values()),
    }  # fmt: skip

    def drawn(file: Path) -> Report:
        pictures = []
        for drawing in plan.drawings if can_draw() else ():
            path = file.with_name(f"{file.stem}-{drawing.suffix}.svg")
            if drawing.draw(results, path):
                pictures.append(Picture(path.name, drawing.alt))
        return replace(report, pictures=tuple(pictures))

    here = place.out / plan.name
    whole = drawn(here.with_suffix(".md"))
    write_text(here.with_suffix(".json"), to_text(data))
    write_text(here.with_suffix(".md"), to_markdown(whole))
    write_text(here.with_suffix(".html"), to_html(whole, place.out))
    if markdown is not None:
        write_text(markdown, to_markdown(drawn(markdown)))
    return Collected(data, whole, missing)


def _machine(facts: dict[str, Any]) -> str:
    found = " (which found cells that were started elsewhere)" if facts["started_elsewhere"] else ""
    return f"{machine_line(facts['machine'])}, labeldp {facts['labeldp']}{found}"
