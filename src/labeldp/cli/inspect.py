"""`labeldp inspect`: what a release file is, for whoever received it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.options import JsonOption
from labeldp.cli.output import guarantee_text, print_facts, print_json
from labeldp.wording import upward

if TYPE_CHECKING:
    from labeldp.release.core import Description
    from labeldp.release.origin import PriorOrigin


def command(
    release: Annotated[Path, typer.Argument(help="A release file.", show_default=False, readable=False)],
    json: JsonOption = False,
) -> None:
    """Check a release file and show what made it. The certificate is computed from the mechanism it names."""
    from labeldp.accounting.statement import promise_text
    from labeldp.release.core import Description

    loaded = Description.read(release)
    summary = loaded.to_json()
    if json:
        print_json(summary)
        return
    certificate, header = summary["certificate"], loaded.header
    named = f"column {header['ids']['column']!r}" if header["ids"] else "their row numbers in the source"
    order = "shuffled" if header["shuffled"] else "in the source's order"
    promise = promise_text(header["budget"]) if header["budget"]["publishable"] else "nothing"
    facts = [
        ("release", f"{release}: {len(loaded):,} rows of data set {loaded.data_set!r}, made on {summary['made']}"),
        ("mechanism", f"{loaded.mechanism.name}: {loaded.mechanism.describe()}"),
        ("certificate", guarantee_text(certificate)),
        ("data set", f"what its owner promises of all releases together: {promise}"),
        *[("prior", _behind(origin)) for origin in loaded.origins],
        ("trust", _TRUST[loaded.mechanism.trust]),
        ("carries", _carries(loaded)),
        (
            "classes",
            ", ".join(loaded.label_names) if loaded.label_names else f"0 to {loaded.mechanism.num_classes - 1}",
        ),
        ("rows", f"named by {named}, {order}"),
        ("ledger", f"{summary['ledger']['id']}, entry {summary['ledger']['entry']}"),
        ("checksum", f"{loaded.checksum}"),
        *[("raised", f"the data set's budget was raised on {r['at']}") for r in header["budget"]["raised"]],
        *([("INSECURE", loaded.insecure)] if loaded.insecure else []),
    ]
    print_facts(facts)
    typer.echo("The file is whole. That its owner ran this mechanism, and how the noise was drawn, no file can show.")


_TRUST = {
    "local": "local: each label was released on its own, by its owner",
    "central": "central: whoever made this saw features and labels, and must be trusted to release nothing else",
}


def _behind(origin: PriorOrigin) -> str:
    """Where a public prior comes from, and what that does to the certificate."""
    names = ", ".join(f"{one[:12]}…" for one in origin.releases)
    said = f"from a model of release {names}, as its file says" if origin.known else "of unknown origin"
    how = "perhaps of the same rows: added" if origin.same_rows else "of other rows: the larger counts"
    paid = f"ε = {upward(origin.epsilon, 6)}, δ = {origin.delta:g}"
    return f"{said}; what its owner had released of this data set's ids before: {paid} ({how})"


def _carries(release: Description) -> str:
    from labeldp.mechanisms import PateAnswers, RowMechanism, Selected

    mechanism, observations = release.mechanism, release.observations
    if isinstance(mechanism, RowMechanism):
        return f"{mechanism.information():.4f} nats a row under a uniform prior"
    if isinstance(mechanism, PateAnswers) and observations is not None:
        asked, answered = mechanism.counts(observations)
        return f"{answered:,} answers to {asked:,} questions"
    if isinstance(mechanism, Selected) and observations is not None:
        told = int(mechanism.informative(observations).sum())
        return f"{told:,} rows by candidate {mechanism.winner(observations)}; the others scored, and say nothing"
    return "what each row's public prior left open; the candidates of each row are in its observation"
