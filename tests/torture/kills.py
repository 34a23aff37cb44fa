"""Kill `release` at any moment, and have the same command finish what it began.

A kill is a SIGKILL: it shows what a dead process leaves behind, not what a lost power supply does to unsynced pages.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.scene import (
    BY_ID,
    SHUFFLED,
    Ended,
    Entry,
    Scene,
    charges,
    finish,
    is_tidy,
    is_whole,
    read_entries,
    report_progress,
    run,
    start,
    stays_private,
    steps,
    stored_labels,
    stored_predictions,
    verifies,
)

POLL_SECONDS = 0.0001  # two commits can be a millisecond apart


@dataclass(frozen=True)
class Case:
    """A label file's size and the options it is released with."""

    name: str
    rows: int
    options: tuple[str, ...]
    aim: int | None = None  # the step after which the first kill strikes; None: drawn
    scored: bool = False  # `score` in place of `release`

    def command(self, scene: Scene, labels: Path, folder: Path) -> list[str]:
        """`folder` is where files of many rounds are."""
        if self.scored:
            return scene.score(labels, stored_predictions(folder, self.rows), scene.out, self.options)
        return scene.release(labels, scene.out, self.options)


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
    Case("5,000 scored", 5_000, ("--epsilon", "0.5"), scored=True),
    Case("100,000 scored", 100_000, ("--epsilon", "0.1", "--delta", "1e-6"), scored=True),
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
    timeline = time_command(case.command(scene, labels, folder), scene.ledger)
    shutil.rmtree(scene.folder)
    return timeline


def kill_round(
    scene: Scene, case: Case, timeline: Timeline, rng: random.Random, stored: Path, counts: dict[str, Counter[str]]
) -> list[str]:
    labels = scene.add_labels(stored, "labels.parquet")
    command = case.command(scene, labels, stored.parent)
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
