"""A small drawing kit: shapes with a class, so that the page's style sheet colours them in light, dark and print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from markupsafe import Markup, escape

_numbers = count(1)


@dataclass(frozen=True)
class Scale:
    """From data to pixels; `log` for an axis on which doublings are equally far apart."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value is drawn."""
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)


@dataclass
class Drawing:
    """An SVG of so many pixels; `title` and `description` are what a screen reader says."""

    width: float
    height: float
    title: str
    description: str = ""
    _parts: list[Markup] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A straight line."""
        self._add('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>', css, *map(_px, (x1, y1, x2, y2)))

    def rect(self, x: float, y: float, width: float, height: float, css: str) -> None:
        """A box."""
        self._add(
            '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>', css, *map(_px, (x, y, max(0, width), height))
        )

    def circle(self, x: float, y: float, radius: float, css: str, says: str = "") -> None:
        """A dot; what it `says` shows when the pointer rests on it."""
        at = map(_px, (x, y, radius))
        self._add('<circle class="{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>', css, *at, says)

    def path(self, points: Iterable[tuple[float, float]], css: str, *, closed: bool = False) -> None:
        """A line through points."""
        steps = " L".join(f"{_px(x)} {_px(y)}" for x, y in points)
        self._add('<path class="{}" d="M{}{}"/>', css, steps, " Z" if closed else "")

    def text(self, x: float, y: float, words: str, css: str = "", anchor: str = "start") -> None:
        """Words; `anchor` is start, middle or end."""
        self._add('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>', css, _px(x), _px(y), anchor, words)

    def markup(self) -> Markup:
        """The whole of it, to stand within a page."""
        name = f"drawing-{next(_numbers)}"
        head = Markup(
            '<svg viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-labelledby="{}-t {}-d">'
            '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>'
        ).format(
            *map(_px, (self.width, self.height) * 2), name, name, name, self.title, name, self.description
        )  # fmt: skip
        return head + Markup("").join(self._parts) + Markup("</svg>")

    def _add(self, shape: str, *values: str) -> None:
        self._parts.append(Markup(shape).format(*(escape(value) for value in values)))


def ticks(low: float, high: float, about: int = 5) -> Sequence[float]:
    """Round numbers from `low` to `high`, some `about` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough else 0.0
    if not power:  # nearer to each other than numbers can be told apart
        return [low]
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
