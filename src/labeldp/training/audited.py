"""Audit a run in whose labels canaries were planted: certificate beside measurement, in its summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.training.experiment import SECRET
from labeldp.training.finished import open_run
from labeldp.training.folder import RunFolder
from labeldp.training.job import Job


def audit_run(folder: Path, job: Job) -> dict[str, Any]:
    """Two attackers, each at the full confidence: one sees the model's probabilities, one the release itself."""
    canaries = Canaries.load(folder / SECRET)
    trainer, _ = open_run(folder, job.machine, job.model)
    probabilities = trainer.probabilities(torch.from_numpy(np.ascontiguousarray(job.features)))
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    delta = summary["certificate"]["delta"] or 0.0
    summary["audit"] = {
        "model": audit(probabilities, canaries, delta=delta).to_json(),
        "release": audit(None, canaries, release=job.release, delta=delta).to_json(),
    }
    RunFolder(folder).write("summary.json", summary)
    return summary
