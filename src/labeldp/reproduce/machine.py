"""Where and with what a number was measured; no git, so that it is the same from an installed package."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


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
