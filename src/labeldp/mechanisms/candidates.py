"""Which channel each row gets: public candidates and the size of a subset, chosen from the row's public prior.

With w the candidates' prior mass, w₀ that of "none of them", U a uniform k-subset of the m candidates, g = e^ε − 1, β = k/m, Z = 1 + gβ and
φ(y) = ((1 + gy) log(1 + gy) − gy)/g², an observation of `PriorAware` carries

    g²/Z · [(1 − w₀)·β·φ(1) + w₀·φ(β) − E φ(w(U) + w₀β)]    nats about a label drawn from the prior.

Nothing has to be enumerated: φ'' = 1/(1 + gy) is a mixture of exponentials, so φ is a short sum of them (fitted once for each ε). Their
expectations follow candidate by candidate, for every m and k in one pass: E e^{−τ w(U)} is

    T[m, k] = (1 − k/m)·T[m − 1, k] + (k/m)·e^{−τ w_m}·T[m − 1, k − 1].
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import check_epsilon
from labeldp.errors import InputError
from labeldp.mechanisms.bits import Flags, Packed, no_padding, pack, packed_bytes, set_sizes, unpack
from labeldp.private import check_num_classes

# ----------------------------------------------------------------
# Public channels, row by row: which symbols are candidates, and how many of them are observed. Compact, whatever the number of rows.

Whole: TypeAlias = npt.NDArray[np.int64]

KEY = 1 << 17  # more than any size


def symbols(packed: Packed, num_classes: int) -> Flags:
    """Flags, a column a symbol."""
    return unpack(packed, num_classes + 1).view(np.bool_)


def keys(candidates: Whole, sizes: npt.NDArray[np.integer[Any]]) -> Whole:
    """One number for m and k, in the order of both."""
    return np.asarray(candidates * KEY + sizes)


@dataclass(frozen=True, eq=False)
class Channels:
    """The public channels of some rows: sets of candidates, packed (the last bit is "any other class"), and the subsets' sizes."""

    num_classes: int
    candidates: Packed
    sizes: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        shape = (len(self.sizes), packed_bytes(self.num_classes + 1))
        if self.candidates.shape != shape or self.candidates.dtype != np.uint8:
            raise InputError(f"the candidates of {shape[0]:,} rows are {shape[1]} bytes a row, a bit a symbol.")
        if self.sizes.ndim != 1 or self.sizes.dtype != np.uint16:
            raise InputError("the sizes are one 16-bit number a row.")
        if not no_padding(self.candidates, self.num_classes + 1):
            raise InputError(f"a candidate is one of {self.num_classes} classes, or the symbol for all the others.")
        m, k = self.counts(), self.sizes
        wrong = (m > self.num_classes) | (k < 1) | (k >= m) & ((m != 1) | (k != 1))
        if wrong.any():
            raise InputError(
                f"row {int(wrong.argmax())} has no possible channel: k of m candidates need 1 ≤ k < m ≤ {self.num_classes} "
                "(or m = k = 1, which says nothing)."
            )

    @classmethod
    def of(cls, members: Flags, sizes: npt.NDArray[np.integer[Any]]) -> Channels:
        """From flags, a column a class and a last one for "any other class"."""
        return cls(members.shape[1] - 1, pack(members), sizes.astype(np.uint16))

    @classmethod
    def concatenate(cls, parts: Sequence[Channels]) -> Channels:
        """Consecutive parts as a whole."""
        if len({part.num_classes for part in parts}) != 1:
            raise InputError("channels that are put together need one number of classes.")
        candidates, sizes = ([getattr(part, name) for part in parts] for name in ("candidates", "sizes"))
        return cls(parts[0].num_classes, np.concatenate(candidates), np.concatenate(sizes))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Channels:
        return Channels(self.num_classes, self.candidates[rows], self.sizes[rows])

    def counts(self) -> Whole:
        """How many candidates each row has."""
        return set_sizes(self.candidates)

    def members(self) -> Flags:
        """The candidates as flags, a column a symbol."""
        return symbols(self.candidates, self.num_classes)

    def shapes(self) -> list[tuple[int, int]]:
        """The different pairs of m and k."""
        return [divmod(int(key), KEY) for key in np.unique(keys(self.counts(), self.sizes))]

    def digest(self) -> str:
        """A hash by which the same channels are known again."""
        digest = hashlib.sha256(f"{self.num_classes} {len(self)} ".encode())
        digest.update(np.ascontiguousarray(self.candidates).tobytes())
        digest.update(self.sizes.astype("<u2").tobytes())
        return digest.hexdigest()


Array: TypeAlias = npt.NDArray[np.float64]

_ROW_SUM = 1e-3  # how far from 1 a row may add up: priors come from softmax in 32 bits, or from text
_CHUNK_CELLS = 1 << 17  # the passes below are fastest where their tables stay in the processor's cache
_EVERY_SIZE = 128  # up to so many symbols every sensible size is tried
_MOST_STEPS = 4_000_000
_TIE = 1e-9  # a difference below this share of what ε can carry is rounding


def most_likely(priors: npt.ArrayLike, epsilon: float) -> Channels:
    """RRWithPrior (Ghazi et al. 2021): randomized response on the k likeliest classes, with the k most likely to tell the truth.

    k = arg max e^ε/(e^ε + k − 1) · (the sum of the k largest probabilities).
    """
    e = exp(check_epsilon(epsilon))
    parts = []
    for _, prior in _chunks(priors):
        order = np.argsort(-prior, axis=1, kind="stable")
        mass = np.cumsum(np.take_along_axis(prior, order, axis=1), axis=1)
        count = 1 + np.argmax(mass * (e / (e + np.arange(prior.shape[1]))), axis=1)
        nothing = np.zeros(len(prior), dtype=np.bool_)
        parts.append(Channels.of(_likeliest(order, count, nothing), np.ones(len(prior), dtype=np.int64)))
    return Channels.concatenate(parts)


def most_informative(priors: npt.ArrayLike, epsilon: float) -> Channels:
    """The channel that carries the most nats about a label drawn from the row's prior. Ties: fewer candidates, then a smaller subset.

    The candidates are the m − 1 likeliest classes and "any other class"; the m likeliest alone never carry more. Their answer to every
    other label is a uniform subset, the mean of the answers to the m. Information is convex in the channel, so answering all other labels
    like one of the m carries as much or more; and it is symmetric and concave in the m masses, so the lightest is the one to join.
    RRWithPrior's channel is therefore never better.

    Tried are k = 1 for every m, and up to 128 symbols each k to 1 + m/2 (to 1 + twice a uniform prior's best k, if that is less). Beyond,
    the uniform prior's best k, by a lower bound: φ'' ≤ 1, so that E φ ≤ φ(β) + Var w(U)/2.
    """
    epsilon = check_epsilon(epsilon)
    parts = []
    for _, prior in _chunks(priors, cells=_largest_size(_EVERY_SIZE, epsilon) * len(_exponentials(epsilon).tau)):
        order = np.argsort(-prior, axis=1, kind="stable")
        count, size = _best_shapes(np.take_along_axis(prior, order, axis=1), epsilon)
        others = (count > 1) & (count < prior.shape[1])  # the last of all the classes stands for itself
        parts.append(Channels.of(_likeliest(order, count - others, others), size))
    return Channels.concatenate(parts)


def information(priors: npt.ArrayLike, channels: Channels, epsilon: float) -> Array:
    """Nats that each row's observation carries about a label drawn from its prior; right to a billionth of what ε can carry."""
    epsilon = check_epsilon(epsilon)
    carried = np.zeros(len(channels))
    for start, prior in _chunks(priors, channels):
        part = channels[start : start + len(prior)]
        members, counts = part.members(), part.counts()
        other = (prior * ~members[:, :-1]).sum(axis=1)
        weights, none = np.column_stack([prior, other]), np.where(members[:, -1], 0.0, other)
        for m, k in part.shapes():
            if m > 1:
                rows = np.flatnonzero((counts == m) & (part.sizes == k))
                chosen = weights[rows][members[rows]].reshape(-1, m)
                carried[start + rows] = _nats_of_shape(chosen, none[rows], k, epsilon)
    return carried


def _likeliest(order: npt.NDArray[np.intp], count: Whole, others: Flags) -> Flags:
    """Flags of the first `count` classes in `order`, and of "any other class"."""
    classes = order.shape[1]
    members = np.zeros((len(order), classes + 1), dtype=np.bool_)
    np.put_along_axis(members[:, :classes], order, np.arange(classes) < count[:, None], axis=1)
    members[:, classes] = others
    return members


def _best_shapes(weights: Array, epsilon: float) -> tuple[Whole, Whole]:
    """m and k for rows of prior probabilities, the largest first."""
    rows, classes = weights.shape
    g, tie = expm1(epsilon), _TIE * _most_nats(epsilon)
    value, size = np.zeros((rows, classes)), np.ones((rows, classes), dtype=np.int64)  # the best for m = 1, 2, … C

    def improve(columns: slice, nats: Array, k: Whole | int) -> None:
        better = nats > value[:, columns] + tie
        value[:, columns] = np.where(better, nats, value[:, columns])
        size[:, columns] = np.where(better, k, size[:, columns])

    every = np.arange(1, classes + 1)
    rest = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]  # the mass of the m-th and last symbol
    phi = _phi(weights, g)
    mean = (np.cumsum(phi, axis=1) - phi + _phi(rest, g)) / every
    improve(slice(1, None), _nats(1 / every, mean, g)[:, 1:], 1)
    for m, mean in _means(weights[:, :_EVERY_SIZE], rest, epsilon):
        sizes = np.arange(2, mean.shape[1] + 2)
        nats = _nats(sizes / m, mean, g)
        best = np.argmax(nats >= nats.max(axis=1, keepdims=True) - tie, axis=1)
        improve(slice(m - 1, m), nats.max(axis=1, keepdims=True), sizes[best][:, None])
    if classes > _EVERY_SIZE:
        many = every[_EVERY_SIZE:]
        k = _uniform_size(many, epsilon)
        squares = (np.cumsum(weights**2, axis=1) - weights**2 + rest**2)[:, _EVERY_SIZE:]
        variance = k * (many - k) / (many * (many - 1)) * (squares - 1 / many)
        improve(slice(_EVERY_SIZE, None), _nats(k / many, _phi(k / many, g) + variance / 2, g), k)
    first = np.argmax(value >= value.max(axis=1, keepdims=True) - tie, axis=1)
    return first + 1, size[np.arange(rows), first]


def _means(weights: Array, rest: Array, epsilon: float) -> Iterator[tuple[int, Array]]:
    """E φ(w(U)) for m = 3, 4, … symbols, the last of which has what remains, and a column for each of k = 2, 3, …"""
    classes = weights.shape[1]
    if _largest_size(classes, epsilon) < 2:
        return
    fit = _exponentials(epsilon)
    for m, table in enumerate(_transforms(weights[:, :-1], fit.tau, _largest_size(classes, epsilon)), 2):
        k = np.arange(2, min(_largest_size(m, epsilon), m - 1) + 1)
        if k.size:
            without = table[:, 2 : k[-1] + 1] @ fit.scale
            last = fit.scale * np.exp(-np.outer(rest[:, m - 1], fit.tau))
            within = (table[:, 1 : k[-1]] @ last[:, :, None])[:, :, 0]
            yield m, fit.constant + fit.slope * (k / m) + (1 - k / m) * without + (k / m) * within


def _transforms(weights: Array, tau: Array, largest: int) -> Iterator[Array]:
    """E e^{−τ w(U)} of uniform k-subsets U of the first 1, 2, … columns, by row, k = 0 … `largest` and τ. One array, overwritten."""
    table = np.ones((len(weights), largest + 1, len(tau)))
    for m in range(1, weights.shape[1] + 1):
        most = min(m, largest)
        share = (np.arange(1, most + 1) / m)[:, None]
        joined = table[:, :most] * np.exp(-np.outer(weights[:, m - 1], tau))[:, None]
        joined *= share
        table[:, 1 : most + 1] *= 1 - share
        table[:, 1 : most + 1] += joined
        yield table


def _nats_of_shape(weights: Array, none: Array, k: int, epsilon: float) -> Array:
    """Nats for rows that share m and k: the masses of their candidates, and of none of them."""
    g, m = expm1(epsilon), weights.shape[1]
    if m * k > _MOST_STEPS:
        raise InputError(f"the information of a subset of {k:,} among {m:,} candidates is too much work.")
    if k == 1:
        mean = _phi(weights + none[:, None] / m, g).mean(axis=1)
    else:
        fit = _exponentials(epsilon)
        *_, table = _transforms(weights, fit.tau, k)
        shifted = table[:, k] * np.exp(-np.outer(none * (k / m), fit.tau))
        mean = fit.constant + fit.slope * (k / m) + shifted @ fit.scale
    return np.maximum(0.0, _nats(k / m, mean, g, none))


def _nats(share: Array | float, mean: Array, g: float, none: Array | float = 0.0) -> Array:
    """The equation at the top, with E φ given."""
    return np.asarray(g * g / (1 + g * share) * ((1 - none) * share * _phi(1.0, g) + none * _phi(share, g) - mean))


def _phi(y: Array | float, g: float) -> Array:
    """((1 + gy) log(1 + gy) − gy)/g², by its series where that would cancel."""
    z = g * np.asarray(y)
    series = z * z * (1 / 2 - z * (1 / 6 - z * (1 / 12 - z * (1 / 20 - z / 30))))
    return np.asarray(np.where(z < 1e-3, series, (1 + z) * np.log1p(z) - z) / g**2)


class _Exponentials(NamedTuple):
    """φ(y) = constant + slope·y + Σ scale·e^{−τy} for 0 ≤ y ≤ 1."""

    tau: Array
    scale: Array
    constant: float
    slope: float


@lru_cache(maxsize=8)
def _exponentials(epsilon: float) -> _Exponentials:
    """By least squares at Chebyshev's points in log(1 + gy), where φ is smooth; the error is below 1e-9 of φ(1)."""
    g = expm1(epsilon)
    tau = np.array([0.2 * 1.5**i for i in range(1 + ceil(log(30 * max(1.0, g), 1.5)))])
    nodes = 40 + 8 * len(tau)
    y = np.expm1(epsilon * (1 - np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)) / 2) / g
    basis = np.column_stack([np.exp(-np.outer(y, tau)), np.ones(nodes), y])
    scale = np.linalg.lstsq(basis, _phi(y, g) / _phi(1.0, g), rcond=None)[0] * _phi(1.0, g)
    return _Exponentials(tau, scale[:-2], float(scale[-2]), float(scale[-1]))


def _uniform_share(epsilon: float) -> float:
    """The k/m that carries the most for a uniform prior: where Z = ε·e^ε/g."""
    g = expm1(epsilon)
    return (epsilon * exp(epsilon) / g - 1) / g


def _uniform_size(m: Whole, epsilon: float) -> Whole:
    """The better of the two whole sizes beside that share."""
    g = expm1(epsilon)
    low = np.clip(np.floor(_uniform_share(epsilon) * m).astype(np.int64), 1, m - 1)
    high = np.minimum(low + 1, m - 1)
    low_nats, high_nats = (_nats(k / m, _phi(k / m, g), g) for k in (low, high))
    return np.asarray(np.where(high_nats > low_nats, high, low))


def _largest_size(m: int, epsilon: float) -> int:
    """The largest k that is tried among m symbols."""
    return min(m - 1, int(1 + min(2 * _uniform_share(epsilon), 0.5) * m))


def _most_nats(epsilon: float) -> float:
    """What k-subset selection carries at ε for a uniform prior on ever more classes."""
    z = epsilon * exp(epsilon) / expm1(epsilon)
    return z - 1 - log(z)


def _chunks(priors: npt.ArrayLike, channels: Channels | None = None, cells: int = 1) -> Iterator[tuple[int, Array]]:
    """Checked and normalised rows, with where they start; few enough that `cells` (or a cell a class) for each fit the cache."""
    values = np.asarray(priors)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError("priors are a table of probabilities: a row for each label, a column for each class.")
    classes = check_num_classes(values.shape[1])
    if channels is not None and (len(channels), channels.num_classes) != values.shape:
        raise InputError(
            f"the priors have {len(values):,} rows and {classes} classes, the channels {len(channels):,} and {channels.num_classes}."
        )
    if not len(values):
        raise InputError("the priors have no rows.")
    step = max(1, _CHUNK_CELLS // max(cells, classes))
    for start in range(0, len(values), step):
        part = values[start : start + step].astype(np.float64)
        total = part.sum(axis=1)
        bad = ~np.isfinite(part).all(axis=1) | (part < 0).any(axis=1)
        if bad.any():
            raise InputError(f"row {start + int(bad.argmax())} of the priors holds what is no probability.")
        off = np.abs(total - 1) > _ROW_SUM
        if off.any():
            row = int(off.argmax())
            raise InputError(f"row {start + row} of the priors adds up to {total[row]:g}; probabilities add up to 1.")
        yield start, part / total[:, None]
