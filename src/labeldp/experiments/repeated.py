"""Game 1 of the paper, for models that are cheap to train: train on one of two neighbouring data sets, guess which, again and again.

The theorem (CGR): if training is ε-label-DP and D₀, D₁ differ in one label, then whatever attack guesses which of them a fair coin chose
(or abstains) is right, where it guesses, with probability at most e^ε/(1 + e^ε). So ε ≥ log(CGR/(1 − CGR)), CGR being the correct guess
rate: every training is a game of its own, independent of the others, and nothing else is assumed. The number of games is fixed before the
first: who plays on until the bound suits has proven nothing.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeldp import models
from labeldp.audit.canaries import Canaries
from labeldp.audit.counts import CONFIDENCE, Bound, GameCounts
from labeldp.audit.result import AuditResult
from labeldp.data.bundled import Bundled, load
from labeldp.entropy import SecureEntropy, below
from labeldp.errors import InputError
from labeldp.files.run import RunFolder, read_as
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import GamesConfig
from labeldp.machine import Machine
from labeldp.mechanisms import Guarantee, Mechanism, NoPrivacy, RowMechanism
from labeldp.mechanisms.plan import calibrate, recommend
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer

ATTACKS = ("model", "release")


@dataclass(frozen=True)
class Game:
    """The data sets are the bundled one with its `row` labelled `labels[0]` or `labels[1]`, whatever it was."""

    dataset: str
    epsilon: float | None
    mechanism: str | None = None
    delta: float | None = None
    model: str = "linear"
    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 0.05
    row: int = 0
    labels: tuple[int, int] = (0, 1)
    data: str | None = None

    def channel(self, num_classes: int) -> RowMechanism:
        """The mechanism that labels pass through before each training."""
        if self.mechanism == NoPrivacy.name:
            return NoPrivacy(num_classes)
        if self.epsilon is None:
            raise InputError(
                "`epsilon` is missing; a typical value is 1 to 8. (`mechanism='none'` trains without privacy.)"
            )
        if self.mechanism is None:
            return recommend(self.epsilon, num_classes, delta=self.delta)
        return calibrate(self.mechanism, epsilon=self.epsilon, num_classes=num_classes, delta=self.delta)


@dataclass(frozen=True)
class Played:
    """One training: how the coin fell, and which label each attacker's score is for, the second where it is positive."""

    coin: int
    model: float
    release: float

    def __post_init__(self) -> None:
        if self.coin not in (0, 1):
            raise InputError("a coin has two sides.")


def repeat(
    game: Game, folder: Path, trainings: int, *, processes: int = 2, confidence: float = CONFIDENCE,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> AuditResult:  # fmt: skip
    """Play `trainings` games (those that `folder` has are not played again) and say what they prove.

    `folder` keeps to the number of trainings that it was begun with: looking, and then playing on, would make the bound's 5% any share.
    Nothing of a game leaves the owner: releases are drawn, trained on and forgotten, and each line of games.jsonl has a coin and
    two scores.
    """
    run = RunFolder(folder)
    if trainings < 1:
        raise InputError(f"`trainings` is at least 1, and hundreds prove something; got {trainings}.")
    if not 0 < confidence < 1:
        raise InputError(f"`confidence` is between 0 and 1, usually 0.95; got {confidence}.")
    bundle = _bundle(game.dataset, game.data)
    classes = bundle.labels.num_classes
    if not 0 <= game.row < len(bundle.labels):
        raise InputError(f"`row` is one of the {len(bundle.labels):,} training rows, from 0; got {game.row}.")
    if len(set(game.labels)) != 2 or not 0 <= min(game.labels) < max(game.labels) < classes:
        raise InputError(f"`labels` are two different classes of 0 to {classes - 1}; got {game.labels}.")
    mechanism = game.channel(classes)
    with run.locked():
        _keep_to(run, trainings)
        run.match({"game": json.loads(json.dumps(asdict(game))), "trainings": trainings})
        run.note_start()
        played = _played(run.games)
        for line in _games(game, trainings - len(played), processes):
            run.add(asdict(line), run.games)
            played.append(line)
            progress(len(played), trainings)
        result = _result(played[:trainings], mechanism, confidence)
        run.write_summary("games", result.to_json())
    return result


def _games(game: Game, count: int, processes: int) -> Iterator[Played]:
    if count <= 0:
        return
    if processes <= 1:
        yield from (play(game) for _ in range(count))
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(play, [game] * count, chunksize=4)


def play(game: Game) -> Played:
    """One training: toss the coin, label the row, draw the release, train, look."""
    torch.set_num_threads(1)
    bundle = _bundle(game.dataset, game.data)
    classes = bundle.labels.num_classes
    coin, seed = (int(value) for value in (below(SecureEntropy(), 2, 1)[0], below(SecureEntropy(), 1 << 16, 1)[0]))
    row, candidates = np.array([game.row]), np.array([game.labels])
    labels = Canaries(row, candidates, candidates[:, coin], classes).plant(bundle.labels)
    mechanism = game.channel(classes)
    observations = mechanism.observe_uncharged(labels, SecureEntropy())
    recipe = Recipe(game.epochs, game.batch_size, game.learning_rate, seed=seed)
    torch.manual_seed(seed)
    features = torch.from_numpy(bundle.features)
    shape = tuple(bundle.features.shape[1:])
    trainer = Trainer(models.build(game.model, shape, classes), recipe, *Machine("cpu").chosen(images=len(shape) == 3))
    trainer.prepare(features)
    for _ in trainer.fit(
        features, np.arange(len(observations)), lambda chosen: mechanism.evidence(observations[chosen])
    ):
        pass
    said = np.log(np.maximum(trainer.probabilities(features[game.row : game.row + 1])[0].astype(np.float64), 1e-30))
    evidence = np.maximum(mechanism.evidence(observations[game.row : game.row + 1])[0].astype(np.float64), -1e30)
    first, second = game.labels
    return Played(coin, float(said[second] - said[first]), float(evidence[second] - evidence[first]))


@lru_cache(maxsize=1)
def _bundle(dataset: str, data: str | None) -> Bundled:
    return load(dataset, Path(data) if data is not None else None)


def _keep_to(run: RunFolder, trainings: int) -> None:
    """The number of games was fixed when the first was played."""
    if run.config.exists() and (begun := read_as(GamesConfig, run.config).trainings) != trainings:
        what = "without a number of trainings" if begun is None else f"for {begun:,} trainings"
        raise InputError(
            f"the games in {run.path} were begun {what}, which is fixed: who looks and plays on until the bound suits proves nothing. "
            f"Choose another `out` for {trainings:,} trainings."
        )


def _played(path: Path) -> list[Played]:
    games = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            game = json.loads(line)
        except ValueError:
            continue  # cut short by a kill
        try:
            games.append(decode(Played, game))
        except SchemaError as error:
            raise InputError(
                f"{path} has a line that is no game ({error}): it was altered. Choose another `out`."
            ) from None
    return games


def _result(games: list[Played], mechanism: Mechanism, confidence: float) -> AuditResult:
    nothing = Guarantee(math.inf, 0.0)
    return AuditResult.of(
        [_counted(games, attack) for attack in ATTACKS],
        nothing if isinstance(mechanism, NoPrivacy) else mechanism.guarantee(),
        confidence=confidence,
        canaries=len(games),
        candidates=2,
    )


def _counted(games: list[Played], attack: str) -> Bound:
    """A score above 0 is a guess of the second label, one below 0 of the first; 0 abstains."""
    second = np.array([game.coin for game in games]) == 1
    scores = np.array([getattr(game, attack) for game in games])

    def count(mask: Any) -> int:
        return int(mask.sum())

    counts = GameCounts(
        count(second & (scores > 0)), count(second & (scores < 0)), count(second),
        count(~second & (scores < 0)), count(~second & (scores > 0)), count(~second),
    )  # fmt: skip
    return Bound(attack, (counts,))
