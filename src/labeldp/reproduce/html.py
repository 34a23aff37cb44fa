"""A report as one HTML file: nothing is fetched, and it is read in light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path

from labeldp.reproduce.report import Report, Sheet

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1a1a1a; background: #fff; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.2rem 0 .4rem; font-size: .9em; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ccc; text-align: right; vertical-align: top; }
th[scope=row] { text-align: left; font-weight: normal; }
thead th { border-bottom: 2px solid #888; vertical-align: bottom; }
.note, footer { color: #555; font-size: .88em; max-width: 60rem; }
figure { margin: 1rem 0; background: #fff; display: inline-block; border-radius: 6px; }
figure svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616; }
  th, td { border-color: #444; }
  thead th { border-color: #888; }
  .note, footer { color: #aaa; }
}
"""


def to_html(report: Report, folder: Path) -> str:
    """The whole page; pictures are taken from `folder` into the page itself."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.title)}</h1>",
        f"<p>Made by: <code>{escape(report.made_by)}</code>. Nothing here is typed by hand.</p>",
        f'<p class="note">Measured on: {escape("; ".join(report.machines)) or "nothing yet"}.</p>',
        *map(_sheet, report.sheets),
    ]
    for picture in report.pictures:
        svg = (folder / picture.file).read_text(encoding="utf-8")
        drawn = svg[svg.index("<svg") :]  # an XML prologue has no place within a page
        parts.append(f'<figure role="img" aria-label="{escape(picture.alt)}">{drawn}</figure>')
    parts.append('<ul class="note">' + "".join(f"<li>{escape(note)}</li>" for note in report.notes) + "</ul>")
    parts.append(f"<footer><p>{_names('Not finished', report.missing)}</p>")
    if report.failed:
        parts.append(f"<p>{_names('Failed when last started (see their log.txt)', report.failed)}</p>")
    return "\n".join([*parts, "</footer></body></html>", ""])


def _sheet(sheet: Sheet) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in sheet.columns)
    body = "".join("<tr>" + _cells(row, sheet.headers) + "</tr>\n" for row in sheet.rows)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in sheet.notes)
    return (
        f'<div class="wide"><table><caption>{escape(sheet.caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{notes}"
    )


def _cells(row: tuple[str, ...], headers: int) -> str:
    return "".join(
        f'<th scope="row">{escape(text)}</th>' if place < headers else f"<td>{escape(text)}</td>"
        for place, text in enumerate(row)
    )


def _names(title: str, names: tuple[str, ...]) -> str:
    return f"{title}: " + (", ".join(f"<code>{escape(name)}</code>" for name in names) or "nothing") + "."
