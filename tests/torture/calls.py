"""Fail every file call of every command that writes, in turn; kill the command there; fill the disk there. Then have it finish.

Killed after a call is killed before the next: nothing on the disk differs. So a command of n calls is killed at n + 1 places.
"""

from __future__ import annotations

import errno
import hashlib
import json
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from labeldp.audit.canaries import Canaries
from labeldp.errors import LabelDPError
from labeldp.release import Release
from labeldp.release.sealed import statistic_name
from labeldp.statistics.histogram_file import SharesFromHistogram
from labeldp.statistics.moments_file import LinearFromMoments
from labeldp.statistics.reading import load_statistic
from tests.torture.commands import COMMANDS, Command, prepare
from tests.torture.scene import Entry, charges, open_to_others, published_checksums, read_entries
from tests.torture.server import Server, Struck
from tests.torture.shim import FAIL, FULL, KILL_AFTER, KILL_BEFORE, Blow

LEFT_BEHIND = (
    "**/.labeldp-*",
    "**/*.partial",
    "**/*.scratch",
    "**/*.unfinished",
    "**/*-journal",
    "**/*.tmp",
    "**/*.runs",
)
FULL_EVERY = 4  # what a full disk does is much what a failing call does
_RANDOM = re.compile(r"[0-9a-f]{16,}")
_NOTE = re.compile(r"head-\d+-#")

Files = dict[str, str]  # path below the folder: digest of its content


@dataclass(frozen=True)
class Undisturbed:
    """What the command leaves when nobody disturbs it, twice: what is the same both times must always be so."""

    calls: tuple[str, ...]
    names: frozenset[str]
    stable: Files


@dataclass(frozen=True)
class Place:
    """A copy of the prepared folder, the same path at every point: some files tell where they were made."""

    prepared: Path
    work: Path
    server: Server

    def fresh(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.prepared, self.work)

    def run(self, command: Command, blow: Blow | None = None) -> Struck:
        return self.server.run(command.arguments, self.work, blow)

    def files(self) -> Files:
        paths = (path for path in self.work.rglob("*") if path.is_file())
        return {str(path.relative_to(self.work)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    def entries(self, command: Command) -> list[Entry]:
        """Read in a copy: the next attempt must meet the ledger as it was left."""
        copy = self.work.with_name(f"{self.work.name}-copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.work / "owner", copy)
        return read_entries(copy / Path(command.ledger).name)

    def outs(self, command: Command) -> list[Path]:
        return [self.work / out for out in command.outs]


def names(files: Files) -> frozenset[str]:
    """What is drawn at random left out, and how many entries the ledger's note knows: a draw that is thrown away has one of its own."""
    return frozenset(_NOTE.sub("head-#", _RANDOM.sub("#", name)) for name in files)


def undisturbed(place: Place, command: Command) -> Undisturbed:
    seen = []
    for _ in range(2):
        place.fresh()
        ended = place.run(command, Blow())
        if ended.code != 0:
            raise RuntimeError(f"{command.name}: {ended}")
        seen.append(place.files())
    stable = {name: digest for name, digest in seen[0].items() if seen[1].get(name) == digest}
    if command.draws:
        stable = {name: digest for name, digest in stable.items() if (place.prepared / name).exists()}
    return Undisturbed(ended.calls, names(seen[0]), stable)


# ---------------------------------------------------------------- invariants


def says_what_happened(command: Command, ended: Struck, entries: Sequence[Entry], before: int) -> Iterator[str]:
    """A command that fails says one sentence, and its exit code tells whether anything is charged."""
    charged = len(charges(entries)) - before
    if charged > command.charges:
        yield f"{charged} charges instead of {command.charges}"
    if ended.code < 0:
        return
    if "Please report" in ended.stderr or "Traceback" in ended.stderr or ended.code not in range(5):
        yield f"no sentence but {ended}"
    if ended.code != 0 and sum(line.startswith("error: ") for line in ended.stderr.splitlines()) != 1:
        yield f"not one sentence but {ended}"
    if ended.code in (2, 3) and charged:
        yield f"charged, but {ended}"
    if ended.code != 4 and "is charged" in ended.stderr:
        yield f"says that it is charged, with {ended}"
    if ended.code == 4 and not charges(entries):
        yield f"not charged, but {ended}"


def is_whole(path: Path, entries: Sequence[Entry], suffix: str | None = None) -> Iterator[str]:
    """What can be seen can be read to its end."""
    suffix = suffix or path.suffix
    try:
        if suffix == ".parquet":
            pq.read_table(path)
            if b"labeldp" in (pq.read_schema(path).metadata or {}) and _is_release(path):
                release = Release.load(path)
                if release.checksum not in published_checksums(entries):
                    yield f"{path.name} is visible, but the ledger has not published this file"
            elif statistic_name(path) is not None and load_statistic(path).checksum not in published_checksums(entries):
                yield f"{path.name} is visible, but the ledger has not published this file"
        elif suffix in (".npy", ".npz"):
            loaded = np.load(path, allow_pickle=False)
            if suffix == ".npz":
                [loaded[name] for name in loaded.files]
        elif suffix == ".json":
            json.loads(path.read_text())
        elif suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
            yield f"{path.name} ends early"
        elif suffix == ".fitted":
            kind = json.loads((path.parent / "config.json").read_text())["model"]
            {"moments": LinearFromMoments, "histogram": SharesFromHistogram}[kind].from_bytes(path.read_bytes())
        elif suffix == ".safetensors":
            with safe_open(path, "np") as file:
                [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
    except (OSError, ValueError, EOFError, pa.ArrowException, LabelDPError, SafetensorError) as error:
        yield f"{path.name} is visible, but not whole: {type(error).__name__} {error}"


def _is_release(path: Path) -> bool:
    return b"observation" in (pq.read_schema(path).metadata or {}).get(b"labeldp", b"")


def stays_private(work: Path, entries: Sequence[Entry]) -> Iterator[str]:
    """Others can read nothing of the owner's, and nothing that is not whole."""
    for path in sorted(path for path in work.rglob("*") if path.is_file() and open_to_others(path)):
        name = path.relative_to(work)
        if any(not open_to_others(parent) for parent in path.parents[: len(name.parts) - 1]):
            continue
        if "owner" in name.parts:
            yield f"{name} has mode {path.stat().st_mode & 0o777:o}"
        elif path.name.startswith(".labeldp-") and not any(fits(path, suffix, entries) for suffix in _SUFFIXES):
            yield f"{name} is not whole and has mode {path.stat().st_mode & 0o777:o}"


_SUFFIXES = (".parquet", ".npy", ".npz", ".json", ".html", ".safetensors", ".fitted")


def fits(path: Path, suffix: str, entries: Sequence[Entry]) -> bool:
    return not any(is_whole(path, entries, suffix))


def agree(secret: Path, table: Path) -> Iterator[str]:
    """The planted table holds the canaries that the secret file names, and those only."""
    canaries, planted = Canaries.load(secret), pq.read_table(table)
    if (planted.schema.metadata or {}).get(b"labeldp.planting") != str(canaries.planting).encode():
        yield "the planted table and the secret file are of two plantings"
    if not np.array_equal(planted["label"].to_numpy()[canaries.rows], canaries.planted):
        yield "the planted table has other labels than the secret file says"


def looks_right(
    place: Place, command: Command, ended: Struck, entries: Sequence[Entry], calm: Undisturbed
) -> Iterator[str]:
    """Right after the blow."""
    files = place.files()
    for name in sorted(files):
        path = place.work / name
        if not (place.prepared / name).exists() and not any(path.match(ending[3:]) for ending in LEFT_BEHIND):
            yield from is_whole(path, entries)
    for out in command.outs:
        if out in files and out in calm.stable and files[out] != calm.stable[out]:
            yield f"{out} is visible, but not as it is undisturbed"
        if ended.code == 0 and out not in files:
            yield f"exit 0, but there is no {out}"
    yield from stays_private(place.work, entries)


def finishes(place: Place, command: Command, calm: Undisturbed, before: int) -> Iterator[str]:
    """The same command again finishes under at most one charge; once more, it only repeats."""
    seen = {out: hashlib.sha256(out.read_bytes()).hexdigest() for out in place.outs(command) if out.exists()}
    for attempt in ("again", "once more"):
        ended = place.run(command)
        if ended.code != 0:
            yield f"{attempt}, it fails: {ended}"
            return
        files, entries = place.files(), place.entries(command)
        if len(charges(entries)) - before != command.charges:
            yield f"{attempt}, {len(charges(entries)) - before} charges instead of {command.charges}"
        if different := sorted(name for name, digest in calm.stable.items() if files.get(name) != digest):
            yield f"{attempt}, other content than undisturbed: {', '.join(different)}"
        if attempt == "again" and names(files) != calm.names:
            yield f"{attempt}, other files than undisturbed: {', '.join(sorted(names(files) ^ calm.names))}"
        if left := sorted({str(p.relative_to(place.work)) for ending in LEFT_BEHIND for p in place.work.glob(ending)}):
            yield f"{attempt}, left behind: {', '.join(left)}"
        for out in place.outs(command):
            yield from is_whole(out, entries)
            digest = hashlib.sha256(out.read_bytes()).hexdigest()
            if seen.get(out, digest) != digest and (attempt == "once more" or command.charges):
                yield f"{attempt}, {out.name} is another than was seen before"
            seen[out] = digest
        yield from stays_private(place.work, entries)
    if command.name == "canaries plant":
        yield from agree(place.work / "owner/out.npz", place.work / "owner/out.parquet")
    if entries and command.ledger in command.arguments:
        verified = place.server.run(["ledger", "verify", "--ledger", command.ledger], place.work)
        if verified.code != 0:
            yield f"`ledger verify` fails: {verified}"


# ---------------------------------------------------------------- the points


def strike(place: Place, command: Command, calm: Undisturbed, blow: Blow) -> tuple[Struck, list[str]]:
    """One blow, and all that is wrong afterwards."""
    place.fresh()
    before = len(charges(place.entries(command)))
    ended = place.run(command, blow)
    try:
        entries = place.entries(command)
    except sqlite3.Error as error:
        return ended, [f"the ledger cannot be read: {error}"]
    complaints = list(says_what_happened(command, ended, entries, before))
    complaints += looks_right(place, command, ended, entries, calm)
    complaints += finishes(place, command, calm, before)
    return ended, complaints


def blows(calls: int, seed: int) -> list[Blow]:
    """Every call fails; the command is killed before each and after the last; some calls are the first on a full disk."""
    errors = (errno.ENOSPC, errno.EIO)
    points = range(1, calls + 1)
    failing = [Blow(FAIL, at, errors[(at + seed) % 2]) for at in points]
    return [
        *failing,
        *(Blow(KILL_BEFORE, at) for at in points),
        Blow(KILL_AFTER, calls),
        *(Blow(FULL, at) for at in points[::FULL_EVERY]),
    ]


def torment(place: Place, command: Command, seed: int, most: int | None, kept: Path) -> dict[str, Any]:
    """All blows, or `most` of them drawn by the seed."""
    calm = undisturbed(place, command)
    chosen = blows(len(calm.calls), seed)
    if most is not None and most < len(chosen):
        chosen = random.Random(f"{command.name} {seed}").sample(chosen, most)
    counts: Counter[str] = Counter({"failed": 0, "killed": 0, "filled": 0})
    failures: list[str] = []
    for blow in chosen:
        ended, complaints = strike(place, command, calm, blow)
        counts[{FAIL: "failed", FULL: "filled"}.get(blow.mode, "killed")] += 1
        if complaints:
            hit = ended.calls[blow.at - 1] if blow.at <= len(ended.calls) else "not reached"
            failures += [f"{command.name}, {blow} ({hit}): {complaint}" for complaint in complaints]
            if len(failures) < 20:
                shutil.copytree(place.work, kept / f"{command.name}-{blow}".replace(" ", "-"), dirs_exist_ok=True)
    return {"points": len(calm.calls), **counts, "failures": failures}


def calls(
    folder: Path, seed: int, most: int | None = None, *, preload: bool = True, commands: Sequence[Command] = COMMANDS
) -> dict[str, Any]:
    """Torment each command, at every point or at `most` of them. Those that need torch run beside the others."""
    with Server(folder, preload=preload, torch=True) as server, Server(folder, preload=preload) as small:
        if not (folder / "prepared").exists():
            prepare(folder / "prepared", server)

        def tormented(torch: bool) -> dict[str, dict[str, Any]]:
            place = Place(folder / "prepared", folder / f"work-{torch}", server if torch else small)
            return {c.name: _told(place, c, seed, most, folder / "failed") for c in commands if c.torch == torch}

        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(tormented, torch) for torch in (False, True)]
            found = {name: result for half in both for name, result in half.result().items()}
    told = {command.name: found[command.name] for command in commands}
    return {"shim": server.shim, "commands": told, "failures": [f for one in told.values() for f in one["failures"]]}


def _told(place: Place, command: Command, seed: int, most: int | None, kept: Path) -> dict[str, Any]:
    found = torment(place, command, seed, most, kept)
    counted = ", ".join(f"{value} {name}" for name, value in found.items() if name != "failures")
    print(f"calls: {command.name}: {counted}, {len(found['failures'])} failures", flush=True)
    return found
