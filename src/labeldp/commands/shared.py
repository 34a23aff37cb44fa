"""Options that several commands share, each declared once; and what a text that stands for an object means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import (
    BUDGET,
    DATA,
    EXPERIMENTS,
    JUDGING,
    MACHINE,
    MODEL,
    PRIVACY,
    RECORD,
    Argument,
    Option,
    Options,
)
from labeldp.commands.values import DATASETS, DEVICES, MECHANISMS, TRAINED, data_sets
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.classes import Classes
    from labeldp.release.header import HandedOver
    from labeldp.release.rows import Selection

    ClassesGiven = str | int | Sequence[str] | Classes
    PriorGiven = str | Path | Sequence[float]
    SpanGiven = str | tuple[int, int]
    RowsGiven = SpanGiven | Selection
else:  # what a dataclass's fields name at run time must not import anything heavy
    ClassesGiven = PriorGiven = SpanGiven = RowsGiven = Any

# fmt: off
# ── labels, features, and what names their rows ──

LABELS = Option("A Parquet or CSV file (also .tsv, .gz; delimiters are found) with the private labels.", panel=DATA)
LABEL = Option("The column that holds the label.")
CLASSES = Option("How many classes there are (10), all their names (no,yes), or @FILE with one name a line.", kind=str)
LabelsArgument = Annotated[Path, Argument(LABELS.help)]
LabelOption = Annotated[str, LABEL]
ClassesOption = Annotated[ClassesGiven, CLASSES]
IdOption = Annotated[str | None, Option("The public column that names each row. Default: rows go by number.", flag="--id", panel=DATA)]
FEATURES = Option("Public features: .npy, .npz, Parquet, CSV, or a folder of images.", panel=DATA)
FeaturesOption = Annotated[Path, FEATURES]
ImageSizeOption = Annotated[int | None, Option("For a folder of images: resize and crop them to so many pixels.", panel=DATA)]
ShuffleOption = Annotated[bool, Option("Write the rows in a random order (needs --id): that of the file may be that of its labels.", panel=DATA)]
RunArgument = Annotated[Path, Argument("A run directory.")]

# ── bundled data sets ──

DATASET = Option("digits, fashion, cifar10 or cifar100.", panel=DATA, values=DATASETS)
FILES = Option("Where the data set's files are. Default: $LABELDP_DATA, else ./data.", panel=DATA)
DataOption = Annotated[Path | None, FILES]
CanariesOption = Annotated[int | None, Option("Plant so many labels, and audit what is made of them.", panel=PRIVACY)]
CandidatesOption = Annotated[int | None, Option("Labels to choose each canary from, up to the number of classes: more prove a larger ε. Default: 2.", panel=PRIVACY)]

# ── privacy ──

EpsilonOption = Annotated[float | None, Option("The ε to spend on each label, typically 1 to 8: needed for every mechanism but none.", panel=PRIVACY)]
MechanismOption = Annotated[str | None, Option("response, subset, unary, laplace, gaussian, or none. Default: the most informative (see plan).", panel=PRIVACY, values=(*MECHANISMS, "none"))]
DeltaOption = Annotated[float | None, Option("δ, from 2^-40: lets the Gaussian mechanism compete (default for it: 1e-5).", panel=PRIVACY)]
PriorOption = Annotated[PriorGiven | None, Option("A public class prior: JSON (a list, or name: probability), or one number a line. Never count it from the labels.", panel=PRIVACY, kind=Path)]
LEDGER = Option("The ledger file. Default: $LABELDP_LEDGER, else one for each user (Linux: ~/.local/share/labeldp/labels.ledger).", panel=BUDGET)
LedgerOption = Annotated[Path | None, LEDGER]
DATA_SET = Option("What the ledger calls these labels. Default: the file's stem.", panel=BUDGET, values=data_sets)
AGAIN = Option("`--again charge`: release rows a second time, at a second cost.", panel=BUDGET, values=("charge",))

InsecureSeedOption = Annotated[int | None, Option("Repeatable noise for experiments: protects nobody.", panel=EXPERIMENTS)]

# ── training ──

ModelOption = Annotated[str | None, Option("Images: fast (usual), fast-medium, fast-wide, resnet18, wide-resnet-28-2, -28-4, -28-8. Tables: linear (usual), mlp, lightgbm (mostly best). Or package.module:Class.", panel=MODEL, values=TRAINED)]
EpochsOption = Annotated[int | None, Option("Passes over the rows. Default: the model's own number.", panel=MODEL)]
SeedOption = Annotated[int, Option("Of training, and of which rows are held out; never of the noise.", panel=MODEL)]
OTHER_ROWS = Option("No prior behind a release saw the rows that judge, though nothing shows it.", panel=JUDGING)
CanaryShareOption = Annotated[float, Option("The share of planted labels, if the owner named one.", panel=JUDGING)]
DeviceOption = Annotated[str, Option("auto, cpu, cuda or mps.", panel=MACHINE, values=DEVICES)]
ThreadsOption = Annotated[int | None, Option("CPU threads.", panel=MACHINE)]
ProcessesOption = Annotated[int, Option("How many at a time, one thread each.", panel=MACHINE)]


@dataclass(frozen=True, kw_only=True)
class AccountOptions(Options):
    """Under which name, in which ledger, and as whose, labels are known."""

    data_set: Annotated[str | None, DATA_SET] = None
    ledger: LedgerOption = None
    other_ids: Annotated[str | None, Option("These ids name other people than equal ids that the ledger knows: a group of ids with accounts of its own, under this name, on the record.", panel=BUDGET, metavar="NAME")] = None
    ids_as_written: Annotated[bool, Option("007 is not 7: compare ids letter by letter. Default: outer white space, leading zeros, a trailing .0 and the composition of accents do not count.", panel=DATA)] = False


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """What may be spent, and where the noise comes from."""

    budget: Annotated[float | None, Option("Cap on the pure ε of every row, all releases together. Default: the first release's cost.", panel=BUDGET)] = None
    raise_budget: Annotated[bool, Option("Allow a higher budget than was promised; recorded for good.", panel=BUDGET)] = False
    again: Annotated[str | None, AGAIN] = None
    insecure_seed: InsecureSeedOption = None


@dataclass(frozen=True, kw_only=True)
class HandedOverOptions(Options):
    """To whom it goes, what for, and who said so."""

    recipient: Annotated[str | None, Option("Who gets the file: in your own words, into the file, the ledger and the report.", panel=RECORD)] = None
    purpose: Annotated[str | None, Option("What for.", panel=RECORD)] = None
    approver: Annotated[str | None, Option("Who approved it.", panel=RECORD)] = None

    def handed_over(self) -> HandedOver:
        """As one object."""
        from labeldp.release.header import HandedOver

        return HandedOver(self.recipient, self.purpose, self.approver)

    def told_before(self, recorded: dict[str, str] | None) -> list[str]:
        """The same again is the same file: what it says of its recipient is what was said the first time."""
        from labeldp.release.header import told_before

        return told_before(self.handed_over(), recorded)


BudgetGaussianOption = Annotated[float | None, Option("Cap on Gaussian releases: their ε, at the δ of --budget-delta (of pate: at --delta).", panel=BUDGET)]

@dataclass(frozen=True, kw_only=True)
class GaussianBudgetOptions(Options):
    """The cap on Gaussian costs."""

    budget_gaussian: BudgetGaussianOption = None
    budget_delta: Annotated[float | None, Option("The δ of --budget-gaussian.", panel=BUDGET)] = None

    def gaussian_caps(self) -> tuple[float, float] | None:
        """Both numbers, or neither."""
        if self.budget_gaussian is None and self.budget_delta is None:
            return None
        if self.budget_gaussian is None or self.budget_delta is None:
            raise InputError("`budget_gaussian` and `budget_delta` go together: a Gaussian cost is an ε at a δ.")
        return self.budget_gaussian, self.budget_delta

# fmt: on

# ── what they stand for ──


def declared_classes(given: ClassesGiven) -> Classes:
    """A count, names, a text as the command line has it, or the classes themselves."""
    from labeldp.release.classes import Classes

    if isinstance(given, Classes):
        return given
    if isinstance(given, str):
        return Classes.parse(given)
    return Classes(given) if isinstance(given, int) else Classes(len(given), tuple(given))


def read_span(given: SpanGiven | None) -> tuple[int, int] | None:
    """Rows a:b, from 0, b excluded."""
    if given is None or isinstance(given, tuple):
        return given
    try:
        start, stop = given.split(":")
        return int(start or 0), int(stop)
    except ValueError:
        raise InputError(f"`rows` takes a range a:b of row numbers from 0; got {given!r}.") from None


def read_prior(given: PriorGiven | None, classes: Classes) -> Sequence[float] | None:
    """Probabilities in the order of the classes."""
    if given is None or not isinstance(given, str | Path):
        return given
    path = Path(given)
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


def use_threads(count: int | None) -> None:
    """Of torch in this process, for the whole of its life."""
    if count is None:
        return
    if count < 1:
        raise InputError(f"`threads` is at least 1; got {count}.")
    import torch

    torch.set_num_threads(count)
