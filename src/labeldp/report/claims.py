"""What the releases behind a run prove, computed from the files: a summary is a text that anybody can edit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.accounting.ledger import Ledger
from labeldp.accounting.statement import statement
from labeldp.errors import InputError, LabelDPError
from labeldp.files.schema import decode
from labeldp.files.summary import Certificate
from labeldp.release.joint import join_releases
from labeldp.release.release import Release
from labeldp.report.runs import Run
from labeldp.statistics.reading import Fittable


def checked(run: Run) -> Run:
    """The run, if its releases are here and say what it says; left unchecked, if they are not; refused if they differ."""
    here = {release.checksum: release for release in run.releases}
    if run.kind == "audit":
        return run
    if run.statistics:
        return _fitted(run, run.statistics[0])
    if any(one not in here for one in run.trained_on):
        return with_others(run, None)
    whole = join_releases([here[one] for one in run.trained_on])
    if whole.checksum != run.release:
        raise InputError(f"{run.name} was trained on other releases than it names: its summary.json was altered.")
    proven = (decode(Certificate, whole.certificate()), whole.mechanism.trust, whole.insecure)
    if (run.certificate, run.trust, run.insecure) != proven:
        raise InputError(
            f"{run.name} states another certificate than its release proves: its summary.json was altered."
        )
    if run.data_set != whole.data_set or run.class_names != whole.class_names:
        raise InputError(
            f"{run.name} names another data set, or other classes, than its release: its config.json was altered."
        )
    return with_others(replace(run, checked=True), whole)


def _fitted(run: Run, moments: Fittable) -> Run:
    """The same of a model that was fitted to moments, or to a histogram."""
    proven = (decode(Certificate, moments.certificate()), "central", moments.insecure)
    if (run.certificate, run.trust, run.insecure) != proven or run.release != moments.checksum:
        raise InputError(f"{run.name} states another certificate than its moments prove: its summary.json was altered.")
    if run.data_set != moments.data_set or run.class_names != moments.class_names:
        raise InputError(
            f"{run.name} names another data set, or other classes, than its moments: its config.json was altered."
        )
    return replace(run, checked=True)


def with_others(run: Run, first: Release | None) -> Run:
    """What held-out rows of PATE pay counts too: they made the page's accuracy, and every label is to have what the page says."""
    certificate = run.certificate
    if certificate is None:
        return run
    for other in run.others:
        if first is not None and other.data_set == first.data_set and np.isin(other.ids, first.ids).any():
            raise InputError(f"{run.name} holds out rows that its teachers saw: they have paid twice.")
        theirs = decode(Certificate, other.certificate())
        if theirs.epsilon is None or certificate.epsilon is None:
            none = theirs if theirs.epsilon is None else certificate
            return replace(run, certificate=none, insecure=run.insecure or other.insecure)
        certificate = replace(
            certificate,
            epsilon=max(certificate.epsilon, theirs.epsilon),
            delta=max(certificate.delta or 0.0, theirs.delta or 0.0),
        )
    return replace(run, certificate=certificate)


def ledger_for(run: Run, path: Path) -> dict[str, Any] | None:
    """Budget and releases of this run's data set, and of no other, where one of its releases is recorded in this very ledger."""
    ledger = Ledger(path, create=False)
    entries = {entry.number: entry.hash for entry in ledger.verify()}
    book = ledger.book()
    names = set()
    for release in run.files:
        said = release.header["ledger"]
        record = book.releases.get(said["entry"])
        # The hash of that entry depends on a key that only the owner has: no other ledger has it.
        same = said["id"] == book.ledger and entries.get(said["entry"]) == said["head"]
        if same and record is not None and record.checksum == release.checksum:
            names.add(record.data_set)
    return statement(ledger, names.pop()) if len(names) == 1 else None


def with_ledger(run: Run, path: Path | None) -> Run:
    """With its ledger's entries: the owner's, or, where none is named, an experiment's own. A foreign one is passed over."""
    if path is not None:
        found = ledger_for(run, path)
        silent = (
            () if found else ("None of its releases is recorded in the ledger that was named, or they are not here.",)
        )
        return replace(run, ledger=found, unrecorded=found is None, notes=(*run.notes, *silent))
    if run.own_ledger is None:
        return run
    try:
        return replace(run, ledger=ledger_for(run, run.own_ledger))
    except LabelDPError:
        return run
