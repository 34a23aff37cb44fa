"""Which kind of run a directory holds, and what it says."""

from __future__ import annotations

from pathlib import Path

from labeldp.audit.kept import FILE as AUDIT
from labeldp.errors import InputError
from labeldp.report.audit_run import read_heuristic, read_kept, read_repeated
from labeldp.report.files import read_json
from labeldp.report.pate_run import read_pate
from labeldp.report.runs import Run
from labeldp.report.training_run import read_training


def read_run(folder: Path, *, owner: bool = False) -> Run:
    """A finished run of `train`, `select`, `pate run`, `audit --out`, `audit-repeat` or `audit-heuristic`. Owner-only numbers are
    read for the owner alone.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; name the directory of a run (--out of train, pate run, audit).")
    try:
        if (folder / AUDIT).is_file():
            return read_kept(folder, owner)
        summary = read_json(folder / "summary.json")
        if summary is None:
            raise InputError(_unfinished(folder))
        if "teachers_flop" in summary:
            return read_pate(folder, summary, owner)
        if "together" in summary and "apart" in summary:
            return read_heuristic(folder, summary)
        if "epsilon_low" in summary:
            return read_repeated(folder, summary)
        return read_training(folder, summary, owner)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder} holds files that are no run's, or a damaged one's ({type(error).__name__})."
        ) from None


def _unfinished(folder: Path) -> str:
    if (folder / "config.json").exists() or (folder / "stages.json").exists() or (folder / "owner").exists():
        return f"{folder} is not finished: the same command goes on with it. Then there is something to report."
    if (folder / "cells").is_dir():
        return f"{folder} holds the cells of `labeldp reproduce`; name some of {folder / 'cells'}/*."
    return f"{folder} is no run of train, pate run or audit: it has no summary.json."
