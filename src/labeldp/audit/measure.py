"""The audit itself: attacks guess what was planted, and a bound says what that proves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from labeldp.audit.attack import Attack, ModelAttack, ReleaseAttack, guess
from labeldp.audit.bounds import OneRunBound, one_run_exact
from labeldp.audit.canaries import Canaries
from labeldp.audit.figure import canary_figure, memorization_figure
from labeldp.audit.gaussian_bound import gaussian_one_run
from labeldp.audit.paper import paper_interval
from labeldp.audit.result import GAUSSIAN, ONE_RUN, PAPER, AuditResult, Look
from labeldp.audit.scores import checked_probabilities
from labeldp.audit.thresholds import Bonferroni, ThresholdBound, ThresholdStrategy
from labeldp.errors import InputError
from labeldp.mechanisms import Gaussian, NoPrivacy
from labeldp.release.core import Release

FEW = 10


def audit(
    probabilities: npt.ArrayLike | None,
    canaries: Canaries,
    *,
    release: Release | None = None,
    attacks: Sequence[Attack] | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: str = "one-run",
    thresholds: ThresholdStrategy | None = None,
    logits: bool = False,
) -> AuditResult:
    """A lower bound on ε from guessing which labels were planted.

    probabilities  the model's, one row for each row of the data set (or None, with a release alone)
    release        adds the attacker who sees the release itself
    attacks        others than these two, say a `CalibratedAttack`
    delta          the certificate's δ
    method         "one-run" (assumes nothing), or "gaussian" for releases of Gaussian noise

    The strongest of all attacks and thresholds counts, after dividing 1 − confidence among them.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence is between 0 and 1, usually 0.95; got {confidence}.")
    if method not in ("one-run", "gaussian"):
        raise InputError(
            f"method is one-run or gaussian; got {method!r}. (The paper's has its own function, `audit_paper`.)"
        )
    table = checked_probabilities(probabilities, logits=logits) if probabilities is not None else None
    tried = list(attacks) if attacks is not None else []
    if attacks is None and table is not None:
        tried.append(ModelAttack(table))
    if release is not None:
        tried.append(ReleaseAttack(release, _positions(release, canaries)))
    if not tried:
        raise InputError("an audit needs the model's probabilities, a release, or both.")
    _check_fit(table, canaries)
    if release is not None and delta < (promised := promised_delta(release)):
        raise InputError(
            f"this release promises (ε, δ) with δ = {promised:g}: audit it at that δ (--delta); at a smaller one it promises no such ε."
        )
    bound = _gaussian(release) if method == "gaussian" else one_run_exact
    if method == "gaussian" and delta <= 0:
        raise InputError("the Gaussian method states ε at a δ: give one (--delta 1e-5).")
    alpha = (1 - confidence) / len(tried)
    looks = [(attack.name, _looked(attack, canaries, thresholds, delta, alpha, bound)) for attack in tried]
    name, best = max(looks, key=lambda look: (look[1].epsilon, look[1].guesses))
    secure = release.guarantee if release is not None else None
    return AuditResult(
        epsilon_low=best.epsilon,
        epsilon_high=None,
        delta=delta,
        confidence=confidence,
        method=method,
        assumption=GAUSSIAN if method == "gaussian" else ONE_RUN,
        guesses=best.guesses,
        correct=best.correct,
        abstained=best.abstained,
        canaries=len(canaries),
        candidates=canaries.candidates.shape[1],
        attack=name,
        threshold=best.share,
        looks=tuple(Look(n, b.epsilon, b.guesses, b.correct, b.abstained, b.alpha) for n, b in looks),
        certificate=secure.epsilon if secure is not None else None,
        warnings=_warnings(canaries),
        _plot=None if table is None else lambda: canary_figure(table, canaries),
    )


def audit_paper(confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike) -> AuditResult:
    """The paper's attack and interval, for comparing with it; see `labeldp.audit.paper`."""
    found = paper_interval(confidences, true_label, canary_label)
    table = np.asarray(confidences)
    return AuditResult(
        epsilon_low=found.epsilon_low,
        epsilon_high=found.epsilon_high,
        delta=0.0,
        confidence=0.95,
        method="paper",
        assumption=PAPER,
        guesses=found.guesses,
        correct=found.correct,
        abstained=found.abstained,
        canaries=len(table),
        candidates=table.shape[1] - 1,
        attack="paper",
        threshold=found.threshold,
        _plot=lambda: memorization_figure(confidences, true_label, canary_label),
    )


def _looked(
    attack: Attack, canaries: Canaries, given: ThresholdStrategy | None, delta: float, alpha: float, bound: OneRunBound
) -> ThresholdBound:
    # Who sees the release is about as sure of every guess, and a second look would only cost.
    strategy = given or (Bonferroni((1,)) if isinstance(attack, ReleaseAttack) else Bonferroni())
    guesses = guess(attack, canaries.rows, canaries.candidates)
    chosen = np.take_along_axis(canaries.candidates, guesses.choice[:, None], axis=1)[:, 0]
    return strategy.bound(
        guesses.sureness,
        chosen == canaries.planted,
        candidates=canaries.candidates.shape[1],
        delta=delta,
        alpha=alpha,
        method=bound,
    )


def _gaussian(release: Release | None) -> OneRunBound:
    if release is None or not isinstance(release.mechanism, Gaussian):
        raise InputError(
            "the Gaussian method is for releases of Gaussian noise only, and needs one to see that it is (--release): for other "
            "mechanisms it would prove what is not true."
        )

    def bound(
        correct: int, guesses: int, *, canaries: int, candidates: int = 2, delta: float = 0.0, alpha: float = 0.05
    ) -> float:
        found = gaussian_one_run(correct, guesses, canaries=canaries, candidates=candidates, delta=delta, alpha=alpha)
        return found.epsilon

    return bound


def _positions(release: Release, canaries: Canaries) -> npt.NDArray[np.int64]:
    """Where each row of the data set is in the release; −1 where it is not."""
    if release.mechanism.num_classes <= int(canaries.candidates.max()):
        raise InputError("the canaries have labels that the release's classes do not: they belong to other data.")
    place = {str(name): position for position, name in enumerate(release.ids.tolist())}
    by_id = canaries.ids is not None and release.header["ids"] is not None
    names = canaries.ids if by_id and canaries.ids is not None else canaries.rows
    found = np.full(int(canaries.rows.max()) + 1, -1, dtype=np.int64)
    found[canaries.rows] = [place.get(str(name), -1) for name in names.tolist()]
    if (found[canaries.rows] < 0).all():
        raise InputError("none of the canaries is in this release: does it belong to the same data?")
    return found


def _check_fit(table: npt.NDArray[np.float64] | None, canaries: Canaries) -> None:
    if table is None:
        return
    if canaries.rows.max() >= len(table):
        raise InputError(
            f"the canaries go up to row {int(canaries.rows.max()):,}, but there are {len(table):,} rows of probabilities: ask for all rows."
        )
    if canaries.candidates.max() >= table.shape[1]:
        raise InputError(f"the canaries have labels beyond the {table.shape[1]} classes of the probabilities.")


def promised_delta(release: Release) -> float:
    """The δ of the release's certificate; 0 where ε is pure."""
    return 0.0 if isinstance(release.mechanism, NoPrivacy) else release.mechanism.guarantee().delta


def _warnings(canaries: Canaries) -> tuple[str, ...]:
    found = []
    if len(canaries) < FEW:
        found.append(f"{len(canaries)} canaries can prove next to nothing; plant hundreds.")
    if canaries.true is not None:
        found.append(
            "candidates were chosen by looking at true labels (--wrong-only), which nobody has paid for: this result is for you alone."
        )
    return tuple(found)
