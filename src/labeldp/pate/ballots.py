"""What teachers hand to the aggregator: votes on the query pool, the owner's secret."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.release.place import place_file

Rows = npt.NDArray[np.int64]


def draw_shards(rows: Rows, teachers: int, seed: int) -> Rows:
    """Disjoint shards of equal size, (T, m), drawn without looking at a label: stratified ones would let one label move several teachers.

    Rows that are left over after dividing go to nobody.
    """
    size = len(rows) // teachers
    if size < 1:
        raise InputError(f"{teachers:,} teachers need a row each; there are {len(rows):,} rows.")
    order = np.random.default_rng((seed, 1)).permutation(rows)
    return np.sort(order[: size * teachers].reshape(teachers, size), axis=1)


def draw_queries(rows: Rows, count: int, seed: int) -> Rows:
    """The rows to ask about, in the order of asking: a random choice of all rows, without replacement."""
    if not 1 <= count <= len(rows):
        raise InputError(f"`max_asked` is from 1 to the number of rows, {len(rows):,}; got {count:,}.")
    return np.random.default_rng((seed, 2)).permutation(rows)[:count]


@dataclass(frozen=True, repr=False)
class Ballots:
    """Votes (n, C) on the rows that may be asked about, in the order of asking. They come from true labels: never hand them over."""

    rows: Rows
    votes: npt.NDArray[np.int64]

    @classmethod
    def count(cls, rows: Rows, said: npt.NDArray[np.integer], num_classes: int) -> Ballots:
        """From each teacher's class for each row, (T, n): one teacher, one vote."""
        votes = np.zeros((len(rows), num_classes), dtype=np.int64)
        for one in said:
            votes[np.arange(len(rows)), one] += 1
        return cls(rows, votes)

    def __repr__(self) -> str:
        return f"Ballots({len(self.rows):,} queries, votes hidden)"

    def save(self, path: Path) -> None:
        """Private. The votes' keys are those of `labeldp pate account`, which wants `answered` too."""
        place_file(path, lambda file: np.savez_compressed(file, rows=self.rows, votes=self.votes), private=True)

    @classmethod
    def load(cls, path: Path) -> Ballots:
        """As `save` wrote it."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(file["rows"], file["votes"])
        except FileNotFoundError:
            raise InputError(
                f"there is no file {path}: the teachers have not voted yet (`labeldp pate teachers`)."
            ) from None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            raise InputError(f"{path} holds no votes.") from None
