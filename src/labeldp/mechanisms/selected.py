"""Private selection: of several runs of a whole pipeline (release, train, score) the best is released, and nothing is said of the others.

Rows are dealt in public to two parts: *scoring* rows, and the others, which are *released*. One run, the base of the selection:

    j          a candidate, uniform; no label is looked at
    o          observations of the released rows by the candidate's mechanism, with fresh noise
    predict    a public function of (j, o): train on o, and name a class for every scoring row
    s          how many of these are right, plus two-sided geometric noise; the run's output is (j, o, s)

The base costs the *larger* of what a release and what a score costs, not their sum. Let one label differ, and take any output (j, o, s).

    P[j, o, s] = 1/candidates · P[o | j, labels of released rows] · P[s | j, o, labels of scoring rows]

If it is the label of a released row, the last factor is the same for both data sets, since it sees o and not the labels behind it; the
middle one changes by at most e^ε of mechanism j, in which the other rows cancel. If it is the label of a scoring row, the middle factor
is the same, and the count in the last one moves by at most 1: it changes by at most 2^64/a, exactly. No label is in both parts.

K, drawn from a public law, says how often the base is run; the largest s stays, of equals the first. What that costs on top is in
`accounting/selection`. K and the other outputs are told to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rows import highest
from labeldp.entropy import Entropy, below
from labeldp.errors import InputError
from labeldp.mechanisms.base import Observations, check_word
from labeldp.mechanisms.joint import Parts
from labeldp.mechanisms.judge import Plain
from labeldp.mechanisms.laplace import Laplace
from labeldp.mechanisms.repeats import Repeats, TwoSidedGeometric
from labeldp.mechanisms.response import RandomizedResponse
from labeldp.mechanisms.subset import SubsetSelection
from labeldp.mechanisms.unary import UnaryEncoding
from labeldp.private import PrivateLabels, check_num_classes, unheard

# From a candidate's number, and observations of all rows (which say nothing about scoring rows), to a class for each scoring row.
Predict: TypeAlias = Callable[[int, Observations], npt.NDArray[np.integer[Any]]]
Rows: TypeAlias = npt.NDArray[np.integer[Any]]

PURE: dict[str, type[RandomizedResponse | SubsetSelection | UnaryEncoding | Laplace]] = {
    cls.name: cls for cls in (RandomizedResponse, SubsetSelection, UnaryEncoding, Laplace)
}
MOST_CANDIDATES = 255  # a byte that is not 0


@dataclass(frozen=True)
class Trial:
    """One output of the base: the candidate, its observations of all rows, and the noisy number of right answers. Private until it wins."""

    number: int
    observations: Observations = field(repr=False)
    right: int = field(repr=False)


@dataclass(frozen=True)
class Selected(Parts):
    """The winner among `parts`, one mechanism for each candidate. Trust model: central.

    An observation's first byte is the winner's number + 1, and what its mechanism emitted follows; 0 is a row that says nothing, because
    it scored.
    """

    num_classes: int
    parts: tuple[Plain, ...]
    repeats: Repeats
    noise: TwoSidedGeometric
    name: ClassVar[str] = "selected"
    trust: ClassVar[str] = "central"
    not_by_row: ClassVar[str] = (
        "a selection trains and scores, and needs features beside the labels: see `labeldp select`."
    )
    no_judge: ClassVar[str] = (
        "a selected release is the one of several whose noise served best, so accuracy that is estimated from it would be too high. What "
        "the winner scored is in selection.json; for more, keep held-out rows under a plain mechanism (k-subset)."
    )
    first_part: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        if not 2 <= len(self.parts) <= MOST_CANDIDATES:
            raise InputError(f"a selection is among 2 to {MOST_CANDIDATES} candidates; got {len(self.parts):,}.")
        if any(type(part) is not PURE.get(part.name) for part in self.parts):
            raise InputError(f"candidates' mechanisms are {', '.join(PURE)}: every run must be pure ε.")
        if any(part.num_classes != self.num_classes for part in self.parts):
            raise InputError("the candidates have different numbers of classes.")

    @classmethod
    def calibrated(
        cls, *, epsilon: float, num_classes: int, names: Sequence[str], repeats: Repeats | None = None
    ) -> Selected:
        """The best of K runs costs at most ε; `names` are the candidates' mechanisms. Release and score get the same share of it."""
        repeats = repeats or Repeats(mean=10.0)
        unknown = next((name for name in names if name not in PURE), None)
        if unknown is not None:
            raise InputError(
                f"a candidate's mechanism is {', '.join(PURE)}; got {str(unknown)[:50]!r}. (The cost of a selection is proven where "
                "every run is pure ε.)"
            )
        base = repeats.base_epsilon(epsilon)
        made = {name: PURE[name].calibrated(epsilon=base, num_classes=num_classes) for name in set(names)}
        noise = TwoSidedGeometric.calibrated(epsilon=base)
        return cls(check_num_classes(num_classes), tuple(made[name] for name in names), repeats, noise)

    # ── the promise ──

    def base(self) -> Cost:
        """Of one run: the dearest candidate's release, or the score, whichever costs more."""
        cost = self.noise.certificate()
        for part in set(self.parts):
            cost = highest(cost, part.certificate())
        return cost

    def certificate(self) -> Cost:
        """Of the best of K runs."""
        return self.repeats.cost(self.base())

    # ── the label owner's side ──

    @unheard()
    def best(self, labels: PrivateLabels, scoring: Rows, predict: Predict, entropy: Entropy) -> Trial:
        """Run the base K times; the best. Charge the ledger first, and let nobody see how long it takes.

        `scoring` are positions, increasing. `predict` must look at nothing but its arguments and what is public, and must not fail: a
        training that does not work out names classes that do not exist.
        """
        positions = np.asarray(scoring)
        if not (0 < len(positions) < len(labels) and (np.diff(positions) > 0).all()):
            raise InputError("scoring rows are some of the rows, not all, each once and in order.")
        if positions[0] < 0 or positions[-1] >= len(labels) or labels.num_classes != self.num_classes:
            raise InputError("scoring rows are positions among the labels, which have the classes of the mechanism.")
        trials = self.repeats.draw(entropy)
        best = self._run(labels, positions, predict, entropy)
        for _ in range(trials - 1):
            trial = self._run(labels, positions, predict, entropy)
            if trial.right > best.right:
                best = trial
        return best

    def _run(self, labels: PrivateLabels, scoring: Rows, predict: Predict, entropy: Entropy) -> Trial:
        """The base, once."""
        number = int(below(entropy, len(self.parts), 1)[0])
        released = np.setdiff1d(np.arange(len(labels)), scoring, assume_unique=True)
        observations = np.zeros((len(labels), self.observation_bytes), dtype=np.uint8)
        drawn = self.parts[number].observe_uncharged(labels.take(released), entropy)
        observations[released] = self.packed(number, drawn)
        observations.flags.writeable = False
        said = np.asarray(predict(number, observations))
        if said.shape != scoring.shape:  # broadcast, one label would move the count by more than 1
            raise InputError(f"one class is predicted for each of the {len(scoring):,} scoring rows.")
        right = int((said == labels.take(scoring).reveal()).sum())
        return Trial(number, observations, right + self.noise.sample(entropy))

    # ── what anybody may compute from an observation ──

    def valid(self, observations: Observations) -> bool:
        """Of one candidate, and valid there."""
        return len(self.numbers(observations)) <= 1 and super().valid(observations)

    def winner(self, observations: Observations) -> int:
        """The candidate that these are of."""
        found = self.numbers(observations)
        if len(found) != 1:
            raise InputError("these rows do not say which candidate won.")
        return found[0]

    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """Of a released row (one that scored carries nothing), for whichever candidate carries the least."""
        return min(part.information(prior) for part in set(self.parts))

    # ── description ──

    def describe(self) -> str:
        """In a few words."""
        names = ", ".join(dict.fromkeys(part.name for part in self.parts))
        return (
            f"the best of a secret number of runs (about {self.repeats.mean:g}) among {len(self.parts)} candidates ({names}), by a "
            "noisy count of right answers; rows that scored say nothing"
        )

    def parameters(self) -> dict[str, Any]:
        """The candidates' mechanisms, the law of K, and the weight of the score's coin."""
        return {
            "candidates": [{"name": part.name, "parameters": part.parameters()} for part in self.parts],
            "repeats": self.repeats.to_json(),
            "score": {"heads": str(self.noise.heads), "epsilon": self.noise.certificate().pure},
        }

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> Selected:
        """The inverse of `parameters`; the score's ε is for readers."""
        given, repeats, score = (parameters.get(name) for name in ("candidates", "repeats", "score"))
        if not isinstance(given, list) or not isinstance(repeats, dict) or not isinstance(score, dict):
            raise InputError("a selection has candidates (a list), repeats and a score.")
        if len(given) > MOST_CANDIDATES:
            raise InputError(f"a selection is among 2 to {MOST_CANDIDATES} candidates; got {len(given):,}.")
        noise = TwoSidedGeometric(check_word(score.get("heads"), "heads"))
        parts = tuple(_part(num_classes, one) for one in given)
        return cls(num_classes, parts, Repeats.from_json(repeats), noise)


def _part(num_classes: int, given: Any) -> Plain:
    """A candidate's mechanism: a pure one, so that descriptions do not nest."""
    if not isinstance(given, dict) or not isinstance(given.get("parameters"), dict):
        raise InputError("a candidate's mechanism has a name and parameters.")
    name = given.get("name")
    if not isinstance(name, str) or name not in PURE:
        raise InputError(f"a candidate's mechanism is {', '.join(PURE)}.")
    return PURE[name].from_parameters(num_classes, given["parameters"])
