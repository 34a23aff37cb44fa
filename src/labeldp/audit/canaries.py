"""Canaries: planted labels, the owner's secret. Whoever guesses them better than an ε allows has disproved that ε."""

from __future__ import annotations

import json
import secrets
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from labeldp.entropy import Entropy, below, uint64s
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.ids import AS_WRITTEN, CANONICAL
from labeldp.private import PrivateLabels, check_num_classes

Numbers = npt.NDArray[np.int64]

_CHUNK = 1 << 22
_OPTIONAL = ("ids", "true", "data_set", "data_rows", "planting", "asked")


@dataclass(frozen=True, repr=False)
class Canaries:
    """N rows of a data set, the K candidate labels of each, and which of them was planted.

    Both draws are uniform and look at no label: candidates from all C classes, the planted one from the candidates. So before
    anything is trained, each candidate is planted with probability 1/K whatever else is known, and what an audit says depends on no
    label that nobody has paid for.

    `data_set` and `data_rows` say in what they were planted, `planting` names that act: another one makes other labels of the same rows.
    `asked` is what was asked for, so that the same is never drawn twice.
    """

    rows: Numbers
    candidates: Numbers
    planted: Numbers
    num_classes: int
    ids: npt.NDArray[Any] | None = None
    true: Numbers | None = None  # the labels that were replaced: only where the paper's way is asked for
    data_set: str | None = None
    data_rows: int | None = None
    planting: str | None = None
    asked: str | None = None

    @property
    def id_form(self) -> str:
        """How their ids are compared (see `labeldp.files.ids`)."""
        try:
            return AS_WRITTEN if json.loads(self.asked or "{}").get("id_form") == AS_WRITTEN else CANONICAL
        except (ValueError, AttributeError):
            return CANONICAL

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        if self.rows.ndim != 1:
            raise InputError(f"rows is one row number a canary; got shape {self.rows.shape}.")
        n = len(self.rows)
        if n == 0:
            raise InputError("there are no canaries.")
        if self.candidates.ndim != 2 or self.candidates.shape[0] != n or self.candidates.shape[1] < 2:
            raise InputError("each canary has two or more candidate labels, a row of `candidates` each.")
        if self.planted.shape != (n,) or (self.ids is not None and self.ids.shape != (n,)):
            raise InputError("rows, candidates, planted labels (and ids) must be of one length.")
        if self.candidates.min() < 0 or self.candidates.max() >= self.num_classes or self.rows.min() < 0:
            raise InputError(f"candidates are class numbers 0 to {self.num_classes - 1}, rows are not negative.")
        if len(np.unique(self.rows)) != n:
            raise InputError("a row can be a canary only once.")
        if self.data_rows is not None and self.rows.max() >= self.data_rows:
            raise InputError(f"some canaries are not among the {self.data_rows:,} rows that they were planted in.")
        if self.ids is not None and (self.ids.dtype.kind not in "iuU" or len(np.unique(self.ids)) != n):
            raise InputError("ids are whole numbers or text, and those of the canaries differ from each other.")
        ordered = np.sort(self.candidates, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise InputError("the candidates of a canary must differ from each other.")
        if self.true is not None and (self.true.shape != (n,) or (self.candidates == self.true[:, None]).any()):
            raise InputError("where true labels are kept, there is one a canary, and it is none of its candidates.")
        if self.true is not None and not 0 <= self.true.min() <= self.true.max() < self.num_classes:
            raise InputError(f"true labels are class numbers 0 to {self.num_classes - 1}; some are not.")
        if not (self.candidates == self.planted[:, None]).any(axis=1).all():
            wrong = int(np.argmin((self.candidates == self.planted[:, None]).any(axis=1)))
            raise InputError(f"canary {wrong} has a planted label that is not among its candidates.")

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        kept = ", with the true labels" if self.true is not None else ""
        return f"Canaries({len(self):,} of {self.candidates.shape[1]} candidates, {self.num_classes} classes{kept}; labels hidden)"

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self.true is not None:
            raise TypeError(
                "canaries that know true labels cannot be pickled or copied: `save` them, and `load` the file where they are needed."
            )
        return super().__reduce_ex__(protocol)

    @classmethod
    def draw(
        cls, count: int, *, rows: int | Numbers, num_classes: int, candidates: int = 2, entropy: Entropy
    ) -> Canaries:
        """`count` canaries among `rows` (a number of rows, or which ones), with `candidates` labels each."""
        check_num_classes(num_classes)
        among = np.arange(rows, dtype=np.int64) if isinstance(rows, (int, np.integer)) else np.asarray(rows, np.int64)
        if not 1 <= count <= len(among):
            raise InputError(f"`count` is from 1 to the number of rows, {len(among):,}; got {count:,}.")
        if not 2 <= candidates <= num_classes:
            raise InputError(f"`candidates` is from 2 to the number of classes, {num_classes}; got {candidates}.")
        chosen = np.sort(among[_shuffled(entropy, 1, len(among))[0, :count]])
        step = max(1, _CHUNK // num_classes)
        drawn = np.concatenate(
            [
                _shuffled(entropy, min(step, count - start), num_classes)[:, :candidates]
                for start in range(0, count, step)
            ]
        )
        which = below(entropy, candidates, count).astype(np.int64)
        return cls(chosen, drawn, drawn[np.arange(count), which], num_classes)

    @classmethod
    def draw_wrong(
        cls, count: int, *, labels: Sequence[PrivateLabels], rows: Numbers | None = None, entropy: Entropy
    ) -> Canaries:
        """The paper's way (Games 2 and 3): every *wrong* label is a candidate. `labels` are all rows, in consecutive parts.

        For comparing with the paper: what an audit of these says depends on true labels that nobody has paid for.
        """
        classes = labels[0].num_classes
        if classes < 3:
            raise InputError(
                "the paper's way needs a third class: candidates are wrong labels only. Leave out `wrong_only`."
            )
        codes = np.concatenate([part.reveal() for part in labels]).astype(np.int64)
        among = len(codes) if rows is None else rows
        drawn = cls.draw(count, rows=among, num_classes=classes, candidates=classes, entropy=entropy)
        true = codes[drawn.rows]
        wrong = drawn.candidates[drawn.candidates != true[:, None]].reshape(count, classes - 1)
        which = below(entropy, classes - 1, count).astype(np.int64)
        return cls(drawn.rows, wrong, wrong[np.arange(count), which], classes, true=true)

    def planted_in(self, data_set: str, rows: int) -> Canaries:
        """These canaries, as planted in so many rows of a data set; with a fresh name for the planting."""
        return replace(self, data_set=data_set, data_rows=rows, planting=secrets.token_hex(16))

    def part(self, chosen: Numbers) -> Canaries:
        """Some of them."""
        ids, true = (None if values is None else values[chosen] for values in (self.ids, self.true))
        return replace(
            self,
            rows=self.rows[chosen],
            candidates=self.candidates[chosen],
            planted=self.planted[chosen],
            ids=ids,
            true=true,
        )

    def plant(self, labels: PrivateLabels) -> PrivateLabels:
        """These labels with the canaries' rows replaced."""
        if labels.num_classes != self.num_classes or self.rows.max() >= len(labels):
            raise InputError("these canaries are of another data set: other classes, or rows that are not there.")
        codes = labels.reveal().copy()
        codes[self.rows] = self.planted
        return PrivateLabels(codes, labels.num_classes)

    # ── the secret file ──

    def truth(self, labels: PrivateLabels) -> Numbers:
        """The true labels of the canaries' rows, for their owner, or of a public benchmark: what is measured with them is not published."""
        return np.asarray(labels.reveal()[self.rows], dtype=np.int64)

    def save(self, path: Path, *, replace: bool = True) -> None:
        """For the owner's eyes: whoever has this file knows the planted labels."""
        arrays: dict[str, Any] = {"rows": self.rows, "candidates": self.candidates, "planted": self.planted}
        arrays["num_classes"] = np.int64(self.num_classes)
        arrays |= {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        place_file(path, lambda file: np.savez_compressed(file, **arrays), replace=replace, private=True)

    @classmethod
    def load(cls, path: Path | str) -> Canaries:
        """As `save` wrote it; `num_classes` may be missing, and is then as many as the candidates show at least."""
        path = Path(path)
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            rows, candidates, planted = (arrays[name] for name in ("rows", "candidates", "planted"))
            true, data_rows = arrays.get("true"), arrays.get("data_rows")
            given = [array for array in (rows, candidates, planted, true, data_rows) if array is not None]
            whole = all(array.dtype.kind in "iu" for array in given)
            classes = int(arrays["num_classes"]) if "num_classes" in arrays else max(2, int(candidates.max()) + 1)
            texts = {name: str(arrays[name][()]) for name in ("data_set", "planting", "asked") if name in arrays}
            of = int(data_rows) if data_rows is not None else None
        except FileNotFoundError:
            raise InputError(f"there is no file {path}.") from None
        except (OSError, ValueError, EOFError, TypeError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error):
            raise InputError(f"{path} holds no canaries: it needs rows, candidates and planted (.npz).") from None
        if not whole:
            raise InputError(f"{path} must hold whole numbers.")
        return cls(
            rows.astype(np.int64),
            candidates.astype(np.int64),
            planted.astype(np.int64),
            classes,
            arrays.get("ids"),
            true.astype(np.int64) if true is not None else None,
            data_rows=of,
            **texts,
        )


def _shuffled(entropy: Entropy, count: int, size: int) -> Numbers:
    """`count` uniformly random orders of 0 … size − 1: the order of random words.

    Two of `size` words are equal with probability below size²/2^65; then they stay in order.
    """
    words = uint64s(entropy, count * size).reshape(count, size)
    return np.argsort(words, axis=1, kind="stable").astype(np.int64)
