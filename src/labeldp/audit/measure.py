"""The audit itself: attacks guess what was planted, and a bound says what that proves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from labeldp.audit.attack import Attack, ModelAttack, ReleaseAttack, guess
from labeldp.audit.canaries import Canaries
from labeldp.audit.counts import CONFIDENCE, Bound, GaussianCounts
from labeldp.audit.paper import FEW, FewCanariesWarning, few_canaries, paper_interval
from labeldp.audit.places import by_row_number, places_in_release
from labeldp.audit.result import PAPER, THROUGH_THIS, AuditResult
from labeldp.audit.thresholds import Bonferroni, ThresholdStrategy
from labeldp.audit.violins import canary_comparisons, papers_comparisons
from labeldp.errors import AccountingError, InputError
from labeldp.files.predictions import checked_probabilities
from labeldp.mechanisms import Gaussian, Guarantee, Laplace
from labeldp.release.release import Release

# ----------------------------------------------------------------
# Are these the canaries that a release was made with? A release does not say, but its observations would show it.

_REFUSED, _DOUBTED = 1e-9, 1e-4  # of right canaries, with at most these probabilities
_TILTS = np.geomspace(1e-3, 1e3, 121)


def check_planted_here(release: Release, canaries: Canaries, places: npt.NDArray[np.int64]) -> list[str]:
    """Refuse canaries that were planted elsewhere, which an audit would find to give nothing away; where few show little, a doubt.

    If candidates are equally likely beforehand, then given the observation the planted one is candidate k with probability
    w_k = p(observation | k)/Σ, canary by canary. So the sum of the planted ones' w has the mean M = ΣΣw², and by Chernoff's bound it
    falls short of it by t or more with a probability of at most exp(Σ log Σ_k w_k e^{λ(m − w_k)} − λt), for every λ > 0. Of labels that
    were drawn for another file, w has mean 1/K. Rows whose labels moved teachers, or chose a winner, do not follow this law and are
    not judged.
    """
    if release.mechanism.trust != "local" or not (places >= 0).any():
        return []
    here = places >= 0
    candidates = canaries.candidates[here]
    scores = np.take_along_axis(ReleaseAttack(release).scores(places[here]), candidates, axis=1)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(scores - scores.max(axis=1, keepdims=True)), nan=1.0)
    weights /= weights.sum(axis=1, keepdims=True)
    planted = weights[candidates == canaries.planted[here][:, None]]
    mean = (weights**2).sum(axis=1)
    chance = _log_chance(weights, mean, float(mean.sum() - planted.sum()))
    if chance < math.log(_REFUSED):
        raise InputError(
            "these canaries were not planted in this release (or it was not drawn as it says): their labels fit its observations no "
            "better than others do. Release the file that `canaries plant` wrote, and keep the secret file that it wrote with it."
        )
    if chance < math.log(_DOUBTED):
        return ["these canaries fit this release badly: were they planted in *this* release? A release does not say."]
    return []


def _log_chance(weights: npt.NDArray[np.float64], mean: npt.NDArray[np.float64], short: float) -> float:
    """The log of a bound on the probability that right canaries fall so much short."""
    if short <= 0:
        return 0.0
    bounds = []
    for tilt in _TILTS:
        powers = tilt * (mean[:, None] - weights)
        top = powers.max(axis=1, keepdims=True)
        bounds.append(
            float((top[:, 0] + np.log((weights * np.exp(powers - top)).sum(axis=1) + 1e-300)).sum() - tilt * short)
        )
    return min(bounds)


Numbers = npt.NDArray[np.int64]


def audit(
    probabilities: npt.ArrayLike | None,
    canaries: Canaries,
    *,
    places: Numbers | None = None,
    release: Release | None = None,
    from_release: bool | None = None,
    attacks: Sequence[Attack] | None = None,
    delta: float | None = None,
    confidence: float = CONFIDENCE,
    method: str = "one-run",
    thresholds: ThresholdStrategy | None = None,
    logits: bool = False,
) -> AuditResult:
    """A lower bound on ε from guessing which labels were planted.

    probabilities  the model's, one row for each row of the data set (or None, with a release alone)
    places         where the canaries are among the probabilities, and in the attacks' tables. Default: their rows in the data set
    release        adds the attacker who sees the release itself
    from_release   whether the model saw these labels through this release and in no other way; None: nobody knows
    attacks        others than that on the model, say a `CalibratedAttack`
    delta          where no release promises one. With a release, the audit's δ is that of its certificate, and no other is taken
    method         "one-run" (assumes nothing), or "gaussian" for releases of Gaussian noise and models that are known to come from them

    The strongest of all attacks and thresholds counts, after dividing 1 − confidence among them.
    """
    if method not in ("one-run", "gaussian"):
        raise InputError(
            f"method is one-run or gaussian; got {method!r}. (The paper's has its own function, `audit_paper`.)"
        )
    table = checked_probabilities(probabilities, logits=logits) if probabilities is not None else None
    where = _placed(table, canaries, places)
    notes = _warnings(canaries)
    tried: list[tuple[Attack, Numbers]] = [
        (attack, places_in_release(attack.release, canaries) if isinstance(attack, ReleaseAttack) else where)
        for attack in attacks or ()
    ]
    if attacks is None and table is not None:
        tried.append((ModelAttack(table), where))
    if release is not None and from_release is not True and tried:
        notes += _strangers(tried, method, from_release)
    if release is not None:
        released = places_in_release(release, canaries)
        notes += check_planted_here(release, canaries, released)
        tried.append((ReleaseAttack(release), released))
        if (missing := int((released < 0).sum())) > 0:
            notes.append(f"{missing:,} of {len(canaries):,} canaries are not in this release.")
    if not tried:
        raise InputError("an audit needs the model's probabilities, a release, or both.")
    gaussian = method == "gaussian"
    if gaussian and (release is None or not isinstance(release.mechanism, Gaussian)):
        raise InputError(
            "the Gaussian method is for releases of Gaussian noise only, and needs one to see that it is (`release`): for other "
            "mechanisms it would prove what is not true."
        )
    statement = _statement(release, from_release, delta)
    return AuditResult.of(
        [_counted(attack, at, canaries, thresholds, statement.delta > 0, gaussian) for attack, at in tried],
        statement,
        confidence=confidence,
        canaries=len(canaries),
        candidates=canaries.candidates.shape[1],
        warnings=notes,
        given=THROUGH_THIS if release is not None and len(tried) > 1 else None,
        compared=None if table is None else canary_comparisons(table, canaries, where),
    )


def audit_paper(confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike) -> AuditResult:
    """The paper's attack and interval, for comparing with it; see `labeldp.audit.paper`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewCanariesWarning)  # the result says it
        found = paper_interval(confidences, true_label, canary_label)
    table = np.asarray(confidences)
    few = (few_canaries(len(table)),) if len(table) < FEW else ()
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
        warnings=(
            *few,
            "the paper's attack looks at true labels: unless these are public, this result is for you alone.",
        ),
        compared=papers_comparisons(confidences, true_label, canary_label),
    )


def _strangers(tried: list[tuple[Attack, Numbers]], method: str, from_release: bool | None) -> list[str]:
    """What to say of a model that is not known to come from this release. The Gaussian curve is the release's, not the model's."""
    if method != "gaussian":
        if from_release is None:
            return []
        return [
            "the model was trained on another release than this one: what is measured is of both together, and is not compared with "
            "this one's certificate."
        ]
    if from_release is False:
        raise InputError(
            "the model was trained on another release than this one, whose Gaussian curve says nothing about it: name the release that it "
            "was trained on (`release`), or leave out `method='gaussian'`."
        )
    tried.clear()
    return [
        "the probabilities are not known to come from this release, so its Gaussian curve is not applied to them: only who sees the "
        "release is judged."
    ]


def _counted(
    attack: Attack, places: Numbers, canaries: Canaries, given: ThresholdStrategy | None, fixed: bool, gaussian: bool
) -> Bound:
    strategy = given or _strategy(attack)
    guesses = guess(attack, places, canaries.candidates)
    chosen = np.take_along_axis(canaries.candidates, guesses.choice[:, None], axis=1)[:, 0]
    looks = strategy.looks(
        guesses.sureness, chosen == canaries.planted, candidates=canaries.candidates.shape[1], fixed=fixed
    )
    return Bound(attack.name, tuple(GaussianCounts(**asdict(look)) for look in looks) if gaussian else tuple(looks))


def _strategy(attack: Attack) -> ThresholdStrategy:
    """Who sees additive noise is surer of some guesses than of others. A released class or set makes all about as sure, and a second
    look would only cost.
    """
    if isinstance(attack, ReleaseAttack) and not isinstance(attack.release.mechanism, (Laplace, Gaussian)):
        return Bonferroni((1,))
    return Bonferroni()


def _placed(table: npt.NDArray[np.float64] | None, canaries: Canaries, places: Numbers | None) -> Numbers:
    """Where the canaries are among the probabilities."""
    if table is not None and canaries.candidates.max() >= table.shape[1]:
        raise InputError(f"the canaries have labels beyond the {table.shape[1]} classes of the probabilities.")
    if places is None:
        return canaries.rows if table is None else by_row_number(table, canaries)
    if places.shape != (len(canaries),) or places.min() < 0 or (table is not None and places.max() >= len(table)):
        raise InputError("places are the canaries' rows among the probabilities, one a canary.")
    return places


def _statement(release: Release | None, from_release: bool | None, given: float | None) -> Guarantee:
    """What the audit stands beside, whose δ is the audit's. ε is infinite where nothing is promised, or not of this model."""
    nothing = Guarantee(math.inf, given or 0.0)
    if release is None:
        return nothing
    try:
        promised = release.promise()
    except AccountingError:  # plain labels
        return nothing
    if given is not None and not math.isclose(given, promised.delta, rel_tol=1e-9):
        raise InputError(
            f"this release promises (ε, δ) with δ = {promised.delta:g}: its audit is at that δ (leave out `delta`); at another one it "
            f"promises no such ε. Got {given:g}."
        )
    compared = release.insecure is None and from_release is not False
    return promised if compared else Guarantee(math.inf, promised.delta)


def _warnings(canaries: Canaries) -> list[str]:
    found = []
    if len(canaries) < FEW:
        found.append(f"{len(canaries)} canaries can prove next to nothing; plant hundreds.")
    if canaries.true is not None:
        found.append(
            "candidates were chosen by looking at true labels (`wrong_only`), which nobody has paid for: this result is for you alone."
        )
    return found
