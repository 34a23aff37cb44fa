"""Release and train in stages (LP-MST, Ghazi et al. 2021): each stage's model is the public prior of the next stage's rows.

Every row is released once, in one stage, so the certificate is that of one release. Rows are dealt to stages without looking at labels.
All that a stage takes over from earlier ones (prior, weights, rows to leave out) is computed from their releases and public features.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.data.bundled import load
from labeldp.entropy import Entropy, noise
from labeldp.errors import InputError
from labeldp.experiments.experiment import (
    CanaryPlan,
    DrawnCanaries,
    Paid,
    Test,
    chosen_mechanism,
    owners_source,
    rehearse,
    shared_release,
)
from labeldp.files.atomic import place_file
from labeldp.files.predictions import write_predictions
from labeldp.files.run import RunFolder
from labeldp.machine import ALONE, World
from labeldp.mechanisms import Mechanism
from labeldp.mechanisms.candidates import most_likely
from labeldp.release import Release
from labeldp.release.joint import join_releases
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.prior import CHOICES, PublicPrior
from labeldp.release.rows import Named
from labeldp.release.source import ArraySource
from labeldp.runs.job import Job, Rows, holding_out
from labeldp.runs.pretrained import EarlierStage
from labeldp.runs.run import Progress, open_run, train
from labeldp.training.trainer import Steps


@dataclass(frozen=True)
class Dealing:
    """`stages` parts of a data set's rows, of equal size but that the rows that are held out are all in the first: only there are they
    released in a way that can judge. The first part has `first` of the rows that are trained on instead, if that is given.
    """

    stages: int
    holdout: float
    seed: int
    first: float | None = None

    def __post_init__(self) -> None:
        if self.stages < 2:
            raise InputError(f"`stages` is from 2 on; got {self.stages}.")
        if not 0 <= self.holdout < 1:
            raise InputError(f"`holdout` is a share of the rows, from 0 to below 1; got {self.holdout:g}.")
        if self.first is not None and not 0 < self.first < 1:
            raise InputError(
                f"`stage_share` is the first stage's share of the rows that are trained on, between 0 and 1; got {self.first:g}."
            )

    def first_share(self, rows: int) -> float:
        """The share of the first part that is held out."""
        return round(self.holdout * rows) / self._first(rows)

    def _first(self, rows: int) -> int:
        held_out = round(self.holdout * rows)
        trained = rows - held_out
        return held_out + (trained // self.stages if self.first is None else round(self.first * trained))

    def parts(self, rows: int) -> list[Rows]:
        """Row numbers of each stage, increasing."""
        order = np.random.default_rng([self.seed, self.stages]).permutation(rows)
        first = self._first(rows)
        if min(first - round(self.holdout * rows), (rows - first) // max(1, self.stages - 1)) < 2:
            raise InputError(f"{rows:,} rows are too few for {self.stages} stages.")
        parts = [order[:first], *np.array_split(order[first:], self.stages - 1)]
        return [np.sort(part) for part in parts]

    def trained_on(self, rows: int) -> Rows:
        """The rows that some stage trains on: all but those that `Job.split` holds out of the first part."""
        first, *others = self.parts(rows)
        _, kept = holding_out(len(first), self.first_share(rows), self.seed)
        return np.sort(np.concatenate((first[kept], *others)))


@dataclass(frozen=True)
class Handover:
    """What a stage takes over from the one before, beside the prior that its rows are released with.

    temperature    the prior is the earlier model's p^(1/temperature), normalised
    warm_start     training begins with the earlier model's weights
    drop_unlikely  earlier rows are left out if what was released of them is none of the k likeliest classes by that prior. "row": k is how
                   many candidates RRWithPrior would give this row; "mean": the mean of those of the rows that are released next, without
                   what is behind the point, as google-research/label-dp has it
    """

    temperature: float = 1.0
    warm_start: bool = False
    drop_unlikely: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise InputError(
                f"`prior_temperature` is positive: 1 leaves a prior as it is, less makes it surer; got {self.temperature:g}."
            )
        if self.drop_unlikely not in (None, "row", "mean"):
            raise InputError(f"`drop_unlikely` is row or mean; got {self.drop_unlikely!r}.")

    def prior(self, probabilities: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """p^(1/T), normalised."""
        if self.temperature == 1:
            return np.asarray(probabilities, dtype=np.float32)
        relative = probabilities.astype(np.float64) / probabilities.max(axis=1, keepdims=True)
        powers = relative ** (1 / self.temperature)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)

    def unlikely(
        self, observed: npt.NDArray[np.bool_], prior: npt.NDArray[Any], next_prior: npt.NDArray[Any], epsilon: float
    ) -> npt.NDArray[np.bool_]:
        """Which rows are left out: none of the classes that were observed is among the k likeliest."""
        k = most_likely(prior if self.drop_unlikely == "row" else next_prior, epsilon).counts()
        if self.drop_unlikely == "mean":
            k = np.full(len(prior), int(k.mean()))
        likeliest = np.argsort(-prior, axis=1, kind="stable")
        place = np.argsort(likeliest, axis=1, kind="stable")
        return np.asarray(~(observed & (place < k[:, None])).any(axis=1))

    def to_json(self) -> dict[str, Any]:
        """What is not as it always was."""
        usual = asdict(Handover())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


@dataclass(frozen=True)
class Staged:
    """An experiment in stages, in one run directory: released-1.parquet …, stage-1/ … for all but the last model, which is in `folder`.

    `make_job` makes the training of a stage from a release, its features, the share of the first release that is held out, and whether
    it is the last.
    """

    folder: Path
    dataset: str
    data: Path | None
    mechanism: str | None
    epsilon: float | None
    dealing: Dealing
    make_job: Callable[[Release, Any, float, bool], Job]
    insecure_seed: int | None = None
    canaries: CanaryPlan | DrawnCanaries | None = None
    world: World = ALONE
    paid: Paid = lambda made: None
    handover: Handover = Handover()

    def run(
        self,
        progress: Progress = lambda metrics: None,
        on_step: Steps = lambda step, of: None,
    ) -> tuple[Job, dict[str, Any]]:
        """All stages; the last one's job and the summary of the whole. What is finished is not repeated."""
        if self.mechanism not in (None, *CHOICES):
            raise InputError(
                f"`stages` goes with a `mechanism` of {' or '.join(CHOICES)}, which have a form for a prior; got {self.mechanism!r}."
            )
        whole, bundle = RunFolder(self.folder), load(self.dataset, self.data)
        parts = self.dealing.parts(len(bundle.labels))
        first = chosen_mechanism(self.mechanism or "subset", self.epsilon, bundle.labels.num_classes)
        if self.world.first:
            whole.match(self._config(), file=whole.dealing)
            if not whole.released_in(1).exists():
                share = self.dealing.first_share(len(bundle.labels))
                rehearse(
                    first,
                    bundle.features[parts[0]],
                    bundle.label_names,
                    lambda drawn, x: self.make_job(drawn, x, share, False),
                    self.world.size,
                )
        source = owners_source(bundle, self.folder, self.canaries, by_id=True) if self.world.first else None
        releases: list[Release] = []
        before: list[dict[str, Any]] = []
        test: Test = (bundle.test_features, bundle.test_labels)
        job: Job | None = None
        for number, rows in enumerate(parts, start=1):
            file, last, earlier = whole.released_in(number), number == len(parts), whole.stage(number - 1)
            if source is not None and not file.exists():
                self._release(source, rows, file, bundle.features, first, job, earlier)
            if source is not None and job is not None and self.handover.drop_unlikely is not None:
                self._drop(job, earlier)
            releases.append(shared_release(file, self.world))
            joint = join_releases(releases)
            job = self.make_job(joint, bundle.features[joint.ids], self.dealing.first_share(len(bundle.labels)), last)
            if number > 1:
                job = self._taken_over(job, earlier)
            place = self.folder if last else whole.stage(number).path
            summary = train(
                job, place, public_test=test if last else None, progress=progress, on_step=on_step, world=self.world
            )
            if not last:
                before.append(summary)
        assert job is not None
        if self.world.first and "stages" not in summary:
            summary = _summed_up(summary, before, releases)
            whole.write_summary("training", summary)
        return job, summary

    def _release(
        self,
        source: ArraySource,
        rows: Rows,
        file: Path,
        features: Any,
        mechanism: Mechanism,
        earlier: Job | None,
        before: RunFolder,
    ) -> None:
        """These rows: by `mechanism` in the first stage, by the earlier model's probabilities in later ones."""
        entropy, selected = self._noise(file.name), Named.of(rows)
        if earlier is None:
            order = Order(source, mechanism, self.dataset, selected=selected, requested_epsilon=self.epsilon or 0.0)
        else:
            assert self.epsilon is not None
            order = Order.with_prior(
                self._prior(rows, features, earlier, before), source, self.dataset, epsilon=self.epsilon, entropy=entropy,
                mechanism=self.mechanism, selected=selected,
            )  # fmt: skip
        self.paid(make_release(order, ledger=Ledger(RunFolder(self.folder).ledger), entropy=entropy, out=file))

    def _prior(self, rows: Rows, features: Any, earlier: Job, before: RunFolder) -> PublicPrior:
        """The earlier model's probabilities. On disk before the charge: another machine's floats would make another request of it."""
        if not before.prior.exists():
            predicted, _ = open_run(before.path, earlier.machine, earlier.model)
            values = self.handover.prior(predicted(features[rows]))
            write_predictions(before.prior, rows, values, {**before.promise(), "named": True})
        return PublicPrior.read(before.prior)

    def _drop(self, job: Job, before: RunFolder) -> None:
        """Note which rows of an earlier stage the next leaves out. On disk, as the prior is: once chosen, they stay so.

        Only rows that it was trained on: those that are held out are not looked at.
        """
        if before.dropped.exists():
            return
        assert self.epsilon is not None
        split = job.split()
        rows = np.concatenate((split.train, split.dropped))
        predicted, _ = open_run(before.path, job.machine, job.model)
        prior = self.handover.prior(predicted(job.features[rows]))
        observed = job.release.soft_labels(rows, "none") > 0
        left_out = self.handover.unlikely(observed, prior, PublicPrior.read(before.prior).values, self.epsilon)
        ids = np.sort(job.release.ids[rows[left_out]])
        place_file(before.dropped, lambda file: np.save(file, ids))

    def _taken_over(self, job: Job, before: RunFolder) -> Job:
        """The stage's training, with what it has from the stage before."""
        if self.handover.drop_unlikely is not None:
            job = replace(job, left_out=np.flatnonzero(np.isin(job.release.ids, before.read_dropped())))
        return replace(job, start=EarlierStage.of(before.path)) if self.handover.warm_start else job

    def _noise(self, name: str) -> Entropy:
        """A seed would give every stage the same words: each has one of its own."""
        if self.insecure_seed is None:
            return noise(None)
        digest = hashlib.sha256(f"{self.insecure_seed} {name}".encode()).digest()
        return noise(int.from_bytes(digest[:6], "big"))

    def _config(self) -> dict[str, Any]:
        """What makes these stages these: releases that are there were made so."""
        return {
            "dataset": self.dataset,
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "insecure_seed": self.insecure_seed,
            **{name: value for name, value in asdict(self.dealing).items() if (name, value) != ("first", None)},
            **self.handover.to_json(),
        }


def _summed_up(summary: dict[str, Any], before: list[dict[str, Any]], releases: list[Release]) -> dict[str, Any]:
    """The last stage's summary, with the compute of all."""
    stages = [
        {"rows_trained": one["rows_trained"], "epochs": one["epochs"], "train_flop": one["train_flop"], "seconds": one["seconds"]}
        for one in (*before, summary)
    ]  # fmt: skip
    for stage, release in zip(stages, releases, strict=True):
        stage["rows_released"], stage["mechanism"] = len(release), release.mechanism.to_json()
    if "rows_dropped" in summary:
        for stage, one in zip(stages, (*before, summary), strict=True):
            stage["rows_dropped"] = one.get("rows_dropped", 0)
    return {
        **summary,
        "stages": stages,
        "train_flop": sum(stage["train_flop"] for stage in stages),
        "seconds": sum(stage["seconds"] for stage in stages),
    }
