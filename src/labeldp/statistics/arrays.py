"""Statistics of labels that are in memory: what `score` and `moments` have in common."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError, RepeatedReleaseWarning
from labeldp.files.ids import AS_WRITTEN, CANONICAL
from labeldp.private import PrivateLabels
from labeldp.release.arrays import NAME_ALONE, checked_entropy, checked_ledger, wrapped
from labeldp.release.classes import Classes
from labeldp.release.header import told_before
from labeldp.release.make import make_release
from labeldp.release.source import ArraySource
from labeldp.statistics.statistic import PublicRows, StatisticOrder

_CALLER = 3  # warnings point at whoever called `score` or `moments`


def array_rows(
    labels: PrivateLabels | npt.ArrayLike,
    count: int,
    num_classes: int,
    ids: Sequence[Any] | npt.NDArray[Any] | None,
    label: str | None,
    label_names: Sequence[str] | None,
    ids_as_written: bool,
    data_set: str,
) -> tuple[ArraySource, PublicRows]:
    """Labels, and the `count` public rows that go with them, one by one."""
    classes = Classes(num_classes, tuple(label_names) if label_names is not None else None)
    form = AS_WRITTEN if ids_as_written else CANONICAL
    source = ArraySource(wrapped(labels, classes), classes, ids, label, id_form=form)
    if source.length != count:
        raise InputError(f"there are {source.length:,} labels for {count:,} public rows.")
    if ids is None:
        warnings.warn(NAME_ALONE.format(data_set), stacklevel=_CALLER)
    return source, PublicRows.of(count, ids)


def make_from_arrays(
    order: StatisticOrder, ledger: Ledger | str | os.PathLike[str], entropy: Entropy | None, again: str | None
) -> Path:
    """Made once, through the ledger; where its copy is."""
    opened, source = checked_ledger(ledger), checked_entropy(entropy)
    made = make_release(order, ledger=opened, entropy=source, again=again)
    if not made.charged_now and not made.resumed:
        text = f"made on {made.record.made}, nothing charged: this is of the labels that were given then."
        warnings.warn(
            " ".join((text, *told_before(order.handed_over, made.record.handed_over))),
            RepeatedReleaseWarning,
            stacklevel=_CALLER,
        )
    return made.path
