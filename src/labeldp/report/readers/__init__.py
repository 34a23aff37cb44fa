"""What lies in the directories of runs, read for a page. They may be damaged or somebody else's: a page or a refusal, nothing else.

A kind of run, a module: `training`, `pate`, `audits`; `beside` reads what all of them may have lying with them.
"""

from __future__ import annotations

from pathlib import Path

from labeldp.errors import InputError
from labeldp.files.ours import our_file
from labeldp.files.run import RunFolder
from labeldp.files.summary import GamesSummary, HeuristicSummary, PateSummary, TablesSummary, TrainingSummary
from labeldp.report.readers.audits import read_games, read_heuristic, read_kept_audit
from labeldp.report.readers.pate import read_pate
from labeldp.report.readers.training import read_training
from labeldp.report.runs import Run


def read_run(folder: Path, *, owner: bool = False) -> Run:
    """A finished run of `train`, `select`, `pate run`, `audit --out`, `audit-repeat` or `audit-heuristic`. Owner-only numbers are
    read for the owner alone.
    """
    if not folder.is_dir():
        ours = our_file(folder)
        what = f"is {ours.words}" if ours is not None else "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {what}; name the directory of a run (--out of train, experiment, select, pate run, audit), or a file of "
            "`labeldp score`."
        )
    run = RunFolder(folder)
    if run.audit.is_file():
        return read_kept_audit(run, owner)
    summary = run.read_summary()
    match summary:
        case None:
            raise InputError(_unfinished(run))
        case PateSummary():
            return read_pate(run, summary, owner)
        case HeuristicSummary():
            return read_heuristic(run, summary)
        case GamesSummary():
            return read_games(run, summary)
        case TrainingSummary():
            return read_training(run, summary, owner)
        case TablesSummary():
            raise InputError(
                f"{folder} is a comparison on a public table: its {run.summary.name} says all of it, and `labeldp reproduce tabular` makes "
                "a page of many."
            )


def _unfinished(run: RunFolder) -> str:
    if run.config.exists() or run.dealing.exists() or run.owner.path.exists():
        return f"{run.path} is not finished: the same command goes on with it. Then there is something to report."
    if (run.path / "cells").is_dir():
        return f"{run.path} holds the cells of `labeldp reproduce`; name some of {run.path / 'cells'}/*."
    return f"{run.path} is no run of train, pate run or audit: it has no {run.summary.name}."
