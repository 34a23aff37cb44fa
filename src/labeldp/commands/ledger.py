"""What has been spent, and whether the record is whole: `labeldp ledger`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from labeldp.commands.option import Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import DATA_SET, LedgerOption


@dataclass(frozen=True, kw_only=True)
class LedgerShowOptions(Options):
    """What `labeldp ledger show` is told."""

    ledger: LedgerOption = None
    data_set: Annotated[str | None, DATA_SET.but(help="Only this data set.")] = None


def ledger_show(options: LedgerShowOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Show every data set's budget, what is spent so far, and its releases."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.accounting.statement import statement

    return statement(Ledger(options.ledger, create=False), options.data_set)


@dataclass(frozen=True, kw_only=True)
class LedgerVerifyOptions(Options):
    """What `labeldp ledger verify` is told."""

    files: Annotated[tuple[Path, ...], Argument("Release files, as after --releases.")] = ()
    releases: Annotated[tuple[Path, ...], Option("Release files that this ledger must know.")] = ()
    ledger: LedgerOption = None


def ledger_verify(options: LedgerVerifyOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Check that the ledger is whole, that nothing in its folder is newer, and, with --releases FILES, that they are not."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.release.copies import verify

    return verify(Ledger(options.ledger, create=False), [*options.releases, *options.files])


@dataclass(frozen=True, kw_only=True)
class LedgerGetOptions(Options):
    """What `labeldp ledger get` is told."""

    entry: Annotated[int, Argument("The release's number, as `ledger show` prints it.")]
    out: Annotated[Path, Option("Where to write it.")]
    ledger: LedgerOption = None


def ledger_get(options: LedgerGetOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Write the ledger's copy of an earlier release to a file. Costs nothing."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.release.copies import fetch

    opened = Ledger(options.ledger, create=False)
    fetched = fetch(opened, options.entry, options.out)
    record = opened.book().releases[options.entry]
    return {
        "out": str(options.out),
        "entry": options.entry,
        "ledger": str(opened.path),
        "checksum": record.checksum,
        "made": record.made,
        "fetched": fetched,
    }
