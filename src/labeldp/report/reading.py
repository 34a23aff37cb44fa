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

    (ε, δ) does not bound the odds of every outcome. But for one guess and one belief about the others there are two laws, "it is so" and
    "it is not", which are (ε, δ)-close, and such a *pair* is within δ of a pair that is ε-close (Dwork, Rothblum, Vadhan 2010). For all
    guesses at once that would not be so: see docs/concepts/inference.md.
    """
    if not certificate["delta"]:
        return ""
    return f"For any one such guess, and but for an event of probability at most {certificate['delta']:g} (δ): "


def up_to(share: float) -> str:
    """A share in percent, never less than it is: what is bounded must not look better."""
    if share >= 0.999:
        return "over 99.9%" if share < 1 else "100%"
    return f"{math.ceil(1000 * share) / 10:.1f}%"
