"""The parts of a JSON object, each asked for by name and kind. Whatever is not as it must be is a ValueError that names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WHOLE = 1 << 63


class Fields:
    """An object that was read from a file which may be damaged, or anybody's."""

    def __init__(self, data: Any, name: str = "body") -> None:
        if not isinstance(data, dict):
            raise ValueError(name)
        self._data = data

    def has(self, name: str) -> bool:
        """Whether it is said at all, and not null."""
        return self._data.get(name) is not None

    def text(self, name: str) -> str:
        """Printable, and not empty: people will read it."""
        value = self._data.get(name)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ValueError(name)
        return value

    def text_or_none(self, name: str) -> str | None:
        """Null, or the same."""
        if name not in self._data:
            raise ValueError(name)
        return self.text(name) if self.has(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Some."""
        values = self._data.get(name)
        if not isinstance(values, list) or not values:
            raise ValueError(name)
        return tuple(Fields({name: value}).text(name) for value in values)

    def one_of(self, name: str, known: Sequence[str]) -> str:
        """A word that labeldp knows."""
        value = self.text(name)
        if value not in known:
            raise ValueError(name)
        return value

    def whole(self, name: str, least: int = 0) -> int:
        """A whole number."""
        value = self._data.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _WHOLE:
            raise ValueError(name)
        return value

    def number(self, name: str, most: float) -> float:
        """From 0 to `most`."""
        value = self._data.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= most:
            raise ValueError(name)
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._data.get(name)
        if not isinstance(value, bool):
            raise ValueError(name)
        return value

    def part(self, name: str) -> Fields:
        """An object in it."""
        return Fields(self._data.get(name), name)

    def raw(self, name: str) -> dict[str, Any]:
        """The same as it is."""
        return self.part(name)._data
