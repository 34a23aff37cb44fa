"""What the command line used to be, and still understands."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer

from labeldp.commands import ExperimentOptions, TrainOptions
from labeldp.commands.option import Options, declarations
from labeldp.errors import InputError


def meant(name: str, words: Sequence[str]) -> str:
    """The command that is meant: `train --dataset …` was what `experiment --dataset …` is."""
    if name != "train":
        return name
    given = {word.split("=")[0] for word in words}
    flags = _flags(ExperimentOptions) - _flags(TrainOptions)
    if given & {"--dataset", "--preset"}:
        if given & {"--release", "--features"}:
            raise InputError("`dataset` brings its own features and labels; leave out `release` and `features`.")
        if os.environ.get("RANK", "0") == "0":
            typer.echo("note: `train --dataset` is now a command of its own: labeldp experiment --dataset …", err=True)
        return "experiment"
    if "--canaries" in given:
        raise InputError(
            "`canaries` is for `labeldp experiment`; in your own labels the owner plants them: `labeldp canaries plant`."
        )
    if odd := sorted(given & flags):
        raise InputError(
            f"{odd[0]} goes with --dataset (`labeldp experiment`); a release was made already, and says itself what it cost."
        )
    return name


def _flags(options: type[Options]) -> set[str]:
    return {one.flag for one in declarations(options)}
