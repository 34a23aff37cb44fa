"""What an audit says: a lower bound on ε, what it rests on, and how it was found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labeldp.audit.guesses import Comparisons
from labeldp.wording import downward, upward

ONE_RUN = "none: only that each planted label was a fair draw (Steinke et al. 2023)"
PAPER = "independence of the canaries' guesses, and a normal mean; thresholds and sign not paid for: no proven bound"
GAUSSIAN = "that the trade-off curve is Gaussian (Mahloujifar et al. 2024): only for releases whose whole cost is Gaussian noise"


@dataclass(frozen=True)
class Look:
    """One attack, at the threshold that served it best."""

    attack: str
    epsilon_low: float
    guesses: int
    correct: int
    abstained: int
    alpha: float


@dataclass(frozen=True)
class AuditResult:
    """With the stated confidence, no mechanism of a smaller ε (at this δ) would have let this many guesses be right.

    `certificate` is the proven ε of the release, for comparison. At 95% one audit in twenty is above it by chance; one far above it, or a
    second one with fresh canaries, has found a defect.
    """

    epsilon_low: float
    epsilon_high: float | None
    delta: float
    confidence: float
    method: str
    assumption: str
    guesses: int
    correct: int
    abstained: int
    canaries: int
    candidates: int
    attack: str
    threshold: float | None = None
    looks: tuple[Look, ...] = ()
    certificate: float | None = None
    warnings: tuple[str, ...] = ()
    compared: Comparisons | None = field(default=None, repr=False, compare=False)  # for violins; not part of the JSON

    def to_json(self) -> dict[str, Any]:
        """Everything, never rounded; null where an end is infinite."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "compared"}
        data["epsilon_low"], data["epsilon_high"] = _finite(self.epsilon_low), _finite(self.epsilon_high)
        data["looks"] = [asdict(look) for look in self.looks]
        data["warnings"] = list(self.warnings)
        return data

    def summary(self) -> str:
        """A few lines for people."""
        if self.method == "paper":
            what = f"{self.epsilon_low:.4g} to {_text(self.epsilon_high)} ({percent(self.confidence)} interval of the paper)"
        else:
            at = f" at δ = {self.delta:g}" if self.delta else ""
            what = f"≥ {downward(self.epsilon_low)}{at} ({percent(self.confidence)} confidence, {self.method})"
        lines = [
            f"measured ε {what}",
            f"{self.correct:,} of {self.guesses:,} guesses right, {self.abstained:,} abstained; {self.canaries:,} "
            f"{'trainings' if self.method == 'repeated' else f'canaries of {self.candidates} candidates'}; attack: {self.attack}",
            f"assumes {self.assumption}",
        ]
        if len(self.looks) > 1:
            shares = f"{percent(1 - self.confidence)} shared by {len(self.looks)} attacks"
            each = "; ".join(f"{look.attack} ≥ {downward(look.epsilon_low)}" for look in self.looks)
            lines.append(f"each attack: {each} ({shares})")
        if self.certificate is not None:
            above = f", WHICH IS LESS: chance does that in {percent(1 - self.confidence)} of audits; if fresh canaries do it too, report it"
            lines.append(
                f"certificate ε ≤ {upward(self.certificate)}" + (above if self.epsilon_low > self.certificate else "")
            )
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def plot(self, path: str | Path) -> None:
        """Right and wrong guesses by how confident the model was (Figure 1 of the paper), as SVG or PNG."""
        from labeldp.audit.figure import save_figure, violins
        from labeldp.errors import InputError

        if self.compared is None:
            raise InputError("there is nothing to draw: this audit saw no model's probabilities.")
        save_figure(violins(self.compared), path)


def percent(share: float) -> str:
    """As many digits as it has: 99.9% is not 100%."""
    return f"{100 * share:.10g}%"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _text(value: float | None) -> str:
    return "∞" if value is None or math.isinf(value) else f"{value:.4g}"
