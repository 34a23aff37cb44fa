"""A run directory: what was trained, from what, how well, at what cost. Every file's name is said here, and nowhere else.

config.json           the recipe and where everything came from
metrics.jsonl         one line an epoch
model.safetensors     the last finished epoch
selected.safetensors  the chosen epoch, where one was chosen
model.fitted          instead of both: boosted trees, or the linear model of its exact solver
trained.parquet       the ids that were trained on; `evaluate` refuses them
summary.json          the certificate beside the accuracy
confusion.json        what each class is taken for, by the released labels of held-out rows
curves.json           ROC and calibration, likewise
search.json           which recipes were tried, and which one was chosen, where `--flop` searched for one
search/               their trials, each a run
starts.json           the commands that made all this, with versions and machine

`summary` has the types of what is in them, `schema` the rules of reading. A directory may be damaged, or somebody else's: whatever
does not fit is refused in a sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from labeldp import provenance
from labeldp.errors import InputError
from labeldp.files.atomic import explain, place_file, sweep
from labeldp.files.ours import our_file
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import (
    Config,
    Metrics,
    Start,
    Starts,
    StatedSearch,
    Summary,
    TrainedRows,
    TrainingSummary,
    choosing,
    read_summary,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

T = TypeVar("T")

_LARGEST = 1 << 26  # bytes: no JSON file of ours is larger
# What any command writes into a run directory, or into one below it; there may be files of the user's beside it.
_WRITTEN = (
    "config.json", "starts.json", "metrics.jsonl", "*.safetensors", "trained.parquet", "summary*.json", "confusion.json", "curves.json",
    "model.fitted", ".lock",
    "released.parquet", "statistic.parquet", "selection.json",
    "answers.parquet", "held-out.parquet", "data-dependent.json", "probabilities.npy",
    "features.npy", "test.npy", "neighbours.npz", "contrastive.checkpoint",
)  # fmt: skip
_GIVEN = "that the run's summary.json says what its model was trained on"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, of which every number is one."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:  # a pipe would never end
            raise ValueError
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        if not isinstance(data, dict):
            raise ValueError
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is missing or damaged.") from None
    return data


def read_as(cls: type[T], path: Path) -> T:
    """What the file says, typed."""
    with _damage(path):
        return decode(cls, read_json(path))


def write_json(path: Path, data: Mapping[str, Any], *, private: bool = False) -> None:
    """In one step."""
    content = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    place_file(path, lambda file: file.write(content), private=private)


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    # ── names ──

    @property
    def config(self) -> Path:
        """What makes the run this one."""
        return self.path / "config.json"

    @property
    def summary(self) -> Path:
        """Once it is finished."""
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        """A line an epoch."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The last finished epoch."""
        return self.path / "model.safetensors"

    @property
    def selected(self) -> Path:
        """The chosen epoch."""
        return self.path / "selected.safetensors"

    @property
    def fitted(self) -> Path:
        """A model that is no network: trees, or the linear model of its exact solver."""
        return self.path / "model.fitted"

    @property
    def final(self) -> Path:
        """The model that predicts."""
        return next((path for path in (self.fitted, self.selected) if path.exists()), self.checkpoint)

    @property
    def trained(self) -> Path:
        """Which rows were trained on."""
        return self.path / "trained.parquet"

    @property
    def confusion(self) -> Path:
        """What each class is taken for."""
        return self.path / "confusion.json"

    @property
    def curves(self) -> Path:
        """ROC and calibration."""
        return self.path / "curves.json"

    @property
    def starts(self) -> Path:
        """The commands that worked here."""
        return self.path / "starts.json"

    @property
    def lock(self) -> Path:
        """Held while a training is running."""
        return self.path / ".lock"

    @property
    def selection(self) -> Path:
        """What `select` says of the winner."""
        return self.path / "selection.json"

    @property
    def crossfitted(self) -> Path:
        """Predictions of each row by a model that was trained without it."""
        return self.path / "crossfitted.parquet"

    @property
    def tensorboard(self) -> Path:
        """Metrics for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def searched(self) -> Path:
        """Which recipes were tried, once one is chosen."""
        return self.path / "search.json"

    def trial(self, rung: int, number: int) -> RunFolder:
        """A recipe that is tried; both from 1."""
        return RunFolder(self.path / "search" / f"rung-{rung}" / f"candidate-{number}")

    @property
    def search_encoder(self) -> FeaturesFolder:
        """What recipes that are tried start with, where the budget was enough for it."""
        return FeaturesFolder(self.path / "search" / "encoder")

    def fold(self, number: int) -> RunFolder:
        """The model without one part of the rows; from 1."""
        return RunFolder(self.path / f"fold-{number}")

    # An experiment has the owner's half too.

    @property
    def ledger(self) -> Path:
        """An experiment's own."""
        return self.path / "labels.ledger"

    @property
    def canaries(self) -> Path:
        """Secret: what was planted."""
        return self.path / "canaries.npz"

    @property
    def predictions(self) -> Path:
        """Of all rows, in which canaries are looked for."""
        return self.path / "probabilities.npy"

    @property
    def released(self) -> Path:
        """The release of an experiment, or of a selection."""
        return self.path / "released.parquet"

    @property
    def statistic(self) -> Path:
        """The one statistic of an experiment that releases no rows."""
        return self.path / "statistic.parquet"

    def released_in(self, stage: int) -> Path:
        """The release of a stage; from 1."""
        return self.path / f"released-{stage}.parquet"

    def releases(self) -> tuple[Path, ...]:
        """Those of all stages, or the one."""
        stages = sorted(self.path.glob("released-*.parquet"), key=lambda path: (len(path.name), path.name))
        return tuple(stages) or (self.released,)

    @property
    def dealing(self) -> Path:
        """What makes stages these stages."""
        return self.path / "stages.json"

    def stage(self, number: int) -> RunFolder:
        """The model of a stage before the last; from 1."""
        return RunFolder(self.path / f"stage-{number}")

    def stages(self) -> list[RunFolder]:
        """All that are there, in order."""
        return [RunFolder(path) for path in sorted(self.path.glob("stage-*"), key=lambda p: (len(p.name), p.name))]

    @property
    def prior(self) -> Path:
        """The public prior that a stage's model makes for the next."""
        return self.path / "prior.parquet"

    @property
    def dropped(self) -> Path:
        """The ids of rows that the next stage leaves out, for what was released of them is unlikely by this stage's model."""
        return self.path / "dropped.npy"

    def read_dropped(self) -> npt.NDArray[np.int64]:
        """Those ids."""
        import numpy as np

        try:
            return np.asarray(np.load(self.dropped).astype(np.int64, casting="safe"))
        except (OSError, ValueError, EOFError, TypeError, AttributeError):
            raise InputError(
                f"{self.dropped} is missing or damaged: it says which rows the next stage leaves out."
            ) from None

    @property
    def games(self) -> Path:
        """A line a training of `audit-repeat`."""
        return self.path / "games.jsonl"

    def planting(self, number: int | None) -> RunFolder:
        """Of `audit-heuristic`: the training with all canaries, or the one with so many-th part of them, from 0."""
        return RunFolder(self.path / ("together" if number is None else f"apart-{number}"))

    def planted(self) -> tuple[Path, Path] | None:
        """The canaries of an experiment, and the predictions that they are looked for in: its own, or PATE's first student's."""
        pairs = ((self.canaries, self.predictions), (self.owner.canaries, self.student(1).predictions))
        return next((pair for pair in pairs if all(path.is_file() for path in pair)), None)

    @property
    def memorized(self) -> Path:
        """What `reproduce` takes the paper's interval from: the model's confidences in wrong canaries, and these."""
        return self.path / "memorized.npz"

    @property
    def audit(self) -> Path:
        """Of `audit --out`: the audit, and nothing else is in its directory."""
        return self.path / "audit.json"

    # PATE has a private part, and students.

    @property
    def owner(self) -> OwnerFolder:
        """The private part."""
        return OwnerFolder(self.path / "owner")

    @property
    def features(self) -> FeaturesFolder:
        """Frozen features, where they were learned."""
        return FeaturesFolder(self.path / "features")

    @property
    def answers(self) -> Path:
        """The release."""
        return self.path / "answers.parquet"

    @property
    def held_out(self) -> Path:
        """A release of rows that teachers did not see."""
        return self.path / "held-out.parquet"

    @property
    def sanitised(self) -> Path:
        """A data-dependent ε that was paid for."""
        return self.path / "data-dependent.json"

    def student(self, number: int, name: str = "student") -> RunFolder:
        """From 1."""
        return RunFolder(self.path / f"{name}-{number}")

    def students(self) -> list[RunFolder]:
        """All that are there, in order."""
        return [RunFolder(path) for path in sorted(self.path.glob("student-*"), key=lambda p: (len(p.name), p.name))]

    def summary_of(self, students: str) -> Path:
        """Of students of another name."""
        return self.summary if students == "student" else self.path / f"summary-{students}.json"

    # ── begin ──

    def make(self, *, private: bool = False) -> None:
        """The directory itself; a `private` one only its owner can enter."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if private:
                self.path.chmod(0o700)
        except OSError:
            raise InputError(
                f"{self.path} cannot be made a run directory (`out`): is there a file of that name?"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One training at a time in one directory."""
        from filelock import FileLock, Timeout

        self.make()
        lock = FileLock(self.lock, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"another training is running in {self.path}; choose another `out`, or wait for it."
            ) from None
        except OSError as error:
            raise explain(self.lock, error) from None
        try:
            sweep(self.path)
            yield
        finally:
            lock.release()

    def match(
        self, config: Mapping[str, Any], *, private: bool = False, file: Path | None = None, named: str = "out"
    ) -> None:
        """Begin, or go on with the same; anything else is refused. `named` is the argument that chose this directory."""
        self.make()
        path = file or self.config
        if not path.exists():
            write_json(path, config, private=private)
            return
        before, now = (_flat(c) for c in (read_json(path), json.loads(json.dumps(config))))
        # Some fields are written only where they matter: one that is missing now may matter too.
        different = [name for name in {**now, **before} if before.get(name) != now.get(name)]
        if different:
            raise InputError(
                f"{self.path} holds another run (with another {', '.join(different)}); choose another `{named}`."
            )

    @contextmanager
    def dated(self, day: str) -> Iterator[None]:
        """However it ends, its files, and those of runs below it, have this day as their time: for what follows work on private labels."""
        try:
            yield
        finally:
            try:
                places = [self.path, *(config.parent for config in self.path.glob("*/config.json"))]
                ours = (path for place in places for name in _WRITTEN for path in place.glob(name))
                provenance.date_files([*ours, *places], day)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"the files in {self.path} cannot be given the day of their charge as their time ({error}): as they are, their times "
                    "tell how long work on private labels took. Hand over copies."
                ) from None

    def note_start(self, releases: Sequence[Path] = (), *, dated: bool = True) -> None:
        """What is about to be done here, from which release files. The same command again takes its own place.

        Not `dated` where it follows work on private labels, as under central trust: teachers; runs of which nobody may know how many
        there were.
        """
        # Relative to the run: nobody's home directory goes along.
        said = {**provenance.start(dated=dated), "releases": [os.path.relpath(path, self.path) for path in releases]}
        now = decode(Start, said)
        before = [one for one in self.read_starts() if one.command is None or one.command != now.command]
        write_json(self.starts, {"starts": [one.to_json() for one in (*before, now)]})

    def read_starts(self) -> tuple[Start, ...]:
        """Every command that worked here, oldest first; none where nobody noted it."""
        return read_as(Starts, self.starts).starts if self.starts.exists() else ()

    # ── epochs ──

    def add(self, line: Mapping[str, Any], path: Path | None = None) -> None:
        """One line more; a line that a kill cut short is ended first."""
        path = path or self.metrics
        try:
            whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
            with path.open("a", encoding="utf-8") as file:
                file.write(("" if whole else "\n") + json.dumps(line) + "\n")
        except OSError as error:
            raise explain(path, error) from None

    def history(self) -> list[dict[str, Any]]:
        """The metrics of every epoch, with all that was noted; of one that was done twice, the last. What is no epoch is passed over."""
        seen: dict[int, dict[str, Any]] = {}
        if not self.metrics.is_file() or self.metrics.stat().st_size > _LARGEST:
            return []
        for line in self.metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                metrics = json.loads(line)
                seen[decode(Metrics, metrics).epoch] = metrics
        return [seen[epoch] for epoch in sorted(seen)]

    def read_metrics(self) -> list[Metrics]:
        """The same, typed."""
        return [decode(Metrics, metrics) for metrics in self.history()]

    def resume(self, epochs: int) -> list[dict[str, Any]]:
        """The metrics so far, and no others in the file: an epoch that was noted before its model was kept is done, and noted, again."""
        try:
            history = [metrics for metrics in self.history() if metrics["epoch"] <= epochs]
            before = self.metrics.read_bytes() if self.metrics.exists() else b""
        except OSError as error:
            raise explain(self.metrics, error, "read") from None
        lines = "".join(json.dumps(metrics) + "\n" for metrics in history).encode()
        if before != lines:
            place_file(self.metrics, lambda file: file.write(lines))
        return history

    # ── what it says ──

    def read_config(self) -> Config:
        """What was trained, as written when the run began."""
        if not self.config.is_file():
            ours = our_file(self.path)
            what = "" if ours is None else f"is {ours.words}; it "
            raise InputError(f"{self.path} {what}is not a run of `labeldp train`.")
        try:
            return decode(Config, read_json(self.config))
        except InputError as error:
            raise InputError(f"{self.config} is not of a run of `labeldp train`, or damaged: {error}") from None

    def write_summary(self, kind: str, summary: Mapping[str, Any], path: Path | None = None) -> None:
        """With its kind, as whoever reads it will."""
        data = {"kind": kind, **summary}
        read_summary(json.loads(json.dumps(data)))
        write_json(path or self.summary, data)

    def summed_up(self) -> dict[str, Any] | None:
        """The summary as it was made, without its kind, once there is one."""
        if not self.summary.exists():
            return None
        data = read_json(self.summary)
        return {name: value for name, value in data.items() if name != "kind"}

    def read_summary(self) -> Summary | None:
        """Typed, once there is one."""
        if not self.summary.exists():
            return None
        with _damage(self.summary):
            return read_summary(read_json(self.summary))

    def read_training(self) -> TrainingSummary | None:
        """The same of a run that trained a model; of any other it is refused."""
        summary = self.read_summary()
        if summary is not None and not isinstance(summary, TrainingSummary):
            raise InputError(f"{self.path} is not a run of `labeldp train`.")
        return summary

    def read_search(self) -> StatedSearch | None:
        """What was tried, once a recipe is chosen."""
        return read_as(StatedSearch, self.searched) if self.searched.exists() else None

    def promise(self) -> dict[str, Any]:
        """The certificate of what was trained on, and why it may be worth nothing; null before the run is finished."""
        config, summary = self.read_config(), self.read_training()
        return {
            "certificate": None if summary is None else summary.certificate.to_json(),
            "insecure": None if summary is None else summary.insecure,
            "release": None if summary is None else summary.release,
            "releases": None if summary is None or summary.releases is None else list(summary.releases),
            "judge": None if summary is None else summary.judge,
            "given": _GIVEN,
            "model": self.digest(),
            # Which rows the run held out: a later stage must hold them out too, or they would judge a model that they shaped.
            "seed": config.seed,
            "holdout": config.holdout,
            "select": choosing(config.select),
        }

    def digest(self) -> str | None:
        """Of the final model: tells apart what was trained from the same release."""
        if not self.final.is_file():
            return None
        return hashlib.blake2b(self.final.read_bytes(), digest_size=16).hexdigest()

    def write_trained(self, ids: pa.Array, about: TrainedRows) -> None:
        """Which rows were trained on."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        facts = {"data_set": about.data_set, "by_id": about.by_id, "behind": list(about.behind)}
        said = json.dumps({**facts, "unknown_prior": about.unknown_prior}).encode()
        table = pa.table({"id": ids}).replace_schema_metadata({b"labeldp": said})
        place_file(self.trained, lambda file: pq.write_table(table, file))

    def read_trained(self) -> tuple[pa.ChunkedArray, TrainedRows]:
        """Their ids, and what they are."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(self.trained)
            about = json.loads(table.schema.metadata[b"labeldp"])
            return table.column("id"), decode(TrainedRows, about)
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, RecursionError):
            raise InputError(
                f"{self.path} does not say which rows were trained on: {self.trained.name} is missing or damaged."
            ) from None


@dataclass(frozen=True)
class OwnerFolder(RunFolder):
    """PATE's private part: where the material is, votes, the ledger of a bundled data set, and what only the owner may know."""

    @property
    def material(self) -> Path:
        """Where features and labels are."""
        return self.path / "material.json"

    @property
    def votes(self) -> Path:
        """What the teachers said."""
        return self.path / "votes.npz"

    @property
    def asked(self) -> Path:
        """The votes of the queries that were asked."""
        return self.path / "asked.npz"

    @property
    def labels(self) -> Path:
        """A keyed digest of the labels that teachers were trained on."""
        return self.path / "labels.json"

    @property
    def cost(self) -> Path:
        """Compute, of which no proof covers the duration."""
        return self.path / "cost.json"

    @property
    def canaries(self) -> Path:
        """Apart from votes, which are .npz too."""
        return self.path / "planted" / "canaries.npz"

    def sanitised_by(self, entry: int) -> Path:
        """The data-dependent ε that was drawn under an entry of the ledger."""
        return self.path / f"data-dependent-{entry}.json"


@dataclass(frozen=True)
class FeaturesFolder(RunFolder):
    """Features that were learned from public images."""

    @property
    def rows(self) -> Path:
        """Of the images."""
        return self.path / "features.npy"

    @property
    def test(self) -> Path:
        """Of the test images."""
        return self.path / "test.npy"

    @property
    def patches(self) -> Path:
        """What was learned of patches."""
        return self.path / "patches.safetensors"

    @property
    def contrast(self) -> Path:
        """What was learned contrastively."""
        return self.path / "contrast.safetensors"

    @property
    def neighbours(self) -> Path:
        """What joins both."""
        return self.path / "neighbours.npz"

    @property
    def contrastive(self) -> Path:
        """The last epoch of contrastive learning."""
        return self.path / "contrastive.checkpoint"


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What is wrong with which file."""
    try:
        yield
    except SchemaError as error:
        raise InputError(f"{path} is no run's, or damaged: {error}") from None


def _no_number(name: str) -> None:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Without the nesting of plans and recipes, so that what differs can be named."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value) if name in ("recipe", "teachers") and isinstance(value, dict) else {name: value}
    return flat
