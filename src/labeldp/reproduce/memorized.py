"""The paper's memorization attack on a finished cell, from fairly drawn canaries.

A fair canary's label is drawn from all classes without looking at the truth. Given that it is wrong, it is therefore uniform among the
wrong labels: the paper's planting (Game 3). So the paper's interval is taken over the canaries whose label happens to be wrong, about
(C−1)/C of them. Which these are only someone who has the true labels can say: public benchmarks', here.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit_paper
from labeldp.data.bundled import load
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.release.place import place_file

MEMORIZED = "memorized.npz"
# Where `train` and `pate run` keep what they planted and what their model says of it.
_KEPT = (
    ("canaries.npz", "probabilities.npy"),
    ("owner/planted/canaries.npz", "student-1/probabilities.npy"),
)


def memorized(folder: Path, dataset: str, data: Path | None) -> dict[str, npt.NDArray[Any]] | None:
    """`confidences`, `true_label`, `canary_label` of a cell's wrong canaries, as `labeldp audit --method paper` takes them.

    Written once, beside the run. None where nothing was planted, or the data set's files are not here.
    """
    path = folder / MEMORIZED
    if not path.exists():
        kept = [(folder / secret, folder / said) for secret, said in _KEPT if (folder / secret).exists()]
        if not kept or not kept[0][1].exists():
            return None
        secret, said = kept[0]
        try:
            canaries = Canaries.load(secret)
            true = canaries.truth(_labels(dataset, data))
        except InputError:
            return None
        wrong = canaries.planted != true
        if not wrong.any():
            return None
        confidences = np.load(said, mmap_mode="r", allow_pickle=False)[canaries.rows[wrong]]
        arrays = {
            "confidences": np.asarray(confidences, np.float32),
            "true_label": true[wrong],
            "canary_label": canaries.planted[wrong],
        }
        place_file(path, lambda file: np.savez_compressed(file, **arrays), private=True)
    return read(path)


def read(path: Path) -> dict[str, npt.NDArray[Any]]:
    """As written."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def interval(parts: list[dict[str, npt.NDArray[Any]]]) -> dict[str, Any]:
    """The paper's interval over several models' canaries, laid end to end."""
    whole = (np.concatenate([part[name] for part in parts]) for name in ("confidences", "true_label", "canary_label"))
    found = audit_paper(*whole).to_json()
    return {
        "low": found["epsilon_low"],
        "high": found["epsilon_high"],
        "canaries": sum(len(p["true_label"]) for p in parts),
    }


@lru_cache(maxsize=4)
def _labels(dataset: str, data: Path | None) -> PrivateLabels:
    return load(dataset, data).labels
