"""Bring public features into the order of a release."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.data.features import Features
from labeldp.errors import InputError
from labeldp.release.core import Release
from labeldp.release.ids import find


def join(release: Release, features: Features) -> npt.NDArray[Any]:
    """One row of features for each position of the release: by id where both have ids, else by row number."""
    features.refuse_label(release.label, release.class_names)
    if not features.named:
        if release.header["ids"] is not None:
            raise InputError("the release names its rows by id: name the features' id column with `id_column`.")
        if release.ids.max() >= len(features.values):
            raise InputError(
                f"the release goes up to row {release.ids.max():,}, but there are {len(features.values):,} rows of features."
            )
        rows: npt.NDArray[Any] = release.ids
        return np.asarray(features.values[rows])
    if release.header["ids"] is None:
        raise InputError(
            "the release goes by row number, not by id: leave out `id_column`, and give the features in the owner's order."
        )
    rows = find(release.comparable_ids(), features.ids, "the features", release.id_form, "in this release")
    if (rows < 0).any():
        raise InputError(
            f"{(rows < 0).sum():,} of the {len(rows):,} released rows have no features, the first at position "
            f"{int(np.argmax(rows < 0))} of the release. Does the release belong to this data, and is `id_column` the right column?"
        )
    return np.asarray(features.values[rows])
