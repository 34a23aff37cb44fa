"""`labeldp inspect`: what a release file is, for whoever received it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.options import JsonOption
from labeldp.cli.output import guarantee_text, print_facts, print_json


def command(
    release: Annotated[Path, typer.Argument(help="A release file.", show_default=False, readable=False)],
    json: JsonOption = False,
) -> None:
    """Check a release file and show what made it. The certificate is computed from the mechanism, not believed."""
    from labeldp.release import Release

    loaded = Release.load(release)
    summary = loaded.to_json()
    if json:
        print_json(summary)
        return
    certificate = summary["certificate"]
    print_facts([
        ("release", f"{release}: {len(loaded):,} rows of data set {loaded.data_set!r}, made on {summary['made']}"),
        ("mechanism", f"{loaded.mechanism}"),
        ("certificate", guarantee_text(certificate["epsilon"], certificate["delta"], certificate["reason"])),
        ("carries", f"{loaded.mechanism.information():.4f} nats a row under a uniform prior"),
        ("ledger", f"{summary['ledger']['id']}, entry {summary['ledger']['entry']}"),
        ("checksum", f"{loaded.checksum} (holds)"),
        *[("raised", f"the data set's budget was raised on {r['at']}") for r in summary["budget"]["raised"]],
        *([("INSECURE", loaded.insecure)] if loaded.insecure else []),
    ])  # fmt: skip
