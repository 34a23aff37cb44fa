"""The aggregator: ballots in, a release of answers out. The last thing that sees a vote; everything after it is post-processing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.ledger import Ledger
from labeldp.accounting.sanitise import sanitised_epsilon
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import InputError
from labeldp.mechanisms import PateAnswers
from labeldp.mechanisms.base import Observations
from labeldp.pate.ballots import Ballots
from labeldp.private import unheard
from labeldp.release.make import Made, Observe, make_release
from labeldp.release.place import place_file
from labeldp.release.source import Source


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

    return make_release(
        source, mechanism, data_set=data_set, ledger=ledger, entropy=entropy or SecureEntropy(), again=again, selected=(0, rows),
        out=out, draw=draw,
    )  # fmt: skip


def sanitised_path(folder: Path, record: ReleaseRecord) -> Path:
    """Where the data-dependent ε of a release is kept."""
    return folder / f"data-dependent-{record.number}.json"


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
