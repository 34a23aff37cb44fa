"""Public bins of a model's predictions: which count each row's label will be added to. Made from the predictions alone.

Of class c, rows are cut into bins of about as many rows each by p_c; rows of one score stay together. A *cell* is a bin's rows that are
called c, or its rows that are not: so the cells tell how often the model is right. Of two classes only those of class 1 are counted (the
others of a bin are what is left of its public number of rows), and 0.5 is a boundary; of more, those of every class. Then one label moves
one count, or two.

**How many bins.** Binning hides how rows of one bin are ranked: at most ½Σ P_b·N_b/(P·N) of the AUC, about 1/(2B) with B bins. Noise of
variance v on every count is, in the AUC, z·√(v·B·κ)/(n·π(1 − π)), with κ = Σ(C_b − a·n)²/(B·n²) about 1/6. Their sum is least at

    B = (n·π(1 − π)/(z·√(κ·v)))^(2/3)

with π the class's share as the model predicts it, which is public. More than 2√n bins would hide less than the sampling of rows does.
Average precision and lift live in the highest scores: the highest bin is halved a few times more, while a half has rows enough to be told
from the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.inversion import Z
from labeldp.statistics.noise import CountNoise

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_BINS = 2048  # of one class
MOST_CELLS = 1 << 20
_KAPPA = 1 / 6
_MOST_HALVINGS = 6
_SUM_TOLERANCE = 1e-3
_CHUNK = 1 << 22  # numbers at a time
_ROUNDING = 1e-6  # of a mean of so many decimal numbers


def number_of_bins(rows: int, share: float, variance: float) -> int:
    """The rule above; two bins at least."""
    share = min(max(share, 1 / rows), 1 - 1 / rows)
    most = min(MOST_BINS, math.ceil(2 * math.sqrt(rows)))
    if variance <= 0:
        return max(2, most)
    best: float = (rows * share * (1 - share) / (Z * math.sqrt(_KAPPA * variance))) ** (2 / 3)
    return max(2, min(most, round(best)))


def _halvings(rows: float, bins: int, variance: float) -> int:
    """How often the highest of so many bins, of so many rows each, is halved: an eighth more bins at most."""
    enough = 8 * (1 + math.sqrt(variance))
    return max(0, min(_MOST_HALVINGS, 1 + bins // 8, int(math.log2(max(1.0, rows / enough)))))


@dataclass(frozen=True, eq=False)
class ScoreLayout:
    """One entry a cell, in the order of class, bin and whether the class is called; all of it public."""

    num_classes: int
    num_rows: int
    label: Integers  # the class whose rows are counted
    bin: Integers  # 0, 1, … from low to high scores of that class
    predicted: npt.NDArray[
        np.bool_
    ]  # whether this class is called, by the largest probability (of equal ones, the first)
    low: Floats  # the least and the largest score of the bin
    high: Floats
    rows: Integers  # how many rows the cell holds
    mean: Floats  # their mean probability of the class
    purity: Floats  # the mean of Σ_c p_c², which the Brier score of more than two classes needs
    purity_square: Floats  # and the mean of its square

    @classmethod
    def of(cls, probabilities: npt.ArrayLike, *, noise: CountNoise, bins: int | None = None) -> ScoreLayout:
        """From a model's predictions, one row a row and one column a class; `bins` a class, if the rule shall not say."""
        p = check_predictions(probabilities)
        rows, classes = p.shape
        if bins is not None and (
            isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= MOST_BINS
        ):
            raise InputError(f"bins are a whole number from 1 to {MOST_BINS:,}; got {bins!r}.")
        called = _called(p)
        purity = _purity(p)
        made: list[dict[str, npt.NDArray[Any]]] = []
        for c in [1] if classes == 2 else range(classes):
            scores = p[:, c].astype(np.float64)
            count = bins or number_of_bins(rows, float(scores.mean()), noise.variance)
            halves = 0 if bins else _halvings(rows / count, count, noise.variance)
            made.append(_cells_of_class(c, scores, called == c, purity, (count, halves), at_half=classes == 2))
        return cls.from_columns(classes, rows, {name: np.concatenate([one[name] for one in made]) for name in made[0]})

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """One array a field, as a file keeps them."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    @classmethod
    def from_columns(cls, num_classes: int, num_rows: int, columns: Mapping[str, npt.ArrayLike]) -> ScoreLayout:
        """The inverse of `columns`; an InputError, if no predictions have such cells."""
        names = {field.name for field in fields(cls)[2:]}
        if set(columns) != names:
            raise InputError(f"the cells of a score have the columns {', '.join(sorted(names))}.")
        if num_classes < 2 or num_rows < 2:
            raise InputError("a score is of two classes or more, and of two rows or more.")
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        cells = len(arrays["label"]) if arrays["label"].ndim == 1 else 0
        kinds = {"label": "iu", "bin": "iu", "rows": "iu", "predicted": "b"}
        for name, array in arrays.items():
            if array.shape != (cells,) or not 1 <= cells <= MOST_CELLS:
                raise InputError(f"a score has from 1 to {MOST_CELLS:,} cells, and {name} has one entry for each.")
            if array.dtype.kind not in kinds.get(name, "f"):
                raise InputError(f"the column {name} of a score cannot be {array.dtype}.")
        typed: dict[str, npt.NDArray[Any]] = {
            name: array.astype({"iu": np.int64, "b": np.bool_}.get(kinds.get(name, "f"), np.float64))
            for name, array in arrays.items()
        }
        layout = cls(num_classes, num_rows, **typed)
        layout._check()
        for array in typed.values():
            array.setflags(write=False)
        return layout

    def _check(self) -> None:
        """Whether rows can lie so."""
        label, number, called, rows = self.label, self.bin, self.predicted.astype(np.int64), self.rows
        counted = [1] if self.num_classes == 2 else list(range(self.num_classes))
        if list(np.unique(label)) != counted:
            raise InputError(
                "the cells of a score are of class 1 if there are two classes, and of every class if more."
            )
        new_class = np.concatenate(([True], np.diff(label) != 0))
        new_bin = new_class | np.concatenate(([True], np.diff(number) != 0))
        steps = np.where(new_class, number, np.diff(number, prepend=0))
        if (
            (np.diff(label) < 0).any()
            or (number[new_class] != 0).any()
            or not np.isin(steps[~new_class], (0, 1)).all()
            or (np.diff(called)[~new_bin[1:]] != 1).any()
        ):
            raise InputError("the cells of a score are in the order of class, bin (0, 1, …) and whether it is called.")
        numbers = np.concatenate((self.low, self.high, self.mean, self.purity, self.purity_square))
        if not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > (1 + _SUM_TOLERANCE) ** 4:
            raise InputError("scores of cells are probabilities, from 0 to 1.")
        if (self.low > self.high).any() or (
            np.abs(np.clip(self.mean, self.low, self.high) - self.mean) > _ROUNDING
        ).any():
            raise InputError("the mean score of a cell lies within its bin.")
        if (self.purity_square < self.purity**2 * (1 - _ROUNDING)).any():
            raise InputError("the mean of a square is no smaller than the square of the mean.")
        before, after = np.flatnonzero(~new_class) - 1, np.flatnonzero(~new_class)
        same = ~new_bin[after]
        if (self.high[before][~same] >= self.low[after][~same]).any():
            raise InputError("the bins of a class are in order, and share no score.")
        if (self.high[before][same] != self.high[after][same]).any() or (
            self.low[before][same] != self.low[after][same]
        ).any():
            raise InputError("the cells of one bin have its least and its largest score.")
        if rows.min() < 1 or rows.max() > self.num_rows:
            raise InputError(f"a cell of a score holds from 1 to {self.num_rows:,} rows.")
        totals = np.bincount(label, weights=rows, minlength=self.num_classes)[counted]
        if (totals != self.num_rows).any():
            raise InputError(f"the cells of each class hold all {self.num_rows:,} rows; these do not add up to that.")
        if self.num_classes > 2 and rows[self.predicted].sum() != self.num_rows:
            raise InputError("every row is called one class; the cells that are called do not add up to all rows.")

    @property
    def moved(self) -> int:
        """How many counts one label changes, by one each."""
        return 1 if self.num_classes == 2 else 2

    def __len__(self) -> int:
        return len(self.rows)

    def of_class(self, number: int) -> slice:
        """Where its cells are."""
        start, end = np.searchsorted(self.label, (number, number + 1))
        return slice(int(start), int(end))

    @cached_property
    def _places(self) -> list[tuple[int, Floats, npt.NDArray[np.int32]]]:
        """Of each counted class: it, the largest score of each bin, and the cell of each (bin, called); −1 where there is none."""
        found = []
        for c in [1] if self.num_classes == 2 else range(self.num_classes):
            mine = self.of_class(c)
            number, called = self.bin[mine], self.predicted[mine].astype(np.int64)
            high = np.empty(int(number[-1]) + 1)
            high[number] = self.high[mine]
            place = np.full((len(high), 2), -1, dtype=np.int32)
            place[number, called] = np.arange(mine.start, mine.stop)
            found.append((c, high, place))
        return found

    def cells(self, probabilities: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The cell that each row's label adds one to: of two classes one number a row, to which label 1 adds; of more, one a class."""
        p = check_predictions(probabilities, self.num_classes)
        called = _called(p)
        found = np.empty((len(p), len(self._places)), dtype=np.int32)
        for place, (c, high, cell) in enumerate(self._places):
            number = np.searchsorted(high[:-1], p[:, c].astype(np.float64), side="left")
            found[:, place] = cell[number, (called == c).astype(np.int64)]
        if len(p) and found.min() < 0:
            raise InputError("these are not the predictions that the bins were made of.")
        return found[:, 0] if self.num_classes == 2 else found


def check_predictions(probabilities: npt.ArrayLike, num_classes: int | None = None) -> npt.NDArray[np.floating[Any]]:
    """A table of probabilities, or a sentence that says what is wrong."""
    p = np.asarray(probabilities)
    if p.dtype.kind != "f" or p.ndim != 2 or p.shape[1] < 2 or num_classes not in (None, p.shape[1]):
        raise InputError(
            f"predictions are a table of decimal numbers, one row a row and {num_classes or 'two or more'} columns, one a class; got shape "
            f"{p.shape} of {p.dtype}."
        )
    if len(p) < 2:
        raise InputError("a score needs two rows or more.")
    step = max(1, _CHUNK // p.shape[1])
    for start in range(0, len(p), step):
        part = p[start : start + step]
        sums = part.sum(axis=1, dtype=np.float64)
        wrong = ~(np.abs(sums - 1) <= _SUM_TOLERANCE) | (part.min(axis=1) < 0)  # not finite ones, too
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"row {start + row:,} is not probabilities: they are from 0 to 1 and add up to 1; these add up to {sums[row]:g}. (Logits "
                "become probabilities by a softmax.)"
            )
    return p


def _called(p: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.intp]:
    return np.asarray(p.argmax(axis=1))


def _purity(p: npt.NDArray[np.floating[Any]]) -> Floats:
    found, step = np.empty(len(p)), max(1, _CHUNK // p.shape[1])
    for start in range(0, len(p), step):
        found[start : start + step] = (p[start : start + step].astype(np.float64) ** 2).sum(axis=1)
    return found


def _cells_of_class(
    c: int, scores: Floats, called: npt.NDArray[np.bool_], purity: Floats, bins: tuple[int, int], *, at_half: bool
) -> dict[str, npt.NDArray[Any]]:
    """Quantile bins, each ending where rows of one score end; and 0.5 a boundary, of which ½ itself is below."""
    s, n, (count, halves) = np.sort(scores), len(scores), bins
    ends = np.concatenate((np.arange(1, count + 1), count - 0.5 ** np.arange(1, halves + 1)))
    last = np.rint(ends * n / count).astype(np.int64) - 1
    last = last[last >= 0]
    half = int(np.searchsorted(s, 0.5, side="right"))
    if at_half and 0 < half < n:  # in the place of a cut that is near, unless that ends the rows
        last = np.append(last[(np.abs(last - half + 1) > n / (4 * count)) | (last > n * (1 - 0.5 / count))], half - 1)
    high = np.unique(s[np.append(last, n - 1)])
    low = s[np.concatenate(([0], np.searchsorted(s, high[:-1], side="right")))]
    key = 2 * np.searchsorted(high[:-1], scores, side="left") + called
    rows = np.bincount(key, minlength=2 * len(high))
    held = np.flatnonzero(rows)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(key, weights=values, minlength=2 * len(high))[held] / rows[held])

    number = held // 2
    return {
        "label": np.full(len(held), c, dtype=np.int64),
        "bin": number.astype(np.int64),
        "predicted": held % 2 == 1,
        "low": low[number],
        "high": high[number],
        "rows": rows[held].astype(np.int64),
        "mean": np.clip(mean(scores), low[number], high[number]),
        "purity": (pure := mean(purity)),
        "purity_square": np.maximum(mean(purity**2), pure**2),
    }
