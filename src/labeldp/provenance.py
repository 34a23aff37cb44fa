"""Where, when and with what something was made; no git, so that it is the same from an installed package."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import labeldp


def today() -> str:
    """The day (UTC): the one stamp that goes into files and ledgers, and the one place where the calendar is read.

    No hour, whoever asks. What lies between two finer stamps is measured by them, and no proof covers how long work on private labels
    takes: a selection's secret number of runs could be read off the seconds. Those of ordinary releases before and after it would do.
    """
    return datetime.fromtimestamp(time.time(), timezone.utc).date().isoformat()


def day_of(stamp: str) -> str:
    """Of a stamp that was written when there were hours too."""
    return datetime.fromisoformat(stamp[:10]).date().isoformat()


def date_files(paths: Iterable[Path], day: str, *, younger: bool = False) -> None:
    """Give files and folders the beginning of a day as their time (`younger`: to younger ones only).

    For what the owner hands over: the times of files tell how long work took, as stamps in them would.
    """
    midnight = datetime.fromisoformat(day_of(day)).replace(tzinfo=timezone.utc).timestamp()
    for path in paths:
        with suppress(FileNotFoundError):  # another process's, which it has removed
            if not younger or path.stat().st_mtime > midnight:
                os.utime(path, (midnight, midnight))


def start(*, dated: bool = True) -> dict[str, Any]:
    """What this process was asked to do, on what machine; `command` is null where labeldp was called from Python.

    The day, and no hour: how long something took that looked at private labels, no proof covers. Where such work goes before, not even
    the day is noted (`dated`).
    """
    return {
        "command": _command(),
        "day": today() if dated else None,
        "labeldp": labeldp.__version__,
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """This one."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("torch", "numpy")},
    }


def machine_line(said: dict[str, Any]) -> str:
    """In a line, for people."""
    return f"{said['cpu']}, {said['cores']} cores, {said['system']}, Python {said['python']}, torch {said['torch']}, numpy {said['numpy']}"


def _command() -> str | None:
    """As one would type it again."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    if program.stem == "labeldp" or program.parts[-2:] == ("labeldp", "__main__.py"):
        return shlex.join(["labeldp", *sys.argv[1:]])
    return None


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
