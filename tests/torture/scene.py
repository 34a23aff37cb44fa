"""A place to work in, the real command, what the ledger says, and what must hold whatever happened."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import LabelDPError
from labeldp.release import Release
from labeldp.release.sealed import statistic_name
from labeldp.statistics.reading import load_statistic
from labeldp.statistics.statistic import StatisticFile

MOST_SECONDS = 120.0
NUM_CLASSES = 10
BY_ID = ("--id", "uid")
SHUFFLED = (*BY_ID, "--shuffle")

# ---------------------------------------------------------------- a place to work in, and the real command


@dataclass(frozen=True)
class Scene:
    """One round's folder: what is shared with the world, and what only the label owner has."""

    folder: Path

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    @property
    def owner(self) -> Path:
        return self.folder / "owner"

    @property
    def ledger(self) -> Path:
        return self.owner / "labels.ledger"

    @property
    def releases(self) -> Path:
        return self.owner / "labels.ledger.releases"

    @property
    def out(self) -> Path:
        return self.shared / "release.parquet"

    def add_labels(self, stored: Path, name: str) -> Path:
        self.shared.mkdir(parents=True, exist_ok=True)
        os.link(stored, self.shared / name)
        return self.shared / name

    def release(self, labels: Path, out: Path, options: Sequence[str]) -> list[str]:
        return [
            "release", str(labels), "--label", "label", "--classes", str(NUM_CLASSES), "--out", str(out),
            "--ledger", str(self.ledger), "--json", *options,
        ]  # fmt: skip

    def score(self, labels: Path, predictions: Path, out: Path, options: Sequence[str]) -> list[str]:
        return [
            "score", str(predictions), "--labels", str(labels), "--label", "label", "--classes", str(NUM_CLASSES), *BY_ID,
            "--out", str(out), "--ledger", str(self.ledger), "--json", *options,
        ]  # fmt: skip

    def moments(self, labels: Path, features: Path, out: Path, options: Sequence[str]) -> list[str]:
        return [
            "moments", str(features), "--labels", str(labels), "--label", "label", "--classes", str(NUM_CLASSES),
            "--out", str(out), "--ledger", str(self.ledger), "--json", *options,
        ]  # fmt: skip


def stored_features(folder: Path, rows: int) -> Path:
    """Of the same rows in the same order."""
    path = folder / f"features-{rows}.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32))
    return path


def stored_predictions(folder: Path, rows: int) -> Path:
    """A model that knows nothing, of the same rows in the same order."""
    path = folder / f"predictions-{rows}.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(rows).dirichlet(np.ones(NUM_CLASSES), rows).astype(np.float32))
    return path


def stored_labels(folder: Path, rows: int, first: int = 0) -> Path:
    """A label file, written once and linked into many rounds."""
    path = folder / f"labels-{first}-{rows}.parquet"
    if not path.exists():
        uids = [f"user-{i:08d}" for i in range(first, first + rows)]
        labels = np.random.default_rng(rows + first).integers(0, NUM_CLASSES, rows)
        pq.write_table(pa.table({"uid": uids, "label": labels}), path)
    return path


def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LABELDP_LEDGER"}
    return subprocess.Popen(
        [sys.executable, "-m", "labeldp", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(self.stdout) if self.code == 0 else {}

    def __str__(self) -> str:
        return f"exit {self.code} {self.stderr.strip()[:400]}"


def finish(process: subprocess.Popen[str]) -> Ended:
    with process:
        try:
            stdout, stderr = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            stderr += f" (no end after {MOST_SECONDS:g} s)"
    return Ended(process.returncode, stdout, stderr)


def run(arguments: Sequence[str]) -> Ended:
    return finish(start(arguments))


# ---------------------------------------------------------------- what the ledger says, read without labeldp


@dataclass(frozen=True)
class Entry:
    number: int
    kind: str
    body: dict[str, Any]


def read_entries(ledger: Path) -> list[Entry]:
    """All entries; none where there is no ledger or its creation was not committed."""
    if not ledger.exists():
        return []
    connection = sqlite3.connect(ledger)
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return []
        rows = connection.execute("SELECT number, kind, body FROM entries ORDER BY number").fetchall()
    finally:
        connection.close()
    return [Entry(number, kind, json.loads(body)) for number, kind, body in rows]


def charges(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.kind == "charged"]


def published_checksums(entries: Sequence[Entry]) -> set[str]:
    """Of the files that may be seen."""
    return {entry.body["checksum"] for entry in entries if entry.kind == "published"}


def steps(ledger: Path) -> int:
    """How far the ledger has come: 1 once there is a file, and 1 for each commit (SQLite's file change counter).

    Reading the counter takes no lock, so it does not disturb the process that is watched.
    """
    try:
        with ledger.open("rb") as file:
            return 1 + int.from_bytes(file.read(28)[24:], "big")
    except FileNotFoundError:
        return 0


# ---------------------------------------------------------------- invariants, each a stream of complaints


def verifies(ledger: Path, releases: Sequence[Path] = ()) -> Iterator[str]:
    named = [word for path in releases for word in ("--releases", str(path))]
    ended = run(["ledger", "verify", "--ledger", str(ledger), *named])
    if ended.code != 0:
        yield f"`ledger verify` fails: {ended}"


def is_whole(out: Path, rows: int, entries: Sequence[Entry]) -> Iterator[str]:
    """A visible file is a release, or a statistic, that the ledger has published."""
    release: Release | StatisticFile
    try:
        if statistic_name(out) is not None:
            release = load_statistic(out)
            held = release.rows
        else:
            release = Release.load(out)
            held = len(release)
    except LabelDPError as error:
        yield f"a visible output is no whole release: {error}"
        return
    if held != rows:
        yield f"{out.name} has {held} rows instead of {rows}"
    if release.checksum not in published_checksums(entries):
        yield f"{out.name} is visible, but the ledger has not published this file"


def open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)


def stays_private(scene: Scene, known: Sequence[Path]) -> Iterator[str]:
    """Nothing of the owner's, and nothing unfinished beside the output, can be read by others."""
    for path in sorted(scene.owner.rglob("*")):
        if open_to_others(path):
            yield f"{path.relative_to(scene.folder)} has mode {path.stat().st_mode & 0o777:o}"
    for path in sorted(set(scene.shared.iterdir()) - set(known)):
        if not path.name.startswith("."):
            yield f"{path.relative_to(scene.folder)} is a visible file that nobody asked for"
        elif open_to_others(path):
            yield f"{path.relative_to(scene.folder)} is left with mode {path.stat().st_mode & 0o777:o}"


def is_tidy(scene: Scene, known: Sequence[Path]) -> Iterator[str]:
    """Nothing unfinished is left anywhere."""
    left = set(scene.shared.iterdir()) - set(known)
    left |= {path for ending in ("partial", "scratch", "unfinished") for path in scene.owner.rglob(f"*.{ending}")}
    left |= set(scene.owner.glob("*-journal"))
    for path in sorted(left):
        yield f"{path.relative_to(scene.folder)} is left behind"


def spends_within_caps(entries: Sequence[Entry]) -> Iterator[str]:
    """Every release here covers all rows of its data set, so costs simply add."""
    for data_set in (entry for entry in entries if entry.kind == "data set"):
        costs = [e.body["cost"] for e in charges(entries) if e.body["data_set"] == data_set.body["name"]]
        for part, cap in data_set.body["caps"].items():
            spent = sum(cost[part] for cost in costs)
            if spent > cap:
                yield f"overspent: {part} {spent} of {cap} on {data_set.body['name']!r}"


def report_progress(what: str, number: int, count: int, failures: Sequence[str], every: int) -> None:
    if number % every == 0 or number == count:
        print(f"{what}: {number} of {count}, {len(failures)} failures", flush=True)
