"""`labeldp select` at the desk: what it prints, what works on its result, and what is refused without a word about a label."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labeldp import Ledger
from tests.cli.conftest import SECRET_NUMBER, SECRET_TEXT, expect_sentence

ROOT = Path(__file__).parent.parent.parent
ROWS = 240
CANDIDATES = {"mechanism": ["subset", "response"], "epochs": [3], "learning_rate": [0.01, 0.1]}


def labels(desk, rows=ROWS, **cells):
    """Two classes by number; single cells may be said otherwise."""
    values = [cells.get(f"row{i}", str(i * 7919 % 10 // 5)) for i in range(rows)]
    return desk.csv("uid,y\n" + "".join(f"u{i},{value}\n" for i, value in enumerate(values)))


def features(desk, rows=ROWS, name="x.csv", columns=("a", "b")):
    rng = np.random.default_rng(0)
    lines = (f"u{i},{i * 7919 % 10 // 5 + rng.normal():.4f},{rng.normal():.4f}\n" for i in range(rows))
    return desk.csv(f"uid,{','.join(columns)}\n" + "".join(lines), name)


def select(desk, file, *options, x=None, candidates=CANDIDATES, label="y", classes="2", epsilon="4", out="chosen"):
    listed = desk.folder / "candidates.json"
    listed.write_text(candidates if isinstance(candidates, str) else json.dumps(candidates))
    return desk.run(
        "select", file, "--label", label, "--classes", classes, "--id", "uid", "--features", x or features(desk), "--candidates",
        listed, "--epsilon", epsilon, "--expected-runs", "2", "--ledger", desk.ledger, "--threads", "1", "--out", desk.outs / out,
        *options,
    )  # fmt: skip


def test_for_people_and_for_programs(desk):
    file, x = labels(desk), features(desk)
    first = select(desk, file, x=x)
    assert first.code == 0, first.err
    assert first.err == ""
    assert "candidate" in first.fact("chosen")
    assert "of 24 rows" in first.fact("score")
    assert first.fact("certificate").startswith("ε = 4 (pure) for this selection alone")
    assert first.fact("trust").startswith("central")
    assert "charged now" in first.fact("cost")
    again = select(desk, file, "--json", x=x).json
    told = json.loads((desk.outs / "chosen" / "selection.json").read_text())
    assert {name: again[name] for name in told} == told
    assert (again["charged"], again["resumed"], again["rows"], again["data_set"]) == (False, False, ROWS, "labels")
    assert desk.charges() == 1
    assert not re.search(r'"(k|runs)"', json.dumps(again).lower())


def test_the_run_is_a_run_like_any_other(desk):
    """inspect, predict, train, ledger verify; evaluate and train make no estimate from it."""
    file, x = labels(desk), features(desk)
    assert select(desk, file, x=x).code == 0
    chosen = desk.outs / "chosen"
    seen = desk.run("inspect", chosen / "released.parquet")
    assert seen.code == 0
    assert seen.fact("mechanism").startswith("selected: the best of a secret number of runs")
    assert seen.fact("trust").startswith("central")
    scores = desk.outs / "scores.npy"
    assert desk.run("predict", chosen, "--features", x, "--id", "uid", "--out", scores).code == 0
    assert np.load(scores).shape == (ROWS, 2)
    trained = desk.run("train", "--release", chosen / "released.parquet", "--features", x, "--id", "uid", "--model", "linear",
                       "--epochs", 2, "--out", desk.outs / "more", "--json")  # fmt: skip
    assert trained.code == 0, trained.err
    assert trained.json["accuracy_estimated"] is None
    assert trained.json["rows_trained"] == ROWS - 24
    assert desk.run("ledger", "verify", "--ledger", desk.ledger, "--releases", chosen / "released.parquet").code == 0
    assert "selected" in desk.run("ledger", "show", "--ledger", desk.ledger).out
    judged = desk.run("evaluate", chosen, "--release", chosen / "released.parquet", "--features", x, "--id", "uid")
    assert judged.code == 2


def test_an_audit_of_the_model_and_of_the_release(desk):
    """The owner plants canaries before anything is released; those in scoring rows say nothing."""
    file, x = labels(desk), features(desk)
    planted, secret = desk.folder / "planted.parquet", desk.folder / "canaries.npz"
    common = ("--label", "y", "--classes", "2", "--id", "uid")
    outcome = desk.run("canaries", "plant", file, *common, "--count", 100, "--out", planted, "--secret", secret)
    assert outcome.code == 0, outcome.err
    assert select(desk, planted, x=x).code == 0
    scores = desk.outs / "scores.parquet"
    desk.run("predict", desk.outs / "chosen", "--features", x, "--id", "uid", "--out", scores)
    outcome = desk.run(
        "audit", scores, "--canaries", secret, "--release", desk.outs / "chosen" / "released.parquet", "--json"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.json["certificate"] <= 4
    assert (
        outcome.json["epsilon_low"] <= 4
    )  # false alarm 5%, were the mechanism at its bound; one run of it costs far less


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--expected-runs", "1"), "expected number of runs"), (("--expected-runs", "1e9"), "at most 500"),
        (("--shape", "-1"), "shape must be from 0"), (("--shape", "nan"), "shape must be from 0"),
        (("--score-share", "0"), "--score-share"), (("--score-share", "nan"), "--score-share"), (("--score-share", "0.001"), "too few"),
        (("--epsilon", "0"), "positive"), (("--epsilon", "33"), "at most 32"), (("--epsilon", "nan"), "finite"),
        (("--seed", "-1"), "--seed"), (("--threads", "0"), "--threads"), (("--device", "abacus"), "abacus"),
        (("--classes", "1"), "2 to"), (("--label", "z"), "no column 'z'"), (("--id", "name"), "no column 'name'"),
        (("--again", "please"), "charge"), (("--image-size", "8"), "not a folder"),
    ],
)  # fmt: skip
def test_bad_options(desk, options, words):
    desk.expect_bad(select(desk, labels(desk), *options), words)


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ("", "not JSON"), ("{", "not JSON"), ("[" * 100_000, "not JSON"), ("3", "objects"), ("[]", "2 to 255"), ("[{}]", "2 to 255"),
        ('[{}, {"lr": 1}]', "options are mechanism, model, epochs"), ('[{}, {"learning_rate": NaN}]', "learning_rate is a number"),
        ('[{}, {"mechanism": "gaussian"}]', "got 'gaussian'"), ('[{}, {"model": "fast"}]', "candidate 1"),
        ('{"epochs": [1, 2], "model": ["linear", "bert"]}', "unknown model 'bert'"),
    ],
)  # fmt: skip
def test_bad_candidates(desk, candidates, words):
    desk.expect_bad(select(desk, labels(desk), candidates=candidates), words)


def test_files_that_are_not_there(desk):
    file = labels(desk)
    desk.expect_bad(select(desk, desk.files / "none.csv"), "there is no file")
    desk.expect_bad(select(desk, file, x=desk.files / "none.csv"), "there is no file")
    outcome = desk.run("select", file, "--label", "y", "--classes", "2", "--id", "uid", "--features", features(desk), "--candidates",
                       desk.files / "none.json", "--epsilon", "1", "--ledger", desk.ledger, "--out", desk.outs / "chosen")  # fmt: skip
    desk.expect_bad(outcome, "there is no file", "none.json")
    (desk.folder / "taken").write_text("a file")
    outcome = select(desk, file, out="../taken")
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot be made a run directory" in outcome.err
    desk.expect_untouched()


@pytest.mark.parametrize(
    ("cell", "classes", "words"),
    [
        (SECRET_TEXT, "2", "text where class numbers"), (str(SECRET_NUMBER), "2", "outside the 2 declared classes"),
        ("", "2", "has no label"), (SECRET_TEXT, "0,1", "outside the 2 declared classes"),
    ],
)  # fmt: skip
def test_errors_name_the_row_and_never_the_label(desk, cell, classes, words):
    desk.expect_bad(select(desk, labels(desk, row7=cell), classes=classes), "row 7 ", words)


def test_ids_and_features_that_do_not_fit(desk):
    twice = desk.csv("uid,y\nu1,0\nu2,1\nu1,1\n")
    desk.expect_bad(select(desk, twice), "row 2 has the same id as row 0")
    none = desk.csv("uid,y\nu1,0\n,1\nu3,1\n")
    desk.expect_bad(select(desk, none), "row 1 has no id")
    file = labels(desk)
    fewer = select(desk, file, x=features(desk, 200, "fewer.csv"))
    assert fewer.code == 2
    assert "40 of the 240 released rows have no features" in fewer.err
    desk.expect_untouched()
    desk.expect_bad(select(desk, file, x=features(desk, ROWS, "telling.csv", ("a", "Y"))), "'Y'", "leave it out")


def test_the_budget_is_kept(desk):
    file = labels(desk)
    refused = select(desk, file, "--budget", "3")
    expect_sentence(refused, "costs pure ε = 4", "Nothing was charged")
    assert refused.code == 3
    desk.expect_untouched()
    assert select(desk, file, "--budget", "4").code == 0
    released = desk.release(file, "--id", "uid", label="y")
    assert released.code == 3
    second = select(desk, file, "--again", "charge", out="second")
    assert second.code == 3
    expect_sentence(second, "4 of it is spent")
    assert desk.charges() == 1


def test_a_seed_marks_it_as_insecure(desk):
    outcome = select(desk, labels(desk), "--insecure-seed", "3")
    assert outcome.code == 0
    assert outcome.fact("INSECURE") == "the noise comes from a known seed"
    assert json.loads((desk.outs / "chosen" / "selection.json").read_text())["certificate"]["epsilon"] is None


def test_by_row_number(desk):
    """Without ids: the label file alone is known by its name, and a warning says so."""
    file = desk.csv("y\n" + "".join(f"{i % 2}\n" for i in range(60)))
    np.save(desk.folder / "x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    listed = desk.folder / "c.json"
    listed.write_text('[{"epochs": 1}, {"epochs": 2}]')
    outcome = desk.run("select", file, "--label", "y", "--classes", "2", "--features", desk.folder / "x.npy", "--candidates", listed,
                       "--epsilon", "2", "--ledger", desk.ledger, "--out", desk.outs / "chosen", "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "by the name 'labels' alone" in outcome.err
    assert len(Ledger(desk.ledger).book().releases) == 1


def test_the_documents_blocks_run(tmp_path):
    """docs/selection.md in one folder, in order, as a reader would."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LABELDP_LEDGER": str(tmp_path / "reader.ledger"),
    }  # fmt: skip
    blocks = re.findall(r"```(bash|python)\n(.*?)```", (ROOT / "docs" / "selection.md").read_text(), re.DOTALL)
    assert len(blocks) >= 4
    for language, text in blocks:
        command = ["bash", "-euo", "pipefail", "-c", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert "shape 1, 100 runs expected" in done.stdout
