"""What every mechanism is: a label goes in, an observation of known cost comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_epsilon
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.private import Codes, PrivateLabels, check_num_classes
from labeldp.renamed import NowFunction, Renamed

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger
    from labeldp.release import Release

Observations: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]

# A calibrated mechanism aims this share below the ε asked for, so that the charges of n releases of ε/n fit a
# budget of ε in floating point too.
CALIBRATION_MARGIN = 2.0**-40
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class Guarantee:
    """What one release promises: (ε, δ)-label-DP; neighbours differ in one label."""

    epsilon: float
    delta: float


class Mechanism(ABC):
    """A randomizer of known cost. Frozen; every field is public and may be printed.

    What draws row by row, from labels alone, is a `RowMechanism`; what held-out accuracy can be estimated from is a `Judge`.
    """

    name: ClassVar[str]
    trust: ClassVar[str] = "local"  # who must be trusted: with "central", a place that sees features and labels
    one_class: ClassVar[bool] = False  # an observation is one class number; otherwise it is a row of bytes
    valid_as_a_whole: ClassVar[bool] = False  # some rows of a release can be valid although all of them are not
    num_classes: int

    # Said where a mechanism of another type is needed: a `RowMechanism`, and a `Judge`.
    not_by_row: ClassVar[str] = "this mechanism takes more than labels: it does not release them row by row."
    no_judge: ClassVar[str] = (
        "this mechanism does not treat all classes alike, so accuracy cannot be estimated from what it released. Keep held-out rows "
        "under a plain mechanism (k-subset)."
    )

    # ── the promise ──

    @abstractmethod
    def certificate(self) -> Cost:
        """The proven cost of one release, computed from the integers that the sampler uses."""

    def guarantee(self) -> Guarantee:
        """The certificate of one release as (ε, δ)."""
        return Guarantee(self.certificate().epsilon(), 0.0)

    # ── what anybody may compute from an observation ──

    @property
    @abstractmethod
    def observation_bytes(self) -> int:
        """The width of one observation."""

    def valid(self, observations: Observations) -> bool:
        """Whether this mechanism could have emitted every one of these; where it is `valid_as_a_whole`, all of them together."""
        return True

    def informative(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """Which of these say anything about their label."""
        return np.ones(len(observations), dtype=np.bool_)

    @abstractmethod
    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """log p(observation | true label = c) + const, one row an observation, one column a class."""

    def values(self, observations: Observations) -> npt.NDArray[np.float32]:
        """The noisy one-hot label, for those who train on it as it is: an equal share for each class that speaks most for itself."""
        evidence = self.evidence(observations)
        most = (evidence == evidence.max(axis=1, keepdims=True)).astype(np.float32)
        return np.asarray(most / most.sum(axis=1, keepdims=True))

    def valued(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """Which of these have such a label."""
        return self.informative(observations)

    # ── description ──

    @abstractmethod
    def describe(self) -> str:
        """What it does to a label, in a few words."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What, beside the number of classes, makes this mechanism what it is; JSON, integers over 2^64 as text."""

    def to_json(self) -> dict[str, Any]:
        """Name, classes and parameters: enough to build the mechanism again."""
        return {"name": self.name, "num_classes": self.num_classes, "parameters": self.parameters()}

    judges = NowFunction("labeldp.mechanisms.judge.judging_rows")
    judging = NowFunction("labeldp.mechanisms.judge.judge_of")


class RowMechanism(Mechanism):
    """A mechanism that needs nothing but labels, and draws for each row alone."""

    # ── the label owner's side ──

    @abstractmethod
    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        """One observation a row, for a chunk of true labels."""

    def observe_uncharged(self, labels: PrivateLabels, entropy: Entropy) -> Observations:
        """Draw one observation a row, for those who have charged the ledger already; everybody else calls `release`."""
        codes = labels.reveal()
        rows = max(1, _CHUNK_BYTES // max(2 * self.num_classes, 64))
        parts = [self._observe(codes[i : i + rows], entropy) for i in range(0, len(codes), rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def release(
        self,
        labels: PrivateLabels | npt.ArrayLike,
        *,
        data_set: str,
        ledger: Ledger,
        ids: Sequence[Any] | npt.NDArray[Any] | None = None,
        label: str | None = None,
        label_names: Sequence[str] | None = None,
        entropy: Entropy | None = None,
        again: str | None = None,
        ids_as_written: bool = False,
    ) -> Release:
        """Release these labels once: charge the ledger, draw the noise, return what may be handed over.

        labels       class numbers 0 … C − 1, or texts where `label_names` are given; private
        data_set     what the ledger knows these rows by
        ids          what names each row in public: unique whole numbers or texts
        ids_as_written  whether `007` is another id than `7`; by default it is not (see `labeldp.files.ids`)
        label        what the labels are called, where the same rows have several kinds ("clicked", "bought")
        label_names  what the classes are called
        entropy      the operating system's by default; `SeededEntropy(seed)` marks everything as insecure
        again        "charge" releases rows a second time, at a second cost

        Asked for the same again, the first release is returned, with a warning, and nothing is charged: the ledger never looks at
        labels, so it cannot tell whether they are still the same.
        """
        # The one import that points upward: users expect the verb on the mechanism.
        from labeldp.release.arrays import release_labels

        return release_labels(
            self, labels, data_set=data_set, ledger=ledger, ids=ids, label=label, label_names=label_names, entropy=entropy,
            again=again, ids_as_written=ids_as_written,
        )  # fmt: skip

    # ── what its probabilities say ──

    @abstractmethod
    def probability_kept(self) -> float:
        """The probability that the class for which an observation speaks most (ties broken at random) is the true one.

        1 − probability_kept() is the label-flip probability. For a uniform prior no other guess is right more often.
        """

    @abstractmethod
    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """Nats that an observation carries about a label drawn from `prior` (default: uniform)."""

    kept = Renamed("probability_kept")


def row_wise(mechanism: Mechanism) -> RowMechanism:
    """The same, where labels are all that there is; refused if they are not enough for it."""
    if not isinstance(mechanism, RowMechanism):
        raise InputError(mechanism.not_by_row)
    return mechanism


class Readable(Protocol):
    """A kind of mechanism that files can name: one that is built again from its description."""

    name: ClassVar[str]

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> Mechanism:
        """The inverse of `parameters`; refuses what no mechanism can have."""


def aimed_at(epsilon: float) -> Decimal:
    """What calibration aims at: the margin below ε."""
    return Decimal(check_epsilon(epsilon)) * (1 - Decimal(CALIBRATION_MARGIN))


def check_prior(prior: npt.ArrayLike | None, num_classes: int) -> npt.NDArray[np.float64]:
    """A class prior as probabilities; uniform by default."""
    check_num_classes(num_classes)
    if prior is None:
        return np.full(num_classes, 1 / num_classes)
    try:
        values = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("a prior is a list of probabilities, one a class.") from None
    if values.shape != (num_classes,):
        raise InputError(f"a prior needs {num_classes} probabilities, one a class; got shape {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("a prior's probabilities must be finite and not negative.")
    total = float(values.sum())
    if not abs(total - 1) < 1e-6:
        raise InputError(f"a prior's probabilities must add up to 1; they add up to {total:g}.")
    return values / total


def check_word(value: object, name: str, low: int = 1, high: int = (1 << 64) - 1) -> int:
    """An integer over 2^64 from a mechanism's description (where it is text, since JSON readers lose bits)."""
    try:
        number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high}.")
    return number


def check_number(value: object, name: str) -> float:
    """A float from a mechanism's description."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} must be a number.")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{name} is a number that no float holds.") from None
