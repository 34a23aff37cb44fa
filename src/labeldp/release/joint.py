"""Several releases of different rows of one data set, as one: how the stages of a staged method are trained on together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL, repeated
from labeldp.mechanisms.joint import Joint
from labeldp.release.release import Release


def join_releases(releases: Sequence[Release]) -> Release:
    """One release of all their rows, in this order. One alone is returned as it is.

    Rows must be different ones. Each label was then released once, and the certificate is the dearest one's, not the sum.
    """
    if not releases:
        raise InputError("there is no release to join.")
    if len(releases) == 1:
        return releases[0]
    first = releases[0]
    for other in releases[1:]:
        _check_same_kind(first, other)
    mechanism = Joint(first.mechanism.num_classes, tuple(release.mechanism for release in releases))
    parts = [mechanism.packed(number, release.observations) for number, release in enumerate(releases)]
    ids = pa.concat_arrays([_arrow_ids(release) for release in releases])
    # Compared as they are written only where that was said of all of them.
    form = AS_WRITTEN if all(release.id_form == AS_WRITTEN for release in releases) else CANONICAL
    if repeated(ids, form) is not None:
        raise InputError(
            "some rows are in several of these releases: joined are releases of different rows, so that each label was paid for once."
        )
    header = {
        **first.header,
        "mechanism": mechanism.to_json(),
        "rows": len(ids),
        "first_row": 0,
        "ids": None if first.header["ids"] is None else {**first.header["ids"], "form": form},
        "chosen_by_id": True,
        "releases": [one for release in releases for one in release.checksums],
        "public_priors": [origin.to_json() for release in releases for origin in release.origins],
        "budget": releases[-1].header["budget"],
        "shuffled": any(release.header["shuffled"] for release in releases),
        "insecure": next((release.insecure for release in releases if release.insecure), None),
    }
    header.pop("public_prior", None)
    checksum = hashlib.sha256("".join(release.checksum for release in releases).encode()).hexdigest()
    joint = Release(header, mechanism, ids, np.concatenate(parts), checksum)
    joint.paths = tuple(path for release in releases for path in release.paths)
    return joint


def _arrow_ids(release: Release) -> pa.Array:
    return release.arrow_ids if release.arrow_ids is not None else pa.array(release.ids)


def _check_same_kind(first: Release, other: Release) -> None:
    if first.header["ledger"]["id"] != other.header["ledger"]["id"]:
        raise InputError(
            "these releases come from different ledgers, so nobody can see whether the same people paid in both; they are not joined."
        )
    for name in ("data_set", "label", "label_names", "ids"):
        one, another = (release.header.get(name) for release in (first, other))
        if name == "ids":
            one, another = (ids and ids["column"] for ids in (one, another))
        if one != another:
            raise InputError(
                f"these releases cannot be joined: they differ in {name.replace('_', ' ')} ({one!r} and {another!r}). Joined are releases "
                "of different rows of one data set."
            )
    if _arrow_ids(first).type != _arrow_ids(other).type:
        raise InputError(
            f"these releases cannot be joined: the ids of one are {_arrow_ids(first).type}, of the other {_arrow_ids(other).type}."
        )
