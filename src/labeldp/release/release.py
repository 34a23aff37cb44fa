"""`Release`: what may be handed over. Rows, observations, and the mechanism that made them."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError, LabelsAsRowsWarning
from labeldp.files.atomic import place_file
from labeldp.files.ids import AS_WRITTEN, comparable, find
from labeldp.mechanisms import Guarantee, Mechanism, NoPrivacy
from labeldp.release import format as files
from labeldp.release.prior import GIVEN, PriorOrigin, with_origins

if TYPE_CHECKING:
    from labeldp.evaluation.accuracy import AccuracyEstimate
    from labeldp.release.scorer import Scorer


# Rows that look like labels. Of a release of n rows in C classes, m rows that are drawn at random, with or without replacement, are all
# below C with probability (C/n)^m at most: beyond so many bits that is no accident (one call in 10⁹). Nor do rows of a batch repeat,
# unless drawn with replacement; labels do, surely if m > C, and with probability 1 − Π_{i<m}(1 − i/C) at least.
_ACCIDENT = 30
_HANDFUL = 8
_LOOKED_AT = 4096
_HOW = "Rows come from release.positions(ids) or release.target()."

NO_TARGET = "y holds labels, or something else that is no release target: it is release.target(), which holds no label."
ENCODED = (
    "y was a release's target, and its columns were numbered anew on the way, as cross_val_predict does for predict_proba: what is left "
    'are ranks, which name no rows. Give the rows beside X: cross_val_predict(clf, X, params={"rows": rows}, method="predict_proba").'
)
NO_FILE_SHOWS = "that its owner ran this mechanism, and how the noise was drawn: no file can show it"


class Description:
    """What a release file says of itself, found to be true of its rows; these are not kept.

    `observations` are there for mechanisms whose rows say something only together, and else None.
    """

    def __init__(
        self, header: dict[str, Any], mechanism: Mechanism, observations: npt.NDArray[Any] | None, checksum: str
    ) -> None:
        """Use `Description.read`."""
        self.header, self.mechanism, self.observations, self.checksum = header, mechanism, observations, checksum

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Description:
        """Of a file, perhaps another party's: all of it is read and checked, piece by piece, in memory that does not grow with it."""
        reader, kept = files.Reader(Path(path)), []
        for _, observations in reader.pieces():
            if reader.mechanism.valid_as_a_whole:
                kept.append(observations)
        return cls(reader.header, reader.mechanism, np.concatenate(kept) if kept else None, reader.checksum)

    def __len__(self) -> int:
        return int(self.header["rows"])

    @property
    def data_set(self) -> str:
        """The name under which the owner's ledger knows these labels."""
        return str(self.header["data_set"])

    @property
    def label(self) -> str | None:
        """What the labels are called, if they have a name."""
        return self.header.get("label")

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """What the classes are called, if they have names."""
        names = self.header.get("label_names")
        return tuple(names) if names is not None else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called; numerals, if they have no names."""
        return self.label_names or tuple(str(number) for number in range(self.mechanism.num_classes))

    @property
    def insecure(self) -> str | None:
        """Why this release protects nobody (a seeded generator, no mechanism), or None."""
        if isinstance(self.mechanism, NoPrivacy):
            return NoPrivacy.reason
        return self.header.get("insecure")

    @property
    def guarantee(self) -> Guarantee | None:
        """(ε, δ) of this one release, from the mechanism, and from what its public prior cost; None where nothing is guaranteed."""
        return None if self.insecure else self.promise()

    def promise(self) -> Guarantee:
        """The same, also where a known seed voids it: what holds of the noise if nobody knows it. AccountingError for plain labels."""
        return with_origins(self.mechanism.guarantee(), self.origins, self.checksums)

    @property
    def checksums(self) -> tuple[str, ...]:
        """Its own; of joined releases, theirs."""
        return tuple(self.header.get("releases") or (self.checksum,))

    @property
    def origins(self) -> tuple[PriorOrigin, ...]:
        """Where the public priors behind it come from, if there are any."""
        given = self.header.get("public_priors") or (
            [self.header["public_prior"]] if "public_prior" in self.header else []
        )
        return tuple(origin for origin in map(PriorOrigin.from_json, given) if origin is not None)

    @property
    def behind(self) -> tuple[str, ...]:
        """Every release that it was made of, or that a prior behind it was."""
        return tuple(dict.fromkeys([*self.checksums, *(one for origin in self.origins for one in origin.releases)]))

    def certificate(self) -> dict[str, Any]:
        """(ε, δ) as JSON; null, with a word why, where nothing is guaranteed."""
        return certificate_json(self.mechanism, self.insecure, self.origins, self.checksums)

    def to_json(self) -> dict[str, Any]:
        """A summary."""
        return {
            "data_set": self.data_set,
            "rows": len(self),
            "mechanism": self.mechanism.to_json(),
            "certificate": self.certificate(),
            "label_names": self.header.get("label_names"),
            "made": self.header["made"],
            "shuffled": self.header["shuffled"],
            "insecure": self.insecure,
            "budget": self.header["budget"],
            "ledger": self.header["ledger"],
            "checksum": self.checksum,
            "given": NO_FILE_SHOWS,
        }

    def __repr__(self) -> str:
        promise = f"ε = {self.guarantee.epsilon:.6g}" if self.guarantee else f"INSECURE: {self.insecure}"
        if self.guarantee and self.guarantee.delta:
            promise += f", δ = {self.guarantee.delta:g}"
        return f"{type(self).__name__}({self.data_set!r}, {len(self):,} rows, {self.mechanism.name}, {promise})"


class Rows(np.ndarray[Any, np.dtype[np.int64]]):
    """Positions in a release, known to be that and not labels: what `positions` and `rows` return.

    An array like any other. Parts of it, in any order, are rows too; what is computed from it is plain numbers.
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain if plain.ndim else plain[()]


class Release(Description):
    """A released data set, in memory as compactly as it is in its file.

    `rows` arguments are positions in the release (0 … len − 1), whatever the ids are; or (a part of) what `target` returns. Labels in
    their place look like positions too: what looks like labels is warned of, unless it comes from `positions`, `rows` or `target`.
    """

    def __init__(
        self,
        header: dict[str, Any],
        mechanism: Mechanism,
        ids: Any | None,
        observations: npt.NDArray[Any],
        checksum: str,
    ) -> None:
        """Use `Release.load`, or a mechanism's `release`."""
        super().__init__(header, mechanism, observations, checksum)
        self.observations: npt.NDArray[Any] = observations
        self._ids = ids
        self.paths: tuple[Path, ...] = ()  # the files that it was read from

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read a release file, perhaps another party's. Nothing in it is executed, and its certificate is computed anew."""
        release = cls(*files.read(Path(path)))
        release.paths = (Path(path).absolute(),)
        return release

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release as a file; an existing file is replaced in one step."""
        if "releases" in self.header:
            raise InputError("joined releases are no file: keep the files that they were read from.")

        def write(file: Any) -> None:
            writer = files.Writer(file, self.header, self.mechanism, self._ids.type if self._ids is not None else None)
            step = 1 << 20
            for start in range(0, len(self), step):
                ids = self._ids[start : start + step] if self._ids is not None else None
                writer.write(ids, self.observations[start : start + step])
            writer.close()

        place_file(Path(path), write)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The row ids: as given, or row numbers of the source."""
        if self._ids is None:
            first = int(self.header["first_row"])
            return np.arange(first, first + len(self))
        return np.asarray(self._ids.to_numpy(zero_copy_only=False))

    @property
    def arrow_ids(self) -> Any | None:
        """The ids as Arrow has them, for many rows; None where rows go by number."""
        return self._ids

    @property
    def id_form(self) -> str:
        """How its ids are compared (see `labeldp.files.ids`); those of older files as they are written."""
        return str((self.header["ids"] or {}).get("form", AS_WRITTEN))

    def comparable_ids(self) -> Any:
        """The ids, or row numbers, as text that is equal where they are the same."""
        return comparable(self.ids if self._ids is None else self._ids, self.id_form)

    def evidence(self, rows: Any = slice(None)) -> npt.NDArray[np.float32]:
        """log p(observation | true label = c) + const for these positions: one row each, one column a class.

        Positions, never labels: these are warned of where they show.
        """
        if isinstance(rows, slice):
            return self.mechanism.evidence(self.observations[rows])
        return self._evidence_of(self._checked(rows))

    def soft_labels(self, rows: Any, denoise: str) -> npt.NDArray[np.float32]:
        """Targets for cross-entropy, with no prior: observations as noisy one-hot labels, post-processed ("min-projection", "min-max",
        "softmax", "argmax", or "none": as they are, which for additive noise may be negative). Evidence says more.
        """
        from labeldp.denoise import WAYS

        if denoise not in WAYS:
            raise InputError(f"soft labels are made by {', '.join(WAYS)}; got {denoise!r}.")
        chosen = rows if isinstance(rows, slice) else self._checked(rows)
        return WAYS[denoise](self.mechanism.values(self.observations[chosen])).astype(np.float32)

    def estimate_accuracy(self, rows: Any, predictions: Any) -> AccuracyEstimate:
        """How often predictions for these positions are right, judged by what was released.

        The predictions must not depend on these rows' observations: rows that were trained on give a wrong answer.
        """
        from labeldp.evaluation.accuracy import estimate_accuracy

        chosen = np.arange(len(self))[rows if isinstance(rows, slice) else self._checked(rows)]
        if len(np.unique(chosen)) != chosen.size:
            raise InputError(
                "a row can judge only once; some of these repeat, which would make the estimate look surer than it is."
            )
        guesses = _plain(predictions)
        if self.label_names is not None and guesses.dtype.kind in "UO":
            place = {name: code for code, name in enumerate(self.label_names)}
            guesses = np.array([place.get(str(name), -1) for name in guesses.tolist()])
        return estimate_accuracy(self.mechanism, self.observations[chosen], guesses)

    def _evidence_of(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        evidence = self.mechanism.evidence(self.observations[rows if rows.ndim else rows[None]])
        return evidence if rows.ndim else evidence[0]

    def rows(self, rows: Any) -> Rows:
        """These whole numbers *are* positions in the release: said once, nothing looks whether they might be labels."""
        chosen = np.arange(len(self))[rows] if isinstance(rows, slice) else self._checked(rows, sure=True)
        return (np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)).view(Rows)

    def _checked(self, given: Any, *, sure: bool = False) -> npt.NDArray[Any]:
        rows = _plain(given)
        if rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu" and (rows[:, 0] == self._tag()).all():
            rows, sure = rows[:, 1], True  # a target
        if rows.dtype.kind == "f" and rows.size:
            raise InputError(
                "rows are whole numbers, positions in the release; these are not. Are they labels? " + _HOW
            )
        if rows.size == 0 and rows.dtype != bool:
            rows = rows.astype(np.int64)
        if rows.ndim > 1 or rows.dtype.kind not in "iub" or (rows.dtype == bool and rows.shape != (len(self),)):
            raise InputError(
                "rows are a list of positions, a slice, a mask of one truth value a row, or of this release's own target()."
            )
        if rows.dtype != bool and rows.size:
            highest = int(rows.max())
            if not (rows.min() >= 0 and highest < len(self)):
                raise InputError(f"rows are positions from 0 to {len(self) - 1} in the release.")
            if not sure and not isinstance(given, Rows) and self._like_labels(rows, highest):
                warnings.warn(
                    f"these look like class labels, not like positions in the release: {rows.size:,} numbers, all below "
                    f"{self.mechanism.num_classes}, some more than once. Taken as positions they name the release's first rows, whoever "
                    f"those are. {_HOW} If they are positions all the same: release.rows(…) says so.",
                    LabelsAsRowsWarning,
                    stacklevel=3,
                )
        return rows

    def _like_labels(self, rows: npt.NDArray[Any], highest: int) -> bool:
        classes = self.mechanism.num_classes
        if highest >= classes or rows.size < _HANDFUL or rows.size * math.log2(len(self) / classes) < _ACCIDENT:
            return False
        part = rows[:_LOOKED_AT]
        return len(np.unique(part)) < len(part)

    def positions(self, ids: Sequence[Any] | npt.NDArray[Any]) -> Rows:
        """Where these ids are in the release; for joining features by id, whatever the order of either."""
        # A row may be wanted twice.
        wanted = comparable(ids, self.id_form).dictionary_encode()
        places = find(wanted.dictionary, self.comparable_ids(), "this release", AS_WRITTEN)
        found: npt.NDArray[np.int64] = places[wanted.indices.to_numpy()]
        if (found < 0).any():
            raise InputError(
                f"{(found < 0).sum():,} of these ids are not in the release, the first at {np.argmax(found < 0)}."
            )
        return found.view(Rows)

    def target(
        self, rows: Any = slice(None), *, ids: Sequence[Any] | npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.int64]:
        """What stands for y in scikit-learn: [which release, which row] for these positions, or these ids. It holds no label.

        With two columns it is sliced like any array, and scikit-learn splits it by KFold, looking at nothing. `evidence` takes (a batch of)
        it for rows, also as a tensor, and refuses that of another release.
        """
        if ids is not None:
            rows = self.positions(ids)
        chosen = np.arange(len(self))[rows] if isinstance(rows, slice) else self._checked(rows)
        positions = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64).reshape(-1)
        return np.stack((np.full(len(positions), self._tag()), np.asarray(positions)), axis=1)

    def scorer(self, name: str = "log_likelihood", *, positive: int | None = None) -> Scorer:
        """For scikit-learn's `scoring`: log_likelihood (the one to choose by), roc_auc, average_precision, log_loss, brier, accuracy.

        `positive` is the class number that counts as positive, for ranking metrics; of two classes the second by default.
        """
        from labeldp.release.scorer import Scorer

        return Scorer(self, name, positive)

    def positions_in(self, target: Any = None, rows: Any = None, otherwise: str = NO_TARGET) -> Rows:
        """The positions that a target or else `rows` name; all, in order, without either."""
        if target is not None and rows is not None:
            raise InputError("y is the target and `rows` are positions: give one of the two.")
        if target is not None:
            return self.positions_of(target, otherwise)
        if rows is None or isinstance(rows, slice):
            return self.rows(slice(None) if rows is None else rows)
        with (
            warnings.catch_warnings()
        ):  # whoever trains on labels in place of rows trains on labels: no warning will do
            warnings.simplefilter("error", LabelsAsRowsWarning)
            try:
                checked = self._checked(rows)
            except LabelsAsRowsWarning as doubt:
                raise InputError(str(doubt)) from None
        return self.rows(checked)

    def positions_of(self, target: Any, otherwise: str) -> Rows:
        """The positions that a (slice of a) target names; raises, saying `otherwise`, if it is none."""
        table = _plain(target)
        if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
            raise InputError(otherwise)
        if len(table) and not table[:, 0].any():  # scikit-learn numbers the values of each column anew: ranks, not rows
            raise InputError(ENCODED)
        if (table[:, 0] != self._tag()).any():
            raise InputError(
                "y is the target of another release than this classifier's, or not a release target at all."
            )
        return self.rows(table[:, 1])

    def _tag(self) -> int:
        """The release, as a number: 60 bits of its checksum."""
        return int(hashlib.sha256(self.checksum.encode()).hexdigest()[:15], 16)

    def __deepcopy__(self, memo: dict[int, Any]) -> Release:
        return self  # nothing in a release changes, and scikit-learn copies parameters for every fit


def _plain(values: Any) -> npt.NDArray[Any]:
    """As an array, also from a tensor on another device."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def certificate_json(
    mechanism: Mechanism, insecure: str | None, origins: Sequence[PriorOrigin] = (), parts: Sequence[str] = ()
) -> dict[str, Any]:
    """(ε, δ) of one release; null, with a word why, where nothing is guaranteed. `given` says what it takes for granted, if anything."""
    if insecure is not None or isinstance(mechanism, NoPrivacy):
        return {"epsilon": None, "delta": None, "reason": insecure or NoPrivacy.reason}
    guarantee = with_origins(mechanism.guarantee(), origins, parts)
    stated = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "reason": None}
    return {**stated, "given": GIVEN} if origins else stated
