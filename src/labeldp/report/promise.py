"""What a run's owner promises: an ε in words that are right, and the cap of all releases together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labeldp.accounting.statement import promise_text
from labeldp.files.summary import Certificate
from labeldp.release.release import Release
from labeldp.report.runs import Run
from labeldp.statistics.reading import Fittable

EXAMPLES = (0.01, 0.1, 0.5, 0.9)


def best_guess(before: float, epsilon: float) -> float:
    """A guess about one label that was right with this probability can become right with at most p·e^ε/(1 − p + p·e^ε).

    e^ε multiplies the *odds*: by Bayes' rule, posterior odds are prior odds times the likelihood ratio of what was released, and that is
    at most e^ε, also against any mixture of the other classes.
    """
    return 1 / (1 + (1 - before) / before * math.exp(-epsilon)) if before > 0 else 0.0


def condition(certificate: Certificate) -> str:
    """What is to be said before the bound; nothing for a pure ε.

    (ε, δ) does not bound the odds of every outcome. But for one guess and one belief about the others there are two laws, "it is so" and
    "it is not", which are (ε, δ)-close, and such a *pair* is within δ of a pair that is ε-close (Dwork, Rothblum, Vadhan 2010). For all
    guesses at once that would not be so: see docs/concepts/inference.md.
    """
    if not certificate.delta:
        return ""
    return f"For any one such guess, and but for an event of probability at most {certificate.delta:g} (δ): "


def up_to(share: float) -> str:
    """A share in percent, never less than it is: what is bounded must not look better."""
    if share >= 0.999:
        return "over 99.9%" if share < 1 else "100%"
    return f"{math.ceil(1000 * share) / 10:.1f}%"


@dataclass(frozen=True)
class Cap:
    """What the owner promises for all releases of a data set together, and since when."""

    epsilon: float
    delta: float
    when: str
    text: str
    if_same: bool  # equal ids of other groups are said to be other people: if they are not, less holds

    def exceeds(self, certificate: Certificate) -> bool:
        """Whether it leaves room for further releases."""
        return certificate.epsilon is not None and self.epsilon > certificate.epsilon * (1 + 1e-6)


def cap_of(run: Run) -> Cap | None:
    """What its owner promises for all releases of the data set together: by the ledger, or else by the newest release, on its day."""
    budget, when = budget_of(run)
    promised = None if budget is None else budget["publishable"]
    if budget is None or promised is None or (run.ledger is None and run.insecure is not None):
        return None
    same = any(budget.get(name) is not None for name in ("publishable_if_same", "unprotected_if_same"))
    return Cap(promised["epsilon"], promised["delta"], when, promise_text(budget), same)


def budget_of(run: Run) -> tuple[dict[str, Any] | None, str]:
    """The budget of the data set that was trained on, and who says so when."""
    if run.ledger is not None:
        return run.ledger["data_sets"][0], "by the ledger"
    newest = max(
        _of_its_data(run), key=lambda r: (str(r.header["made"])[:10], r.header["ledger"]["entry"]), default=None
    )
    if newest is None:
        return None, ""
    return newest.header["budget"], f"as promised on {str(newest.header['made'])[:10]}"


def raised_in(run: Run) -> tuple[str, ...]:
    """The days on which a budget was raised, by the ledger and by every release that is here."""
    budgets = [one.header["budget"] for one in run.files]
    budgets += run.ledger["data_sets"] if run.ledger is not None else []
    return tuple(sorted({str(one["at"])[:10] for budget in budgets for one in budget["raised"]}))


def _of_its_data(run: Run) -> list[Release | Fittable]:
    """The releases of the data set that was trained on, by the ledger that released it: others promise nothing of it."""
    mine: tuple[Release | Fittable, ...] = (*run.releases, *run.statistics)
    first = next(
        (file for one in run.trained_on or run.made_from for file in mine if file.checksum == one),
        None,
    )
    if first is None:
        return []
    same = (first.header["ledger"]["id"], first.data_set)
    return [file for file in mine if (file.header["ledger"]["id"], file.data_set) == same]
