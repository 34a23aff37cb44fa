"""Prior-aware response: k-subset selection among the classes that a public prior holds for likely, row by row.

Symbols are the classes 0 … C − 1 and C, "any class that is no candidate". A row's channel is public: m candidates among the symbols, and
a size k < m. A label's symbol is its class if that is a candidate, else C if that is one, else none. Observed is a k-subset of the
candidates: with probability P/2^64 a uniform one that holds the symbol, else a uniform one that does not; for a label that is none of
them, any, uniformly.

The ratios between two labels:    "in" to "out"     P(m−k) / ((2^64−P)k)         what the certificate is the logarithm of
                                  "in" to "none"    Pm / (2^64·k)                at least 1, since P ≥ 2^64·k/m
                                  "none" to "out"   2^64·(m−k) / ((2^64−P)m)     at least 1 for the same reason

The first is the product of the others, so it is the largest. With k = 1 and C no candidate this is RRTop-k of RRWithPrior (Ghazi et al.
2021); with all classes as candidates it is k-subset selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_epsilon
from labeldp.accounting.rounding import log_ratio_up
from labeldp.entropy import Entropy, below
from labeldp.errors import InputError
from labeldp.mechanisms.base import Mechanism, Observations, check_word
from labeldp.mechanisms.bits import Flags, Packed, no_padding, pack, packed_bytes, set_sizes, unpack
from labeldp.mechanisms.candidates import KEY, Channels, keys, symbols
from labeldp.mechanisms.subset import SubsetSelection
from labeldp.mechanisms.table import WHOLE
from labeldp.private import Codes, PrivateLabels, check_num_classes, code_dtype

_MOST_SHAPES = 1 << 14
_CHUNK_CELLS = 1 << 21


@dataclass(frozen=True, order=True)
class Shape:
    """k of m candidates, whichever they are: the subset holds the true one with probability `holds`/2^64."""

    candidates: int
    size: int
    holds: int

    def __post_init__(self) -> None:
        if self.candidates != 1:
            self.selection()  # which refuses what cannot be
        elif (self.size, self.holds) != (1, WHOLE):
            raise InputError("a row with one candidate says nothing: its size is 1, and `holds` is 2^64.")

    @classmethod
    def calibrated(cls, epsilon: float, candidates: int, size: int) -> Shape:
        """The certificate is at most ε."""
        if candidates == 1:
            return cls(1, 1, WHOLE)
        holds = SubsetSelection.calibrated(epsilon=epsilon, num_classes=candidates, size=size).holds
        return cls(candidates, size, holds)

    def selection(self) -> SubsetSelection:
        """The same among classes that are called 0 … m − 1."""
        return SubsetSelection(self.candidates, self.size, self.holds)

    def certificate(self) -> float:
        """log[P(m−k)/((2^64−P)k)]; 0 for a single candidate."""
        return 0.0 if self.candidates == 1 else self.selection().certificate().pure

    def none(self) -> float:
        """The evidence of a class that is no candidate, above a candidate outside the subset: log[2^64·(m−k)/((2^64−P)m)]."""
        if self.candidates == 1:
            return 0.0
        return log_ratio_up(WHOLE * (self.candidates - self.size), (WHOLE - self.holds) * self.candidates)


@dataclass(frozen=True)
class PriorAware(Mechanism):
    """Subsets of candidates that differ from row to row. An observation is the candidates and the subset, so that it explains itself.

    `shapes` are the pairs of m and k that may occur, sorted, each with its probability.
    """

    num_classes: int
    shapes: tuple[Shape, ...]
    name: ClassVar[str] = "prior"
    not_by_row: ClassVar[str] = (
        "a prior-aware release needs a public prior for each row, beside the labels: see `labeldp release --public-prior`."
    )
    no_judge: ClassVar[str] = (
        "a prior-aware mechanism does not treat all classes alike, so accuracy cannot be estimated from what it released. Keep held-out "
        "rows under a plain mechanism (k-subset)."
    )

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        if not 1 <= len(self.shapes) <= _MOST_SHAPES:
            raise InputError(f"a prior-aware mechanism has 1 to {_MOST_SHAPES:,} shapes; got {len(self.shapes):,}.")
        pairs = [(shape.candidates, shape.size) for shape in self.shapes]
        if pairs != sorted(set(pairs)):
            raise InputError(
                "the shapes of a prior-aware mechanism must be sorted, and each pair of m and k occur once."
            )
        if pairs[-1][0] > self.num_classes:
            raise InputError(
                f"there are at most as many candidates as classes; got {pairs[-1][0]:,} of {self.num_classes:,}."
            )

    @classmethod
    def calibrated(cls, *, epsilon: float, num_classes: int, channels: Channels) -> PriorAware:
        """With the shapes that these channels need; each certificate is at most ε."""
        epsilon, num_classes = check_epsilon(epsilon), check_num_classes(num_classes)
        if channels.num_classes != num_classes:
            raise InputError(f"these channels are for {channels.num_classes} classes, not for {num_classes}.")
        return cls(num_classes, tuple(Shape.calibrated(epsilon, m, k) for m, k in channels.shapes()))

    # ── the promise ──

    def certificate(self) -> Cost:
        """Of the row that costs most: which channel a row gets is public."""
        return Cost(pure=float(self._certificates.max()))

    def row_certificates(self, observations: Observations) -> npt.NDArray[np.float64]:
        """What each row's own channel costs."""
        return np.asarray(self._certificates[self._shape_of(observations)])

    # ── the label owner's side ──

    def observe_given(self, labels: PrivateLabels, channels: Channels, entropy: Entropy) -> Observations:
        """Draw one observation a row through the row's channel, for those who have charged the ledger already."""
        if not self.num_classes == labels.num_classes == channels.num_classes or len(labels) != len(channels):
            raise InputError(
                f"a channel a row, and one number of classes: got {len(channels):,} channels for {channels.num_classes} classes, and "
                f"{len(labels):,} labels of {labels.num_classes}; the mechanism has {self.num_classes}."
            )
        shapes = {(shape.candidates, shape.size): shape for shape in self.shapes}
        if not shapes.keys() >= set(channels.shapes()):
            raise InputError(
                "the mechanism was calibrated for other channels: some row's candidates and size are none of its shapes."
            )
        codes, step = labels.reveal(), max(1, _CHUNK_CELLS // (self.num_classes + 1))
        observed = np.empty((len(codes), self.observation_bytes), dtype=np.uint8)
        for start in range(0, len(codes), step):
            part = channels[start : start + step]
            found = keys(part.counts(), part.sizes)
            order = np.argsort(found, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(found[order])) + 1):
                shape = shapes[divmod(int(found[rows[0]]), KEY)]
                observed[start + rows] = _draw(shape, part[rows], codes[start + rows], entropy)
        return observed

    # ── what anybody may compute from an observation ──

    @property
    def observation_bytes(self) -> int:
        """The candidates and the subset, a bit a symbol."""
        return 2 * packed_bytes(self.num_classes + 1)

    def valid(self, observations: Observations) -> bool:
        """Subsets of the candidates, of a shape that is known."""
        candidates, subset = self._halves(observations)
        if not no_padding(candidates, self.num_classes + 1) or (subset & ~candidates).any():
            return False
        shapes = self._keys[self._shape_of(observations)]
        return bool((shapes == keys(set_sizes(candidates), set_sizes(subset))).all())

    def informative(self, observations: Observations) -> Flags:
        """Rows with more than one candidate."""
        return np.asarray(set_sizes(self._halves(observations)[0]) > 1)

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """0 for a candidate outside the subset; the row's ε for one in it; between them for a class that is none."""
        shape = self._shape_of(observations)
        candidates, subset = (symbols(half, self.num_classes) for half in self._halves(observations))
        seen = np.where(candidates, 0, self._nones[shape, None])
        seen = np.where(subset, self._certificates[shape, None], seen)
        table = np.where(candidates[:, :-1], seen[:, :-1], seen[:, -1:])
        return table.astype(np.float32)

    def values(self, observations: Observations) -> npt.NDArray[np.float32]:
        """An equal share for each class that was observed, "any other" standing for all of them."""
        candidates, subset = (symbols(half, self.num_classes) for half in self._halves(observations))
        seen = np.where(candidates[:, :-1], subset[:, :-1], subset[:, -1:]).astype(np.float32)
        return np.asarray(seen / seen.sum(axis=1, keepdims=True))

    def valued(self, observations: Observations) -> npt.NDArray[np.bool_]:
        """All of them: a single candidate is observed, though that says nothing. RRWithPrior trains on it, as a pseudo-label."""
        return np.ones(len(observations), dtype=np.bool_)

    def _halves(self, observations: Observations) -> tuple[Packed, Packed]:
        width = packed_bytes(self.num_classes + 1)
        return observations[:, :width], observations[:, width:]

    def _shape_of(self, observations: Observations) -> npt.NDArray[np.intp]:
        """Each row's place in `shapes`, where it has one."""
        candidates, subset = self._halves(observations)
        places = np.searchsorted(self._keys, keys(set_sizes(candidates), set_sizes(subset)))
        return np.minimum(places, len(self.shapes) - 1)

    @cached_property
    def _keys(self) -> npt.NDArray[np.int64]:
        return np.array([shape.candidates * KEY + shape.size for shape in self.shapes])

    @cached_property
    def _certificates(self) -> npt.NDArray[np.float64]:
        return np.array([shape.certificate() for shape in self.shapes])

    @cached_property
    def _nones(self) -> npt.NDArray[np.float64]:
        return np.array([shape.none() for shape in self.shapes])

    # ── description ──

    def describe(self) -> str:
        """In a few words."""
        most = max(shape.candidates for shape in self.shapes)
        return f"a subset of up to {most} candidates that a public prior names for each row, in {len(self.shapes):,} shapes"

    def parameters(self) -> dict[str, Any]:
        """Every shape: candidates, size, and the weight of "holds the true one"."""
        return {
            "shapes": [
                {
                    "candidates": s.candidates,
                    "size": s.size,
                    "holds": str(s.holds),
                    "holds_probability": s.holds / WHOLE,
                }
                for s in self.shapes
            ]
        }

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> PriorAware:
        """From `shapes`; the probabilities beside them are for readers."""
        given = parameters.get("shapes")
        if not isinstance(given, list) or len(given) > _MOST_SHAPES or not all(isinstance(s, dict) for s in given):
            raise InputError(f"shapes are a list of at most {_MOST_SHAPES:,}, each with candidates, size and holds.")
        return cls(
            num_classes,
            tuple(
                Shape(
                    check_word(s.get("candidates"), "candidates", high=num_classes),
                    check_word(s.get("size"), "size", high=num_classes),
                    check_word(s.get("holds"), "holds", high=WHOLE),
                )
                for s in given
            ),
        )


def _draw(shape: Shape, channels: Channels, codes: Codes, entropy: Entropy) -> Observations:
    """Observations of rows that share one shape: k-subset selection among the candidates' places 0 … m − 1.

    A label that is no candidate takes a random one's place. Averaged over places, the law of the subset is the same under every
    permutation of the candidates: it is exactly uniform.
    """
    m, members = shape.candidates, channels.members()
    if m == 1:
        return np.concatenate([channels.candidates, channels.candidates], axis=1)
    rows, symbol = np.arange(len(codes)), codes.astype(np.intp)
    symbol[~members[rows, symbol]] = channels.num_classes
    candidates = np.nonzero(members)[1].reshape(-1, m)
    place = (candidates < symbol[:, None]).sum(axis=1)
    none = np.flatnonzero(~members[rows, symbol])
    place[none] = below(entropy, m, len(none))
    drawn = shape.selection()._observe(place.astype(code_dtype(m)), entropy)
    subset = np.zeros(members.shape, dtype=np.uint8)
    np.put_along_axis(subset, candidates, unpack(drawn, m), axis=1)
    return np.concatenate([channels.candidates, pack(subset)], axis=1)
