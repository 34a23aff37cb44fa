"""Releasing labels that are in memory: what `mechanism.release(...)` does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import InputError, RepeatedReleaseWarning
from labeldp.files.ids import AS_WRITTEN, CANONICAL
from labeldp.mechanisms import RowMechanism
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.release import Release
from labeldp.release.source import ArraySource

NAME_ALONE = (
    "these labels come without ids or other columns, so the ledger knows them by the name {!r} alone: "
    "under another name it would not recognise them."
)
_CALLER = 4  # warnings point at whoever called `mechanism.release`


def release_labels(
    mechanism: RowMechanism,
    labels: PrivateLabels | npt.ArrayLike,
    *,
    data_set: str,
    ledger: Ledger | str | os.PathLike[str],
    ids: Sequence[Any] | npt.NDArray[Any] | None,
    label: str | None,
    label_names: Sequence[str] | None,
    entropy: Entropy | None,
    again: str | None,
    ids_as_written: bool = False,
) -> Release:
    """See `RowMechanism.release`."""
    ledger, entropy = checked_ledger(ledger), checked_entropy(entropy)
    classes = Classes(mechanism.num_classes, tuple(label_names) if label_names is not None else None)
    form = AS_WRITTEN if ids_as_written else CANONICAL
    source = ArraySource(wrapped(labels, classes), classes, ids, label, id_form=form)
    if ids is None:
        warnings.warn(NAME_ALONE.format(data_set), stacklevel=_CALLER)
    order = Order(source, mechanism, data_set)
    made = make_release(order, ledger=ledger, entropy=entropy, again=again)
    release = Release.load(made.path)
    if not made.charged_now and not made.resumed:
        _warn_of_repetition(release, ids)
    return release


def checked_ledger(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    """Opened, where it is a path."""
    if isinstance(ledger, (str, os.PathLike)):
        ledger = Ledger(ledger)
    if not isinstance(ledger, Ledger):
        raise InputError(f"ledger must be a labeldp.Ledger or the path of one; got {type(ledger).__name__}.")
    return ledger


def checked_entropy(entropy: Entropy | None) -> Entropy:
    """The operating system's, if nobody says otherwise."""
    if entropy is not None and not (hasattr(entropy, "secure") and hasattr(entropy, "bytes")):
        raise InputError("entropy must be SecureEntropy() or, for experiments, SeededEntropy(seed).")
    return entropy or SecureEntropy()


def wrapped(labels: PrivateLabels | npt.ArrayLike, classes: Classes) -> PrivateLabels:
    """Class numbers, or texts where the classes have names."""
    if classes.names is not None and not isinstance(labels, PrivateLabels):
        values = np.asarray(labels)
        if values.dtype.kind in "UO" and values.ndim == 1 and values.size:
            try:
                return classes.encode(pa.array(values.tolist(), pa.string()), 0)
            except (pa.ArrowException, TypeError):
                pass  # not text after all: PrivateLabels says what is wrong
    return PrivateLabels.wrap(labels, classes.count)


def _warn_of_repetition(release: Release, ids: Sequence[Any] | npt.NDArray[Any] | None) -> None:
    text = (
        f"made on {release.header['made']}, nothing charged: this is the release of the labels that were given then. If these are "
        "another kind of label for the same rows, name them with label=…."
    )
    if ids is not None and [str(i) for i in ids] != [str(i) for i in release.ids]:
        text += " Its rows are in the order of that time: release.positions(ids) finds yours."
    warnings.warn(text, RepeatedReleaseWarning, stacklevel=_CALLER)
