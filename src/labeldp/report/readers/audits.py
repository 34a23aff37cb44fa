"""Audits: one that `labeldp audit --out` kept, `audit-repeat`'s games, `audit-heuristic`'s comparison."""

from __future__ import annotations

from dataclasses import replace

from labeldp.audit.result import KeptAudit
from labeldp.errors import InputError
from labeldp.files.run import RunFolder, read_as
from labeldp.files.schema import decode
from labeldp.files.summary import Certificate, GamesConfig, GamesSummary, HeuristicSummary
from labeldp.release.joint import join_releases
from labeldp.release.release import Release
from labeldp.report.readers.beside import listed, releases_of
from labeldp.report.runs import Measured, Run, each_measured, who_sees

THROUGH_THIS = "that the model saw these labels through this release alone, which no file can show"


def read_kept_audit(run: RunFolder, owner: bool) -> Run:
    """One audit, of a model, a release, or both."""
    kept = KeptAudit.load(run.path)
    parts = kept.parts or (() if kept.release is None else (kept.release,))
    # If the model saw another release, this one's certificate is not of it.
    stranger = kept.trained_on is not None and kept.trained_on != kept.release
    behind = (*parts, kept.trained_on) if kept.trained_on is not None and stranger else parts
    releases = releases_of(run, [kept.start], behind)
    here = {release.checksum: release for release in releases}
    looked_at = join_releases([here[one] for one in parts]) if parts and all(one in here for one in parts) else None
    hidden = kept.owner_only is not None and not owner
    if looked_at is not None and kept.data_set != looked_at.data_set:
        raise InputError(f"{run.path} names another data set than its release: its {run.audit.name} was altered.")
    left_out = (
        f"The audit in {run.path.name} is left out: {kept.owner_only}. --owner shows it, on a page for the owner."
    )
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=kept.data_set,
        certificate=_beside(looked_at, kept) if looked_at is not None and not stranger else None,
        trust=looked_at.mechanism.trust if looked_at is not None else None,
        insecure=looked_at.insecure if looked_at is not None else None,
        mechanism=looked_at.mechanism.name if looked_at is not None else None,
        made_from=behind,
        checked=looked_at is not None,
        model=kept.model,
        canaries=kept.planted,
        class_names=looked_at.class_names if looked_at is not None else (),
        measured=() if hidden else tuple(each_measured(kept.audit, who_sees)),
        more_bounds=kept.replaced + (kept.bounds if hidden else 0),
        says_not_of_what=kept.model is None and not behind,
        violins=None if hidden or kept.violins is None else kept.violins.violins(),
        starts=(kept.start,),
        releases=releases,
        notes=(left_out,) if hidden else kept.audit.warnings,
    )


def _beside(release: Release, kept: KeptAudit) -> Certificate:
    """The certificate that the bounds stand beside. It is the release's; that it is the model's too, nobody can see."""
    certificate = decode(Certificate, release.certificate())
    attacks = {one.attack for one in kept.audit.attacks}
    of_a_model = attacks != {"release"} or kept.model is not None or kept.violins is not None
    if not of_a_model or certificate.epsilon is None:
        return certificate
    return replace(certificate, given=" and ".join(filter(None, (certificate.given, THROUGH_THIS))))


def read_games(run: RunFolder, summary: GamesSummary) -> Run:
    """Game 1: the same training, many times over."""
    config = read_as(GamesConfig, run.config) if run.config.exists() else GamesConfig()
    dataset, mechanism = (config.game.get(name) for name in ("dataset", "mechanism"))
    proven = None if summary.certificate is None else Certificate(summary.certificate, summary.delta)
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=dataset if isinstance(dataset, str) else None,
        certificate=proven,
        trust=None,
        insecure=None,
        mechanism=mechanism if isinstance(mechanism, str) else None,
        measured=tuple(each_measured(summary, lambda attack: f"{who_sees(attack)}, in repeated trainings (Game 1)")),
        facts=(("Game", listed({name: value for name, value in config.game.items() if value is not None})),),
        starts=run.read_starts(),
        notes=summary.warnings,
    )


def read_heuristic(run: RunFolder, summary: HeuristicSummary) -> Run:
    """Whether many canaries in one training measure what few in each of several do."""
    note = "The paper's interval is no proven bound, and looks at true labels: bundled data sets' are public, yours are not."
    return Run(
        name=run.path.resolve().name,
        kind="audit",
        data_set=None,
        certificate=None,
        trust=None,
        insecure=None,
        mechanism=None,
        measured=(
            Measured.of("all canaries in one training", summary.together),
            Measured.of("a part of them in each of several", summary.apart),
        ),
        starts=run.read_starts(),
        notes=(note,),
    )
