"""A model from moments or from a histogram of labels, in a run directory: fitted at once, and free to repeat."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.data.features import Features, features_digest
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.run import RunFolder
from labeldp.files.summary import TrainedRows
from labeldp.runs.judging import estimate_json
from labeldp.statistics.reading import Fittable


def train_moments(moments: Fittable, features: Features, folder: Path, *, path: Path | None = None) -> dict[str, Any]:
    """Fit in `folder`; return the summary. `path` is where the moments are."""
    run, x = RunFolder(folder), features.ordered(moments.statistic.columns)
    flat = x.reshape(len(x), -1)
    ready = moments.made_ready(flat)  # other features are refused before a run is begun
    promise = {
        "certificate": moments.certificate(),
        "trust": "central",
        "insecure": moments.insecure,
        "release": moments.checksum,
    }
    with run.locked():
        run.match(_config(moments, flat, features))
        done = run.summed_up()
        if done is not None:
            if {name: done.get(name) for name in promise} != promise:
                raise InputError(
                    f"{run.path} states another certificate than its moments prove: its summary.json was altered. Choose another `out`."
                )
            run.read_training()
            return done
        run.note_start([] if path is None else [path])
        ids = pa.array(features.ids)
        run.write_trained(
            ids, TrainedRows(by_id=features.named, data_set=moments.data_set, behind=(), unknown_prior=False)
        )
        start = time.perf_counter()
        fitted = moments.fit_ready(ready)
        seconds = time.perf_counter() - start
        place_file(run.fitted, lambda file: file.write(fitted.to_bytes()))
        plan = moments.statistic
        summary = {
            **promise,
            **estimate_json(None),
            "mechanism": {"name": plan.name, "num_classes": plan.num_classes, "parameters": {"noise": plan.noise.to_json()}},
            "model": plan.name,
            "rows_trained": moments.rows,
            "epochs": fitted.iterations,
            "train_flop": 0,
            "seconds": seconds,
            "dtype": "float32",
            "device": "cpu",
            "threads": os.cpu_count() or 1,
            "releases": [moments.checksum],
            "accuracy_test": None,
            "rows_tested": 0,
            "rows_held_out": 0,
            "epoch_selected": None,
            "processes": 1,
            "commonest_class_estimated": float(np.max(fitted.class_shares)),
        }  # fmt: skip
    run.write_summary("training", summary)
    return summary


def _config(moments: Fittable, flat: Any, features: Features) -> dict[str, Any]:
    return {
        "release": moments.checksum,
        "data_set": moments.data_set,
        "label": moments.header.get("label"),
        "model": moments.statistic.name,
        "num_classes": moments.statistic.num_classes,
        "label_names": moments.header.get("label_names"),
        "feature_shape": list(flat.shape[1:]),
        "feature_type": str(flat.dtype),
        "features": features_digest(flat),
        "holdout": 0.0,
        "columns": list(moments.statistic.columns or features.columns),
        "select": "last",
        "recipe": {"seed": 0},
    }
