"""What audits say: one that `labeldp audit --out` kept, `audit-repeat`'s games, `audit-heuristic`'s comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp.audit.kept import KeptAudit
from labeldp.errors import InputError
from labeldp.release.joint import join_releases
from labeldp.release.release import Release
from labeldp.report.files import find_releases, read_json, read_starts, text
from labeldp.report.runs import Measured, Run, each_measured, who_sees

THROUGH_THIS = "that the model saw these labels through this release alone, which no file can show"


def read_kept(folder: Path, owner: bool) -> Run:
    """One audit, of a model, a release, or both."""
    kept = KeptAudit.load(folder)
    release, trained_on = text(kept.release), text(kept.trained_on)
    parts = kept.parts or (() if release is None else (release,))
    # If the model saw another release, this one's certificate is not of it.
    stranger = trained_on is not None and trained_on != release
    behind = (*parts, trained_on) if trained_on is not None and stranger else parts
    releases = find_releases(folder, [kept.start], behind)
    here = {release.checksum: release for release in releases}
    looked_at = join_releases([here[one] for one in parts]) if parts and all(one in here for one in parts) else None
    hidden = kept.owner_only is not None and not owner
    if looked_at is not None and text(kept.data_set) != looked_at.data_set:
        raise InputError(f"{folder} names another data set than its release: its audit.json was altered.")
    notes = (
        [f"The audit in {folder.name} is left out: {kept.owner_only}. --owner shows it, on a page for the owner."]
        if hidden
        else []
    )
    return Run(
        name=folder.resolve().name, kind="audit", data_set=text(kept.data_set),
        certificate=_beside(looked_at, kept) if looked_at is not None and not stranger else None,
        trust=looked_at.mechanism.trust if looked_at is not None else None, insecure=looked_at.insecure if looked_at is not None else None,
        mechanism=looked_at.mechanism.name if looked_at is not None else None, made_from=behind, checked=looked_at is not None,
        model=text(kept.model), canaries=None if kept.planted is None else int(kept.planted),
        class_names=looked_at.class_names if looked_at is not None else (),
        measured=() if hidden else tuple(each_measured(kept.result, who_sees)), more_bounds=kept.replaced + (kept.bounds if hidden else 0),
        says_not_of_what=kept.model is None and not behind, violins=None if hidden else kept.violins,
        starts=(kept.start,), releases=tuple(releases), notes=(*notes, *(() if hidden else kept.result["warnings"])),
    )  # fmt: skip


def _beside(release: Release, kept: KeptAudit) -> dict[str, Any]:
    """The certificate that the bounds stand beside. It is the release's; that it is the model's too, nobody can see."""
    certificate = release.certificate()
    attacks = {look["attack"] for look in kept.result["looks"] or [kept.result]}
    of_a_model = attacks != {"release"} or kept.model is not None or kept.violins is not None
    if not of_a_model or certificate["epsilon"] is None:
        return certificate
    return {**certificate, "given": " and ".join(filter(None, (certificate.get("given"), THROUGH_THIS)))}


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
        insecure=None, mechanism=game.get("mechanism"),
        measured=tuple(each_measured(summary, lambda attack: f"{who_sees(attack)}, in repeated trainings (Game 1)")),
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
