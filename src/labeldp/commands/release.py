"""Releasing a file: `labeldp release`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, EXPERIMENTS, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    AccountOptions,
    BudgetOptions,
    ClassesOption,
    DeltaOption,
    EpsilonOption,
    GaussianBudgetOptions,
    HandedOverOptions,
    IdOption,
    LabelOption,
    LabelsArgument,
    MechanismOption,
    PriorOption,
    RowsGiven,
    ShuffleOption,
    declared_classes,
    read_prior,
)
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import Entropy
    from labeldp.mechanisms import Mechanism
    from labeldp.release.classes import Classes
    from labeldp.release.make import Made
    from labeldp.release.order import Order
    from labeldp.release.rows import Selection
    from labeldp.release.source import TableSource


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(HandedOverOptions, AccountOptions, BudgetOptions, GaussianBudgetOptions):
    """What `labeldp release` is told. `classes`, `prior` and `rows` may also be given as objects."""

    labels: LabelsArgument
    label: LabelOption
    classes: ClassesOption
    out: Annotated[Path, Option("The release file to write: Parquet, safe to hand over.")]
    epsilon: EpsilonOption = None
    mechanism: MechanismOption = None
    delta: DeltaOption = None
    prior: PriorOption = None
    id_column: IdOption = None
    rows: Annotated[RowsGiven | None, Option("Release only rows a:b of the file (from 0, b excluded), a random part of them by id (1/2, 2/2), or those whose ids a file names (.txt: one a line; else a table with the --id column).", panel=DATA, kind=str)] = None
    public_prior: Annotated[Path | None, Option("Class probabilities by row (`labeldp predict --out`) from a model that did not see these labels: each row then gets the most informative channel for its own prior, or with --mechanism response RRWithPrior.", panel=DATA)] = None
    shuffle: ShuffleOption = False
    insecure_no_privacy: Annotated[bool, Option("With --mechanism none: write the true labels, for baselines.", panel=EXPERIMENTS)] = False
# fmt: on


def release(options: ReleaseOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Release a file's labels through a mechanism of proven cost, and charge the ledger.

    Row order and ids are public: a file that is sorted by its label gives the label away, whatever the noise (see --shuffle, and
    choose ids that do not follow the label either). Asked for the same again, the command returns the first release and charges nothing.

    Example: labeldp release visits.csv --label bought --classes no,yes --id visit --epsilon 1 --shuffle --out released.parquet
    """
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import noise
    from labeldp.files.ids import AS_WRITTEN, CANONICAL
    from labeldp.files.tables import open_table
    from labeldp.release.arrays import NAME_ALONE
    from labeldp.release.make import make_release
    from labeldp.release.order import Order
    from labeldp.release.source import TableSource, data_set_of, refuse_telling_ids

    caps = options.gaussian_caps()
    classes = declared_classes(options.classes)
    selected = _selected(options)
    prior = read_prior(options.prior, classes)
    mechanism = None if options.public_prior is not None else _mechanism(options, classes, prior)
    table = open_table(options.labels)
    form = AS_WRITTEN if options.ids_as_written else CANONICAL
    source = TableSource(table, options.label, classes, options.id_column, form)
    refuse_telling_ids(table, options.id_column, classes)
    entropy = noise(options.insecure_seed)
    name, stated = data_set_of(table, options.data_set)
    ledger = Ledger(
        options.ledger,
        budget=options.budget,
        budget_gaussian=caps,
        raise_budget=options.raise_budget,
        other_ids=options.other_ids,
    )
    warnings: list[str] = []
    if mechanism is None:
        order, warnings = _order_with_prior(options, source, name, selected, entropy, ledger)
    else:
        order = Order(
            source, mechanism, name, selected=selected, shuffle=options.shuffle, requested_epsilon=options.epsilon or 0.0,
            handed_over=options.handed_over(),
        )  # fmt: skip
    with progress.doing("reading") as shown:
        made = make_release(
            order, ledger=ledger, entropy=entropy, again=options.again, out=options.out,
            progress=lambda what, rows, of: shown.show(what, rows, of, "rows"),
        )  # fmt: skip
    if made.data_set.fingerprint.by == "name":
        warnings.append(NAME_ALONE.format(name))
    warnings += options.told_before(made.record.handed_over)
    said = None if options.data_set else "the file says so" if stated else "the file's stem; --data-set names another"
    return _summary(options, order.mechanism, made, ledger, said) | {"warnings": warnings}


def _summary(
    options: ReleaseOptions, mechanism: Mechanism, made: Made, ledger: Ledger, said: str | None
) -> dict[str, Any]:
    from labeldp.release.format import stated_header
    from labeldp.release.order import origins_in
    from labeldp.release.release import certificate_json

    return {
        "out": str(options.out),
        "rows": len(made.record.rows),
        "data_set": made.data_set.name,
        "data_set_from": said,
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
        "handed_over": made.record.handed_over,
    }


def _selected(options: ReleaseOptions) -> Selection | None:
    from labeldp.release.rows import Span, read_rows

    if isinstance(options.rows, tuple):
        return Span(*options.rows)
    return read_rows(options.rows, options.id_column) if isinstance(options.rows, str | None) else options.rows


def _mechanism(options: ReleaseOptions, classes: Classes, prior: Any) -> Mechanism:
    from labeldp.mechanisms import NoPrivacy
    from labeldp.mechanisms.plan import calibrate, recommend

    if (options.mechanism == NoPrivacy.name) != options.insecure_no_privacy:
        raise InputError("writing true labels takes both: `mechanism='none', insecure_no_privacy=True`.")
    if options.mechanism == NoPrivacy.name:
        return NoPrivacy(classes.count)
    epsilon = _epsilon(options)
    if options.mechanism is None:
        return recommend(epsilon, classes.count, prior, delta=options.delta)
    return calibrate(options.mechanism, epsilon=epsilon, num_classes=classes.count, delta=options.delta, prior=prior)


def _epsilon(options: ReleaseOptions) -> float:
    if options.epsilon is None:
        raise InputError("`epsilon` is missing: how much privacy may each label cost? A typical value is 1 to 8.")
    return options.epsilon


def _order_with_prior(
    options: ReleaseOptions, source: TableSource, name: str, selected: Selection | None, entropy: Entropy, ledger: Ledger
) -> tuple[Order, list[str]]:  # fmt: skip
    """Each row's own channel, by its public prior."""
    from labeldp.release.order import Order
    from labeldp.release.prior import PublicPrior

    assert options.public_prior is not None
    epsilon = _epsilon(options)
    if options.prior is not None or options.delta is not None:
        raise InputError("`public_prior` has a prior for each row, and a pure ε; leave out `prior` and `delta`.")
    prior = PublicPrior.read(options.public_prior)
    order = Order.with_prior(
        prior, source, name, epsilon=epsilon, entropy=entropy, mechanism=options.mechanism, selected=selected,
        shuffle=options.shuffle, handed_over=options.handed_over(),
    )  # fmt: skip
    return order, list(prior.warnings(ledger))


def _budget(made: Made, options: ReleaseOptions) -> dict[str, Any]:
    from labeldp.accounting.statement import budget_text

    data_set, text = made.data_set, budget_text(made.data_set)
    first = made.charged_now and len(data_set.releases) == 1 and data_set.caps is not None
    if first and options.budget is None and options.budget_gaussian is None:
        text += "; the cap is what this first release was asked for, since no --budget was given"
    return {**data_set.budget_json(), "spent": data_set.spent().to_json(), "text": text}
