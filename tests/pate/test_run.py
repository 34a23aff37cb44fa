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
    if change[0] not in ("--teachers", "--holdout-epsilon"):  # which rows and ledger must be looked at for
        assert not out.exists()  # nothing half-written


def test_another_configuration_in_the_same_directory_is_refused(tmp_path, done, cli):
    out = tmp_path / "run"
    done("pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--out", out)
    for change, code, words in (
        (("--teachers", 5), 3, "--again charge"),
        (("--seed", 1), 2, "another"),
        (("--epochs", 2), 2, "another epochs"),
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


# ── from a hostile review ──


@pytest.fixture
def own(tmp_path):
    """Somebody's labels with ids, features in the same order, and a ledger."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 4, 400)
    x = (rng.normal(size=(4, 6))[labels] * 2 + rng.normal(size=(400, 6))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    pq.write_table(pa.table({"uid": [f"p{i}" for i in range(400)], "y": labels}), tmp_path / "y.parquet")
    columns = {f"f{i}": x[:, i] for i in range(6)}
    pq.write_table(pa.table({"uid": [f"p{i}" for i in range(400)], **columns}), tmp_path / "x.parquet")
    return (
        "--features", tmp_path / "x.parquet", "--labels", tmp_path / "y.parquet", "--label", "y", "--classes", 4, "--id", "uid",
        "--ledger", tmp_path / "own.ledger",
    )  # fmt: skip


FROZEN = ("--teachers", 20, "--max-asked", 60)
CAPS = ("--max-answered", 30, "--sigma1", 8, "--sigma2", 4, "--threshold", 8)


@pytest.mark.parametrize("change", ["labels", "ids", "rows"])
def test_votes_belong_to_the_labels_they_were_made_of(tmp_path, done, cli, own, change):
    """Else answers about some people would be released under others' names, and charged to them."""
    out = tmp_path / "run"
    done("pate", "teachers", *own, *FROZEN, "--out", out)
    table = pq.read_table(tmp_path / "y.parquet").to_pydict()
    if change == "labels":
        table["y"][7] = (table["y"][7] + 1) % 4
    elif change == "ids":
        table["uid"][0], table["uid"][1] = table["uid"][1], table["uid"][0]
    else:
        table = {name: values[:-1] for name, values in table.items()}
    pq.write_table(pa.table(table), tmp_path / "y.parquet")
    for command in (("aggregate", out), ("run", *own, *FROZEN, "--out", out)):
        code, _, err = cli("pate", *command, *CAPS)
        assert code == 2
        assert "changed" in err or "another run" in err or "another features" in err, err
    assert not labeldp.Ledger(tmp_path / "own.ledger").book().releases


def test_frozen_teachers_on_features_of_ones_own(tmp_path, done, own):
    summary = done("pate", "run", *own, *FROZEN, *CAPS, "--student-epochs", 3, "--out", tmp_path / "run")
    assert summary["accuracy_test"]["mean"] is None
    assert "teachers_seconds" not in summary  # of a computation on private labels
    release = labeldp.Release.load(tmp_path / "run" / "answers.parquet")
    assert release.ids[0] == "p0"
    for path in (tmp_path / "run" / "owner").iterdir():
        assert path.is_dir() or path.name == ".lock" or path.stat().st_mode & 0o077 == 0, path


def test_an_id_joins_or_is_refused(tmp_path, cli, own):
    changed = [tmp_path / "x.npy" if option == tmp_path / "x.parquet" else option for option in own]
    code, _, err = cli("pate", "teachers", *changed, *FROZEN, "--out", tmp_path / "run")
    assert code == 2
    assert "join by id" in err


def test_what_the_ledger_refuses_it_refuses_before_teachers_are_trained(tmp_path, cli, own):
    out = tmp_path / "run"
    for more, code, words in (
        (("--budget-gaussian", 0.5), 3, "budget"),
        (("--holdout-epsilon", 1), 2, "--holdout"),
        (("--holdout", 0.2, "--holdout-epsilon", 1), 2, "--budget-gaussian"),
        (("--publish-data-dependent", "5,0.02,8"), 2, "C6"),
    ):
        got, _, err = cli("pate", "run", *own, *FROZEN, *CAPS, *more, "--out", out)
        assert (got, words in err) == (code, True), err
        assert not (out / "owner" / "votes.npz").exists()
    assert not list(tmp_path.glob("own.ledger*"))


def test_a_sanitised_epsilon_fits_a_gaussian_budget(tmp_path, done, own):
    done(
        "pate", "run", *own, *FROZEN, *CAPS, "--sigma1", 100, "--sigma2", 40, "--publish-data-dependent", "5,0.02,8", "--budget", 50,
        "--budget-gaussian", 100, "--student-epochs", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert (tmp_path / "run" / "data-dependent.json").exists()


def test_two_kinds_of_cost_and_an_insecure_seed(tmp_path, done):
    summary = done(
        "pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--holdout", 0.2, "--holdout-epsilon", 4, "--insecure-seed", 3,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert summary["insecure"]
    assert summary["certificate"]["epsilon"] is None


def test_nothing_asked_is_nothing_asked(tmp_path, cli):
    assert cli("pate", "teachers", *TEACHERS, "--out", tmp_path / "run")[0] == 0
    code, _, err = cli("pate", "aggregate", tmp_path / "run", *ANSWERS, "--max-asked", 0)
    assert code == 2
    assert "--max-asked" in err


def test_a_damaged_teacher_is_trained_again(tmp_path, cli):
    out = tmp_path / "run"
    assert cli("pate", "teachers", *TEACHERS, "--out", out)[0] == 0
    (out / "owner" / "votes.npz").unlink()
    (out / "owner" / "teacher-1.npz").write_bytes(b"garbage")
    assert cli("pate", "teachers", *TEACHERS, "--out", out)[0] == 0
    assert (out / "owner" / "votes.npz").exists()


def test_features_of_new_images(tmp_path, done, cli):
    """A student on frozen features is of use only if new images get the same features."""
    images = np.random.default_rng(0).integers(0, 256, (400, 1, 28, 28), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    pq.write_table(pa.table({"y": np.arange(400) % 3}), tmp_path / "y.parquet")
    mine = (
        "--features",
        tmp_path / "images.npy",
        "--labels",
        tmp_path / "y.parquet",
        "--label",
        "y",
        "--classes",
        3,
        "--ledger",
        tmp_path / "l",
    )
    out = tmp_path / "run"
    done(
        "pate",
        "run",
        *mine,
        "--teachers",
        10,
        "--max-asked",
        50,
        *CAPS,
        "--student-epochs",
        1,
        "--threshold",
        4,
        "--out",
        out,
    )
    assert cli("pate", "features", out, "--features", tmp_path / "images.npy", "--out", tmp_path / "new.npy")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "new.npy"), np.load(out / "features" / "features.npy"), atol=1e-4)
    assert cli("predict", out / "student-1", "--features", tmp_path / "new.npy", "--out", tmp_path / "said.npy")[0] == 0
    assert np.load(tmp_path / "said.npy").shape == (400, 3)
    assert cli("pate", "features", tmp_path, "--features", tmp_path / "images.npy", "--out", tmp_path / "n.npy")[0] == 2


# ── from a new user ──


def test_another_student_from_the_same_answers(tmp_path, done, cli):
    out = tmp_path / "run"
    first = done("pate", "run", *TEACHERS, *ANSWERS, "--student-epochs", 1, "--out", out)
    other = done("pate", "student", out, "--student", "evidence", "--student-epochs", 2, "--name", "plain")
    assert other["release"] == first["release"]
    assert (out / "plain-1" / "summary.json").exists()
    assert json.loads((out / "summary.json").read_text()) == {"kind": "pate", **first}
    assert json.loads((out / "summary-plain.json").read_text()) == {"kind": "pate", **other}
    assert cli("pate", "student", out, "--name", "../x")[0] == 2


def test_a_budget_can_be_raised_on_the_record(tmp_path, done, cli, own):
    out = tmp_path / "run"
    done("pate", "run", *own, *FROZEN, *CAPS, "--student-epochs", 1, "--out", out)
    again = ("pate", "aggregate", out, *CAPS, "--sigma2", 5, "--again", "charge")
    assert cli(*again)[0] == 3
    code, _, err = cli(*again, "--budget-gaussian", 60, "--raise-budget")
    assert code == 2  # the first release's file is in the way, and is not overwritten
    assert "answers.parquet" in err


def test_what_was_held_out_and_where_it_is_charged_is_said(tmp_path, cli, own):
    budgets = ("--holdout", 0.25, "--holdout-epsilon", 4, "--budget", 4, "--budget-gaussian", 60)
    code, out, err = cli(
        "pate", "run", *own, *FROZEN, *CAPS, *budgets, "--student-epochs", 1, "--out", tmp_path / "run"
    )
    assert code == 0, err
    assert "100 rows, released apart at ε = 4" in out
    assert str(tmp_path / "own.ledger") in out
    assert "on held-out released labels" in out
    code, _, err = cli(
        "pate", "run", *own, *FROZEN, *CAPS, *budgets[:4], "--student-epochs", 1, "--out", tmp_path / "run"
    )
    assert code == 0, err  # the ledger knows its caps already


def test_later_stages_charge_the_ledger_that_was_found_first(tmp_path, done, own, monkeypatch):
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "first.ledger"))
    done("pate", "teachers", *own[:-2], *FROZEN, "--out", tmp_path / "run")
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "second.ledger"))
    done("pate", "aggregate", tmp_path / "run", *CAPS)
    assert len(labeldp.Ledger(tmp_path / "first.ledger").book().releases) == 1
    assert not (tmp_path / "second.ledger").exists()


def test_votes_without_a_note_of_their_labels_are_refused(tmp_path, done, cli, own):
    out = tmp_path / "run"
    done("pate", "teachers", *own, *FROZEN, "--out", out)
    (out / "owner" / "labels.json").unlink()
    for command in (("aggregate", out), ("run", *own, *FROZEN, "--out", out)):
        code, _, err = cli("pate", *command, *CAPS)
        assert code == 2
        assert "labels.json is missing" in err
    assert not labeldp.Ledger(tmp_path / "own.ledger").book().releases


def test_damaged_votes_are_refused_before_the_charge(tmp_path, done, cli, own):
    out = tmp_path / "run"
    done("pate", "teachers", *own, *FROZEN, "--out", out)
    with np.load(out / "owner" / "votes.npz") as file:
        np.savez(out / "owner" / "votes.npz", rows=file["rows"], votes=file["votes"][:-1])
    code, _, err = cli("pate", "aggregate", out, *CAPS)
    assert code == 2
    assert "damaged" in err
    assert not labeldp.Ledger(tmp_path / "own.ledger").book().releases


def test_a_student_that_fails_after_the_charge_says_that_it_is_paid_for(tmp_path, cli):
    command = (
        "pate",
        "run",
        *TEACHERS,
        *ANSWERS,
        "--student",
        "evidence",
        "--student-epochs",
        1,
        "--out",
        tmp_path / "run",
    )
    broken = tmp_path / "run" / "student-1" / "metrics.jsonl"
    broken.mkdir(parents=True)
    code, _, err = cli(*command)
    assert code == 4
    assert "metrics.jsonl cannot be read" in err
    assert "the same command finishes it, and nothing more is charged." in err
    broken.rmdir()
    assert cli(*command)[0] == 0
