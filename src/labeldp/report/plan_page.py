"""The plan as a page that one can play with: what Python computed for one setting, and a script that computes it for any other.

Without JavaScript the page shows the table below; with it, the script writes the same table, number by number, and follows the controls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.rows import (
    AUC,
    STANDARD_ERROR,
    auc_variance,
    check_error,
    rarest_share,
    rows_for_auc,
    scores_apart,
)
from labeldp.mechanisms import StatisticLaw
from labeldp.mechanisms.base import check_prior
from labeldp.mechanisms.plan import DEFAULT_DELTA, Choice, Plan
from labeldp.report.page import render

MOST_CLASSES = 1000
EPSILONS = (0.1, 16.0)
DELTAS = (2.0**-40, 0.9)
MOST_SHARE = 1 - 1e-6  # of one class; beyond, nothing is left to tell
WITHIN = 0.02
NORMAL = {"90": 1.644854, "95": 1.959964, "99": 2.575829}  # how sure, in percent: so many standard errors
_SURE = "95"


def rows_needed(law: StatisticLaw, within: float, z: float = NORMAL[_SURE]) -> float:
    """Held-out rows that estimate an accuracy (see `evaluation`) within ± z standard errors = `within`, whatever the accuracy.

    z²·V(a)/(gap²·within²) with V(a) = a·v₁ + (1−a)·v₀ + a(1−a)·gap², at the a where it is largest.
    """
    gap, v1, v0 = law.gap, law.variance_true, law.variance_other
    a = min(1.0, max(0.0, 0.5 + (v1 - v0) / (2 * gap**2)))
    variance = (a * v1 + (1 - a) * v0) / gap**2 + a * (1 - a)
    return (z / within) ** 2 * variance


def plan_page(
    plan: Plan,
    *,
    prior: npt.ArrayLike | None = None,
    delta: float | None = None,
    class_names: Sequence[str] | None = None,
    auc_error: float = STANDARD_ERROR,
) -> str:
    """The page, as HTML, for a plan that was made with this prior and δ."""
    if not 2 <= plan.num_classes <= MOST_CLASSES:
        raise InputError(f"the page is for 2 to {MOST_CLASSES:,} classes; got {plan.num_classes:,}. Use --json.")
    if not EPSILONS[0] <= plan.epsilon <= EPSILONS[1]:
        raise InputError(f"the page is for an ε from {EPSILONS[0]:g} to {EPSILONS[1]:g}; got {plan.epsilon:g}. Use --json.")  # fmt: skip
    used_delta = DEFAULT_DELTA if delta is None else delta
    if not DELTAS[0] <= used_delta <= DELTAS[1]:
        raise InputError(f"the page is for a δ from 2^-40 to {DELTAS[1]:g}; got {used_delta:g}. Use --json.")
    shares = None if prior is None else check_prior(prior, plan.num_classes).tolist()
    if shares is not None and max(shares) > MOST_SHARE:
        raise InputError(
            "one class has all of the prior, or nearly all: a label then tells nothing, and there is no page."
        )
    share = rarest_share(plan.num_classes, prior) or 0.5  # none is left out above
    judged = {"auc": AUC, "apart": scores_apart(AUC), "error": check_error(auc_error)}
    given = {
        "classes": plan.num_classes,
        "epsilon": plan.epsilon,
        "delta": used_delta,
        "accepts_delta": delta is not None,
        "shares": None if prior is None else np.asarray(prior, dtype=np.float64).tolist(),
        "names": None if class_names is None else list(class_names),
        "within": WITHIN * 100,
        "sure": _SURE,
        "judged": judged,
        "normal": NORMAL,
        "most_classes": MOST_CLASSES,
        "epsilons": EPSILONS,
        "deltas": DELTAS,
        "most_share": MOST_SHARE,
        "plan": plan.to_json(),
    }
    equal = [1 / plan.num_classes] * plan.num_classes
    return render(
        "plan.html",
        given=given,
        options=[_row(option, plan, share, auc_error) for option in plan.options],
        setting=f"{plan.num_classes} classes, ε = {short(plan.epsilon)}, "
        + ("all classes equally likely" if shares is None else "class shares as listed"),
        entropy=short(plan.prior_entropy),
        recommended=plan.recommended.name,
        without_delta=delta is None,
        true_rows=_rows(0.25 * (NORMAL[_SURE] / WITHIN) ** 2),
        rarest=percent(share),
        true_auc_rows=_rows(auc_variance(share, AUC) / auc_error**2),
        names=None
        if class_names is None
        else [(name, percent(p)) for name, p in zip(class_names, shares or equal, strict=True)],
        skipped=plan.skipped,
    )


def write_plan_page(path: Path, page: str) -> None:
    """Put the page in its place, whole or not at all."""
    from labeldp.files.atomic import place_file

    if path.is_dir():
        raise InputError(f"{path} is a directory; name a file for the page, like plan.html.")
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent} for the page {path.name}; make it first.")
    place_file(path, lambda file: file.write(page.encode("utf-8")))


def _row(option: Choice, plan: Plan, share: float, auc_error: float) -> dict[str, Any]:
    """One mechanism's line, as text."""
    mechanism, nats = option.mechanism, option.information
    return {
        "name": mechanism.name,
        "recommended": mechanism == plan.recommended,
        "nats": short(nats),
        "share": percent(nats / plan.prior_entropy),
        "flip": percent(option.flip_probability),
        "worth": whole(plan.prior_entropy / nats),
        "rows": _rows(rows_needed(mechanism.law(), WITHIN)),
        "auc": _rows(rows_for_auc(mechanism, share, auc_error)),
        "bytes": f"{mechanism.observation_bytes:,}",
        "promise": f"ε, δ = {short(delta)}" if (delta := mechanism.guarantee().delta) else "pure ε",
        "says": mechanism.describe(),
    }


def _rounded(value: float, digits: int) -> Decimal:
    """To so many significant digits, halves upward, as JavaScript does."""
    exact = Decimal(value)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_HALF_UP)


def short(value: float, digits: int = 4) -> str:
    """So many significant digits; the script writes numbers alike."""
    if value == 0:
        return "0"
    if value < 1e-4:
        mantissa, exponent = f"{_rounded(value, digits):.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{float(_rounded(value, digits)):.15g}"


def percent(share: float) -> str:
    """Three significant digits."""
    return f"{short(100 * share, 3)}%"


def whole(value: float) -> str:
    """A count of three significant digits."""
    return f"{float(_rounded(value, 3)):,.15g}"


def _rows(value: float) -> str:
    return whole(math.ceil(value))
