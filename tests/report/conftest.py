"""Small runs of every kind."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Small runs of every kind, made once by the commands that users type."""
    place = tmp_path_factory.mktemp("runs")
    digits = ["experiment", "--dataset", "digits", "--model", "linear", "--epochs", "3"]
    commands = {
        "plain": [*digits, "--epsilon", "4", "--canaries", "100", "--candidates", "10"],
        "gaussian": [*digits, "--epsilon", "4", "--mechanism", "gaussian"],
        "staged": [*digits, "--epsilon", "4", "--stages", "2"],
        "best": [*digits, "--epsilon", "4", "--select", "best"],
        "seeded": [*digits, "--epsilon", "4", "--insecure-seed", "1"],
        "none": [*digits, "--mechanism", "none"],
        "pate": PATE.split(),
        "games": GAMES.split(),
        "heuristic": HEURISTIC.split(),
        "chosen": SELECT.split(),
        "two": [*TWO.split(), "--select", "best"],
        "few": [*TWO.replace("two.parquet", "few.parquet").split()],
    }
    draw = random.Random(0)
    points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(4000)]
    (place / "p.csv").write_text("id,a,b\n" + "".join(f"r{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(points)))
    bought = ["yes" if a + b + draw.gauss(0, 1) > 1 else "no" for a, b in points]
    (place / "b.csv").write_text("id,y\n" + "".join(f"r{i},{y}\n" for i, y in enumerate(bought)))
    own = ["release", "b.csv", "--label", "y", "--classes", "no,yes", "--id", "id"]
    first = [
        [*own, "--epsilon", "3", "--rows", "0:3600", "--out", "two.parquet"],
        [*own, "--epsilon", "0.1", "--rows", "3600:4000", "--out", "few.parquet"],
    ]
    (place / "v.csv").write_text("id,y\n" + "".join(f"r{i},{i % 2}\n" for i in range(200)))
    (place / "x.csv").write_text("id,a\n" + "".join(f"r{i},{i % 2}.5\n" for i in range(200)))
    (place / "c.json").write_text('{"epochs": [2, 3]}')
    labeldp_commands([*first, *([*arguments, "--out", name] for name, arguments in commands.items())], cwd=place)
    while overshoots(place / "plain"):
        shutil.rmtree(place / "plain")
        labeldp_commands([[*commands["plain"], "--out", "plain"]], cwd=place)
    return place


def overshoots(run):
    """Whether what was measured is above what is proven: so are up to 5% of honest audits, whose pages then rightly say "do not sign"."""
    if (run / "audit.json").exists():  # of one's own labels, at ε = 1
        return json.loads((run / "audit.json").read_text())["audit"]["epsilon_low"] > 1
    summary = json.loads((run / "summary.json").read_text())
    return max(found["epsilon_low"] for found in summary["audit"].values()) > summary["certificate"]["epsilon"]


@pytest.fixture(scope="session")
def owned(tmp_path_factory):
    """Labels of somebody's own: canaries planted, released with ids under a budget, trained on, audited."""
    place = audited_labels(tmp_path_factory.mktemp("owned"))
    while overshoots(place / "audit"):
        place = audited_labels(tmp_path_factory.mktemp("owned"))
    return place


def audited_labels(place):
    """As said, in this directory."""
    draw = random.Random(1)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(400)]
    (place / "v.csv").write_text(
        "id,y\n" + "".join(f"r{i},{'yes' if a > 0 else 'no'}\n" for i, (a, _) in enumerate(rows))
    )
    (place / "x.csv").write_text("id,a,b\n" + "".join(f"r{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(rows)))
    columns = "--label y --id id --classes no,yes"
    labeldp_commands(
        [
            f"canaries plant v.csv {columns} --count 60 --out planted.parquet --secret canaries.npz",
            f"release planted.parquet {columns} --epsilon 1 --budget 2 --shuffle --purpose fraud --out released.parquet",
            "train --release released.parquet --features x.csv --id id --canary-share 0.15 --epochs 3 --out run",
            "predict run --features x.csv --id id --out scores.parquet",
            "audit scores.parquet --canaries canaries.npz --release released.parquet --out audit",
        ],
        cwd=place,
    )
    return place


TWO = "train --release two.parquet --features p.csv --id id --model mlp --epochs 3 --holdout 0.4"
GAMES = "audit-repeat --dataset digits --epsilon 2 --trainings 4"
HEURISTIC = "audit-heuristic --dataset digits --mechanism none --model linear --epochs 1 --canaries 40 --plantings 2"
SELECT = "select v.csv --label y --classes 2 --id id --features x.csv --candidates c.json --epsilon 4 --expected-runs 2 --ledger own.ledger"
PATE = (
    "pate run --dataset digits --teachers 50 --max-asked 300 --max-answered 150 --sigma1 30 --sigma2 15 --threshold 20 "
    "--student-epochs 2 --holdout 0.3 --holdout-epsilon 2"
)
# Importing torch takes longer than any of the runs.
IN_ONE_PROCESS = """
import json, sys
from labeldp.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["labeldp", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def labeldp_commands(commands, cwd):
    """Commands as users type them, one after the other in one process of one thread; the first that fails fails the test."""
    words = [command.split() if isinstance(command, str) else command for command in commands]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "LABELDP_LEDGER": str(cwd / "reader.ledger")}
    ran = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(words)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
