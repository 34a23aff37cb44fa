"""Audit a run in whose labels canaries were planted: certificate beside measurement, in its summary."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.release.place import place_file
from labeldp.training.experiment import PROBABILITIES, SECRET
from labeldp.training.finished import open_run
from labeldp.training.folder import RunFolder
from labeldp.training.job import Job


def audit_run(folder: Path, job: Job) -> dict[str, Any]:
    """Two attackers, who share the 5%: one sees the model's probabilities, one the release itself.

    The probabilities of all rows are kept, so that `labeldp audit` can look again, or draw.
    """
    canaries = Canaries.load(folder / SECRET)
    if job.release.header["ids"] is not None:  # in an experiment, row numbers serve as ids
        canaries = replace(canaries, ids=canaries.rows)
    probabilities = kept_probabilities(folder, job)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    found = audit(probabilities, canaries, release=job.release, from_release=True)
    summary["audit"] = {attack: result.to_json() for attack, result in found.each().items()}
    RunFolder(folder).write("summary.json", summary)
    return summary


def kept_probabilities(folder: Path, job: Job) -> npt.NDArray[np.float32]:
    """The finished model's probabilities for all rows, written once."""
    path = folder / PROBABILITIES
    if not path.exists():
        trainer, _ = open_run(folder, job.machine, job.model)
        probabilities = trainer.probabilities(torch.from_numpy(np.ascontiguousarray(job.features)))
        if job.release.header["ids"] is not None:
            probabilities = probabilities[np.argsort(job.release.ids)]  # from the release's order to the data set's
        place_file(path, lambda file: np.save(file, probabilities))
    return np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)
