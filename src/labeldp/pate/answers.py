"""The aggregator: ballots in, a release of answers out. The last thing that sees a vote; everything after it is post-processing."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.sanitise import sanitised_epsilon
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.run import OwnerFolder
from labeldp.mechanisms import PateAnswers
from labeldp.mechanisms.base import Observations
from labeldp.private import unheard
from labeldp.release.make import Made, make_release
from labeldp.release.order import Observe, Order
from labeldp.release.source import Source

# ----------------------------------------------------------------
# What teachers hand to the aggregator: votes on the query pool, the owner's secret.

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


def release_answers(
    mechanism: PateAnswers,
    ballots: Ballots,
    source: Source,
    *,
    data_set: str,
    ledger: Ledger,
    out: Path,
    rows: int,
    entropy: Entropy | None = None,
    again: str | None = None,
    sanitised: Path | None = None,
) -> Made:
    """Charge the caps to the first `rows` rows of the source (those that teachers were trained on, or might have been), then answer.

    The release is made like any other: charged before a coin is tossed, complete before it is published; killed and repeated, it
    costs nothing more, and nobody sees two draws.

    Where the mechanism is `sanitising`, a data-dependent ε is drawn with the answers and written into `sanitised`, a private folder, under
    the number of the ledger's entry: only once this function has returned is it that of the release, and may be published.
    """
    if mechanism.sanitising is not None and sanitised is None:
        raise InputError("a sanitised ε needs a place to be written to.")
    if len(ballots.rows) < mechanism.max_asked:
        raise InputError(
            f"the teachers voted on {len(ballots.rows):,} rows; `max_asked={mechanism.max_asked}` would ask about more."
        )
    if ballots.rows.shape != ballots.votes.shape[:1]:
        raise InputError("these votes are damaged: they have not one row for each query.")
    if ballots.rows.min() < 0 or ballots.rows.max() >= rows or len(np.unique(ballots.rows)) != len(ballots.rows):
        raise InputError("these votes are about other rows, or about one row twice.")
    mechanism.check_votes(ballots.votes)  # before anything is charged

    def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
        answered = mechanism.answer(ballots.votes, entropy)
        if mechanism.sanitising is not None and sanitised is not None:
            _sanitise(mechanism, ballots, answered, sanitised_path(sanitised, record), entropy)
        everywhere = np.full(rows, mechanism.num_classes + 1, dtype=answered.dtype)
        everywhere[ballots.rows] = answered
        return lambda labels, first: everywhere[first : first + len(labels)]

    order = Order(source, mechanism, data_set, selected=(0, rows), draw=draw)
    return make_release(order, ledger=ledger, entropy=entropy or SecureEntropy(), again=again, out=out)


def sanitised_path(folder: Path, record: ReleaseRecord) -> Path:
    """Where the data-dependent ε of a release is kept."""
    return OwnerFolder(folder).sanitised_by(record.number)


@unheard()
def _sanitise(mechanism: PateAnswers, ballots: Ballots, said: Observations, path: Path, entropy: Entropy) -> None:
    """One draw for each draw of the answers: of those, one is published, and this with it."""
    assert mechanism.sanitising is not None
    asked = said <= mechanism.num_classes
    found = sanitised_epsilon(
        ballots.votes[: len(said)][asked], mechanism.informative(said)[asked], threshold=mechanism.threshold, sigma1=mechanism.sigma1,
        sigma2=mechanism.sigma2, delta=mechanism.delta, entropy=entropy, **asdict(mechanism.sanitising),
    )  # fmt: skip
    content = json.dumps(asdict(found), indent=2).encode()
    place_file(path, lambda file: file.write(content), private=True)


def doubts(mechanism: PateAnswers) -> tuple[str, ...]:
    """What the paper would advise against."""
    found = []
    share = mechanism.threshold / mechanism.teachers
    if not 0.1 <= share <= 0.75:
        found.append(
            f"the threshold is {share:.0%} of the teachers; between 10% and 75% serve best: below, answers are wrong more often, above, "
            "only the easiest rows are answered."
        )
    per_class = mechanism.max_answered / mechanism.num_classes
    if per_class < 10:
        found.append(f"{per_class:.3g} answers a class are few; 10 to 25 are enough.")
    elif per_class > 25:
        found.append(
            f"{per_class:.4g} answers a class: the paper found 10 to 25 enough for FixMatch on images (frozen features want more)."
        )
    return tuple(found)
