"""Frozen features depend on images alone: what one cell has learned the next takes over.

By hard links where the file system has them. Each cell still learns its own when it is started by hand.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from labeldp.reproduce.cells import Cell
from labeldp.reproduce.place import Place


def learned(place: Place, cell: Cell) -> bool:
    """Whether there is nothing left to learn for it."""
    kept = _kept(place, cell)
    return kept is None or kept.exists()


def take_features(place: Place, cell: Cell) -> None:
    """Give a cell that has none the features that are there."""
    theirs, its = _kept(place, cell), place.folder(cell) / "features"
    if theirs is not None and theirs.exists() and not its.exists():
        _linked(theirs, its)


def lend_features(place: Place, cell: Cell) -> None:
    """Keep what a cell has learned, if it is the first."""
    kept, its = _kept(place, cell), place.folder(cell) / "features"
    if kept is not None and its.exists() and not kept.exists():
        _linked(its, kept)


def _kept(place: Place, cell: Cell) -> Path | None:
    return None if cell.features is None else place.out / "features" / cell.features


def _linked(source: Path, target: Path) -> None:
    """A copy that appears as a whole; files in it are never changed, only replaced."""
    half = target.with_name(f".{target.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    half.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, half, ignore=shutil.ignore_patterns(".lock"), copy_function=_link)
    half.rename(target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
