"""A report: what Markdown and HTML have in common. Text only; every number in it was computed from finished cells, or quoted."""

from __future__ import annotations

from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Sheet:
    """One table: the first `headers` columns name the row. Notes belong below it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    headers: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure: the file beside the report, and what it shows."""

    file: str
    alt: str


@dataclass(frozen=True)
class Report:
    """A title, how it was made, sheets, pictures, and what there is to say of it all."""

    title: str
    made_by: str
    machines: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
