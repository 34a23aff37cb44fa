"""What a file of votes costs: the number that may be published, and those that are the owner's alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta
from labeldp.accounting.rounding import CONTEXT
from labeldp.accounting.smooth import smooth_sensitivity
from labeldp.accounting.votes import ORDERS, check_ballot, check_sigma, data_dependent_cost
from labeldp.errors import InputError


@dataclass(frozen=True)
class Account:
    """`epsilon` is Gaussian DP's, of caps ("caps") or of the file's own counts ("counts": a guarantee only if fixed beforehand)."""

    asked: int
    answered: int
    epsilon: float
    basis: str
    delta: float
    owner_only: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it, never rounded."""
        return dict(vars(self))


def read_votes(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """`votes` (n, C) and `answered` (n) of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            votes, answered = file["votes"], file["answered"]
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path} must be an .npz file with votes (n, C) and answered (n, true or false); of a PATE run that is owner/asked.npz."
        ) from None
    return votes, answered


def account(
    votes: npt.ArrayLike,
    answered: npt.ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    delta: float = 1e-5,
    max_asked: int | None = None,
    max_answered: int | None = None,
    orders: Sequence[float] | None = None,
    smooth: tuple[float, float] | None = None,
) -> Account:
    """Both accounts of these votes. `orders` are those printed; `smooth` is (order, β) for the smooth sensitivity."""
    counts, given = check_ballot(votes, answered)
    asked, replied = len(counts), int(given.sum())
    if asked == 0:
        raise InputError("there are no votes: the file has no queries.")
    if (max_asked is None) != (max_answered is None):
        raise InputError("caps come in pairs: `max_asked` and `max_answered`.")
    if max_asked is not None and max_answered is not None and (asked > max_asked or replied > max_answered):
        raise InputError(
            f"the file has {asked:,} asked and {replied:,} answered queries, more than the caps: they were not kept."
        )
    teachers = int(counts[0].sum())
    if not 0 <= threshold <= teachers:
        raise InputError(f"the threshold is a number of votes, from 0 to the {teachers:,} teachers; got {threshold:g}.")
    check_sigma(sigma1, "sigma1")
    check_sigma(sigma2, "sigma2")
    tests, answers = (asked, replied) if max_asked is None or max_answered is None else (max_asked, max_answered)
    with localcontext(CONTEXT):
        mu_squared = Decimal(tests) / Decimal(sigma1) ** 2 + 2 * Decimal(answers) / Decimal(sigma2) ** 2
        published = Cost.of_gaussian(mu_squared * (1 + Decimal("1e-40"))).epsilon(check_delta(delta))
    options: dict[str, float] = {"threshold": threshold, "sigma1": sigma1, "sigma2": sigma2}
    epsilon, order = data_dependent_cost(counts, given, **options).epsilon(delta)
    printed = data_dependent_cost(counts, given, **options, orders=ORDERS if orders is None else orders)
    private: dict[str, Any] = {
        "epsilon_data_dependent": epsilon,
        "order": order,
        "rdp_threshold": printed.threshold.tolist(),
        "rdp_answers": printed.answers.tolist(),
        "orders": printed.orders.tolist(),
    }
    if smooth is not None:
        private["smooth_sensitivity"] = smooth_sensitivity(counts, given, **options, order=smooth[0], beta=smooth[1])
    basis = "counts" if max_asked is None else "caps"
    return Account(asked, replied, published, basis, delta, private)
