"""The commands that write, each small, and what must be there before them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.files.predictions import write_predictions
from tests.torture.server import Server

ROWS, CLASSES = 200, 3


@dataclass(frozen=True)
class Command:
    """A command line, to be run in a copy of the prepared folder.

    outs     what it leaves: never seen unless whole
    charges  how many charges it adds to the ledger
    """

    name: str
    arguments: tuple[str, ...]
    outs: tuple[str, ...]
    ledger: str = "owner/labels.ledger"
    charges: int = 0

    @property
    def draws(self) -> bool:
        """Whether what it writes is drawn at random, and so another each time; some of it, by chance, is not."""
        return bool(self.charges) or self.arguments[0] == "canaries"

    @property
    def torch(self) -> bool:
        """Whether it needs torch."""
        return self.arguments[0] in ("train", "predict", "select", "pate")


LABELS = ("owner/labels.parquet", "--label", "label", "--classes", str(CLASSES))
BY_ID = ("--id", "uid")
KNOWN, NEW = ("--ledger", "owner/labels.ledger"), ("--ledger", "owner/new.ledger")
FEATURES = ("--features", "shared/features.parquet", *BY_ID)
TRAINING = ("--model", "linear", "--epochs", "2", "--batch-size", "64", "--threads", "1")
PLANTED = ("--count", "4", *BY_ID)
PATE = (
    "--features", "shared/features.parquet", "--labels", "owner/labels.parquet", "--label", "label", *BY_ID,
    "--classes", str(CLASSES), "--teachers", "5", "--max-asked", "20", "--max-answered", "10", "--sigma1", "2",
    "--sigma2", "1", "--threshold", "2", "--student", "evidence", "--student-model", "linear", "--student-epochs", "1",
    "--processes", "0",
)  # fmt: skip


def _release(name: str, *options: str, ledger: Sequence[str] = NEW, charges: int = 1) -> Command:
    out = "shared/out.parquet"
    arguments = ("release", *LABELS, "--out", out, *options, *ledger)
    return Command(name, arguments, (out,), ledger[1], charges)


def _statistic(name: str, *arguments: str) -> Command:
    out = "shared/out.parquet"
    labels = ("--labels", *LABELS, *BY_ID)
    return Command(name, (*arguments, *labels, "--out", out, *NEW), (out,), NEW[1], 1)


COMMANDS = (
    _release("release", "--epsilon", "2"),
    _release("release --id", *BY_ID, "--epsilon", "2", "--mechanism", "laplace"),
    _release("release --shuffle", *BY_ID, "--shuffle", "--epsilon", "2"),
    _release("release, repeated", *BY_ID, "--epsilon", "2", ledger=KNOWN, charges=0),
    _release(
        "release --again charge", *BY_ID, "--epsilon", "1", "--again", "charge", "--budget", "9", "--raise-budget", ledger=KNOWN,
    ),
    _release("release --public-prior", "--epsilon", "2", "--public-prior", "shared/prior.npy"),
    _statistic("score", "score", "shared/scores.parquet", "--epsilon", "1"),
    _statistic("score, two models", "score", "shared/scores.parquet", "shared/flat.parquet", "--epsilon", "1", "--delta", "1e-5"),
    _statistic("score --choose", "score", "shared/scores.parquet", "shared/flat.parquet", "--epsilon", "1", "--choose", "brier"),
    _statistic("moments", "moments", "shared/features.parquet", "--epsilon", "1"),
    _statistic("moments --pure", "moments", "shared/features.parquet", "--epsilon", "1", "--pure"),
    Command("ledger get", ("ledger", "get", "3", "--out", "shared/out.parquet", *KNOWN), ("shared/out.parquet",)),
    Command(
        "canaries plant",
        ("canaries", "plant", *LABELS, *PLANTED, "--out", "owner/out.parquet", "--secret", "owner/out.npz", *NEW),
        ("owner/out.parquet", "owner/out.npz"),
        "owner/new.ledger",
    ),
    Command(
        "features",
        ("features", "shared/table.parquet", "--no-label", *BY_ID, "--out", "shared/out.parquet"),
        ("shared/out.parquet",),
    ),
    Command(
        "features --like",
        ("features", "shared/table.parquet", "--like", "shared/features.parquet", "--out", "shared/out.parquet"),
        ("shared/out.parquet",),
    ),
    Command(
        "train",
        ("train", "--release", "shared/released.parquet", *FEATURES, *TRAINING, "--out", "shared/out"),
        tuple(f"shared/out/{name}" for name in ("config.json", "summary.json", "trained.parquet")),
    ),
    Command(
        "train --moments",
        ("train", "--moments", "shared/moments.parquet", *FEATURES, "--out", "shared/out"),
        tuple(f"shared/out/{name}" for name in ("config.json", "summary.json", "trained.parquet")),
    ),
    Command(
        "train --moments, of a histogram",
        ("train", "--moments", "shared/histogram.parquet", *FEATURES, "--out", "shared/out"),
        tuple(f"shared/out/{name}" for name in ("config.json", "summary.json", "trained.parquet")),
    ),
    Command("predict", ("predict", "shared/run", *FEATURES, "--out", "shared/out.parquet"), ("shared/out.parquet",)),
    Command("predict, .npy", ("predict", "shared/run", *FEATURES, "--out", "shared/out.npy"), ("shared/out.npy",)),
    Command(
        "audit --out",
        ("audit", "shared/scores.parquet", "--canaries", "owner/canaries.npz", "--out", "shared/out"),
        ("shared/out/audit.json",),
    ),
    Command("report", ("report", "shared/run", "--out", "shared/out.html"), ("shared/out.html",)),
    Command("plan --html", ("plan", "--classes", "3", "--epsilon", "2", "--html", "shared/out.html"), ("shared/out.html",)),
    Command(
        "select",
        (
            "select", *LABELS, *FEATURES, "--candidates", "shared/candidates.json", "--epsilon", "4", "--expected-runs", "2",
            "--threads", "1", *NEW, "--out", "shared/out",
        ),
        ("shared/out/selection.json", "shared/out/summary.json"),
        "owner/new.ledger",
        1,
    ),
    Command(
        "pate run",
        ("pate", "run", *PATE, *NEW, "--out", "shared/out"),
        ("shared/out/answers.parquet", "shared/out/summary.json"),
        "owner/new.ledger",
        1,
    ),
)  # fmt: skip

# What the commands above start from, in this order.
_BEFORE = (
    (
        "canaries",
        "plant",
        *LABELS,
        *PLANTED,
        "--out",
        "owner/planted.parquet",
        "--secret",
        "owner/canaries.npz",
        *KNOWN,
    ),
    ("features", "shared/table.parquet", "--no-label", *BY_ID, "--out", "shared/features.parquet"),
    ("release", *LABELS, *BY_ID, "--epsilon", "2", "--out", "shared/released.parquet", *KNOWN),
    ("train", "--release", "shared/released.parquet", *FEATURES, *TRAINING, "--out", "shared/run"),
    ("predict", "shared/run", *FEATURES, "--out", "shared/scores.parquet"),
    (
        "moments", "shared/features.parquet", "--labels", *LABELS, *BY_ID, "--epsilon", "1", "--out", "shared/moments.parquet",
        "--ledger", "owner/moments.ledger",
    ),
    (
        "moments", "shared/features.parquet", "--labels", *LABELS, *BY_ID, "--epsilon", "1", "--pure", "--out", "shared/histogram.parquet",
        "--ledger", "owner/histogram.ledger",
    ),
)  # fmt: skip


def prepare(folder: Path, server: Server) -> None:
    """Labels, features, a release, a trained model and its probabilities: the owner's apart from what is shared."""
    (folder / "owner").mkdir(parents=True)  # open to all: each file in it must keep to itself
    (folder / "shared").mkdir()
    draw = np.random.default_rng(0)
    uids, labels = [f"user-{i:04d}" for i in range(ROWS)], draw.integers(0, CLASSES, ROWS)
    table = {
        "uid": uids,
        "x": draw.normal(labels, 1.0),
        "z": draw.normal(size=ROWS),
        "colour": draw.choice(["red", "blue"], ROWS),
    }
    pq.write_table(pa.table(table), folder / "shared" / "table.parquet")
    pq.write_table(pa.table({"uid": uids, "label": labels}), folder / "owner" / "labels.parquet")
    (folder / "owner" / "labels.parquet").chmod(0o600)
    candidates = {"mechanism": ["subset", "response"], "model": ["linear"], "epochs": [1]}
    (folder / "shared" / "candidates.json").write_text(json.dumps(candidates))
    np.save(folder / "shared" / "prior.npy", np.full((ROWS, CLASSES), 1 / CLASSES))
    guesses = draw.dirichlet(np.ones(CLASSES), ROWS).astype(np.float32)
    write_predictions(folder / "shared" / "flat.parquet", np.array(uids), guesses)
    for arguments in _BEFORE:
        ended = server.run(arguments, folder)
        if ended.code != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {ended}")
