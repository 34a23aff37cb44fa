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
from labeldp.runs.run import PublicTest
from labeldp.statistics.reading import Fittable, Fitted


def train_moments(
    moments: Fittable,
    features: Features,
    folder: Path,
    *,
    path: Path | None = None,
    public_test: PublicTest | None = None,
    timed: bool = True,
) -> dict[str, Any]:
    """Fit in `folder`; return the summary. `path` is where the moments are; not `timed` where it follows work on private labels.

    Test labels are used once, at the end, and must be public.
    """
    run, x = RunFolder(folder), features.ordered(moments.statistic.columns)
    flat = x.reshape(len(x), -1)
    ready = moments.made_ready(flat)  # other features are refused before a run is begun
    with run.locked():
        run.match(config_of(moments, flat, moments.statistic.columns or features.columns))
        done = found_before(run, moments)
        if done is not None:
            return done
        begin(run, moments, features, path, dated=timed)
        start = time.perf_counter()
        fitted = moments.fit_ready(ready)
        seconds = time.perf_counter() - start
        place_file(run.fitted, lambda file: file.write(fitted.to_bytes()))
        summary = {
            **summary_of(moments, fitted),
            "model": moments.statistic.name,
            "epochs": fitted.iterations,
            "train_flop": 0,
            "seconds": seconds if timed else None,
            "dtype": "float32",
            "device": "cpu",
            "threads": os.cpu_count() or 1,
            "processes": 1,
        }
        if public_test is not None:
            rows, labels = public_test
            right = fitted.probabilities(rows.reshape(len(rows), -1)).argmax(axis=1) == labels
            summary |= {"accuracy_test": float(right.mean()), "rows_tested": len(right)}
    run.write_summary("training", summary)
    return summary


# ----------------------------------------------------------------
# What every run from one statistic has in common, whatever learns from it.


def promise_of(moments: Fittable) -> dict[str, Any]:
    """What the statistic proves."""
    return {
        "certificate": moments.certificate(),
        "trust": "central",
        "insecure": moments.insecure,
        "release": moments.checksum,
    }


def found_before(run: RunFolder, moments: Fittable) -> dict[str, Any] | None:
    """The summary of a finished run: what it says of privacy must be what the statistic proves."""
    done, promise = run.summed_up(), promise_of(moments)
    if done is None:
        return None
    if {name: done.get(name) for name in promise} != promise:
        raise InputError(
            f"{run.path} states another certificate than its moments prove: its summary.json was altered. Choose another `out`."
        )
    run.read_training()
    return done


def begin(run: RunFolder, moments: Fittable, features: Features, path: Path | None, *, dated: bool) -> None:
    """Note from which statistic, and that all its rows are trained on."""
    run.note_start([] if path is None else [path], dated=dated)
    run.write_trained(
        pa.array(features.ids),
        TrainedRows(by_id=features.named, data_set=moments.data_set, behind=(), unknown_prior=False),
    )


def summary_of(moments: Fittable, fitted: Fitted) -> dict[str, Any]:
    """All but what training took, and how good the model is on public labels."""
    plan = moments.statistic
    return {
        **promise_of(moments),
        **estimate_json(None),
        "mechanism": {"name": plan.name, "num_classes": plan.num_classes, "parameters": {"noise": plan.noise.to_json()}},
        "rows_trained": moments.rows,
        "releases": [moments.checksum],
        "accuracy_test": None,
        "rows_tested": 0,
        "rows_held_out": 0,
        "epoch_selected": None,
        "commonest_class_estimated": float(np.max(fitted.class_shares)),
    }  # fmt: skip


def config_of(moments: Fittable, values: Any, columns: tuple[str, ...] = ()) -> dict[str, Any]:
    """What makes a run from these moments and these features this run."""
    return {
        "release": moments.checksum,
        "data_set": moments.data_set,
        "label": moments.header.get("label"),
        "model": moments.statistic.name,
        "num_classes": moments.statistic.num_classes,
        "label_names": moments.header.get("label_names"),
        "feature_shape": list(values.shape[1:]),
        "feature_type": str(values.dtype),
        "features": features_digest(values),
        "holdout": 0.0,
        "columns": list(columns),
        "select": "last",
        "recipe": {"seed": 0},
    }
