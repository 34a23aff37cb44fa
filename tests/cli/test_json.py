"""`--json` everywhere: one document on standard output, and nothing else there."""

import hashlib
import json

import numpy as np
import pytest

from labeldp.data.download import PUBLISHED, File, PublishedFiles
from tests.cli.terminal import commands, terminal
from tests.data.server import serving


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_it(words):
    options = [name for parameter in commands()[words].params for name in parameter.opts]
    assert "--json" in options


@pytest.fixture
def folder(desk):
    """Labels, features under the same ids, and a ledger with a release."""
    labels = desk.numbered()
    lines = [line.split(",") for line in labels.read_text().splitlines()[1:]]
    features = desk.csv("id,a,b\n" + "".join(f"{i},{int(x) % 5},{int(x) % 3}\n" for _, i, x in lines), "features.csv")
    assert desk.release(labels, "--id", "id").code == 0
    return desk, labels, features


def document(run, *arguments):
    outcome = run(*arguments, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json  # which fails if anything stands beside it


def test_the_owners_commands(run, folder):
    desk, labels, _ = folder
    ledger = ("--ledger", desk.ledger)
    assert document(run, "plan", "--classes", "2", "--epsilon", "1")["recommended"]
    assert document(run, "inspect", desk.out)["rows"] == 200
    (shown,) = document(run, "ledger", "show", *ledger)["data_sets"]
    entry = shown["releases"][0]["entry"]
    assert document(run, "ledger", "verify", desk.out, *ledger)["releases"]
    copy = desk.outs / "copy.parquet"
    found = document(run, "ledger", "get", entry, "--out", copy, *ledger)
    assert found["fetched"]
    assert document(run, "ledger", "get", entry, "--out", copy, *ledger) == found | {"fetched": False}
    assert (found["out"], found["entry"]) == (str(copy), entry)
    assert found["checksum"] == desk.load(copy).checksum
    planted, secret = desk.outs / "planted.parquet", desk.outs / "secret.npz"
    plant = ("canaries", "plant", labels, "--label", "label", "--classes", "2", "--count", "4", "--out", planted)
    assert document(run, *plant, "--secret", secret)["canaries"] == 4
    audited = desk.outs / "audited.parquet"
    assert desk.release(planted, out=audited, ledger=desk.folder / "other.ledger").code == 0
    assert document(run, "audit", "--canaries", secret, "--release", audited)["epsilon_low"] >= 0


def test_the_feature_owners_commands(run, folder):
    desk, _, features = folder
    given = ("--features", features, "--id", "id")
    trained = run("train", "--release", desk.out, *given, "--epochs", "2", "--out", desk.outs / "run", "--json")
    assert trained.json["epochs"] == 2
    assert trained.err.count("epoch ") == 2  # progress, which is for people, stays on standard error
    scores = desk.outs / "scores.parquet"
    assert document(run, "predict", desk.outs / "run", *given, "--out", scores) == {
        "out": str(scores), "rows": 200, "classes": ["0", "1"], "named": True, **promised(desk.outs / "run"),
    }  # fmt: skip
    later, held_out = desk.numbered(name="later.csv", shift=1000), desk.outs / "held-out.parquet"
    assert desk.release(later, "--id", "id", out=held_out).code == 0
    lines = [line.split(",") for line in later.read_text().splitlines()[1:]]
    rows = desk.csv("id,a,b\n" + "".join(f"{i},{int(x) % 5},{int(x) % 3}\n" for _, i, x in lines), "later-x.csv")
    judged = document(run, "evaluate", desk.outs / "run", "--release", held_out, "--features", rows, "--id", "id")
    assert judged["rows_judged"] == 200


def promised(place):
    from labeldp.files.run import RunFolder

    return RunFolder(place).promise()


def test_research_commands(run, tmp_path, monkeypatch):
    listed = document(run, "reproduce", "table1", "--list", "--out", tmp_path / "reproduced")
    assert listed[0]["command"].startswith("labeldp experiment")
    votes = tmp_path / "votes.npz"
    np.savez(votes, votes=np.array([[90, 10], [60, 40]]), answered=np.array([True, False]))
    costs = ("--sigma1", "20", "--sigma2", "10", "--threshold", "70")
    assert document(run, "pate", "account", votes, *costs)["asked"] == 2
    content = b"what was published"
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        server.files["cifar-10-python.tar.gz"] = content
        file = File(server.url + "cifar-10-python.tar.gz", hashlib.md5(content).hexdigest())
        monkeypatch.setitem(PUBLISHED, "cifar10", PublishedFiles((file,)))
        for fresh in (True, False):
            done = document(run, "download", "cifar10", "--data", tmp_path)
            assert done["files"] == [{"path": str(tmp_path / file.name), "fresh": fresh}]


def test_pates_commands(run, tmp_path):
    out, images, features = tmp_path / "run", tmp_path / "images.npy", tmp_path / "features.npy"
    options = ("--dataset", "digits", "--teachers", "10", "--max-asked", "40", "--out", out)
    assert document(run, "pate", "teachers", *options)["queries"] == 40
    answers = ("--max-answered", "20", "--sigma1", "8", "--sigma2", "4", "--threshold", "5")
    assert document(run, "pate", "aggregate", out, *answers)["charged"]
    student = document(run, "pate", "student", out, "--student", "evidence", "--student-epochs", "1")
    assert len(student["students"]) == 1
    assert student["certificate"]["epsilon"] > 0
    np.save(images, np.zeros((3, 64), np.float32))
    outcome = run("pate", "features", out, "--features", images, "--out", features, "--json")
    assert (outcome.code, outcome.out) == (2, "")  # digits are no images: an error leaves standard output empty


def test_audits_that_train(run, tmp_path):
    usual = ("--dataset", "digits", "--mechanism", "none", "--processes", "1")
    game = document(run, "audit-repeat", *usual, "--trainings", "2", "--epochs", "1", "--out", tmp_path / "games")
    assert game["canaries"] == 2
    small = ("--canaries", "20", "--plantings", "2", "--epochs", "1", "--out", tmp_path / "check")
    assert set(document(run, "audit-heuristic", *usual, *small)) >= {"together", "apart", "overlap"}


def test_a_selection(run, folder):
    desk, labels, features = folder
    candidates = desk.files / "candidates.json"
    candidates.write_text(json.dumps([{"mechanism": "response", "epochs": 1}, {"mechanism": "subset", "epochs": 1}]))
    chosen = run(
        "select", labels, "--label", "label", "--classes", "2", "--id", "id", "--features", features, "--candidates", candidates,
        "--epsilon", "4", "--expected-runs", "2", "--out", desk.outs / "chosen", "--ledger", desk.folder / "s.ledger", "--json",
    )  # fmt: skip
    assert chosen.json["candidates"] == 2
    assert chosen.err == ""  # when lines come, and how many, would tell how many runs there were


def test_a_bar_does_not_get_into_the_document(folder):
    desk, labels, _ = folder
    shown = terminal(
        "release", labels, "--label", "label", "--classes", "2", "--id", "id", "--epsilon", "1", "--out", desk.outs / "b.parquet",
        "--ledger", desk.folder / "b.ledger", "--json", pipe=True,
    )  # fmt: skip
    assert shown.code == 0, shown.text
    assert json.loads(shown.out)["rows"] == 200
    assert "200 of 200 rows" in shown.text
