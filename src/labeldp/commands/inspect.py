"""What a release file is, for whoever received it: `labeldp inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.commands.option import Argument, Options
from labeldp.commands.progress import SILENT, Progress

if TYPE_CHECKING:
    from labeldp.release.release import Description


@dataclass(frozen=True, kw_only=True)
class InspectOptions(Options):
    """What `labeldp inspect` is told."""

    release: Annotated[Path, Argument("A release file.")]


def inspect(options: InspectOptions, progress: Progress = SILENT) -> Description:
    """Check a release file and show what made it. The certificate is computed from the mechanism it names."""
    from labeldp.release.release import Description

    return Description.read(options.release)
