"""Private selection: release, train and score some of several candidates, and publish the best. All of it on the owner's side.

The ledger is charged once, before the first candidate is drawn. What leaves is the winner's release, its noisy score, and the model that
is trained once more from the published release. How many runs there were is in no file, no message and no time of a file; whoever watches
the machine can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.accounting.book import ReleaseRecord
from labeldp.accounting.ledger import Ledger
from labeldp.data.features import Features, features_digest, join
from labeldp.entropy import Entropy, SecureEntropy, SeededEntropy
from labeldp.errors import InputError, LabelDPError, LostReleaseError
from labeldp.estimators.boosted import BoostingRecipe
from labeldp.files.atomic import look_up, place_file
from labeldp.files.run import RunFolder, write_json
from labeldp.files.schema import decode
from labeldp.files.summary import StatedSelection
from labeldp.machine import Machine, explained_memory
from labeldp.mechanisms.base import Observations
from labeldp.mechanisms.repeats import Repeats
from labeldp.mechanisms.selected import Predict, Selected
from labeldp.private import PrivateLabels
from labeldp.release import Release
from labeldp.release.make import Made, make_release
from labeldp.release.order import Draw, Observe, Order
from labeldp.release.release import certificate_json
from labeldp.release.source import Source
from labeldp.runs.job import Job, Rows, holding_out
from labeldp.runs.run import fitted, train
from labeldp.selection.candidates import Candidate, at_fault
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Steps

_REHEARSED = 512  # rows
_MEMORY = "a smaller batch_size needs less."


@dataclass(frozen=True)
class Chosen:
    """What came of it: the release, what is said of the selection (selection.json), and the summary of the last training."""

    made: Made
    selection: dict[str, Any]
    summary: dict[str, Any]


@dataclass(frozen=True)
class PrivateSelection:
    """A selection among candidates. The features are joined with the source's rows by id, or row by row.

    score_share  the share of rows that score, and say nothing in the release
    seed         public: it deals the rows, and begins every training alike
    """

    source: Source
    features: Features
    candidates: tuple[Candidate, ...]
    epsilon: float
    repeats: Repeats = field(default_factory=lambda: Repeats(mean=10.0))
    score_share: float = 0.1
    seed: int = 0
    machine: Machine = field(default_factory=Machine)

    def __post_init__(self) -> None:
        if not 0 < self.score_share < 1:
            raise InputError(
                f"`score_share` is the share of rows that score, between 0 and 1; got {self.score_share:g}."
            )
        if self.seed < 0:
            raise InputError(f"`seed` is not negative; got {self.seed}.")

    @cached_property
    def mechanism(self) -> Selected:
        """Its certificate is at most ε."""
        names = [candidate.mechanism for candidate in self.candidates]
        return Selected.calibrated(
            epsilon=self.epsilon, num_classes=self.source.classes.count, names=names, repeats=self.repeats
        )

    def about(self) -> dict[str, Any]:
        """What the release says of the selection. Another one of these is another request."""
        return {
            "selection": {
                "candidates": [candidate.to_json() for candidate in self.candidates],
                "score_share": self.score_share,
                "seed": self.seed,
                "features": features_digest(self.features.values),
            }
        }

    def run(
        self,
        out: Path,
        *,
        data_set: str,
        ledger: Ledger,
        entropy: Entropy | None = None,
        again: str | None = None,
        shuffle: bool = False,
        on_step: Steps = lambda step, of: None,
    ) -> Chosen:
        """Check everything, charge, draw, publish; then train from what is published, in the run directory `out`.

        Repeated, it returns the first result and charges nothing. `on_step` is told of that training alone. The file's order may be that
        of its labels: `shuffle` writes the rows in another.
        """
        with _place_for(out):
            self._check(ledger, data_set)
            order = Order(
                self.source, self.mechanism, data_set, shuffle=shuffle, about=self.about(), draw=self._drawing(ledger)
            )
            made = make_release(
                order, ledger=ledger, entropy=entropy or SecureEntropy(), again=again, out=RunFolder(out).released
            )
        with made.followed(out), RunFolder(out).dated(made.record.made):
            release = Release.load(RunFolder(out).released)
            selection = self._told(release, score_path(ledger, made.record))
            decode(StatedSelection, json.loads(json.dumps(selection)))
            write_json(RunFolder(out).selection, selection)
            job = self._job(selection["candidate"], release, join(release, self.features))
            return Chosen(made, selection, train(job, out, on_step=on_step))

    # ── before the charge ──

    def _check(self, ledger: Ledger, data_set: str) -> None:
        """Whatever can be known to fail without looking at a label fails now."""
        mechanism = self.mechanism
        with ledger.lock(data_set) as scratch:
            self.source.survey(ledger.book().key, folder=scratch, scratch=scratch)
        labels, values = self._joined()
        self._dealt(len(labels))
        for number in range(len(mechanism.parts)):
            with at_fault(number), explained_memory(_MEMORY):
                self._rehearse(number, values[:_REHEARSED])

    def _rehearse(self, number: int, values: npt.NDArray[Any]) -> None:
        """Two epochs of a few rows, with made-up labels: the second shows what the first did."""
        classes = self.mechanism.num_classes
        labels = PrivateLabels(np.arange(len(values)) % classes, classes)
        drawn = self.mechanism.parts[number].observe_uncharged(labels, SeededEntropy(0))
        job = self._job(number, self._draft(self.mechanism.packed(number, drawn)), values)
        recipe: Recipe | BoostingRecipe
        if isinstance(job.recipe, Recipe):
            if values.ndim != 4 and (job.recipe.randaugment or job.recipe.cutout):
                raise InputError("randaugment and cutout are for images; these features are none.")
            recipe = replace(job.recipe, epochs=min(2, job.recipe.epochs))
        else:
            recipe = BoostingRecipe(seed=job.recipe.seed, rounds=2)
        _train_and_predict(replace(job, recipe=recipe), np.arange(1))

    def _dealt(self, rows: int) -> Rows:
        """The rows that score, by number and seed alone."""
        scoring, released = holding_out(rows, self.score_share, self.seed)
        if len(scoring) < 1 or len(released) < 2:
            raise InputError(
                f"`score_share={self.score_share:g}` of {rows:,} rows leaves too few: some rows score, and at least two are released."
            )
        return np.sort(scoring)

    # ── after the charge ──

    def _drawing(self, ledger: Ledger) -> Draw:
        """How `make_release` draws. Of the draw that is published alone does anybody learn; killed before, another is made."""

        def draw(entropy: Entropy, record: ReleaseRecord) -> Observe:
            labels, values = self._joined()
            scoring = self._dealt(len(labels))
            best = self.mechanism.best(labels, scoring, self._predict(values, scoring), entropy)
            said = json.dumps({"right": best.right, "scoring_rows": len(scoring)}).encode()
            place_file(score_path(ledger, record), lambda file: file.write(said), private=True)
            return lambda piece, first: best.observations[first : first + len(piece)]

        return draw

    def _predict(self, values: npt.NDArray[Any], scoring: Rows) -> Predict:
        def predict(number: int, observations: Observations) -> npt.NDArray[np.int64]:
            with explained_memory(_MEMORY):
                try:
                    return _train_and_predict(self._job(number, self._draft(observations), values), scoring)
                except InputError:
                    # It diverged, or a model of the user's own failed. Who said so would tell of a draft: it is never right instead.
                    return np.full(len(scoring), self.mechanism.num_classes)

        return predict

    def _job(self, number: int, release: Release, values: npt.NDArray[Any]) -> Job:
        """The same for a draft as for what is published, so that the model that leaves is the one that scored."""
        candidate = self.candidates[number]
        recipe = candidate.recipe(self.mechanism.num_classes, self.seed)
        return Job(
            release, values, candidate.model, recipe, holdout=0.0, columns=self.features.columns, machine=self.machine
        )

    def _told(self, release: Release, path: Path) -> dict[str, Any]:
        """What is published beside the release. The score is part of the output that was paid for."""
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            right, rows = int(kept["right"]), int(kept["scoring_rows"])
        except (OSError, ValueError, KeyError, TypeError):
            raise LostReleaseError(
                f"{path}, which belongs to the ledger and holds the score of a selection, is missing or damaged: put it back from a "
                "backup. (The release itself is whole; `labeldp train --release` trains from it.)"
            ) from None
        mechanism, number = self.mechanism, self.mechanism.winner(release.observations)
        return {
            "candidate": number,
            "options": self.candidates[number].to_json(),
            "candidates": len(self.candidates),
            "score": right / rows,
            "score_deviation": mechanism.noise.deviation / rows,
            "scoring_rows": rows,
            "score_epsilon": mechanism.noise.certificate().pure,
            "base_epsilon": mechanism.base().pure,
            "repeats": self.repeats.to_json(),
            "certificate": certificate_json(mechanism, release.insecure),
            "trust": mechanism.trust,
            "insecure": release.insecure,
            "release": release.checksum,
        }

    # ── rows ──

    def _joined(self) -> tuple[PrivateLabels, npt.NDArray[Any]]:
        """All labels, still wrapped, and the features of their rows."""
        batches = list(self.source.batches())
        labels = PrivateLabels.gather([batch.labels for batch in batches])
        named = self.source.id_column is not None
        ids = pa.concat_arrays([batch.ids for batch in batches]) if named else None
        nothing = np.zeros((len(labels), self.mechanism.observation_bytes), dtype=np.uint8)
        return labels, join(self._draft(nothing, ids), self.features)

    def _draft(self, observations: Observations, ids: Any | None = None) -> Release:
        """A release that nobody sees."""
        names = self.source.classes.names
        header = {
            "ids": None if ids is None else {"column": self.source.id_column},
            "first_row": 0,
            "label": self.source.label_column,
            "label_names": None if names is None else list(names),
        }
        return Release(header, self.mechanism, ids, observations, "draft")


def score_path(ledger: Ledger, record: ReleaseRecord) -> Path:
    """Where the winner's score is kept: with the ledger's copy of its release, under the number of its entry."""
    return ledger.folder / f"selection-{record.number}.json"


def _train_and_predict(job: Job, rows: Rows) -> npt.NDArray[np.int64]:
    """Train, in memory, and name a class for these rows."""
    return np.asarray(fitted(job)(job.features[rows]).argmax(axis=1))


@contextmanager
def _place_for(out: Path) -> Iterator[None]:
    """A run directory for a release that may yet be refused: if it was made for it, and is empty, it does not stay."""
    fresh = look_up(out) is None
    if RunFolder(out).config.exists() and not RunFolder(out).released.exists():
        raise InputError(f"{out} holds another run; choose another `out`.")
    RunFolder(out).make()
    try:
        yield
    except LabelDPError:
        if fresh:
            with suppress(OSError):
                out.rmdir()
        raise
