"""What commands that release one statistic have in common: `labeldp score`, `labeldp moments`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import PRIVACY, Option
from labeldp.commands.progress import Progress
from labeldp.commands.shared import (
    LABELS,
    AccountOptions,
    BudgetOptions,
    ClassesOption,
    GaussianBudgetOptions,
    HandedOverOptions,
    IdOption,
    LabelOption,
    declared_classes,
)

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger
    from labeldp.release.make import Made
    from labeldp.release.source import Source
    from labeldp.statistics.statistic import StatisticFile, StatisticOrder


# fmt: off
@dataclass(frozen=True, kw_only=True)
class StatisticOptions(HandedOverOptions, AccountOptions, BudgetOptions, GaussianBudgetOptions):
    """Whose labels, at what price, and where to."""

    labels: Annotated[Path, LABELS]
    label: LabelOption
    classes: ClassesOption
    epsilon: Annotated[float, Option("The ε that each label pays: 0.1 is a good beginning.", panel=PRIVACY)]
    out: Annotated[Path, Option("The file to write: Parquet, safe to hand over.")]
    id_column: IdOption = None
# fmt: on

    @property
    def id_form(self) -> str:
        """How ids are compared."""
        from labeldp.files.ids import AS_WRITTEN, CANONICAL

        return AS_WRITTEN if self.ids_as_written else CANONICAL


@dataclass(frozen=True)
class StatisticMade:
    """A statistic, and what came of the request for it."""

    file: StatisticFile
    done: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Both."""
        return {**self.file.to_json(), **self.done}


def make_statistic(
    options: StatisticOptions,
    progress: Progress,
    order_of: Callable[[Source, str], StatisticOrder],
    warn: Callable[[Ledger, Made], list[str]] = lambda ledger, made: [],
) -> StatisticMade:
    """Once what is public was read and checked: labels, ledger, noise, file."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import noise
    from labeldp.files.tables import open_table
    from labeldp.release.arrays import NAME_ALONE
    from labeldp.release.make import make_release
    from labeldp.release.source import TableSource, data_set_of, refuse_telling_ids
    from labeldp.statistics.reading import load_statistic

    classes = declared_classes(options.classes)
    table = open_table(options.labels)
    source = TableSource(table, options.label, classes, options.id_column, options.id_form)
    refuse_telling_ids(table, options.id_column, classes)
    name, stated = data_set_of(table, options.data_set)
    ledger = Ledger(
        options.ledger,
        budget=options.budget,
        budget_gaussian=options.gaussian_caps(),
        raise_budget=options.raise_budget,
        other_ids=options.other_ids,
    )
    with progress.doing("reading") as shown:
        made = make_release(
            order_of(source, name), ledger=ledger, entropy=noise(options.insecure_seed), again=options.again, out=options.out,
            progress=lambda what, count, of: shown.show(what, count, of, "rows"),
        )  # fmt: skip
    warnings = [NAME_ALONE.format(name)] if made.data_set.fingerprint.by == "name" else []
    warnings += warn(ledger, made) + options.told_before(made.record.handed_over)
    said = None if options.data_set else "the file says so" if stated else "the file's stem; --data-set names another"
    return StatisticMade(load_statistic(made.path), _done(options.out, ledger, made, said) | {"warnings": warnings})


def _done(out: Path, ledger: Ledger, made: Made, said: str | None) -> dict[str, Any]:
    """What came of a request for a statistic."""
    from labeldp.accounting.statement import budget_text

    data_set = made.data_set
    return {
        "out": str(out),
        "data_set_from": said,
        "charged": made.charged_now,
        "resumed": made.resumed,
        "made": made.record.made,
        "budget": {**data_set.budget_json(), "spent": data_set.spent().to_json(), "text": budget_text(data_set)},
        "ledger": os.fspath(ledger.path.absolute()),
        "ledger_begun": ledger.begun_now,
        "entry": made.record.number,
    }
