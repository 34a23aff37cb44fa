"""Honest files of every kind, made once by the commands that users type; and those commands as readers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import typer

from labeldp.cli import app

COMMAND = typer.main.get_command(app)


def run(*arguments: Any) -> str:
    """A command in this process: its standard output. What it refuses is a LabelDPError; any other error is a crash."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        COMMAND.main([str(one) for one in arguments], prog_name="labeldp", standalone_mode=False)
    return out.getvalue()


def said(*arguments: Any) -> dict[str, Any]:
    """What it says as JSON, of which every number is one."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    found: dict[str, Any] = json.loads(run(*arguments, "--json"), parse_constant=refuse)
    return found


OWN = "--label y --classes a,b,c --id id --ledger owner.ledger"
STATED = "--label y --classes a,b,c --id id --ledger stated.ledger"
FEATURES = "--features x.csv --id id"
COMMANDS = f"""
canaries plant l.csv --label y --id id --classes a,b,c --count 120 --out p.parquet --secret canaries.npz --ledger owner.ledger
release p.parquet {OWN} --rows 1/2 --epsilon 3 --out first.parquet
train --release first.parquet {FEATURES} --epochs 2 --out run
predict run {FEATURES} --out scores.parquet
release p.parquet {OWN} --rows 2/2 --public-prior scores.parquet --epsilon 2 --out second.parquet
release h.csv {OWN} --epsilon 3 --mechanism gaussian --delta 1e-5 --out third.parquet
release w.csv {OWN} --epsilon 3 --insecure-seed 1 --out weak.parquet
train --release third.parquet {FEATURES} --epochs 1 --out other
predict other {FEATURES} --out other.parquet
audit scores.parquet --canaries canaries.npz --release first.parquet --reference other.parquet --out audit
train --dataset digits --model linear --epochs 1 --epsilon 4 --canaries 50 --out own
train --dataset digits --model linear --epochs 1 --epsilon 4 --insecure-seed 1 --out seeded
select h.csv --label y --classes a,b,c --id id --features x.csv --candidates c.json --epsilon 4 --expected-runs 2 --ledger s.ledger --out chosen
pate run --dataset digits --teachers 20 --max-asked 60 --max-answered 30 --sigma1 30 --sigma2 15 --threshold 8 --student-epochs 1 --holdout 0.3 --holdout-epsilon 2 --out pate
release two.csv --label y --classes 2 --id id --ledger two.ledger --epsilon 3 --out two.parquet
train --release two.parquet {FEATURES} --model mlp --epochs 1 --holdout 0.5 --out ranked
features t.csv --label y --id id --out encoded.parquet
score scores.parquet --labels s.csv {STATED} --epsilon 1 --out score.parquet --recipient Ann --purpose test
score scores.parquet other.parquet --labels s.csv {STATED} --epsilon 1 --choose brier --out choice.parquet --again charge --budget 9 --raise-budget
moments x.csv --labels s.csv {STATED} --epsilon 1 --out moments.parquet --again charge --budget-gaussian 2 --budget-delta 1e-5 --raise-budget
train --moments moments.parquet {FEATURES} --out summed
moments x.csv --labels s.csv {STATED} --epsilon 1 --pure --out histogram.parquet --again charge
train --moments histogram.parquet {FEATURES} --out counted
predict ranked {FEATURES} --out ranked.parquet
score ranked.parquet --labels both.csv --label y --classes 2 --id id --ledger both.ledger --epsilon 1 --delta 1e-5 --insecure-seed 1 --out weak_score.parquet
"""  # noqa: E501


def build(place: Path) -> Path:
    """All of it, in an empty directory."""
    place.mkdir(parents=True, exist_ok=True)
    draw, classes = random.Random(0), "abc"
    for name, rows in (("l", range(600)), ("h", range(600, 900)), ("w", range(900, 960))):
        (place / f"{name}.csv").write_text("id,y\n" + "".join(f"r{i},{classes[i % 3]}\n" for i in rows))
    (place / "x.csv").write_text(
        "id,u,v\n" + "".join(f"r{i},{i % 3 + draw.random():.4f},{draw.random():.4f}\n" for i in range(960))
    )
    (place / "t.csv").write_text(
        "id,y,u,w\n" + "".join(f"r{i},{classes[i % 3]},{i % 5},{'pq'[i % 2]}\n" for i in range(60))
    )
    (place / "two.csv").write_text("id,y\n" + "".join(f"r{i},{int(i % 3 == 1)}\n" for i in range(900)))
    (place / "s.csv").write_text("id,y\n" + "".join(f"r{i},{classes[i % 3]}\n" for i in range(960)))
    (place / "both.csv").write_text("id,y\n" + "".join(f"r{i},{int(i % 3 == 1)}\n" for i in range(960)))
    (place / "c.json").write_text('{"epochs": [1, 2]}')
    with inside(place):
        for command in COMMANDS.strip().splitlines():
            if "--public-prior" in command:
                shutil.copy("owner.ledger", "before.ledger")
                shutil.copytree("owner.ledger.releases", "before.ledger.releases")
            run(*command.split())
        for release, folder in (("first", "run"), ("third", "other")):
            shutil.copy(f"{release}.parquet", f"{folder}/released.parquet")
    return place


@contextlib.contextmanager
def inside(place: Path) -> Any:
    """Work in a directory."""
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)
