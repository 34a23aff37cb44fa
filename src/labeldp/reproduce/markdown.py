"""A report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from labeldp.reproduce.report import Report, Sheet


def to_markdown(report: Report) -> str:
    """The whole page."""
    parts = [f"# {_text(report.title)}", f"Made by: `{report.made_by}`. Nothing here is typed by hand."]
    parts.append("Measured on: " + ("; ".join(map(_text, report.machines)) or "nothing yet") + ".")
    for sheet in report.sheets:
        parts += _sheet(sheet)
    parts += [f"![{_text(picture.alt)}]({picture.file})" for picture in report.pictures]
    if report.notes:
        parts.append("\n".join(f"- {_text(note)}" for note in report.notes))
    parts.append(_names("Not finished", report.missing))
    if report.failed:
        parts.append(_names("Failed when last started (see their log.txt)", report.failed))
    return "\n\n".join(parts) + "\n"


def _sheet(sheet: Sheet) -> list[str]:
    lines = [
        _line(map(_text, sheet.columns)),
        _line(["---"] * len(sheet.columns)),
        *(_line(map(_text, row)) for row in sheet.rows),
    ]
    return [f"**{_text(sheet.caption)}**", "\n".join(lines), *map(_text, sheet.notes)]


def _line(cells: Sequence[str] | map[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _names(title: str, names: tuple[str, ...]) -> str:
    return f"{title}: " + (", ".join(f"`{name}`" for name in names) if names else "nothing") + "."


def _text(text: str) -> str:
    """As it is: nothing in it is taken for markup or for the end of a cell."""
    for special in ("\\", "|", "*", "_", "`", "<", "[", "]"):
        text = text.replace(special, "\\" + special)
    return text.replace("\n", " ")
