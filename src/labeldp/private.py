"""`PrivateLabels`: the one type that holds true labels. It does not print, pickle, index or turn into an array."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

MAX_CLASSES = 1 << 16


@contextmanager
def unheard() -> Iterator[None]:
    """For what is computed from private things: whether a library warns of something, and how often, may tell of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_num_classes(num_classes: int) -> int:
    """A declared number of classes, as a plain int."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, (int, np.integer)):
        raise InputError(f"num_classes must be a whole number; got {num_classes!r}.")
    if not 2 <= num_classes <= MAX_CLASSES:
        raise InputError(f"num_classes must be from 2 to {MAX_CLASSES:,}; got {num_classes:,}.")
    return int(num_classes)


def code_dtype(num_classes: int) -> type[np.uint8] | type[np.uint16]:
    """The smallest unsigned type that holds a class number."""
    return np.uint8 if num_classes <= 1 << 8 else np.uint16


class PrivateLabels:
    """True labels, validated against the declared classes.

    Only mechanisms (and, on the owner's side, canaries and PATE's teachers) look inside, through
    `reveal`. A plain array is wrapped where it enters; users never have to write this type.
    """

    __slots__ = ("__codes", "num_classes")

    def __init__(self, labels: npt.ArrayLike, num_classes: int, *, first_row: int = 0) -> None:
        """Check and wrap class numbers 0 … num_classes − 1. `first_row` is where errors start counting rows."""
        self.num_classes = check_num_classes(num_classes)
        self.__codes = _validated(labels, self.num_classes, first_row)

    @classmethod
    def wrap(cls, labels: PrivateLabels | npt.ArrayLike, num_classes: int) -> PrivateLabels:
        """`labels` themselves if they are wrapped already, otherwise wrapped and checked."""
        if not isinstance(labels, PrivateLabels):
            return cls(labels, num_classes)
        if labels.num_classes != num_classes:
            raise InputError(
                f"these labels were declared with {labels.num_classes} classes, the mechanism has {num_classes}."
            )
        return labels

    def reveal(self) -> Codes:
        """The true class numbers, read-only. Whoever calls this is on the label owner's side or is a defect."""
        view = self.__codes.view()
        view.flags.writeable = False
        return view

    def entrust(self, rows: npt.NDArray[np.integer[Any]]) -> Codes:
        """The true class numbers of some rows, for a worker of the owner's own: a process, or a machine inside the trust boundary.

        The one way in which labels leave this object for another process; what trains on them there is PATE's teacher.
        """
        codes: Codes = self.__codes[rows]
        return codes

    def digest(self, key: bytes) -> str:
        """A keyed hash of all labels, by which their owner sees whether they are still the same."""
        return hashlib.blake2b(self.__codes.tobytes(), key=key, digest_size=16).hexdigest()

    @classmethod
    def gather(cls, parts: Sequence[PrivateLabels]) -> PrivateLabels:
        """Consecutive parts of one data set as a whole, still wrapped."""
        whole = object.__new__(PrivateLabels)
        whole.num_classes = parts[0].num_classes
        whole.__codes = np.concatenate([part.__codes for part in parts])
        return whole

    def slice(self, start: int, stop: int) -> PrivateLabels:
        """Rows start … stop − 1, still wrapped."""
        part = object.__new__(PrivateLabels)
        part.num_classes = self.num_classes
        part.__codes = self.__codes[start:stop]
        return part

    def take(self, positions: npt.NDArray[np.integer[Any]]) -> PrivateLabels:
        """These rows, still wrapped; no copy where they follow one another."""
        if len(positions) and int(positions[-1]) - int(positions[0]) + 1 == len(positions):
            return self.slice(int(positions[0]), int(positions[-1]) + 1)
        part = object.__new__(PrivateLabels)
        part.num_classes = self.num_classes
        part.__codes = self.__codes[positions]
        return part

    def __len__(self) -> int:
        return len(self.__codes)

    def __repr__(self) -> str:
        return f"PrivateLabels({len(self):,} rows, {self.num_classes} classes, values hidden)"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "PrivateLabels cannot be read, compared, pickled or converted: true labels never leave their owner. "
            "Release them through a mechanism."
        )

    __getitem__ = __iter__ = __array__ = __contains__ = _refuse
    __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def _validated(labels: npt.ArrayLike, num_classes: int, first_row: int) -> Codes:
    """Class numbers in the smallest type. Errors name the row and hide the value (also from the traceback)."""
    if isinstance(labels, np.ma.MaskedArray):
        _first(np.atleast_1d(np.ma.getmaskarray(labels)).ravel(), first_row, "has no label (it is masked).")
    values = _as_array(labels)
    if values is None:
        raise InputError("labels must be a one-dimensional array of class numbers.")
    if values.ndim != 1:
        raise InputError(f"labels must be one-dimensional; got {values.ndim} dimensions.")
    if values.dtype.kind == "O":
        values = _from_objects(values, first_row)
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    if values.dtype.kind not in "iuf":
        raise InputError(
            f"labels must be class numbers 0 to {num_classes - 1}; got {'text' if values.dtype.kind in 'US' else values.dtype}. "
            "For text labels declare the names (`label_names`)."
        )
    if values.size == 0:
        raise InputError("there are no labels: the input has no rows.")
    if values.dtype.kind == "f":
        _first(np.isnan(values), first_row, "has no label (NaN).")
        with np.errstate(invalid="ignore"):
            _first(values != np.floor(values), first_row, "holds a label that is not a whole number.")
    if values.min() < 0 or values.max() >= num_classes:
        outside = (values < 0) | (values >= num_classes)
        _first(outside, first_row, f"holds a label outside the {num_classes} declared classes.")
    return values.astype(code_dtype(num_classes))


def _as_array(labels: npt.ArrayLike) -> npt.NDArray[Any] | None:
    try:
        return np.asarray(labels)
    except Exception:  # its message may quote labels, and would stay in the error's context: raise outside
        return None


def _from_objects(values: npt.NDArray[Any], first_row: int) -> npt.NDArray[Any]:
    missing = np.fromiter((v is None or type(v).__name__ in ("NAType", "NaTType") for v in values), bool, len(values))
    _first(missing, first_row, "has no label.")
    numeric = np.fromiter(
        (isinstance(v, (int, float, np.integer, np.floating, np.bool_)) for v in values), bool, len(values)
    )
    _first(~numeric, first_row, "holds text where class numbers are declared.")
    # A whole number beyond 2^53 is outside whatever was declared, and must not overflow a float on its way to being told so.
    return np.array([float(min(max(v, -(2**53)), 2**53)) if v == v else np.nan for v in values])


def _first(bad: npt.NDArray[np.bool_], first_row: int, what: str) -> None:
    if bad.any():
        raise InputError(f"row {first_row + int(np.argmax(bad))} {what}")
