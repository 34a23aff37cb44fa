"""Summing public features by secret label: `labeldp moments`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.commands.option import PRIVACY, Argument, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import declared_classes
from labeldp.commands.statistic import StatisticMade, StatisticOptions, make_statistic
from labeldp.errors import BudgetError, InputError

if TYPE_CHECKING:
    from labeldp.release.source import Source
    from labeldp.statistics.statistic import StatisticOrder

USUAL_DELTA = 1e-5
_INSTEAD = "`pure` releases a histogram of labels by public cluster, at a pure ε"


# fmt: off
@dataclass(frozen=True, kw_only=True)
class MomentsOptions(StatisticOptions):
    """What `labeldp moments` is told."""

    features: Annotated[Path, Argument("Public features: .npy, .npz, Parquet or CSV; the rows that are summed.")]
    delta: Annotated[float | None, Option("δ of the Gaussian noise. Default: 1e-5.", panel=PRIVACY)] = None
    pure: Annotated[bool, Option("No δ: in place of sums, a histogram of labels by public cluster, with geometric noise. It tells less.", panel=PRIVACY)] = False
# fmt: on


def moments(options: MomentsOptions, progress: Progress = SILENT) -> StatisticMade:
    """Release one statistic for linear models: public features, summed by secret label, with noise that is drawn once.

    Labels enter a linear model through these sums only, so whoever has the file and the features fits as often as they like (`labeldp train --moments`).
    Every row of the features must have a label; only those rows pay. Best where rows tell little: a small ε, few rows, many classes.
    Where no δ may be spent, `--pure` counts labels by public cluster instead: a smaller model, at a pure ε.

    Example: labeldp moments x.parquet --labels y.parquet --label y --id uid --classes 2 --epsilon 0.1 --out moments.parquet
    """
    from labeldp.accounting.cost import check_delta
    from labeldp.data.features import read_features
    from labeldp.statistics.histogram_file import histogram_order
    from labeldp.statistics.moments_file import moments_order
    from labeldp.statistics.statistic import PublicRows

    delta = USUAL_DELTA if options.delta is None else options.delta
    if options.pure and options.delta is not None:
        raise InputError("`pure` is without a δ: leave out `delta`, or `pure`.")
    if not options.pure and delta == 0:
        raise InputError(f"sums have Gaussian noise, and a δ above 0: {_INSTEAD}.")
    check_delta(delta)
    if options.features.is_dir():
        raise InputError(
            f"{options.features} is a folder: a statistic is of rows of numbers. `labeldp features {options.features} --learn contrastive "
            "--encoder encoder/ --out x.parquet` makes them of its images, with a column 'image' of their paths for `id_column`."
        )
    classes = declared_classes(options.classes)
    features = read_features(options.features, options.id_column, missing=True)
    features.refuse_categories()
    features.refuse_label(options.label, classes.names or tuple(str(number) for number in range(classes.count)))
    x = features.values.reshape(len(features.values), -1)
    rows = PublicRows.of(len(x), features.ids if options.id_column is not None else None)

    def order(source: Source, name: str) -> StatisticOrder:
        make = histogram_order if options.pure else partial(moments_order, delta=delta)
        return make(
            source, name, x, rows, epsilon=options.epsilon, columns=features.columns, handed_over=options.handed_over()
        )

    try:
        return make_statistic(options, progress, order)
    except BudgetError as error:
        if options.pure or options.gaussian_caps() is not None:
            raise
        raise BudgetError(f"{error} Where the budget has no δ: {_INSTEAD}.") from None
