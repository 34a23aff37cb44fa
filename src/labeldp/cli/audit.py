"""`labeldp audit`: how much a trained model, or a release, gives away."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.complete import among
from labeldp.cli.options import DATA, JsonOption
from labeldp.cli.output import print_json
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.audit.result import AuditResult
    from labeldp.release import Release

_BOUND = "Bound"
_REFERENCE = "the reference saw labels through release {}… alone, as its file says. If it saw any other way, this result is for you alone."


def command(
    scores: Annotated[Path | None, typer.Argument(help="Probabilities of all rows (.npy, or Parquet from `predict`), or the directory of a `train --canaries`; for --method paper an .npz with confidences, true_label, canary_label. None: the release alone.", show_default=False, readable=False)] = None,
    canaries: Annotated[Path | None, typer.Option("--canaries", help="The secret file of `canaries plant`.", readable=False, rich_help_panel=DATA)] = None,
    release: Annotated[Path | None, typer.Option("--release", help="Also (or only) the attacker who sees this release.", readable=False, rich_help_panel=DATA)] = None,
    reference: Annotated[Path | None, typer.Option("--reference", help="Another model's probabilities of the same rows, to calibrate by: trained on released or public labels, else the result is for you alone.", readable=False, rich_help_panel=DATA)] = None,
    reference_is_public: Annotated[bool, typer.Option("--reference-is-public", help="The reference saw no private label, though its file cannot show it (`predict` writes Parquet that can).", rich_help_panel=DATA)] = False,
    features: Annotated[Path | None, typer.Option("--features", help="The rows' features, as for train: calibrate by the nearest other rows.", readable=False, rich_help_panel=DATA)] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The features' id column, to join with probabilities by id. Default: by row number.", rich_help_panel=DATA)] = None,
    method: Annotated[str, typer.Option("--method", help="one-run (assumes nothing), gaussian (for releases of Gaussian noise), paper (its interval, for comparison).", rich_help_panel=_BOUND, autocompletion=among("one-run", "gaussian", "paper"))] = "one-run",
    delta: Annotated[float | None, typer.Option("--delta", help="Where no release says it: with --release, its certificate's. Default: 0.", show_default=False, rich_help_panel=_BOUND)] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the bound.", rich_help_panel=_BOUND)] = 0.95,
    logits: Annotated[bool, typer.Option("--logits", help="The file holds logits.", rich_help_panel=DATA)] = False,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw the model's right and wrong guesses by confidence (.svg or .png), as the paper's Figure 1.", readable=False)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Keep the audit in this directory, for `labeldp report`.", readable=False)] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """A lower bound on ε: how well can planted labels be guessed from what was handed over? The label owner runs this.

    Example: labeldp audit scores.parquet --canaries canaries.npz --release released.parquet
    """
    if out is not None:
        from labeldp.audit.kept import check_place

        check_place(out)
    releases: tuple[Path, ...] = (release,) if release is not None else ()
    run = scores if scores is not None and scores.is_dir() else None
    if run is not None:
        if canaries or release:
            raise InputError(
                "the directory of a `train --canaries` holds its own canaries and release; leave out --canaries and --release. For labels of your own, name the probabilities that `predict` wrote."
            )
        scores, canaries, releases = _run(run, method)
    if method == "paper":
        if release or reference or features or delta or confidence != 0.95:
            raise InputError(
                "--method paper takes probabilities and canaries only: --release, --reference, --features, --delta and --confidence are for the others."
            )
        if scores is None:
            raise InputError("--method paper looks at a model: name its probabilities, or an .npz of confidences.")
        found = Found(_paper(scores, canaries, logits), None, None, None, knows_truth=True)
    else:
        if canaries is None:
            raise InputError("--canaries is missing: the secret file that `labeldp canaries plant` wrote.")
        found = _audited(
            scores,
            canaries,
            releases,
            reference,
            (features, id_column),
            method,
            delta,
            confidence,
            logits,
            run,
            reference_is_public,
        )
    result = found.result
    if figure is not None:
        result.plot(figure)
        typer.echo(f"{figure}: the model's right and wrong guesses", err=True)
    if out is not None:
        from labeldp.audit.kept import KeptAudit

        kept = KeptAudit.of(
            result,
            found.release,
            found.trained_on,
            model=found.model,
            planted=found.planted,
            knows_truth=found.knows_truth,
        )
        kept.save(out)
    if json:
        print_json(result.to_json())
    else:
        typer.echo(result.summary())
    if out is not None:
        typer.echo(f"kept in {out}, for `labeldp report`", err=True)


@dataclass(frozen=True)
class Found:
    """A result, and what it is of."""

    result: AuditResult
    release: Release | None
    trained_on: str | None
    model: str | None
    knows_truth: bool
    planted: int | None = None  # how many of the canaries are in the release


def _run(folder: Path, method: str) -> tuple[Path, Path, tuple[Path, ...]]:
    """What `train --canaries` left in its directory; the paper's method takes no release. A run in stages has several releases."""
    stages = sorted(folder.glob("released-*.parquet"), key=lambda path: (len(path.name), path.name))
    releases = tuple(stages) or (folder / "released.parquet",)
    scores, canaries = folder / "probabilities.npy", folder / "canaries.npz"
    missing = [path.name for path in (scores, canaries, *releases) if not path.exists()]
    if missing:
        raise InputError(f"{folder} is no run of `labeldp train --canaries`: it has no {missing[0]}.")
    return scores, canaries, () if method == "paper" else releases


def _trained_on(folder: Path) -> str | None:
    """The release that a run was trained on, by its checksum."""
    try:
        said = json_module.loads((folder / "config.json").read_text(encoding="utf-8"))["release"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return said if isinstance(said, str) else None


def _paper(path: Path, canaries: Path | None, logits: bool) -> AuditResult:
    import numpy as np

    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit_paper
    from labeldp.audit.scores import checked_probabilities, read_scores

    if canaries is not None:
        found = Canaries.load(canaries)
        if found.true is None:
            raise InputError(
                "the paper's method compares with true labels: plant its way, `canaries plant --wrong-only`."
            )
        scores = read_scores(path, found, logits=logits)
        return audit_paper(scores.values[scores.places], found.true, found.planted)
    try:
        with np.load(path, allow_pickle=False) as file:
            confidences, true, planted = (file[name] for name in ("confidences", "true_label", "canary_label"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} must be an .npz file with confidences, true_label and canary_label.") from None
    return audit_paper(checked_probabilities(confidences, logits=True) if logits else confidences, true, planted)


def _audited(
    path: Path | None, secret: Path, releases: tuple[Path, ...], reference: Path | None, given: tuple[Path | None, str | None], method: str,
    delta: float | None, confidence: float, logits: bool, run: Path | None, public_reference: bool,
) -> Found:  # fmt: skip
    from labeldp.audit.attack import Attack, CalibratedAttack, ModelAttack, NeighbourAttack
    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit
    from labeldp.audit.places import in_release
    from labeldp.audit.scores import read_scores
    from labeldp.data.features import read_features
    from labeldp.provenance import model_digest
    from labeldp.release import Release
    from labeldp.release.joint import join_releases

    features, id_column = given
    canaries = Canaries.load(secret)
    loaded = join_releases([Release.load(place) for place in releases]) if releases else None
    if path is None:
        if reference or features:
            raise InputError("--reference and --features calibrate a model's probabilities; name these too.")
        alone = audit(None, canaries, release=loaded, delta=delta, confidence=confidence, method=method)
        return Found(alone, loaded, None, None, canaries.true is not None, in_release(loaded, canaries))
    if method == "gaussian" and reference:
        raise InputError("--method gaussian takes no --reference: nobody knows the curve of what that model saw.")
    if id_column is not None and features is None:
        raise InputError("--id is the id column of --features.")
    scores = read_scores(path, canaries, logits=logits)
    attacks: list[Attack] = [ModelAttack(scores.values)]
    private_reference = False
    notes: tuple[str, ...] = ()
    if reference is not None:
        other = read_scores(reference, canaries, logits=logits)
        private_reference = (
            other.release is None and not public_reference
        )  # nothing says that it saw released labels only
        if other.release is not None and not public_reference:
            notes = (_REFERENCE.format(other.release[:12]),)
        attacks.append(CalibratedAttack(scores.values, scores.beside(other)))
    if features is not None:
        attacks.append(NeighbourAttack(scores.values, scores.features(read_features(features, id_column))))
    trained_on = scores.release if run is None else _trained_on(run)
    if run is not None and loaded is not None and loaded.header["ids"] is not None:
        canaries = replace(canaries, ids=canaries.rows)  # a run in stages: row numbers serve as ids
    result = audit(
        scores.values, canaries, places=scores.places, release=loaded, attacks=attacks, delta=delta, confidence=confidence, method=method,
        from_release=None if trained_on is None or loaded is None else trained_on == loaded.checksum,
    )  # fmt: skip
    result = replace(result, warnings=(*result.warnings, *notes))
    model = scores.model if run is None else model_digest(run)
    known = canaries.true is not None or private_reference
    return Found(result, loaded, trained_on, model, known, in_release(loaded, canaries))
