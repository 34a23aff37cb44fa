"""Releasing labels that are in memory: what `mechanism.release(...)` does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.mechanisms import Mechanism
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.core import Release
from labeldp.release.make import make_release
from labeldp.release.source import ArraySource


def release_labels(
    mechanism: Mechanism,
    labels: PrivateLabels | npt.ArrayLike,
    *,
    data_set: str,
    ledger: Ledger,
    ids: Sequence[Any] | npt.NDArray[Any] | None,
    entropy: Entropy | None,
    again: str | None,
    label_names: Sequence[str] | None,
) -> Release:
    """See `Mechanism.release`."""
    classes = Classes(mechanism.num_classes, tuple(label_names) if label_names is not None else None)
    source = ArraySource(PrivateLabels.wrap(labels, mechanism.num_classes), classes, ids)
    if ids is None:
        warnings.warn(NAME_ALONE.format(data_set), stacklevel=3)
    made = make_release(
        source, mechanism, data_set=data_set, ledger=ledger, entropy=entropy or SecureEntropy(), again=again
    )
    return Release.load(made.path)


NAME_ALONE = (
    "these labels come without ids or other columns, so the ledger knows them by the name {!r} alone: "
    "under another name it would not recognise them."
)
