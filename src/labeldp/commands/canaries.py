"""Labels that an audit will look for: `labeldp canaries plant`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    AGAIN,
    AccountOptions,
    CandidatesOption,
    ClassesOption,
    IdOption,
    LabelOption,
    LabelsArgument,
    SpanGiven,
    declared_classes,
    read_span,
)
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.audit.plant import Planting


# fmt: off
@dataclass(frozen=True, kw_only=True)
class CanariesOptions(AccountOptions):
    """What `labeldp canaries plant` is told."""

    labels: LabelsArgument
    label: LabelOption
    classes: ClassesOption
    out: Annotated[Path, Option("The labels with canaries among them: release this file. Parquet, private.")]
    secret: Annotated[Path, Option("What was planted where (.npz): keep it to yourself.")]
    count: Annotated[int | None, Option("How many; at most 2% of the rows do little harm. Default: 1,000, but not more than that.")] = None
    candidates: CandidatesOption = None
    wrong_only: Annotated[bool, Option("The paper's way: every wrong label is a candidate. For `audit --method paper`.")] = False
    id_column: IdOption = None
    rows: Annotated[SpanGiven | None, Option("Plant only among rows a:b, those to be trained on.", panel=DATA, kind=str)] = None
    again: Annotated[str | None, AGAIN.but(help="`--again charge`: plant in rows that were released before, for a second release at a second cost.")] = None
# fmt: on


@dataclass(frozen=True)
class Planted:
    """What was planted, and where it is."""

    planting: Planting
    out: Path
    secret: Path

    def to_json(self) -> dict[str, Any]:
        """What may be printed."""
        done = self.planting
        return {
            "out": str(self.out), "secret": str(self.secret), "canaries": len(done.canaries),
            "candidates": done.canaries.candidates.shape[1], "rows": done.rows, "share": done.share, "canary_share": done.correction,
            "data_set": done.data_set, "made": done.made,
        }  # fmt: skip


def canaries_plant(options: CanariesOptions, progress: Progress = SILENT) -> Planted:
    """Copy a file of labels with some of them replaced by a fair draw that looks at no label.

    Plant before the first release: what was released before knows nothing of canaries, and is refused. Then release the copy, have it trained
    on, and audit the model's probabilities for all rows: labeldp audit. The same command again draws nothing: it writes what is missing.
    """
    from labeldp.audit.plant import MOST_SHARE, plant_file

    if options.wrong_only and options.candidates is not None:
        raise InputError("`wrong_only` makes every wrong label a candidate; leave out `candidates`.")
    done = plant_file(
        options.labels, options.out, options.secret, label=options.label, classes=declared_classes(options.classes), count=options.count,
        candidates=2 if options.candidates is None else options.candidates, id_column=options.id_column, among=read_span(options.rows),
        data_set=options.data_set, wrong_only=options.wrong_only, ledger=options.ledger, again=options.again, other_ids=options.other_ids,
        ids_as_written=options.ids_as_written,
    )  # fmt: skip
    if done.share > MOST_SHARE:
        progress.warn(f"{done.share:.1%} of the rows are canaries; above {MOST_SHARE:.0%} the model itself suffers.")
    return Planted(done, options.out, options.secret)
