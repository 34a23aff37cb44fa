"""A data set for experiments, from its publisher: `labeldp download`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from labeldp.commands.option import Argument, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import FILES
from labeldp.commands.values import DOWNLOADS


@dataclass(frozen=True, kw_only=True)
class DownloadOptions(Options):
    """What `labeldp download` is told."""

    name: Annotated[str, Argument("cifar10, cifar100 or fashion.", values=DOWNLOADS)]
    data: Annotated[Path | None, FILES.but(help="The folder to put it into. Default: $LABELDP_DATA, else ./data.")] = (
        None
    )


def download(options: DownloadOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Download a public data set, verified by its published md5. Interrupted, the same command goes on where it stopped."""
    from labeldp.data.download import download as fetch

    with progress.doing(options.name) as shown:
        files = fetch(options.name, options.data, lambda file, done, of: shown.show(file, done, of, "bytes"))
    return {"name": options.name, "files": [{"path": str(file.path), "fresh": file.fresh} for file in files]}
