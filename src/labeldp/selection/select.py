"""Selecting from files: what `labeldp select` does, for Python as well."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.accounting.ledger import Ledger
from labeldp.accounting.statement import budget_text
from labeldp.data.features import Features, read_features
from labeldp.experiments.experiment import noise
from labeldp.files.ids import AS_WRITTEN, CANONICAL
from labeldp.files.tables import open_table
from labeldp.mechanisms.repeats import Repeats
from labeldp.release.arrays import NAME_ALONE
from labeldp.release.classes import Classes
from labeldp.release.files import data_set_of, refuse_telling_ids
from labeldp.release.source import TableSource
from labeldp.selection.candidates import candidates, read_candidates
from labeldp.selection.drafts import PrivateSelection
from labeldp.training.machine import Machine
from labeldp.training.trainer import Steps


@dataclass(frozen=True)
class SelectOptions:
    """The options of `labeldp select`, by the same names."""

    label: str
    classes: Classes
    epsilon: float
    candidates: Path
    expected_runs: float = 10.0
    shape: float = 1.0
    score_share: float = 0.1
    id_column: str | None = None
    image_size: int | None = None
    data_set: str | None = None
    ledger: Path | None = None
    budget: float | None = None
    raise_budget: bool = False
    again: str | None = None
    other_ids: str | None = None
    ids_as_written: bool = False
    shuffle: bool = False
    seed: int = 0
    device: str = "auto"
    insecure_seed: int | None = None


def select(
    labels: Path,
    features: Path,
    out: Path,
    options: SelectOptions,
    on_step: Steps = lambda step, of: None,
) -> dict[str, Any]:
    """Select among candidates for one file's labels, and train the winner in `out`; return what was done.

    `on_step` is told of that last training, which is public, and of nothing before it.
    Whoever runs it sees features and labels. What may leave is `out`; the ledger and the time that it took stay.
    """
    repeats = Repeats(mean=options.expected_runs, shape=options.shape)
    objects = read_candidates(options.candidates)
    table = open_table(labels)
    form = AS_WRITTEN if options.ids_as_written else CANONICAL
    source = TableSource(table, options.label, options.classes, options.id_column, form)
    refuse_telling_ids(table, options.id_column, options.classes)
    read = read_features(features, None if features.is_dir() else options.id_column, options.image_size)
    selection = PrivateSelection(
        source, read, candidates(objects, _usual_model(read)), options.epsilon, repeats, options.score_share, options.seed,
        Machine(options.device),
    )  # fmt: skip
    name, _ = data_set_of(table, options.data_set)
    _ = selection.mechanism  # an ε that cannot be begins no ledger
    ledger = Ledger(
        options.ledger, budget=options.budget, raise_budget=options.raise_budget, other_ids=options.other_ids
    )
    done = selection.run(
        out,
        data_set=name,
        ledger=ledger,
        entropy=noise(options.insecure_seed),
        again=options.again,
        shuffle=options.shuffle,
        on_step=on_step,
    )
    made = done.made
    return {
        "out": str(out),
        **done.selection,
        "rows": len(made.record.rows),
        "data_set": name,
        "charged": made.charged_now,
        "resumed": made.resumed,
        "made": made.record.made,
        "budget": budget_text(made.data_set),
        "ledger": os.fspath(ledger.path),
        "ledger_begun": ledger.begun_now,
        "entry": made.record.number,
        "shuffled": options.shuffle,
        "training": done.summary,
        "warnings": [
            *([NAME_ALONE.format(name)] if made.data_set.fingerprint.by == "name" else []),
        ],
    }


def _usual_model(features: Features) -> str:
    """As `labeldp train` chooses it."""
    images = features.values.ndim == 4 and min(features.values.shape[2:]) >= 17
    return "fast" if images else "linear"
