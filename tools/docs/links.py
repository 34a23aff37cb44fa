"""Links and headings of the Markdown pages: one reading of them for the site, which follows links out of docs/, and for the tests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_CODE = re.compile(r"(^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\2`*~*[ \t]*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\])\((?P<target>[^()\s#:]*)(?P<anchor>#[^()\s]*)?\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The text with everything but its code changed."""
    parts = _CODE.split(markdown)  # text, code, the fence, text, …
    return "".join(change(part) if i % 3 == 0 else part for i, part in enumerate(parts) if i % 3 != 2)


def links(markdown: str) -> Iterator[tuple[str, str]]:
    """(target, anchor without #) of every link that is not to another site."""
    for match in _LINK.finditer(_without_code(markdown)):
        yield match["target"], (match["anchor"] or "#")[1:]


def headings(markdown: str) -> list[str]:
    """The anchors that a page has, numbered as GitHub does where headings repeat."""
    seen: dict[str, int] = {}
    for text in _HEADING.findall(_without_fences(markdown)):
        name = slug(text)
        seen[name] = seen.get(name, -1) + 1
        if seen[name]:
            seen[f"{name}-{seen[name]}"] = 0
    return list(seen)


def slug(text: str, separator: str = "-") -> str:
    """A heading's anchor as GitHub makes it, so that a link works there and on the site."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", text.strip().lower()))
    return kept.replace(" ", separator)


def rewritten(markdown: str, origin: Path, page: str) -> str:
    """The Markdown of a file of the repository with links that work on the site, where it is `page`."""

    def moved(match: re.Match[str]) -> str:
        place = found(match["target"], origin)
        if place is None:
            return match[0]  # to itself, or a mistake that the strict build reports
        target = os.path.relpath(uri(place), Path(page).parent)
        return f"({target}{match['anchor'] or ''})"

    return outside_code(markdown, lambda text: _LINK.sub(moved, text))


def found(target: str, origin: Path) -> Path | None:
    """The file or folder that a link leads to, if it is in the repository."""
    place = (origin.parent / target).resolve()
    return place if target and place.exists() and place.is_relative_to(ROOT) else None


def uri(place: Path) -> str:
    """Where a file lies in the site: docs/ as it is, everything else as a page below files/."""
    if place.is_relative_to(DOCS):
        return place.relative_to(DOCS).as_posix()
    path = place.relative_to(ROOT).as_posix()
    return f"files/{path}" if path.endswith(".md") else f"files/{path}.md"


def _without_code(markdown: str) -> str:
    return _CODE.sub("", markdown)


def _without_fences(markdown: str) -> str:
    return _CODE.sub(lambda match: "" if match[2] else match[0], markdown)
