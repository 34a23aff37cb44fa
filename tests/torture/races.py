"""Race commands on one ledger: whoever comes first, the budget holds."""

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
    stored_features,
    stored_labels,
    stored_predictions,
    verifies,
)


@dataclass(frozen=True)
class Race:
    """Commands at the same moment, and how they must end: with which codes, sorted, whichever comes first."""

    labels: tuple[Path, ...]
    outs: tuple[Path, ...]
    commands: tuple[list[str], ...]
    codes: tuple[int, ...]
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


# ---------------------------------------------------------------- one noisy statistic


def three_outs(scene: Scene) -> tuple[Path, ...]:
    return tuple(scene.shared / f"{name}.parquet" for name in ("first", "second", "third"))


def same_score(scene: Scene, folder: Path, rng: random.Random) -> Race:
    """A score that three ask for at once is drawn once."""
    labels, outs = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet"), three_outs(scene)
    options = ("--epsilon", rng.choice(("0.3", "1")), *rng.choice(((), ("--confusion",), ("--delta", "1e-5"))))
    predictions = stored_predictions(folder, RACE_ROWS)
    commands = tuple(scene.score(labels, predictions, out, options) for out in outs)
    return Race((labels,), outs, commands, (0, 0, 0), charges=1, same_release=True)


def same_moments(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels, outs = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet"), three_outs(scene)
    features, options = stored_features(folder, RACE_ROWS), ("--epsilon", rng.choice(("0.3", "1")))
    commands = tuple(scene.moments(labels, features, out, options) for out in outs)
    return Race((labels,), outs, commands, (0, 0, 0), charges=1, same_release=True)


def statistics_of_one_budget(scene: Scene, folder: Path, rng: random.Random) -> Race:
    """Of three different statistics, and a release of rows among them, the budget admits any two."""
    labels, outs = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet"), three_outs(scene)
    predictions, common = stored_predictions(folder, RACE_ROWS), ("--again", "charge", "--budget", "1")
    asked = [
        scene.score(labels, predictions, outs[0], (*common, "--epsilon", "0.4")),
        scene.score(labels, predictions, outs[1], (*common, "--epsilon", "0.45", "--confusion")),
        rng.choice(
            (
                scene.score(labels, predictions, outs[2], (*common, "--epsilon", "0.5")),
                scene.release(labels, outs[2], (*BY_ID, *common, "--epsilon", "0.5")),
            )
        ),
    ]
    return Race((labels,), outs, tuple(asked), (0, 0, 3), charges=2)


def moments_of_one_budget(scene: Scene, folder: Path, rng: random.Random) -> Race:
    labels, outs = scene.add_labels(stored_labels(folder, RACE_ROWS), "labels.parquet"), three_outs(scene)
    common = ("--again", "charge", "--budget-gaussian", "3", "--budget-delta", "1e-5", "--delta", "1e-5")
    features = stored_features(folder, RACE_ROWS)
    commands = tuple(
        scene.moments(labels, features, out, (*common, "--epsilon", epsilon))
        for out, epsilon in zip(outs, rng.sample(("2.5", "2.7", "2.9"), 3), strict=True)
    )
    return Race((labels,), outs, commands, (0, 3, 3), charges=1)


Kinds = dict[str, Callable[[Scene, Path, random.Random], Race]]
STATISTICS: Kinds = {
    "same score": same_score,
    "same moments": same_moments,
    "statistics of one budget": statistics_of_one_budget,
    "moments of one budget": moments_of_one_budget,
}
RACES: Kinds = {
    "same command": same_command,
    "one budget": one_budget,
    "two data sets": two_data_sets,
    "two names": two_names,
    "hopeless rival": hopeless_rival,
    **STATISTICS,
}


def judge(scene: Scene, race: Race, ended: Sequence[Ended]) -> Iterator[str]:
    if tuple(sorted(e.code for e in ended)) != race.codes:
        yield f"they ended with {', '.join(map(str, ended))}"
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
    """Which of them were charged: shows that none always comes first."""
    charged = tuple(bool(e.facts.get("charged")) for e in ended)
    if len(charged) == 2 and charged[0] == charged[1]:
        return "both" if charged[0] else "neither"
    named = zip(("first", "second", "third"), charged, strict=False)
    return " and ".join(name for name, paid in named if paid) or "none"


def races(count: int, folder: Path, seed: int, kinds_of: Kinds = RACES) -> dict[str, Any]:
    """Start `count` sets of commands, each set on one fresh ledger; every kind once before any is drawn again."""
    rng = random.Random(seed)
    kinds: Counter[str] = Counter()
    winners: dict[str, Counter[str]] = {kind: Counter() for kind in kinds_of}
    failures: list[str] = []
    for number in range(1, count + 1):
        kind = list(kinds_of)[number - 1] if number <= len(kinds_of) else rng.choice(list(kinds_of))
        scene = Scene(folder / f"race-{number}")
        race = kinds_of[kind](scene, folder, rng)
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
