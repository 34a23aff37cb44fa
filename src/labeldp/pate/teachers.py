"""Teachers: each sees the labels of its own shard, and all features. What they leave behind is one vote each on the query pool.

The proof rests on one thing here: a teacher is a function of public things and of its own shard's labels, so that one label moves one vote.
Weights are thrown away; the votes are the owner's secret.
"""

from __future__ import annotations

import secrets
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.data.features import features_digest
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.run import OwnerFolder, read_as, write_json
from labeldp.files.summary import LabelsDigest, TeachersCost
from labeldp.pate.answers import Ballots, Rows, draw_queries, draw_shards
from labeldp.pate.workers import LocalWorkers, Workers
from labeldp.private import Codes, PrivateLabels, unheard
from labeldp.training.recipe import Recipe

if TYPE_CHECKING:
    import torch

    from labeldp.training.fixmatch import FixMatchTrainer

METHODS = ("frozen", "fixmatch")
_REHEARSED = 512  # rows
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TeacherPlan:
    """How teachers are trained; all of it is public.

    frozen    linear teachers on fixed features, all of them in one batched solve
    fixmatch  a model each, from its shard's labels and all features (PATE-FM, Algorithm 1)
    """

    teachers: int
    queries: int
    method: str = "frozen"
    model: str | None = None
    recipe: Recipe | None = None
    ridge: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"`method` is {' or '.join(METHODS)}; got {self.method!r}.")
        if self.teachers < 1:
            raise InputError(f"`teachers` is at least 1; got {self.teachers}.")

    def config(self, features: npt.NDArray[Any], labels: PrivateLabels, rows: int, data_set: str) -> dict[str, Any]:
        """What makes these teachers these teachers; going on with anything else is refused."""
        plan = asdict(self) | {"recipe": self.recipe.to_json() if self.recipe is not None else None}
        about = {
            "features": features_digest(features),
            "num_classes": labels.num_classes,
            "rows": rows,
            "data_set": data_set,
        }
        return {"teachers": plan, **about}


@dataclass(frozen=True, repr=False)
class Lesson:
    """One teacher's task, for a worker inside the owner's trust boundary: it carries true labels."""

    number: int
    rows: Rows
    codes: Codes
    queries: Rows
    num_classes: int
    model: str
    recipe: Recipe


@dataclass(frozen=True)
class TaughtTeacher:
    """One teacher's classes for the query pool, and what it took."""

    number: int
    said: npt.NDArray[np.uint16]
    flop: int
    seconds: float


@dataclass(frozen=True)
class Voted:
    """The ballots, and what the ensemble took to train."""

    ballots: Ballots
    flop: int
    seconds: float


def vote(
    plan: TeacherPlan,
    features: npt.NDArray[Any],
    labels: PrivateLabels,
    folder: Path,
    *,
    data_set: str,
    digest: Callable[[bytes], str] | None = None,
    rows: int | None = None,
    workers: Workers | None = None,
    progress: Progress = lambda done, of: None,
) -> Voted:
    """Train the teachers in `folder` (private: it is the owner's) and count their votes. Interrupted, the same call goes on.

    `rows`: only the first so many rows train teachers and are asked about; the others are held out. `digest` is a keyed hash of whose
    labels these are, and which: teachers of other labels are not taken for theirs.
    """
    rows = len(labels) if rows is None else rows
    if len(features) != len(labels):
        raise InputError(f"there are {len(features):,} rows of features for {len(labels):,} labels.")
    everyone = np.arange(rows)
    shards, queries = draw_shards(everyone, plan.teachers, plan.seed), draw_queries(everyone, plan.queries, plan.seed)
    run = OwnerFolder(folder)
    run.make(private=True)
    with run.locked():
        run.match(plan.config(features, labels, rows, data_set), private=True)
        if not any(folder.glob("*.npz")):  # no teacher yet: these are the labels
            _note_labels(run, digest or labels.digest)
        check_same_labels(run, digest or labels.digest)
        if run.votes.exists():
            cost = read_as(TeachersCost, run.cost)
            return Voted(Ballots.load(run.votes), int(cost.flop), cost.seconds)
        if plan.method == "frozen":
            voted = _train_frozen(plan, features, labels, shards, queries)
        else:
            voted = _train(plan, features, labels, shards, queries, folder, workers or LocalWorkers(), progress)
        write_json(run.cost, {"flop": voted.flop, "seconds": voted.seconds}, private=True)
        voted.ballots.save(run.votes)
        for path in folder.glob("teacher-*.npz"):
            path.unlink()
    return voted


def _note_labels(run: OwnerFolder, digest: Callable[[bytes], str]) -> None:
    key = secrets.token_bytes(32)
    write_json(run.labels, {"key": key.hex(), "digest": digest(key)}, private=True)


def check_same_labels(run: OwnerFolder, digest: Callable[[bytes], str]) -> None:
    """Refuse labels that the teachers were not trained on: answers about some people would be charged to others."""
    noted = read_as(LabelsDigest, run.labels)
    if noted.digest != digest(bytes.fromhex(noted.key)):
        raise InputError(
            f"the labels have changed since the teachers in {run.path} were trained: other values, rows or ids. Choose another `out`."
        )


@unheard()
def _train_frozen(
    plan: TeacherPlan, features: npt.NDArray[Any], labels: PrivateLabels, shards: Rows, queries: Rows
) -> Voted:
    from labeldp.pate.linear import teacher_votes

    if features.ndim != 2:
        raise InputError("frozen teachers are linear: they want one row of numbers an example, not images.")
    start = time.perf_counter()
    codes = labels.entrust(shards.ravel()).reshape(shards.shape)
    votes = teacher_votes(features, shards, codes, queries, labels.num_classes, ridge=plan.ridge)
    teachers, size = shards.shape
    # The Gram matrix, its factors, and the scores of the queries, for each teacher.
    width = features.shape[1]
    flop = teachers * (2 * size * size * width + size**3 // 3 + 2 * len(queries) * size * (width + labels.num_classes))
    return Voted(Ballots(queries, votes), flop, time.perf_counter() - start)


def _train(
    plan: TeacherPlan, features: npt.NDArray[Any], labels: PrivateLabels, shards: Rows, queries: Rows, folder: Path,
    workers: Workers, progress: Progress,
) -> Voted:  # fmt: skip
    if plan.recipe is None or plan.model is None:
        raise InputError("FixMatch teachers need a model and a recipe.")
    _rehearse(plan.model, plan.recipe, features, shards.shape[1], labels.num_classes)
    done = {number: taught for number in range(plan.teachers) if (taught := _kept(folder, number)) is not None}
    progress(len(done), plan.teachers)
    lessons = (
        Lesson(
            number, shards[number], labels.entrust(shards[number]), queries, labels.num_classes, plan.model, plan.recipe
        )
        for number in range(plan.teachers)
        if number not in done
    )
    for taught in workers.each(teach, features, lessons):
        _keep(folder, taught)
        done[taught.number] = taught
        progress(len(done), plan.teachers)
    said = np.stack([done[number].said for number in range(plan.teachers)])
    ballots = Ballots.count(queries, said, labels.num_classes)
    return Voted(ballots, sum(t.flop for t in done.values()), sum(t.seconds for t in done.values()))


def _rehearse(model: str, recipe: Recipe, features: npt.NDArray[Any], size: int, num_classes: int) -> None:
    """What cannot be trained at all is said now, from made-up labels: of true ones nothing will be."""
    few = features[:_REHEARSED]
    rows = np.arange(min(size, len(few)))
    codes = (rows % num_classes).astype(np.uint16)
    short = replace(recipe, epochs=min(2, recipe.epochs))
    _, _, training = _study(few, Lesson(0, rows, codes, rows[:1], num_classes, model, short))
    for _ in training:
        pass


@unheard()
def teach(features: npt.NDArray[Any], lesson: Lesson) -> TaughtTeacher:
    """Train one teacher, in whatever process; return its votes, one a query: the arg-max, the lowest class of equal ones.

    One that diverges votes for the lowest class. To say so, or to end there, would tell of its labels; so would fewer FLOP.
    """
    import torch

    torch.set_num_threads(1)
    start = time.perf_counter()
    trainer, everything, training = _study(features, lesson)
    try:
        for _ in training:
            pass
        said = trainer.probabilities(everything[torch.from_numpy(lesson.queries)]).argmax(axis=1)
    except InputError:
        said = np.zeros(len(lesson.queries), np.int64)
    flop = trainer.flop // max(trainer.epoch, 1) * lesson.recipe.epochs
    return TaughtTeacher(lesson.number, said.astype(np.uint16), flop, time.perf_counter() - start)


def _study(
    features: npt.NDArray[Any], lesson: Lesson
) -> tuple[FixMatchTrainer, torch.Tensor, Iterator[dict[str, float]]]:
    """A lesson's trainer, all features, and the training, which begins when it is gone through."""
    import torch

    from labeldp import models
    from labeldp.machine import Machine
    from labeldp.mechanisms import NoPrivacy
    from labeldp.training.fixmatch import FixMatchTrainer

    seed = lesson.recipe.seed * 100_003 + lesson.number
    torch.manual_seed(seed)
    shape = tuple(features.shape[1:])
    model = models.build(lesson.model, shape, lesson.num_classes)
    device, dtype = Machine().chosen(images=len(shape) == 3)
    trainer = FixMatchTrainer(model, replace(lesson.recipe, seed=seed), device, dtype)
    everything = torch.from_numpy(np.array(features))  # Ray's arrays are read-only
    trainer.prepare(everything)
    place = {int(row): code for row, code in zip(lesson.rows, lesson.codes, strict=True)}
    certain = NoPrivacy(lesson.num_classes)

    def evidence(rows: Rows) -> npt.NDArray[np.float32]:
        return certain.evidence(np.array([place[int(row)] for row in rows]))

    return trainer, everything, trainer.fit(everything, lesson.rows, evidence)


def _keep(folder: Path, taught: TaughtTeacher) -> None:
    path = folder / f"teacher-{taught.number}.npz"
    flop, seconds = np.int64(taught.flop), np.float64(taught.seconds)
    place_file(path, lambda file: np.savez_compressed(file, said=taught.said, flop=flop, seconds=seconds), private=True)


def _kept(folder: Path, number: int) -> TaughtTeacher | None:
    path = folder / f"teacher-{number}.npz"
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return TaughtTeacher(number, file["said"], int(file["flop"]), float(file["seconds"]))
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None  # damaged: it is trained again
