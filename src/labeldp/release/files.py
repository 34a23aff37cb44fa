"""Releasing a file: what `labeldp release` does, for Python as well."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from labeldp.accounting.ledger import Ledger
from labeldp.accounting.statement import budget_text
from labeldp.entropy import Entropy, SecureEntropy, SeededEntropy
from labeldp.errors import InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL, comparable, is_id, plain_ids
from labeldp.files.tables import TableFile, bare_name, open_table, stated_data_set
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.mechanisms.plan import calibrate, recommend
from labeldp.release.arrays import NAME_ALONE
from labeldp.release.classes import Classes
from labeldp.release.core import certificate_json
from labeldp.release.format import stated_header
from labeldp.release.make import Made, Progress, make_release
from labeldp.release.rows import Selection, Span
from labeldp.release.source import TableSource
from labeldp.release.statement import origins_in


@dataclass(frozen=True)
class ReleaseOptions:
    """The options of `labeldp release`, by the same names."""

    label: str
    classes: Classes
    epsilon: float | None = None
    id_column: str | None = None
    data_set: str | None = None
    ledger: Path | None = None
    mechanism: str | None = None
    delta: float | None = None
    prior: Sequence[float] | None = None
    public_prior: Path | None = None
    rows: Selection | tuple[int, int] | None = None
    shuffle: bool = False
    budget: float | None = None
    budget_gaussian: tuple[float, float] | None = None
    raise_budget: bool = False
    again: str | None = None
    other_ids: str | None = None
    ids_as_written: bool = False
    insecure_seed: int | None = None
    insecure_no_privacy: bool = False


def release_file(
    labels: Path, out: Path, options: ReleaseOptions, progress: Progress = lambda what, rows, of: None
) -> dict[str, Any]:
    """Release one file's labels into another; return a summary of what was done (see `labeldp release --json`)."""
    if options.public_prior is None:
        mechanism = _mechanism(options)
    table = open_table(labels)
    form = AS_WRITTEN if options.ids_as_written else CANONICAL
    source = TableSource(table, options.label, options.classes, options.id_column, form)
    refuse_telling_ids(table, options.id_column, options.classes)
    entropy: Entropy = SecureEntropy() if options.insecure_seed is None else SeededEntropy(options.insecure_seed)
    name, stated = data_set_of(table, options.data_set)
    ledger = Ledger(
        options.ledger,
        budget=options.budget,
        budget_gaussian=options.budget_gaussian,
        raise_budget=options.raise_budget,
        other_ids=options.other_ids,
    )
    selected = Span(*options.rows) if isinstance(options.rows, tuple) else options.rows
    special: dict[str, Any] = {}
    warnings: list[str] = []
    if options.public_prior is not None:
        mechanism, special, warnings = _with_prior(options, source, selected, entropy, ledger)
    made = make_release(
        source, mechanism, data_set=name, ledger=ledger, entropy=entropy, again=options.again, shuffle=options.shuffle,
        selected=selected, out=out, asked=options.epsilon or 0.0, progress=progress, **special,
    )  # fmt: skip
    if made.data_set.fingerprint.by == "name":
        warnings.append(NAME_ALONE.format(name))
    return {
        "out": str(out),
        "rows": len(made.record.rows),
        "data_set": name,
        "data_set_from": None
        if options.data_set
        else "the file says so"
        if stated
        else "the file's stem; --data-set names another",
        "mechanism": mechanism.to_json(),
        "certificate": certificate_json(mechanism, made.record.insecure, origins_in(stated_header(made.path))),
        "charged": made.charged_now,
        "resumed": made.resumed,
        "made": made.record.made,
        "budget": _budget(made, options),
        "ledger": os.fspath(ledger.path.absolute()),
        "ledger_begun": ledger.begun_now,
        "shuffled": options.shuffle,
        "describes": mechanism.describe(),
        "entry": made.record.number,
        "checksum": made.record.checksum,
        "insecure": made.record.insecure,
        "warnings": warnings,
    }


def data_set_of(table: TableFile, given: str | None) -> tuple[str, str | None]:
    """What the ledger knows these labels by, and what the file itself says, if it does: it must not escape its budget."""
    stated = stated_data_set(table)
    if stated and given not in (None, stated):
        raise InputError(
            f"this file holds labels of the data set {stated!r}, some of them planted; under another name they would escape its budget. "
            f"If the ledger knows these rows as {given!r}, plant again with `data_set={given!r}`."
        )
    return given or stated or Path(bare_name(table.path)).stem, stated


def refuse_telling_ids(table: TableFile, id_column: str | None, classes: Classes) -> None:
    """Ids are public: one that names a folder after a class (`cat/0001.png`) gives the label away."""
    if id_column not in table.columns or classes.names is None:
        return
    names = {name.strip().casefold() for name in classes.names}
    for batch in table.batches([id_column], ids=id_column):
        column = plain_ids(batch.column(0))
        if not is_id(column.type):
            return  # refused later, in a sentence
        texts = comparable(column, AS_WRITTEN)
        if not pc.any(pc.match_substring(texts, "/")).as_py():
            continue
        parts = {part.strip().casefold() for text in texts.to_pylist() if text for part in text.split("/")[:-1]}
        if parts & names:
            raise InputError(
                f"ids in column {id_column!r} have a folder that is called like a class: ids are public, and would give the labels "
                "away. Give the rows other ids."
            )


def _mechanism(options: ReleaseOptions) -> Mechanism:
    if (options.mechanism == NoPrivacy.name) != options.insecure_no_privacy:
        raise InputError("writing true labels takes both: `mechanism='none', insecure_no_privacy=True`.")
    if options.mechanism == NoPrivacy.name:
        return NoPrivacy(options.classes.count)
    if options.epsilon is None:
        raise InputError("`epsilon` is missing: how much privacy may each label cost? A typical value is 1 to 8.")
    if options.mechanism is None:
        return recommend(options.epsilon, options.classes.count, options.prior, delta=options.delta)
    return calibrate(
        options.mechanism,
        epsilon=options.epsilon,
        num_classes=options.classes.count,
        delta=options.delta,
        prior=options.prior,
    )


def _with_prior(
    options: ReleaseOptions, source: TableSource, selected: Selection | None, entropy: Entropy, ledger: Ledger
) -> tuple[Mechanism, dict[str, Any], list[str]]:
    """Each row's own channel, by its public prior."""
    from labeldp.release.prior import PublicPrior

    assert options.public_prior is not None
    if options.epsilon is None:
        raise InputError("`epsilon` is missing: how much privacy may each label cost? A typical value is 1 to 8.")
    if options.prior is not None or options.delta is not None:
        raise InputError("`public_prior` has a prior for each row, and a pure ε; leave out `prior` and `delta`.")
    prior = PublicPrior.read(options.public_prior)
    mechanism, special = prior.prepared(source, selected, options.epsilon, options.mechanism, entropy, ledger)
    return mechanism, special, list(prior.warnings(ledger))


def _budget(made: Made, options: ReleaseOptions) -> dict[str, Any]:
    data_set, text = made.data_set, budget_text(made.data_set)
    first = made.charged_now and len(data_set.releases) == 1 and data_set.caps is not None
    if first and options.budget is None and options.budget_gaussian is None:
        text += "; the cap is what this first release was asked for, since no --budget was given"
    return {**data_set.budget_json(), "spent": data_set.spent().to_json(), "text": text}
