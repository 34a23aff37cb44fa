"""`labeldp audit`: how much a trained model, or a release, gives away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.options import JsonOption
from labeldp.cli.output import print_json
from labeldp.errors import InputError


def command(
    scores: Annotated[Path, typer.Argument(help="Probabilities of all rows (.npy, or Parquet from `predict`), or the directory of a `train --canaries`; for --method paper an .npz with confidences, true_label, canary_label.", show_default=False, readable=False)],
    canaries: Annotated[Path | None, typer.Option("--canaries", help="The secret file of `canaries plant`.", readable=False)] = None,
    release: Annotated[Path | None, typer.Option("--release", help="Also the attacker who sees this release.", readable=False)] = None,
    reference: Annotated[Path | None, typer.Option("--reference", help="Another model's probabilities of the same rows, to calibrate by: trained on released or public labels, else the result is for you alone.", readable=False)] = None,
    features: Annotated[Path | None, typer.Option("--features", help="The rows' features (.npy): calibrate by the nearest other rows.", readable=False)] = None,
    method: Annotated[str, typer.Option("--method", help="one-run (assumes nothing), gaussian (for releases of Gaussian noise), paper (its interval, for comparison).")] = "one-run",
    delta: Annotated[float | None, typer.Option("--delta", help="The certificate's δ. Default: 0; for a run's directory, its release's.", show_default=False)] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the bound.")] = 0.95,
    logits: Annotated[bool, typer.Option("--logits", help="The file holds logits.")] = False,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw the model's right and wrong guesses by confidence (.svg or .png), as the paper's Figure 1.", readable=False)] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """A lower bound on ε: how well can planted labels be guessed from what was handed over? The label owner runs this.

    Example: labeldp audit scores.parquet --canaries canaries.npz --release released.parquet
    """
    if scores.is_dir():
        if canaries or release:
            raise InputError(
                "a run's directory holds its own canaries and release; leave out --canaries and --release."
            )
        scores, canaries, release, delta = _run(scores, method, delta)
    if method == "paper":
        if release or reference or features or delta or confidence != 0.95:
            raise InputError(
                "--method paper takes probabilities and canaries only: --release, --reference, --features, --delta and --confidence are for the others."
            )
        result = _paper(scores, canaries, logits)
    else:
        if canaries is None:
            raise InputError("--canaries is missing: the secret file that `labeldp canaries plant` wrote.")
        result = _audited(scores, canaries, release, reference, features, method, delta or 0.0, confidence, logits)
    if figure is not None:
        result.plot(figure)
    if json:
        print_json(result.to_json())
    else:
        typer.echo(result.summary())


def _run(folder: Path, method: str, delta: float | None) -> tuple[Path, Path | None, Path | None, float | None]:
    """What `train --canaries` left in its directory; the paper's method takes no release."""
    from labeldp.audit.measure import promised_delta
    from labeldp.release import Release

    names = ("probabilities.npy", "canaries.npz", "released.parquet")
    scores, canaries, release = (folder / name for name in names)
    missing = [path.name for path in (scores, canaries, release) if not path.exists()]
    if missing:
        raise InputError(f"{folder} is no run of `labeldp train --canaries`: it has no {missing[0]}.")
    if method == "paper":
        return scores, canaries, None, delta
    return scores, canaries, release, promised_delta(Release.load(release)) if delta is None else delta


def _paper(path: Path, canaries: Path | None, logits: bool) -> Any:
    import numpy as np

    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit_paper
    from labeldp.audit.scores import checked_probabilities, read_probabilities

    if canaries is not None:
        table, found = read_probabilities(path, Canaries.load(canaries), logits=logits)
        if found.true is None:
            raise InputError(
                "the paper's method compares with true labels: plant its way, `canaries plant --wrong-only`."
            )
        return audit_paper(table[found.rows], found.true, found.planted)
    try:
        with np.load(path, allow_pickle=False) as file:
            confidences, true, planted = (file[name] for name in ("confidences", "true_label", "canary_label"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} must be an .npz file with confidences, true_label and canary_label.") from None
    return audit_paper(checked_probabilities(confidences, logits=True) if logits else confidences, true, planted)


def _audited(
    scores: Path, canaries: Path, release: Path | None, reference: Path | None, features: Path | None, method: str, delta: float,
    confidence: float, logits: bool,
) -> Any:  # fmt: skip
    from labeldp.audit.attack import Attack, CalibratedAttack, ModelAttack, NeighbourAttack
    from labeldp.audit.canaries import Canaries
    from labeldp.audit.measure import audit
    from labeldp.audit.scores import read_probabilities
    from labeldp.data.features import read_features
    from labeldp.release import Release

    table, planted = read_probabilities(scores, Canaries.load(canaries), logits=logits)
    attacks: list[Attack] = [ModelAttack(table)]
    if reference is not None:
        attacks.append(CalibratedAttack(table, read_probabilities(reference, planted, logits=logits)[0]))
    if features is not None:
        attacks.append(NeighbourAttack(table, read_features(features).values))
    loaded = Release.load(release) if release is not None else None
    return audit(table, planted, release=loaded, attacks=attacks, delta=delta, confidence=confidence, method=method)
