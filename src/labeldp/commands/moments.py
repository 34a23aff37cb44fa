"""Summing public features by secret label: `labeldp moments`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from labeldp.commands.option import PRIVACY, Argument, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import declared_classes
from labeldp.commands.statistic import StatisticMade, StatisticOptions, make_statistic


# fmt: off
@dataclass(frozen=True, kw_only=True)
class MomentsOptions(StatisticOptions):
    """What `labeldp moments` is told."""

    features: Annotated[Path, Argument("Public features: .npy, .npz, Parquet or CSV; the rows that are summed.")]
    delta: Annotated[float, Option("δ: the noise is Gaussian.", panel=PRIVACY)] = 1e-5
# fmt: on


def moments(options: MomentsOptions, progress: Progress = SILENT) -> StatisticMade:
    """Release one statistic for linear models: public features, summed by secret label, with noise that is drawn once.

    Labels enter a linear model through these sums only, so whoever has the file and the features fits as often as they like (`labeldp train --moments`).
    Every row of the features must have a label; only those rows pay. Best where rows tell little: a small ε, few rows, many classes.

    Example: labeldp moments x.parquet --labels y.parquet --label y --id uid --classes 2 --epsilon 0.1 --out moments.parquet
    """
    from labeldp.data.features import read_features
    from labeldp.statistics.moments_file import moments_order
    from labeldp.statistics.statistic import PublicRows

    classes = declared_classes(options.classes)
    features = read_features(options.features, options.id_column, missing=True)
    features.refuse_categories()
    features.refuse_label(options.label, classes.names or tuple(str(number) for number in range(classes.count)))
    x = features.values.reshape(len(features.values), -1)
    rows = PublicRows.of(len(x), features.ids if options.id_column is not None else None)
    return make_statistic(
        options,
        progress,
        lambda source, name: moments_order(
            source, name, x, rows, epsilon=options.epsilon, delta=options.delta, columns=features.columns,
            handed_over=options.handed_over(),
        ),
    )  # fmt: skip
