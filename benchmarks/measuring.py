"""Turns, spreads, peak memory of a process of its own, and what machine this is."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Work = Callable[[], object]
Prepare = Callable[[int], Work]


def elapsed(work: Work) -> float:
    """Seconds; freeing what was drawn is not counted."""
    start = time.perf_counter()
    observations = work()
    took = time.perf_counter() - start
    del observations
    return took


def rows_that_take(seconds: float, prepare: Prepare) -> int:
    """About so many rows; tables are built and caches warm afterwards."""
    rows = 16
    prepare(rows)()
    while (took := elapsed(prepare(rows))) < seconds / 4:
        rows *= 2
    return max(1, round(rows * seconds / took))


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean, spread and n; the best for whoever wants the machine's own noise out of the way."""
    return {
        "mean": statistics.mean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "best": max(values),
        "n": len(values),
    }


# A process's peak counts from before exec, when it was still a copy of its parent: so a small parent starts it.
LAUNCHER = """
import json, os, sys, time
out, command = sys.argv[1], sys.argv[2:]
start = time.perf_counter()
to_file = [(os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
_, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=to_file), 0)
seconds, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
exit_code = os.waitstatus_to_exitcode(status)
print(json.dumps({"exit": exit_code, "seconds": seconds, "cpu_seconds": cpu, "maxrss": usage.ru_maxrss}))
"""


@dataclass(frozen=True)
class Ran:
    """One finished command: what it printed as JSON, how long it took, and its own peak memory."""

    output: dict[str, Any]
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(*arguments: str) -> Ran:
    """This Python with these arguments, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "stdout"
        launched = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(printed), sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        usage = json.loads(launched.stdout)
        if usage["exit"] != 0:
            raise SystemExit(f"{' '.join(arguments)} failed with exit code {usage['exit']}: {launched.stderr}")
        output = json.loads(printed.read_text(encoding="utf-8"))
    return Ran(output, usage["seconds"], usage["cpu_seconds"], rss_bytes(usage["maxrss"]))


def rss_bytes(maxrss: int) -> int:
    """Kilobytes on Linux, bytes on macOS."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def own_peak() -> int:
    return rss_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def machine(*packages: str) -> dict[str, Any]:
    """Where and with what the numbers were measured."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: installed(name) for name in packages},
        "revision": revision(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def revision() -> str | None:
    """The commit, and whether `src` differs from it."""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + (" with changes" if changed else "")


def amount(value: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
