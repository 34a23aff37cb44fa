"""Race two commands on one ledger: whoever comes first, the budget holds."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.scene import (
    BY_ID,
    SHUFFLED,
    Ended,
    Scene,
    charges,
    finish,
    is_tidy,
    is_whole,
    read_entries,
    report_progress,
    spends_within_caps,
    start,
    stays_private,
    stored_labels,
    verifies,
)


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
