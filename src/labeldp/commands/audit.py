"""How much a trained model, or a release, gives away: `labeldp audit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import BOUND, DATA, Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import FEATURES, IdOption
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.audit.attack import Attack
    from labeldp.audit.canaries import Canaries
    from labeldp.audit.places import PlacedPredictions
    from labeldp.audit.result import AuditResult
    from labeldp.release import Release

USUAL_CONFIDENCE = 0.95


_REFERENCE = "the reference saw labels through release {}… alone, as its file says. If it saw any other way, this result is for you alone."


# fmt: off
@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """What `labeldp audit` is told."""

    scores: Annotated[Path | None, Argument("Probabilities of all rows (.npy, or Parquet from `predict`), or the directory of an `experiment --canaries`; for --method paper an .npz with confidences, true_label, canary_label. None: the release alone.")] = None
    canaries: Annotated[Path | None, Option("The secret file of `canaries plant`.", panel=DATA)] = None
    release: Annotated[Path | None, Option("Also (or only) the attacker who sees this release.", panel=DATA)] = None
    reference: Annotated[Path | None, Option("Another model's probabilities of the same rows, to calibrate by: trained on released or public labels, else the result is for you alone.", panel=DATA)] = None
    reference_is_public: Annotated[bool, Option("The reference saw no private label, though its file cannot show it (`predict` writes Parquet that can).", panel=DATA)] = False
    features: Annotated[Path | None, FEATURES.but(help="The rows' features, as for train: calibrate by the nearest other rows.")] = None
    id_column: IdOption = None
    logits: Annotated[bool, Option("The file holds logits.", panel=DATA)] = False
    method: Annotated[str, Option("one-run (assumes nothing), gaussian (for releases of Gaussian noise), paper (its interval, for comparison).", panel=BOUND, values=("one-run", "gaussian", "paper"))] = "one-run"
    delta: Annotated[float | None, Option("Where no release says it: with --release, its certificate's. Default: 0.", panel=BOUND)] = None
    confidence: Annotated[float, Option("Of the bound.", panel=BOUND)] = USUAL_CONFIDENCE
    figure: Annotated[Path | None, Option("Draw the model's right and wrong guesses by confidence (.svg or .png), as the paper's Figure 1.")] = None
    out: Annotated[Path | None, Option("Keep the audit in this directory, for `labeldp report`.")] = None
# fmt: on


def audit(options: AuditOptions, progress: Progress = SILENT) -> AuditResult:
    """A lower bound on ε: how well can planted labels be guessed from what was handed over? The label owner runs this.

    Example: labeldp audit scores.parquet --canaries canaries.npz --release released.parquet
    """
    from labeldp.audit.result import KeptAudit, check_place

    if options.out is not None:
        check_place(options.out)
    found = _paper(_Looked.at(options)) if options.method == "paper" else _bounded(_Looked.at(options))
    if options.figure is not None:
        found.result.plot(options.figure)
        progress.line(f"{options.figure}: the model's right and wrong guesses")
    if options.out is not None:
        kept = KeptAudit.of(
            found.result, found.release, found.trained_on, model=found.model, planted=found.planted, knows_truth=found.knows_truth
        )  # fmt: skip
        kept.save(options.out)
        progress.line(f"kept in {options.out}, for `labeldp report`")
    return found.result


@dataclass(frozen=True)
class _Looked:
    """What is looked at: files that were named, or those of a run directory."""

    options: AuditOptions
    scores: Path | None
    canaries: Path | None
    releases: tuple[Path, ...]
    run: RunFolder | None = None

    @classmethod
    def at(cls, options: AuditOptions) -> _Looked:
        folder = options.scores
        if folder is None or not folder.is_dir():
            return cls(options, folder, options.canaries, (options.release,) if options.release is not None else ())
        if options.canaries or options.release:
            raise InputError(
                "the directory of an `experiment` with canaries holds its own canaries and release; leave out `canaries` and `release`. "
                "For labels of your own, name the probabilities that `predict` wrote."
            )
        run = RunFolder(folder)
        missing = [path.name for path in (run.predictions, run.canaries, *run.releases()) if not path.exists()]
        if missing:
            raise InputError(f"{folder} is no run of `labeldp experiment --canaries`: it has no {missing[0]}.")
        return cls(options, run.predictions, run.canaries, run.releases(), run)

    def trained_on(self, scores: PlacedPredictions) -> str | None:
        """The release that the model was trained on, by its checksum."""
        if self.run is None:
            return scores.release
        return self.run.read_config().release


@dataclass(frozen=True)
class _Found:
    """A result, and what it is of."""

    result: AuditResult
    release: Release | None = None
    trained_on: str | None = None
    model: str | None = None
    knows_truth: bool = True
    planted: int | None = None  # how many of the canaries are in the release


def _paper(looked: _Looked) -> _Found:
    """The paper's interval, from probabilities and canaries alone."""
    import numpy as np

    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit_paper
    from labeldp.audit.places import read_placed
    from labeldp.files.predictions import checked_probabilities

    options, path, logits = looked.options, looked.scores, looked.options.logits
    others = (options.release, options.reference, options.features, options.delta)
    if any(others) or options.confidence != USUAL_CONFIDENCE:
        raise InputError(
            "`method='paper'` takes probabilities and canaries only: `release`, `reference`, `features`, `delta` and `confidence` are for "
            "the others."
        )
    if path is None:
        raise InputError("`method='paper'` looks at a model: name its probabilities, or an .npz of confidences.")
    if looked.canaries is not None:
        canaries = Canaries.load(looked.canaries)
        if canaries.true is None:
            raise InputError(
                "the paper's method compares with true labels: plant its way, `labeldp canaries plant --wrong-only`."
            )
        scores = read_placed(path, canaries, logits=logits)
        return _Found(audit_paper(scores.values[scores.places], canaries.true, canaries.planted))
    try:
        with np.load(path, allow_pickle=False) as file:
            confidences, true, planted = (file[name] for name in ("confidences", "true_label", "canary_label"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} must be an .npz file with confidences, true_label and canary_label.") from None
    return _Found(
        audit_paper(checked_probabilities(confidences, logits=True) if logits else confidences, true, planted)
    )


def _bounded(looked: _Looked) -> _Found:
    """A lower bound that assumes nothing but the fair draw, or by the curve of Gaussian noise."""
    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit as measured
    from labeldp.audit.places import in_release, read_placed
    from labeldp.release import Release
    from labeldp.release.joint import join_releases

    options = looked.options
    if looked.canaries is None:
        raise InputError("`canaries` is missing: the secret file that `labeldp canaries plant` wrote.")
    canaries = Canaries.load(looked.canaries)
    release = join_releases([Release.load(place) for place in looked.releases]) if looked.releases else None
    asked: dict[str, Any] = {"delta": options.delta, "confidence": options.confidence, "method": options.method}
    if looked.scores is None:
        if options.reference or options.features:
            raise InputError("`reference` and `features` calibrate a model's probabilities; name these too.")
        alone = measured(None, canaries, release=release, **asked)
        return _Found(alone, release, knows_truth=canaries.true is not None, planted=in_release(release, canaries))
    _check_calibration(options)
    scores = read_placed(looked.scores, canaries, logits=options.logits)
    attacks, private_reference, notes = _attacks(options, scores, canaries)
    trained_on = looked.trained_on(scores)
    if looked.run is not None and release is not None and release.header["ids"] is not None:
        canaries = replace(canaries, ids=canaries.rows)  # a run in stages: row numbers serve as ids
    same = None if trained_on is None or release is None else trained_on == release.checksum
    result = measured(
        scores.values, canaries, places=scores.places, release=release, attacks=attacks, from_release=same, **asked
    )
    result = replace(result, warnings=(*result.warnings, *notes))
    model = scores.model if looked.run is None else looked.run.digest()
    known = canaries.true is not None or private_reference
    return _Found(result, release, trained_on, model, known, in_release(release, canaries))


def _check_calibration(options: AuditOptions) -> None:
    if options.method == "gaussian" and options.reference:
        raise InputError("`method='gaussian'` takes no `reference`: nobody knows the curve of what that model saw.")
    if options.id_column is not None and options.features is None:
        raise InputError("`id_column` is the id column of `features`.")


def _attacks(
    options: AuditOptions, scores: PlacedPredictions, canaries: Canaries
) -> tuple[list[Attack], bool, tuple[str, ...]]:
    """Whoever looks at the model; whether a reference may have seen private labels; and what is taken on its file's word."""
    from labeldp.audit.attack import CalibratedAttack, ModelAttack, NeighbourAttack
    from labeldp.audit.places import read_placed
    from labeldp.data.features import read_features

    attacks: list[Attack] = [ModelAttack(scores.values)]
    private = False
    notes: tuple[str, ...] = ()
    if options.reference is not None:
        other = read_placed(options.reference, canaries, logits=options.logits)
        private = (
            other.release is None and not options.reference_is_public
        )  # nothing says that it saw released labels only
        if other.release is not None and not options.reference_is_public:
            notes = (_REFERENCE.format(other.release[:12]),)
        attacks.append(CalibratedAttack(scores.values, scores.beside(other)))
    if options.features is not None:
        attacks.append(
            NeighbourAttack(scores.values, scores.features(read_features(options.features, options.id_column)))
        )
    return attacks, private, notes
