"""PATE from the command line on the bundled digits: stages, resumption, what is charged, what is refused."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.mechanisms import PateAnswers
from labeldp.pate.material import Origin

TEACHERS = (
    "--dataset", "digits", "--method", "fixmatch", "--model", "linear", "--epochs", 1, "--teachers", 6, "--max-asked", 80,
    "--processes", 0,
)  # fmt: skip
ANSWERS = ("--sigma1", 3, "--sigma2", 1, "--threshold", 3, "--max-answered", 30)


@pytest.fixture
def done(cli):
    """A command that must succeed, and its JSON."""

    def run(*arguments):
        code, out, err = cli(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


def test_all_stages_one_at_a_time_and_again(tmp_path, done, cli):
    out = tmp_path / "run"
    voted = done("pate", "teachers", *TEACHERS, "--out", out)
    assert voted["queries"] == 80
    assert not (out / "answers.parquet").exists()
    assert not (out / "owner" / "labels.ledger").exists()  # nothing charged yet
    released = done("pate", "aggregate", out, *ANSWERS)
    assert released["charged"]
    assert released["trust"] == "central"
    assert released["asked"] <= 80
    assert released["answered"] <= 30
    assert released["certificate"]["epsilon"] == PateAnswers(10, 6, 3, 1, 3, 80, 30).guarantee().epsilon
    again = done("pate", "aggregate", out, *ANSWERS)
    assert not again["charged"]
    assert {**again, "charged": True} == released
    summary = done("pate", "student", out, "--students", 2, "--student-epochs", 3)
    assert len(summary["students"]) == 2
    assert summary["accuracy_test"]["mean"] > 0.5
    assert summary["accuracy_test"]["std"] is not None
    assert summary["teachers_flop"] > 0
    assert summary["basis"] == "caps"
    assert done("pate", "student", out, "--students", 2, "--student-epochs", 3) == summary
    owner = json.loads((out / "owner" / "summary.json").read_text())
    assert owner["ensemble_accuracy"] > 0.5
    for name in ("ensemble", "agreement", "data_dependent", "votes"):  # the owner's numbers are nowhere else
        assert name not in (out / "summary.json").read_text()
    assert (out / "owner").stat().st_mode & 0o077 == 0
    # The same in one command: everything is there already.
    whole = done(
        "pate",
        "run",
        *TEACHERS,
        *ANSWERS,
        "--students",
        2,
        "--student-epochs",
        3,
        "--student-model",
        "linear",
        "--out",
        out,
    )
    assert whole["release"] == summary["release"]


def test_the_answers_are_those_of_the_votes_and_charged_once_for_every_row(tmp_path, done):
    out = tmp_path / "run"
    done("pate", "run", *TEACHERS, *ANSWERS, "--student", "evidence", "--student-epochs", 2, "--out", out)
    release = labeldp.Release.load(out / "answers.parquet")
    with np.load(out / "owner" / "votes.npz") as file:
        rows, votes = file["rows"], file["votes"]
    assert (votes.sum(axis=1) == 6).all()
    everywhere = np.delete(release.observations, rows)
    assert (everywhere == 11).all()  # never asked
    answered = release.observations[rows] < 10
    top = votes.argmax(axis=1)
    assert (release.observations[rows][answered] == top[answered]).mean() > 0.5
    (record,) = labeldp.Ledger(out / "owner" / "labels.ledger").book().releases.values()
    assert len(record.rows) == 1437
    assert record.cost == release.mechanism.certificate()
    trained = pq.read_table(out / "student-1" / "trained.parquet").column("id").to_pylist()
    assert sorted(trained) == sorted(rows[answered].tolist())


def test_killed_teachers_are_not_trained_again(tmp_path):
    """kill -9 while teachers are trained; the same command goes on, with those that were done as they were."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "labeldp", "pate", "teachers", *map(str, TEACHERS), "--out", str(out)]
    command[command.index("--epochs") + 1] = "40"
    command[command.index("--processes") + 1] = "1"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as running:
        while running.poll() is None and len(list((out / "owner").glob("teacher-*.npz"))) < 2:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGKILL)
    kept = {path.name: path.read_bytes() for path in (out / "owner").glob("teacher-*.npz")}
    assert 2 <= len(kept) < 6
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of 6 teachers" in done.stderr
    assert (out / "owner" / "votes.npz").exists()


@pytest.mark.parametrize(
    ("stage", "change", "words"),
    [
        ("run", ("--teachers", 2000), "need a row each"),
        ("run", ("--threshold", 7), "from 0 to the 6 teachers"),
        ("run", ("--max-asked", 1438), "at most the number of rows"),
        ("run", ("--max-answered", 81), "max-answered"),
        ("run", ("--sigma1", 0), "sigma1"),
        ("run", ("--method", "magic"), "frozen or fixmatch"),
        ("run", ("--student", "magic"), "fixmatch or evidence"),
        ("run", ("--processes", -1), "--processes"),
        ("run", ("--features", "x.npy"), "brings its own"),
        ("run", ("--preset", "pate-magic"), "unknown preset"),
        ("run", ("--publish-data-dependent", "20"), "ORDER,BETA,SIGMA"),
        ("run", ("--publish-data-dependent", "20,0.1,8"), "beta"),
        ("run", ("--holdout-epsilon", 1), "--holdout"),
    ],
)
def test_bad_input_is_refused_before_anything_is_charged(tmp_path, cli, stage, change, words):
    out = tmp_path / "run"
    code, _, err = cli("pate", stage, *TEACHERS, *ANSWERS, *change, "--out", out)
    assert code == 2
    assert words in err
    ledger = out / "owner" / "labels.ledger"
    assert not ledger.exists() or not labeldp.Ledger(ledger).book().releases


def test_another_configuration_in_the_same_directory_is_refused(tmp_path, done, cli):
    out = tmp_path / "run"
    done("pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--out", out)
    for change, code, words in (
        (("--teachers", 5), 2, "another teachers"),
        (("--seed", 1), 2, "another"),
        (("--sigma2", 2), 3, "--again charge"),
        (("--student-epochs", 2), 2, "another epochs"),
    ):
        got, _, err = cli("pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, *change, "--out", out)
        assert (got, words in err) == (code, True), err
    assert len(labeldp.Ledger(out / "owner" / "labels.ledger").book().releases) == 1


def test_stages_out_of_order(tmp_path, cli):
    code, _, err = cli("pate", "aggregate", tmp_path / "none", *ANSWERS)
    assert code == 2
    assert "pate teachers" in err
    assert cli("pate", "teachers", *TEACHERS, "--out", tmp_path / "run")[0] == 0
    code, _, err = cli("pate", "student", tmp_path / "run")
    assert code == 2
    assert "pate aggregate" in err


def test_a_class_that_no_shard_has_is_no_error(tmp_path, done):
    """An error would tell: teachers just never vote for it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    np.save(tmp_path / "x.npy", rng.normal(size=(200, 5)).astype(np.float32) + labels[:, None] * 3)
    pq.write_table(pa.table({"y": labels}), tmp_path / "y.parquet")
    own = (
        "--features",
        tmp_path / "x.npy",
        "--labels",
        tmp_path / "y.parquet",
        "--label",
        "y",
        "--classes",
        4,
        "--ledger",
        tmp_path / "l",
    )
    caps = ("--teachers", 5, "--max-asked", 50, "--max-answered", 20, "--sigma1", 2, "--sigma2", 0.5, "--threshold", 3)
    fixmatch = ("--method", "fixmatch", "--model", "linear", "--epochs", 2, "--student-epochs", 2)
    summary = done("pate", "run", *own, *caps, *fixmatch, "--out", tmp_path / "run")
    assert summary["accuracy_test"]["mean"] is None
    with np.load(tmp_path / "run" / "owner" / "votes.npz") as file:
        assert (file["votes"][:, 2:] == 0).all()


def test_rows_that_are_held_out_judge_the_student(tmp_path, done):
    """Where no label is public: the last rows, under a release of their own, kept from teachers and questions."""
    out = tmp_path / "run"
    summary = done(
        "pate",
        "run",
        *TEACHERS,
        *ANSWERS,
        "--student-epochs",
        2,
        "--holdout",
        0.2,
        "--holdout-epsilon",
        4,
        "--out",
        out,
    )
    held_out = labeldp.Release.load(out / "held-out.parquet")
    answers = labeldp.Release.load(out / "answers.parquet")
    assert len(held_out) == 287
    assert len(answers) == 1150
    assert held_out.guarantee.epsilon == pytest.approx(4)
    (student,) = summary["students"]
    assert abs(student["accuracy_estimated"] - student["accuracy_test"]) < 5 * student["standard_error"] + 0.1
    book = labeldp.Ledger(out / "owner" / "labels.ledger").book()
    assert sorted(len(r.rows) for r in book.releases.values()) == [287, 1150]


def test_features_are_joined_by_id(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2)).astype(np.float32)
    order = rng.permutation(30)
    pq.write_table(pa.table({"uid": order, "a": x[order, 0], "b": x[order, 1]}), tmp_path / "x.parquet")
    pq.write_table(pa.table({"uid": np.arange(30), "y": rng.integers(0, 2, 30)}), tmp_path / "y.parquet")
    origin = Origin(
        features=str(tmp_path / "x.parquet"),
        labels=str(tmp_path / "y.parquet"),
        label="y",
        classes="2",
        id_column="uid",
    )
    material = origin.read(tmp_path)
    np.testing.assert_array_equal(material.features, x)
    assert material.data_set == "y"


def test_a_sanitised_epsilon_is_charged(tmp_path, done):
    out = tmp_path / "run"
    plain = PateAnswers(10, 6, 3, 1, 3, 80, 30)
    summary = done(
        "pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--publish-data-dependent", "20,0.01,8", "--out", out
    )
    assert summary["certificate"]["epsilon"] > plain.guarantee().epsilon + 0.5
    assert summary["data_dependent"] == json.loads((out / "data-dependent.json").read_text())
    again = done(
        "pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--publish-data-dependent", "20,0.01,8", "--out", out
    )
    assert again["data_dependent"] == summary["data_dependent"]  # drawn once
    (record,) = labeldp.Ledger(out / "owner" / "labels.ledger").book().releases.values()
    assert record.cost.pure > 0
