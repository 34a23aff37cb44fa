"""Are the libraries that are installed as new as labeldp needs them? Asked before anything is charged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from labeldp.errors import InputError


@dataclass(frozen=True)
class Requirement:
    """A library that labeldp, or an extra of it, needs; `floor` is the oldest version that will do, None where none is stated."""

    name: str
    floor: str | None
    extra: str | None


def requirements() -> Iterator[Requirement]:
    """What pyproject.toml states, from the metadata of the labeldp that is installed; nothing where none is."""
    try:
        yield from read(requires("labeldp") or ())
    except PackageNotFoundError:
        return


def read(lines: Iterable[str]) -> Iterator[Requirement]:
    """From lines as metadata have them: `pillow>=10; extra == 'train'`."""
    for line in lines:
        name, floor, extra = (
            re.search(pattern, line)
            for pattern in (r"^[\w.-]+", r"^[^;]*>=\s*([\d.]+)", r"extra == ['\"]([\w-]+)['\"]")
        )
        assert name is not None
        yield Requirement(name[0], floor and floor[1], extra and extra[1])


def check_requirements() -> None:
    """Refuse a library that is older than labeldp needs: it may fail where a release is charged and not yet written.

    pip says so when it installs one, in a warning among many.
    """
    for needed in requirements():
        if needed.extra is None and needed.floor is not None:
            installed = version(needed.name)
            if _numbers(installed) < _numbers(needed.floor):
                raise InputError(
                    f"{needed.name} {installed} is installed, but labeldp needs {needed.floor} or newer: "
                    f'pip install --upgrade "{needed.name}>={needed.floor}".'
                )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, without zeros at the end: 17.0.0 is 17."""
    return tuple(
        int(number) for number in re.sub(r"(\.0+)+$", "", re.split(r"[^\d.]", version)[0]).split(".") if number
    )
