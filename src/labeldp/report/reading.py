"""What ε means for one guess, in words that are right."""

from __future__ import annotations

import math
from typing import Any

EXAMPLES = (0.01, 0.1, 0.5, 0.9)


def best_guess(before: float, epsilon: float) -> float:
    """A guess about one label that was right with this probability can become right with at most p·e^ε/(1 − p + p·e^ε).

    e^ε multiplies the *odds*: by Bayes' rule, posterior odds are prior odds times the likelihood ratio of what was released, and that is
    at most e^ε, also against any mixture of the other classes.
    """
    return 1 / (1 + (1 - before) / before * math.exp(-epsilon)) if before > 0 else 0.0


def condition(certificate: dict[str, Any]) -> str:
    """What is to be said before the bound; nothing for a pure ε.

    (ε, δ) does not bound the odds of every outcome. But laws that are (ε, δ)-close, each to each, are within δ of laws that are ε-close
    (Dwork, Rothblum, Vadhan 2010), so that but for an event of that probability one may think of the latter.
    """
    if not certificate["delta"]:
        return ""
    return (
        f"But for an event of probability at most {certificate['delta']:g} (δ), what was released could have been drawn by a mechanism "
        "for which this holds: "
    )
