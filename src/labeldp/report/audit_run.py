"""What audits say: one that `labeldp audit --out` kept, `audit-repeat`'s games, `audit-heuristic`'s comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labeldp.audit.kept import KeptAudit
from labeldp.report.files import find_releases, read_json, read_starts
from labeldp.report.runs import Measured, Run, who_sees


def read_kept(folder: Path, owner: bool) -> Run:
    """One audit, of a model, a release, or both."""
    kept = KeptAudit.load(folder)
    behind = tuple(dict.fromkeys(one for one in (kept.release, kept.trained_on) if one is not None))
    releases = find_releases(folder, [kept.start], behind)
    looked_at = next((release for release in releases if release.checksum == kept.release), None)
    hidden = kept.owner_only is not None and not owner
    notes = (
        [f"The audit in {folder.name} is left out: {kept.owner_only}. --owner shows it, on a page for the owner."]
        if hidden
        else []
    )
    return Run(
        name=folder.resolve().name, kind="audit", data_set=kept.data_set,
        certificate=looked_at.certificate() if looked_at is not None else None,
        trust=looked_at.mechanism.trust if looked_at is not None else None, insecure=looked_at.insecure if looked_at is not None else None,
        mechanism=looked_at.mechanism.name if looked_at is not None else None, made_from=behind, checked=looked_at is not None,
        model=kept.model, canaries=None if kept.planted is None else int(kept.planted),
        class_names=looked_at.class_names if looked_at is not None else (),
        measured=() if hidden else tuple(_looks(kept.result)), violins=None if hidden else kept.violins,
        starts=(kept.start,), releases=tuple(releases), notes=(*notes, *(() if hidden else kept.result["warnings"])),
    )  # fmt: skip


def _looks(result: dict[str, Any]) -> Iterator[Measured]:
    """Each attack, at its share of the doubt: all of them hold together at the stated confidence."""
    for look in result["looks"] or [result]:
        of_it = {name: look[name] for name in ("epsilon_low", "guesses", "correct", "abstained", "attack")}
        yield Measured.of(who_sees(str(look["attack"])), {**result, **of_it})


def read_repeated(folder: Path, summary: dict[str, Any]) -> Run:
    """Game 1: the same training, many times over."""
    config = read_json(folder / "config.json") or {}
    game = config.get("game", {})
    epsilon = summary.get("certificate")
    certificate = (
        None if epsilon is None else {"epsilon": float(epsilon), "delta": float(summary["delta"]), "reason": None}
    )
    facts = [
        ("Game", ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in game.items() if value is not None))
    ]
    return Run(
        name=folder.resolve().name, kind="audit", data_set=game.get("dataset"), certificate=certificate, trust=None,
        insecure=None, mechanism=game.get("mechanism"), measured=(Measured.of("repeated trainings (Game 1)", summary),),
        facts=tuple(facts), starts=tuple(read_starts(folder)), notes=tuple(summary["warnings"]),
    )  # fmt: skip


def read_heuristic(folder: Path, summary: dict[str, Any]) -> Run:
    """Whether many canaries in one training measure what few in each of several do."""
    pair = (("all canaries in one training", "together"), ("a part of them in each of several", "apart"))
    notes = [
        "The paper's interval is no proven bound, and looks at true labels: bundled data sets' are public, yours are not."
    ]
    return Run(
        name=folder.resolve().name, kind="audit", data_set=None, certificate=None, trust=None, insecure=None, mechanism=None,
        measured=tuple(Measured.of(words, summary[name]) for words, name in pair), starts=tuple(read_starts(folder)), notes=tuple(notes),
    )  # fmt: skip
