"""A run directory: what was trained, from what, how well, at what cost.

config.json           the recipe and where everything came from
metrics.jsonl         one line an epoch
model.safetensors     the last finished epoch
selected.safetensors  the chosen epoch, where one was chosen
trained.parquet       the ids that were trained on; `evaluate` refuses them
summary.json          the certificate beside the accuracy
confusion.json        what each class is taken for, by the released labels of held-out rows
starts.json           the commands that made all this, with versions and machine
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp import provenance
from labeldp.errors import InputError
from labeldp.files.atomic import explain, place_file, sweep
from labeldp.files.ids import comparable
from labeldp.release import Release

# What any command writes into a run directory, or into one below it; there may be files of the user's beside it.
_WRITTEN = (
    "config.json", "starts.json", "metrics.jsonl", "*.safetensors", "trained.parquet", "summary*.json", "confusion.json", ".lock",
    "released.parquet", "selection.json",
    "answers.parquet", "held-out.parquet", "data-dependent.json", "probabilities.npy",
    "features.npy", "test.npy", "neighbours.npz", "contrastive.checkpoint",
)  # fmt: skip


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """The last finished epoch."""
        return self.path / "model.safetensors"

    @property
    def selected(self) -> Path:
        """The chosen epoch."""
        return self.path / "selected.safetensors"

    @property
    def final(self) -> Path:
        """The model that predicts."""
        return self.selected if self.selected.exists() else self.checkpoint

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
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"another training is running in {self.path}; choose another `out`, or wait for it."
            ) from None
        except OSError as error:
            raise explain(self.path / ".lock", error) from None
        try:
            sweep(self.path)
            yield
        finally:
            lock.release()

    def match(self, config: dict[str, Any], *, private: bool = False, name: str = "config.json") -> None:
        """Begin, or go on with the same; anything else is refused."""
        self.make()
        if not (self.path / name).exists():
            self.write(name, config, private=private)
            return
        before, now = self.read(name), json.loads(json.dumps(config))
        before, now = (_flat(c) for c in (before, now))
        # Some fields are written only where they matter: one that is missing now may matter too.
        different = [name for name in {**now, **before} if before.get(name) != now.get(name)]
        if different:
            raise InputError(
                f"{self.path} holds another run (with another {', '.join(different)}); choose another `out`."
            )

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file that `write` wrote."""
        try:
            data: dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"), parse_constant=_no_number)
            if not isinstance(data, dict):
                raise ValueError
        except (OSError, ValueError, RecursionError):
            raise InputError(f"{self.path / name} is missing or damaged.") from None
        return data

    def config(self) -> dict[str, Any]:
        """As written when the run began."""
        try:
            config: dict[str, Any] = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
            if not isinstance(config, dict):
                raise ValueError
        except (OSError, ValueError):
            raise InputError(f"{self.path} is not a run of `labeldp train`.") from None
        return config

    def trained_as(self) -> dict[str, Any]:
        """The same of a run that trained a model, with all that others use of it."""
        config = self.config()
        if not _is_config(config):
            raise InputError(f"{self.path / 'config.json'} is not of a run of `labeldp train`, or damaged.")
        return config

    def finished(self) -> dict[str, Any] | None:
        """The summary, once there is one."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        return self.read("summary.json")

    def promise(self) -> dict[str, Any]:
        """The certificate of what was trained on, and why it may be worth nothing; empty before the run is finished."""
        summary = self.finished() or {}
        if not isinstance(summary.get("certificate"), (dict, type(None))):
            raise InputError(f"the certificate in {self.path / 'summary.json'} is none: the file is damaged.")
        promise = {name: summary.get(name) for name in ("certificate", "insecure", "release", "releases", "judge")}
        config = self.trained_as()
        # Which rows the run held out: a later stage must hold them out too, or they would judge a model that they shaped.
        return {
            **promise,
            "given": "that the run's summary.json says what its model was trained on",
            "model": provenance.model_digest(self.path),
            "seed": config["recipe"]["seed"],
            "holdout": config["holdout"],
            "select": config["select"],
        }

    def write(self, name: str, data: dict[str, Any], *, private: bool = False) -> None:
        """A JSON file, in one step."""
        content = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        place_file(self.path / name, lambda file: file.write(content), private=private)

    def note_start(self, releases: Sequence[Path] = (), *, dated: bool = True) -> None:
        """What is about to be done here, from which release files. The same command again takes its own place.

        Not `dated` where it follows work on private labels, as under central trust: teachers; runs of which nobody may know how many
        there were.
        """
        # Relative to the run: both may be moved together, and nobody's home directory goes along.
        now = {**provenance.start(dated=dated), "releases": [os.path.relpath(path, self.path) for path in releases]}
        before = [start for start in self.starts() if start["command"] is None or start["command"] != now["command"]]
        self.write("starts.json", {"starts": [*before, now]})

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

    def starts(self) -> list[dict[str, Any]]:
        """Every command that worked here, oldest first; none where nobody noted it."""
        if not (self.path / "starts.json").exists():
            return []
        try:
            return [{**start, "command": start["command"]} for start in self.read("starts.json")["starts"]]
        except (KeyError, TypeError):
            raise InputError(f"{self.path / 'starts.json'} is damaged.") from None

    def add(self, line: dict[str, Any], name: str = "metrics.jsonl") -> None:
        """One line more; a line that a kill cut short is ended first."""
        path = self.path / name
        try:
            whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
            with path.open("a", encoding="utf-8") as file:
                file.write(("" if whole else "\n") + json.dumps(line) + "\n")
        except OSError as error:
            raise explain(path, error) from None

    def history(self, epochs: int) -> list[dict[str, Any]]:
        """The metrics of the first `epochs` epochs; of one that was done twice, the last."""
        path = self.path / "metrics.jsonl"
        seen: dict[int, dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            with suppress(ValueError, KeyError, TypeError):
                metrics = json.loads(line)
                seen[int(metrics["epoch"])] = metrics
        return [seen[epoch] for epoch in sorted(seen) if epoch <= epochs]

    def resume(self, epochs: int) -> list[dict[str, Any]]:
        """The metrics so far, and no others in the file: an epoch that was noted before its model was kept is done, and noted, again."""
        path = self.path / "metrics.jsonl"
        try:
            history, before = self.history(epochs), path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise explain(path, error, "read") from None
        lines = "".join(json.dumps(metrics) + "\n" for metrics in history).encode()
        if before != lines:
            place_file(path, lambda file: file.write(lines))
        return history

    def write_trained(self, release: Release, rows: npt.NDArray[np.int64]) -> None:
        """Which rows were trained on."""
        behind = [one for one in release.behind if one not in release.checksums]
        facts = {
            "data_set": release.data_set,
            "by_id": release.header["ids"] is not None,
            "behind": behind,
            "unknown_prior": any(not origin.known for origin in release.origins),
        }
        about = {b"labeldp": json.dumps(facts).encode()}
        table = pa.table({"id": pa.array(release.ids[rows])}).replace_schema_metadata(about)
        place_file(self.path / "trained.parquet", lambda file: pq.write_table(table, file))

    def refuse_trained(self, release: Release) -> str | None:
        """Rows that this run has trained on cannot judge it. Returned is a doubt, where nobody can tell whether it has."""
        try:
            trained = pq.read_table(self.path / "trained.parquet")
            about = json.loads(trained.schema.metadata[b"labeldp"])
            was_by_id, data_set = bool(about["by_id"]), about["data_set"]
            behind, unknown_prior = set(about.get("behind", [])), about.get("unknown_prior", False) is not False
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise InputError(
                f"{self.path} does not say which rows were trained on: trained.parquet is missing or damaged."
            ) from None
        if set(release.checksums) & behind:
            raise InputError(
                "the model's rows were released with a prior from a model of *this* release: its rows shaped what was learned, and cannot "
                "judge it."
            )
        by_id = release.header["ids"] is not None
        # Ids name people whatever the data set is called; row numbers mean something within one data set only.
        if by_id != was_by_id or not (by_id or data_set == release.data_set):
            return (
                "whether these rows were trained on cannot be seen: the run and this release name rows in different ways, or number those "
                "of two data sets. If they were, this accuracy is wrong. If you know that they were not, say so: `other_rows=True`."
            )
        doubt = (
            "the model's rows were released with a public prior of unknown origin. If that was made from these rows' released labels, this "
            "accuracy is wrong. If you know that it was not, say so: `other_rows=True`."
        )
        # Whatever the form in which they were released: an id that may be the same is.
        seen = comparable(trained.column("id"))
        again = np.flatnonzero(
            pc.is_in(comparable(release.comparable_ids()), value_set=seen).to_numpy(zero_copy_only=False)
        )
        if len(again):
            raise InputError(
                f"{len(again):,} of these rows were trained on (the first at position {again[0]}): an accuracy on them would be "
                "wrong. Evaluate on rows that were held out."
            )
        return doubt if unknown_prior else None


def _no_number(name: str) -> None:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)


def _is_config(config: Any) -> bool:
    """Whether what is used of it is there and of its kind: a run directory may be somebody else's."""

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)

    names, recipe = config.get("label_names"), config.get("recipe")
    return (
        {"label", "label_names"} <= set(config)
        and isinstance(config["label"], (str, type(None)))
        and (names is None or texts(names))
        and texts(config.get("columns", []))
        and type(config.get("num_classes")) is int
        and isinstance(config.get("holdout"), (int, float))
        and isinstance(config.get("select"), str)
        and isinstance(recipe, dict)
        and type(recipe.get("seed")) is int
    )


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Without the nesting of plans and recipes, so that what differs can be named."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value) if name in ("recipe", "teachers") and isinstance(value, dict) else {name: value}
    return flat
