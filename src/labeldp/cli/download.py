"""`labeldp download`: a data set for experiments, from its publisher."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.complete import DOWNLOADS, among
from labeldp.cli.options import JsonOption
from labeldp.cli.output import print_json


def command(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100 or fashion.", show_default=False, autocompletion=among(*DOWNLOADS))],
    data: Annotated[Path | None, typer.Option("--data", help="The folder to put it into. Default: $LABELDP_DATA, else ./data.", readable=False)] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Download a public data set, verified by its published md5. Interrupted, the same command goes on where it stopped."""
    from labeldp.cli.progress import Progress
    from labeldp.data.download import download

    with Progress(name) as shown:
        fetched = download(name, data, lambda file, done, of: shown.show(file, done, of, "bytes"))
    if json:
        print_json({"name": name, "files": [{"path": str(file.path), "fresh": file.fresh} for file in fetched]})
        return
    for file in fetched:
        what = "downloaded; its md5 is the published one" if file.fresh else "was there already, and is right"
        typer.echo(f"{file.path}: {what}")
