"""A report as one HTML file: nothing is fetched, and it is read in light, dark and print."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from labeldp.report.page import render
from labeldp.reproduce.report import Picture, Report


def to_html(report: Report, folder: Path) -> str:
    """The whole page; pictures are taken from `folder` into the page itself."""
    return render(
        "tables.html", report=report, drawn=[(picture, _drawn(picture, folder)) for picture in report.pictures]
    )


def _drawn(picture: Picture, folder: Path) -> Markup:
    """matplotlib's own SVG; an XML prologue has no place within a page."""
    svg = (folder / picture.file).read_text(encoding="utf-8")
    return Markup(svg[svg.index("<svg") :])
