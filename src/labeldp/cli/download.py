"""`labeldp download`: a data set for experiments, from its publisher."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from labeldp.data.download import Progress


def command(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100 or fashion.", show_default=False)],
    data: Annotated[Path | None, typer.Option("--data", help="The folder to put it into. Default: $LABELDP_DATA, else ./data.", readable=False)] = None,
) -> None:  # fmt: skip
    """Download a public data set, verified by its published md5. Interrupted, the same command goes on where it stopped."""
    from labeldp.data.download import download

    with _bar() as progress:
        fetched = download(name, data, progress)
    for file in fetched:
        what = "downloaded; its md5 is the published one" if file.fresh else "was there already, and is right"
        typer.echo(f"{file.path}: {what}")


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar on a terminal's stderr; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())  # fmt: skip
    tasks: dict[str, TaskID] = {}
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total, completed=done)
            bar.update(tasks[file], total=total, completed=done)

        yield show
