"""What a release file is, for whoever received it: `labeldp inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.commands.option import Argument, Options
from labeldp.commands.progress import SILENT, Progress

if TYPE_CHECKING:
    from labeldp.release.release import Description
    from labeldp.statistics.statistic import StatisticFile


@dataclass(frozen=True, kw_only=True)
class InspectOptions(Options):
    """What `labeldp inspect` is told."""

    release: Annotated[Path, Argument("A release file, or a score.")]


def inspect(options: InspectOptions, progress: Progress = SILENT) -> Description | StatisticFile:
    """Check a file that an owner handed over and show what made it. The certificate is computed from the mechanism, or the noise, it names."""
    from labeldp.release.release import Description
    from labeldp.release.sealed import statistic_name
    from labeldp.statistics.reading import load_statistic

    if statistic_name(options.release) is not None:
        return load_statistic(options.release)
    return Description.read(options.release)
