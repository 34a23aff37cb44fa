"""Choosing among candidates where a release cannot: `labeldp select`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from labeldp.commands.option import SELECTION, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    AccountOptions,
    BudgetOptions,
    ClassesOption,
    DeviceOption,
    FeaturesOption,
    IdOption,
    ImageSizeOption,
    LabelOption,
    LabelsArgument,
    SeedOption,
    ShuffleOption,
    ThreadsOption,
    declared_classes,
    use_threads,
)
from labeldp.commands.train import usual_model


# fmt: off
@dataclass(frozen=True, kw_only=True)
class SelectOptions(AccountOptions, BudgetOptions):
    """What `labeldp select` is told."""

    labels: LabelsArgument
    label: LabelOption
    classes: ClassesOption
    features: FeaturesOption
    candidates: Annotated[Path, Option("JSON: a list of objects, or one object whose values are lists (a grid). Keys: mechanism (response, subset, unary, laplace), model, epochs, batch_size, learning_rate, weight_decay, average, prior, denoise, randaugment, cutout.", panel=SELECTION)]
    epsilon: Annotated[float, Option("The ε of the whole selection: each run gets less of it.")]
    out: Annotated[Path, Option("The run directory of the winner; what is in it may be handed over.")]
    id_column: IdOption = None
    image_size: ImageSizeOption = None
    shuffle: ShuffleOption = False
    expected_runs: Annotated[float, Option("How many runs there are on average; how many there were stays secret.", panel=SELECTION)] = 10.0
    shape: Annotated[float, Option("Of the law of the number of runs: 0 (logarithmic) costs least and varies most, 1 is geometric.", panel=SELECTION)] = 1.0
    score_share: Annotated[float, Option("The share of rows that score, and are not trained on.", panel=SELECTION)] = 0.1
    seed: SeedOption = 0
    device: DeviceOption = "auto"
    threads: ThreadsOption = None
# fmt: on


def select(options: SelectOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Release, train and score several candidates in private, and publish the best: for choices that one release cannot make.

    Trust model: central. Whoever runs this sees features and labels. Training many times on one release costs nothing (`labeldp train`);
    this is for choosing the mechanism, or where released labels are too noisy to choose by.

    How many runs there were must stay secret. Files tell the day of the charge and no other time; who watches the machine can tell: run
    this where nobody does, and do not send the result on the moment it is there.

    Example: labeldp select labels.csv --label y --classes 10 --id uid --features x.parquet --candidates candidates.json --epsilon 4 --out chosen/
    """
    from labeldp.accounting.ledger import Ledger
    from labeldp.accounting.statement import budget_text
    from labeldp.data.features import read_features
    from labeldp.entropy import noise
    from labeldp.files.ids import AS_WRITTEN, CANONICAL
    from labeldp.files.tables import open_table
    from labeldp.machine import Machine
    from labeldp.mechanisms.repeats import Repeats
    from labeldp.release.arrays import NAME_ALONE
    from labeldp.release.source import TableSource, data_set_of, refuse_telling_ids
    from labeldp.selection.candidates import candidates, read_candidates
    from labeldp.selection.drafts import PrivateSelection

    use_threads(options.threads)
    classes = declared_classes(options.classes)
    repeats = Repeats(mean=options.expected_runs, shape=options.shape)
    objects = read_candidates(options.candidates)
    table = open_table(options.labels)
    form = AS_WRITTEN if options.ids_as_written else CANONICAL
    source = TableSource(table, options.label, classes, options.id_column, form)
    refuse_telling_ids(table, options.id_column, classes)
    named = None if options.features.is_dir() else options.id_column
    read = read_features(options.features, named, options.image_size)
    selection = PrivateSelection(
        source, read, candidates(objects, usual_model(read.values)), options.epsilon, repeats, options.score_share, options.seed,
        Machine(options.device),
    )  # fmt: skip
    name, _ = data_set_of(table, options.data_set)
    _ = selection.mechanism  # an ε that cannot be begins no ledger
    ledger = Ledger(
        options.ledger, budget=options.budget, raise_budget=options.raise_budget, other_ids=options.other_ids
    )
    # How many runs there were stays secret: no bar counts them, and no line says when they were over. The last training is public.
    with progress.doing("choosing in private") as shown:
        done = selection.run(
            options.out, data_set=name, ledger=ledger, entropy=noise(options.insecure_seed), again=options.again, shuffle=options.shuffle,
            on_step=lambda step, of: shown.show("training the winner", step, of, "steps"),
        )  # fmt: skip
    made = done.made
    return {
        "out": str(options.out),
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
        "warnings": [NAME_ALONE.format(name)] if made.data_set.fingerprint.by == "name" else [],
    }
