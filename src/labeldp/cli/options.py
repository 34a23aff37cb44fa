"""Options that several commands share, and files that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.complete import DEVICES, among
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.classes import Classes

# What --help groups options by.
DATA, ROWS, PRIVACY, BUDGET, MODEL, JUDGING, MACHINE, EXPERIMENTS = (
    "Data", "Rows", "Privacy", "Budget and ledger", "Model and recipe", "Judging", "Machine", "Experiments"
)  # fmt: skip

# typer reads these at run time, where `X | None` would need Python 3.10's syntax in every alias.
ClassesOption = Annotated[
    str,
    typer.Option(
        "--classes",
        help="How many classes there are (10), all their names (no,yes), or @FILE with one name a line.",
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The ledger file. Default: $LABELDP_LEDGER, else one for each user (Linux: ~/.local/share/labeldp/labels.ledger).",
        readable=False,
        rich_help_panel=BUDGET,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and nothing else, to standard output.")
]
OtherIdsOption = Annotated[
    str | None,
    typer.Option(
        "--other-ids",
        rich_help_panel=BUDGET,
        metavar="NAME",
        help="These ids name other people than equal ids that the ledger knows: a group of ids with accounts of its own, under this name, on the record.",
    ),
]
IdsAsWrittenOption = Annotated[
    bool,
    typer.Option(
        "--ids-as-written",
        rich_help_panel=ROWS,
        help="007 is not 7: compare ids letter by letter. Default: outer white space, leading zeros, a trailing .0 and the composition of accents do not count.",
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta",
        help="δ, from 2^-40: lets the Gaussian mechanism compete (default for it: 1e-5).",
        rich_help_panel=PRIVACY,
    ),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="Public features: .npy, .npz, Parquet (number columns, or one list column), CSV, or a folder of images.",
        readable=False,
        rich_help_panel=DATA,
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="The features' id column, to join with the release. Default: by position.",
        rich_help_panel=DATA,
    ),
]
ImageSizeOption = Annotated[
    int | None,
    typer.Option(
        "--image-size",
        help="For a folder of images: resize and crop them to so many pixels.",
        rich_help_panel=DATA,
    ),
]
CanaryShareOption = Annotated[
    float,
    typer.Option(
        "--canary-share",
        help="The share of rows with planted labels, if the owner named one: corrects accuracy.",
        rich_help_panel=JUDGING,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option("--device", help="auto, cpu, cuda or mps.", rich_help_panel=MACHINE, autocompletion=among(*DEVICES)),
]
PriorOption = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        help="A public class prior: JSON (a list, or name: probability), or one number a line. Never count it from the labels.",
        readable=False,
        rich_help_panel=PRIVACY,
    ),
]


def read_span(text: str | None) -> tuple[int, int] | None:
    """Rows a:b, from 0, b excluded."""
    if text is None:
        return None
    try:
        start, stop = text.split(":")
        return int(start or 0), int(stop)
    except ValueError:
        raise InputError(f"--rows takes a range a:b of row numbers from 0; got {text!r}.") from None


def read_prior(path: Path | None, classes: Classes) -> list[float] | None:
    """Probabilities in the order of the classes."""
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"the prior {path} cannot be read.") from None
    try:
        data: Any = json.loads(text) if text.lstrip().startswith(("[", "{")) else text.replace(",", " ").split()
        if isinstance(data, dict):
            names = classes.names or tuple(str(i) for i in range(classes.count))
            if set(data) != set(names):
                raise InputError(
                    f"the prior {path} must give a probability for each of the {classes.count} classes by name."
                )
            data = [data[name] for name in names]
        return [float(value) for value in data]
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the prior {path} is not a list of probabilities.") from None
