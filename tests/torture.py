"""Kill the real command at any moment, race it against itself, and check that the ledger's promises hold.

    python -m tests.torture --kills 100 --races 200 [--out result.json] [--seed N]

A kill is a SIGKILL: it shows what a dead process leaves behind, not what a lost power supply does to unsynced pages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import LabelDPError
from labeldp.release import Release

POLL_SECONDS = 0.0001  # two commits can be a millisecond apart
MOST_SECONDS = 120.0
NUM_CLASSES = 10

# ---------------------------------------------------------------- a place to work in, and the real command


@dataclass(frozen=True)
class Case:
    """A label file's size and the options it is released with."""

    name: str
    rows: int
    options: tuple[str, ...]
    aim: int | None = None  # the step after which the first kill strikes; None: drawn


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
    """A visible file is a release that the ledger has published."""
    try:
        release = Release.load(out)
    except LabelDPError as error:
        yield f"a visible output is no whole release: {error}"
        return
    if len(release) != rows:
        yield f"{out.name} has {len(release)} rows instead of {rows}"
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


# ---------------------------------------------------------------- kills

BY_ID = ("--id", "uid")
SHUFFLED = (*BY_ID, "--shuffle")
CASES = (
    Case("1,000 by id", 1_000, (*BY_ID, "--epsilon", "2")),
    Case("1,000 by number", 1_000, ("--epsilon", "1", "--mechanism", "response")),
    Case("5,000 shuffled", 5_000, (*SHUFFLED, "--epsilon", "3", "--mechanism", "subset")),
    Case("50,000 by id, laplace", 50_000, (*BY_ID, "--epsilon", "2", "--mechanism", "laplace")),
    Case("100,000 by number, gaussian", 100_000, ("--epsilon", "2", "--mechanism", "gaussian", "--delta", "1e-6")),
    Case("100,000 shuffled, unary", 100_000, (*SHUFFLED, "--epsilon", "2", "--mechanism", "unary")),
    Case("300,000 by id", 300_000, (*BY_ID, "--epsilon", "4")),
    Case("300,000 by number, laplace", 300_000, ("--epsilon", "1", "--mechanism", "laplace")),
    Case("300,000 shuffled", 300_000, (*SHUFFLED, "--epsilon", "2")),
)
# More rows than a shuffle holds in memory: once charged, it deals them to files. Slow, so only now and then.
BUCKETS = Case("1,200,000 shuffled", 1_200_000, (*SHUFFLED, "--epsilon", "2"), aim=2)
BUCKETS_EVERY = 20

NOTHING, EMPTY = "no ledger", "ledger without an entry"
UNRENAMED, RENAMED, DELIVERED = "published, not renamed", "published, renamed", "delivered"
# How many steps the same command still has to make from here.
STEPS_AHEAD = {
    NOTHING: 5, EMPTY: 4, "charged": 3, "complete": 3, UNRENAMED: 1, RENAMED: 1, DELIVERED: 0,
}  # fmt: skip
ANY_TIME = 0.25  # of the kills strike at any time, the others soon after a step
LAST_STEP_WEIGHT = 0.3  # compared with the other steps: after it nothing happens any more


@dataclass(frozen=True)
class Moment:
    """So many seconds after the ledger has come so many steps."""

    steps: int
    seconds: float


@dataclass(frozen=True)
class Seen:
    """What a dead process has left, looked at in a copy: the next attempt must meet an unrecovered ledger."""

    state: str
    entries: list[Entry]
    steps: int
    complaints: list[str]


Timeline = list[float]  # seconds from the start: 0, each step, the end


def time_command(command: Sequence[str], ledger: Path) -> Timeline:
    """Run the command without interruption and note when the ledger changes."""
    process = start(command)
    began = time.monotonic()
    times = [0.0]
    while process.poll() is None:
        times += [time.monotonic() - began] * (steps(ledger) + 1 - len(times))
        time.sleep(POLL_SECONDS)
    times.append(time.monotonic() - began)
    ended = finish(process)
    if ended.code != 0 or len(times) != STEPS_AHEAD[NOTHING] + 2:
        raise RuntimeError(f"the uninterrupted command made {len(times) - 2} steps: {ended}")
    return times


def draw_moment(rng: random.Random, case: Case, timeline: Timeline, seen: Seen) -> Moment:
    """Any time up to a bit beyond the end, or between one step and the next."""
    ahead = STEPS_AHEAD[seen.state]
    if case.aim is not None and seen.steps == 0:
        more = case.aim
    elif ahead == 0 or rng.random() < ANY_TIME:
        return Moment(0, rng.uniform(0, 1.15 * timeline[-1]))
    else:
        more = rng.choices(range(1, ahead + 1), [1.0] * (ahead - 1) + [LAST_STEP_WEIGHT])[0]
    step = STEPS_AHEAD[NOTHING] - ahead + more
    return Moment(seen.steps + more, rng.uniform(0, 1.1 * (timeline[step + 1] - timeline[step])))


def strike(command: Sequence[str], ledger: Path, moment: Moment) -> Ended:
    """Start the command and kill it at the moment, unless it ends earlier."""
    process = start(command)
    while process.poll() is None and steps(ledger) < moment.steps:
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + moment.seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
    process.kill()
    return finish(process)


def state_of(entries: Sequence[Entry], scene: Scene) -> str:
    if not entries:
        return EMPTY if scene.ledger.exists() else NOTHING
    last = entries[-1]
    if last.kind == "published":
        return RENAMED if any(scene.releases.glob(f"{last.body['release']}[.-]*parquet")) else UNRENAMED
    return last.kind


def look(scene: Scene, case: Case, known: Sequence[Path]) -> Seen:
    """Check what must hold at every moment."""
    copy = Scene(scene.folder / "copy")
    if scene.owner.exists():
        shutil.copytree(scene.owner, copy.owner)
    entries = read_entries(copy.ledger)
    complaints = list(stays_private(scene, known))
    if entries:
        complaints += verifies(copy.ledger)
    if scene.out.exists():
        complaints += is_whole(scene.out, case.rows, entries)
    if len(charges(entries)) > 1:
        complaints.append("charged more than once")
    if any("checksum" in entry.body for entry in entries if entry.kind != "published"):
        complaints.append("the ledger tells the checksum of a draw that may yet be thrown away")
    seen = Seen(state_of(entries, scene), entries, steps(copy.ledger), complaints)
    shutil.rmtree(copy.folder, ignore_errors=True)
    return seen


def completes(scene: Scene, case: Case, command: Sequence[str], before: Seen, known: Sequence[Path]) -> Iterator[str]:
    """The same command finishes what was begun, under one charge; then it only repeats itself."""
    ended = run(command)
    if ended.code != 0:
        yield f"the rerun fails: {ended}"
        return
    entries = read_entries(scene.ledger)
    if ended.facts["charged"] == bool(charges(before.entries)):
        yield f"after {before.state!r} the rerun says charged = {ended.facts['charged']}"
    if len(charges(entries)) != 1:
        yield f"{len(charges(entries))} charges for one release"
    elif ended.facts["budget"]["spent"] != charges(entries)[0].body["cost"]:
        yield f"spent {ended.facts['budget']['spent']} is not the one cost {charges(entries)[0].body['cost']}"
    if entries[-1].kind != "delivered":
        yield f"the ledger ends with {entries[-1].kind!r}"
    yield from is_whole(scene.out, case.rows, entries)
    yield from verifies(scene.ledger, [scene.out])
    yield from stays_private(scene, known)
    yield from is_tidy(scene, known)
    yield from repeats(scene, command, ended, entries)


def repeats(scene: Scene, command: Sequence[str], first: Ended, entries: Sequence[Entry]) -> Iterator[str]:
    checksum = hashlib.sha256(scene.out.read_bytes()).hexdigest()
    ended = run(command)
    if ended.code != 0 or ended.facts["charged"] or ended.facts["checksum"] != first.facts["checksum"]:
        yield f"run once more, the command does not just repeat itself: {ended}"
    if hashlib.sha256(scene.out.read_bytes()).hexdigest() != checksum:
        yield "run once more, the command changes the output"
    if read_entries(scene.ledger) != list(entries):
        yield "run once more, the command changes the ledger"


def kills(count: int, folder: Path, seed: int) -> dict[str, Any]:
    """Kill `count` commands, some of them twice, each on a fresh ledger."""
    rng = random.Random(seed)
    timelines: dict[Case, Timeline] = {}
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("struck", "cases", "states", "second_states")}
    failures: list[str] = []
    for number in range(1, count + 1):
        case = BUCKETS if number % BUCKETS_EVERY == 0 else rng.choice(CASES)
        if case not in timelines:
            timelines[case] = measure(case, folder)
        scene = Scene(folder / f"kill-{number}")
        complaints = kill_round(scene, case, timelines[case], rng, stored_labels(folder, case.rows), counts)
        counts["cases"][case.name] += 1
        failures += [f"{scene.folder.name} ({case.name}): {complaint}" for complaint in complaints]
        if not complaints:
            shutil.rmtree(scene.folder)
        report_progress("kills", number, count, failures, every=10)
    return {"count": count, **{name: dict(sorted(c.items())) for name, c in counts.items()}, "failures": failures}


def measure(case: Case, folder: Path) -> Timeline:
    scene = Scene(folder / "measured")
    labels = scene.add_labels(stored_labels(folder, case.rows), "labels.parquet")
    timeline = time_command(scene.release(labels, scene.out, case.options), scene.ledger)
    shutil.rmtree(scene.folder)
    return timeline


def kill_round(
    scene: Scene, case: Case, timeline: Timeline, rng: random.Random, stored: Path, counts: dict[str, Counter[str]]
) -> list[str]:
    labels = scene.add_labels(stored, "labels.parquet")
    command = scene.release(labels, scene.out, case.options)
    known = [labels, scene.out]
    seen = Seen(NOTHING, [], 0, [])
    complaints: list[str] = []
    for states in ["states", "second_states"][: 1 + (rng.random() < 1 / 3)]:
        ended = strike(command, scene.ledger, draw_moment(rng, case, timeline, seen))
        counts["struck"]["running process" if ended.code < 0 else "ended before the kill"] += 1
        counts["struck"]["left an SQLite journal"] += Path(f"{scene.ledger}-journal").exists()
        counts["struck"]["left a dot-file beside the output"] += any(scene.shared.glob(".*"))
        if ended.code > 0:
            complaints.append(f"the command failed by itself: {ended}")
        seen = look(scene, case, known)
        complaints += [f"killed in state {seen.state!r}: {complaint}" for complaint in seen.complaints]
        counts[states][f"{seen.state}, out {'exists' if scene.out.exists() else 'absent'}"] += 1
    complaints += [f"rerun after {seen.state!r}: {c}" for c in completes(scene, case, command, seen, known)]
    return complaints


# ---------------------------------------------------------------- races


@dataclass(frozen=True)
class Race:
    """Two commands at the same moment, and how they must end."""

    labels: tuple[Path, ...]
    outs: tuple[Path, Path]
    commands: tuple[list[str], list[str]]
    codes: tuple[int, int]
    charges: int
    same_release: bool = False


RACE_ROWS = 500
SOME_OPTIONS = (
    ("--epsilon", "2"),
    (*BY_ID, "--epsilon", "2", "--mechanism", "laplace"),
    (*SHUFFLED, "--epsilon", "1.5", "--mechanism", "subset"),
)
PURE_BUDGET = ("--budget", "3")
GAUSSIAN = ("--mechanism", "gaussian", "--delta", "1e-5", "--budget-gaussian", "3", "--budget-delta", "1e-5")
RIVALS = (  # pairs of which the budget admits either one, but not both
    (
        ("--mechanism", "subset", "--epsilon", "2", *PURE_BUDGET),
        ("--mechanism", "laplace", "--epsilon", "2.5", *PURE_BUDGET),
    ),
    (
        ("--mechanism", "response", "--epsilon", "3", *PURE_BUDGET),
        ("--mechanism", "response", "--epsilon", "1", *PURE_BUDGET),
    ),
    (
        ("--mechanism", "unary", "--epsilon", "1.6", *PURE_BUDGET),
        ("--mechanism", "unary", "--epsilon", "1.6", *PURE_BUDGET),
    ),
    ((*GAUSSIAN, "--epsilon", "2.9"), (*GAUSSIAN, "--epsilon", "2.5")),
)


def two_outs(scene: Scene) -> tuple[Path, Path]:
    return scene.shared / "first.parquet", scene.shared / "second.parquet"


def same_command(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet")
    options = rng.choice(SOME_OPTIONS)
    outs = two_outs(scene)
    commands = (scene.release(labels, outs[0], options), scene.release(labels, outs[1], options))
    return Race((labels,), outs, commands, (0, 0), charges=1, same_release=True)


def one_budget(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet")
    shared = (*rng.choice(((), BY_ID)), "--again", "charge")
    rivals = rng.choice(RIVALS)
    outs = two_outs(scene)
    commands = (
        scene.release(labels, outs[0], (*shared, *rivals[0])),
        scene.release(labels, outs[1], (*shared, *rivals[1])),
    )
    return Race((labels,), outs, commands, (0, 3), charges=1)


def two_data_sets(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels = (
        scene.add_labels(stored_labels(folder, RACE_ROWS), "clicks.parquet"),
        scene.add_labels(stored_labels(folder, RACE_ROWS, first=RACE_ROWS), "sales.parquet"),
    )
    outs = two_outs(scene)
    commands = (
        scene.release(labels[0], outs[0], rng.choice(SOME_OPTIONS)),
        scene.release(labels[1], outs[1], rng.choice(SOME_OPTIONS)),
    )
    return Race(labels, outs, commands, (0, 0), charges=2)


def two_names(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet")
    options = rng.choice(SOME_OPTIONS)
    outs = two_outs(scene)
    commands = (
        scene.release(labels, outs[0], (*options, "--data-set", "clicks")),
        scene.release(labels, outs[1], (*options, "--data-set", "alias")),
    )
    return Race((labels,), outs, commands, (0, 3), charges=1)


def hopeless_rival(scene: Scene, folder: Path, rng: random.Random) -> Race:
    """Refused in any case; but cleaning up after itself, it must not take away what the other has just put down."""
    labels = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet")
    options = (*rng.choice((BY_ID, SHUFFLED)), "--epsilon", "2")
    outs = two_outs(scene)
    commands = (
        scene.release(labels, outs[0], (*options, "--data-set", "clicks")),
        scene.release(labels, outs[1], (*options, "--data-set", "alias", "--budget", "1")),
    )
    return Race((labels,), outs, commands, (0, 3), charges=1)


RACES: dict[str, Callable[[Scene, Path, random.Random], Race]] = {
    "same command": same_command,
    "one budget": one_budget,
    "two data sets": two_data_sets,
    "two names": two_names,
    "hopeless rival": hopeless_rival,
}


def judge(scene: Scene, race: Race, ended: Sequence[Ended]) -> Iterator[str]:
    if tuple(sorted(e.code for e in ended)) != race.codes:
        yield f"the two ended with {ended[0]} and {ended[1]}"
    entries = read_entries(scene.ledger)
    if len(charges(entries)) != race.charges:
        yield f"{len(charges(entries))} charges instead of {race.charges}"
    visible = [out for out in race.outs if out.exists()]
    if visible != [out for out, e in zip(race.outs, ended, strict=True) if e.code == 0]:
        yield "an output is missing, or one is there that was refused"
    for out in visible:
        yield from is_whole(out, RACE_ROWS, entries)
    if race.same_release and len({out.read_bytes() for out in visible}) > 1:
        yield "the same command gave two different files"
    yield from spends_within_caps(entries)
    yield from verifies(scene.ledger, visible)
    known = [*race.labels, *race.outs]
    yield from stays_private(scene, known)
    yield from is_tidy(scene, known)


def winner(ended: Sequence[Ended]) -> str:
    """Which of the two was charged: shows that neither always comes first."""
    charged = [bool(e.facts.get("charged")) for e in ended]
    return {(True, False): "first", (False, True): "second", (True, True): "both"}.get(tuple(charged), "neither")


def races(count: int, folder: Path, seed: int) -> dict[str, Any]:
    """Start `count` pairs of commands, each pair on one fresh ledger."""
    rng = random.Random(seed)
    kinds: Counter[str] = Counter()
    winners: dict[str, Counter[str]] = {kind: Counter() for kind in RACES}
    failures: list[str] = []
    for number in range(1, count + 1):
        kind = rng.choice(list(RACES))
        scene = Scene(folder / f"race-{number}")
        race = RACES[kind](scene, folder, rng)
        ended = [finish(process) for process in [start(command) for command in race.commands]]
        complaints = list(judge(scene, race, ended))
        kinds[kind] += 1
        winners[kind][winner(ended)] += 1
        failures += [f"{scene.folder.name} ({kind}): {complaint}" for complaint in complaints]
        if not complaints:
            shutil.rmtree(scene.folder)
        report_progress("races", number, count, failures, every=20)
    return {
        "count": count,
        "kinds": dict(sorted(kinds.items())),
        "charged": {kind: dict(sorted(who.items())) for kind, who in winners.items()},
        "failures": failures,
    }


# ---------------------------------------------------------------- the script


def report_progress(what: str, number: int, count: int, failures: Sequence[str], every: int) -> None:
    if number % every == 0 or number == count:
        print(f"{what}: {number} of {count}, {len(failures)} failures", flush=True)


def torture(kill_count: int, race_count: int, folder: Path, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    killed = kills(kill_count, folder, seed)
    middle = time.monotonic()
    raced = races(race_count, folder, seed)
    return {
        "kills": {**killed, "seconds": round(middle - began, 1)},
        "races": {**raced, "seconds": round(time.monotonic() - middle, 1)},
        "failures": len(killed["failures"]) + len(raced["failures"]),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--races", type=int, default=200)
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    parser.add_argument("--seed", type=int, default=None, help="of cases and moments; processes still run as they like")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-torture-"))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    result = torture(options.kills, options.races, folder, seed)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if result["failures"]:
        print(f"what failed is kept in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
