"""`labeldp score`, `score --choose`, `moments` and `train --moments` by real runs: what is said, what is paid, what is left."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger
from labeldp.accounting.statement import statement
from labeldp.files.predictions import write_predictions
from labeldp.statistics import LabelHistogram, ModelChosen, Moments, Score

from .conftest import SECRET_NUMBER, SECRET_TEXT, expect_sentence

ROWS = 120


@pytest.fixture
def owner(desk):
    """A desk with labels, predictions of two models, and features, of the same rows."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, ROWS)
    ids = np.array([f"u{i}" for i in range(ROWS)])
    desk.labels = desk.csv("uid,label\n" + "".join(f"{i},{c}\n" for i, c in zip(ids, y, strict=True)))
    desk.p = np.stack([1 - y * 0.6 - 0.2, y * 0.6 + 0.2], axis=1).astype(np.float32)
    desk.p += (draw.random((ROWS, 1)) * np.array([[0.1, -0.1]])).astype(np.float32)
    desk.a, desk.b = desk.files / "a.parquet", desk.files / "b.parquet"
    write_predictions(desk.a, ids, desk.p)
    write_predictions(desk.b, ids[::-1], desk.p[::-1] * 0.5 + 0.25)
    desk.columns = {"uid": ids, "u": draw.normal(y), "v": draw.normal(size=ROWS)}
    desk.x = desk.parquet("x.parquet", **desk.columns)
    desk.ids = ids

    def ask(command, *files, options=(), epsilon="1", out=None):
        return desk.run(
            command, *files, "--labels", desk.labels, "--label", "label", "--id", "uid", "--classes", "2", "--epsilon", epsilon,
            "--out", out or desk.out, "--ledger", desk.ledger, *options,
        )  # fmt: skip

    desk.ask = ask
    return desk


def test_a_score_is_paid_once(owner):
    outcome = owner.ask("score", owner.a, options=("--recipient", "Ann", "--purpose", "Q3", "--approver", "Eve"))
    assert outcome.code == 0
    assert "charged now" in outcome.fact("cost")
    assert "accuracy" in outcome.out
    content = owner.out.read_bytes()
    again = owner.ask("score", owner.a, out=owner.outs / "again.parquet", options=("--recipient", "Bob"))
    assert again.code == 0
    assert "nothing charged" in again.fact("cost")
    assert "recipient 'Ann'" in again.err
    assert (owner.outs / "again.parquet").read_bytes() == content
    assert owner.charges() == 1
    assert Score.load(owner.out).header["handed_over"] == {"recipient": "Ann", "purpose": "Q3", "approver": "Eve"}
    shown = owner.run("ledger", "show", "--ledger", owner.ledger)
    assert "Ann" in shown.out
    assert "Bob" not in shown.out


def test_another_request_says_so_and_again_adds(owner):
    assert owner.ask("score", owner.a).code == 0
    outcome = owner.ask("score", owner.b, out=owner.outs / "b.parquet")
    expect_sentence(outcome, "--again charge")
    assert outcome.code == 3
    assert not (owner.outs / "b.parquet").exists()
    outcome = owner.ask("score", owner.b, out=owner.outs / "b.parquet", options=("--again", "charge"))
    assert outcome.code == 3  # over the budget, which was the first request's
    expect_sentence(outcome, "budget")
    more = ("--again", "charge", "--budget", "2.5", "--raise-budget", "--json")
    outcome = owner.ask("score", owner.b, out=owner.outs / "b.parquet", options=more)
    assert outcome.code == 0
    assert outcome.json["budget"]["spent"]["pure"] == pytest.approx(2, rel=1e-6)
    assert owner.charges() == 2


def test_only_the_predicted_rows_pay(owner):
    write_predictions(owner.a, owner.ids[50:], owner.p[50:])
    outcome = owner.ask("score", owner.a, options=("--json",))
    assert (outcome.code, outcome.json["rows"]) == (0, 70)
    ledger = Ledger(owner.ledger)
    (record,) = ledger.book().releases.values()
    assert len(record.rows) == 70
    assert statement(ledger, "labels")
    released = owner.release(
        owner.labels, "--id", "uid", "--rows", _names(owner, owner.ids[:50]), epsilon="1", out=owner.outs / "r.parquet"
    )
    assert released.code == 0, released.err  # other rows: the maximum, not the sum
    shown = owner.run("ledger", "show", "--ledger", owner.ledger, "--json").json
    assert shown["data_sets"][0]["spent"]["pure"] == pytest.approx(1, rel=1e-6)


def _names(owner, ids):
    return owner.csv("\n".join(ids), "some.txt")


def test_a_choice_tells_one_name(owner):
    outcome = owner.ask("score", owner.a, owner.b, epsilon="8", options=("--choose", "log_loss"))
    assert outcome.code == 0, outcome.err
    assert ModelChosen.load(owner.out).model in ("a", "b")
    assert "accuracy " not in outcome.out
    for more, words in ((("--choose", "roc_auc"), "accuracy, brier"), (("--choose", "brier", "--bins", "3"), "--bins")):
        refused = owner.ask("score", owner.a, owner.b, out=owner.outs / "x.parquet", options=more)
        assert refused.code == 2
        assert words in refused.err
    refused = owner.ask("score", owner.a, out=owner.outs / "x.parquet", options=("--choose", "brier"))
    expect_sentence(refused, "between 2 and")


def test_moments_and_a_model_of_them(owner):
    assert owner.ask("moments", owner.x, options=("--purpose", "Q3")).code == 0
    assert Moments.load(owner.out).rows == ROWS
    again = owner.ask("moments", owner.x, out=owner.outs / "again.parquet")
    assert again.code == 0
    assert (owner.outs / "again.parquet").read_bytes() == owner.out.read_bytes()
    train = ("train", "--moments", owner.out, "--features", owner.x, "--id", "uid", "--out", owner.folder / "run")
    assert owner.run(*train).code == 0
    assert "given" in owner.run(*train, "--json").json  # the same again: by its own account
    predicted = owner.run(
        "predict", owner.folder / "run", "--features", owner.x, "--id", "uid", "--out", owner.files / "p.parquet"
    )
    assert predicted.code == 0
    more = ("--again", "charge", "--budget", "3", "--raise-budget")
    scored = owner.ask("score", owner.files / "p.parquet", out=owner.outs / "s.parquet", options=more)
    assert scored.code == 0, scored.err
    assert "p was trained on a release that holds some of these rows" in scored.err.replace("\n", " ")


def test_a_histogram_and_a_model_of_it(owner):
    pure = ("--pure", "--budget", "3", "--recipient", "Ann", "--approver", "Eve")
    made = owner.ask("moments", owner.x, options=(*pure, "--json"))
    assert made.code == 0, made.err
    assert made.json["certificate"] == {"epsilon": pytest.approx(1, rel=1e-6), "delta": 0.0, "reason": None}
    assert made.json["budget"]["spent"]["pure"] == pytest.approx(1, rel=1e-6)
    assert LabelHistogram.load(owner.out).header["handed_over"] == {"recipient": "Ann", "approver": "Eve"}
    turned = owner.parquet("turned.parquet", **{name: one[::-1] for name, one in owner.columns.items()})
    again = owner.ask("moments", turned, out=owner.outs / "again.parquet", options=("--pure",))  # rows in another order
    assert again.code == 0, again.err
    assert "nothing charged" in again.fact("cost")
    assert (owner.outs / "again.parquet").read_bytes() == owner.out.read_bytes()
    assert owner.charges() == 1
    train = ("train", "--moments", owner.out, "--features", owner.x, "--id", "uid", "--out", owner.folder / "run")
    trained = owner.run(*train)
    assert trained.code == 0, trained.err
    assert "judges nobody" in trained.fact("accuracy")
    assert "given" in owner.run(*train, "--json").json
    predicted = owner.run(
        "predict", owner.folder / "run", "--features", owner.x, "--id", "uid", "--out", owner.files / "p.parquet"
    )
    assert predicted.code == 0, predicted.err
    scored = owner.ask(
        "score", owner.files / "p.parquet", out=owner.outs / "s.parquet", options=("--again", "charge", "--budget", "3")
    )
    assert scored.code == 0, scored.err
    assert "p was trained on a release that holds some of these rows" in scored.err.replace("\n", " ")
    released = owner.outs / "r.parquet"
    more = ("--id", "uid", "--again", "charge", "--budget", "20", "--raise-budget")
    assert owner.release(owner.labels, *more, out=released).code == 0
    evaluate = ("evaluate", owner.folder / "run", "--release", released, "--features", owner.x, "--id", "uid")
    expect_sentence(owner.run(*evaluate), "120 of these rows were trained on")
    page = owner.folder / "page.html"
    assert owner.run("report", owner.folder / "run", "--ledger", owner.ledger, "--out", page).code == 0
    assert "a histogram of labels of 120 rows" in page.read_text()


def test_a_delta_or_none(owner):
    expect_sentence(owner.ask("moments", owner.x, options=("--pure", "--delta", "1e-5")), "leave out --delta")
    expect_sentence(owner.ask("moments", owner.x, options=("--delta", "0")), "--pure releases a histogram")
    expect_sentence(owner.ask("moments", owner.x, options=("--delta", "2")), "between 0 and 1")
    assert not owner.out.exists()
    refused = owner.ask("moments", owner.x, options=("--budget", "1"))
    assert refused.code == 3
    expect_sentence(refused, "--pure releases a histogram")
    assert owner.ask("moments", owner.x, options=("--budget", "1", "--pure")).code == 0


BAD = {
    "a missing label": ("uid,label\nu0,1\nu1,\n", "row 1"),
    "a label of no class": (f"uid,label\nu0,1\nu1,{SECRET_NUMBER}\n", "row 1"),
    "a label of text": (f"uid,label\nu0,1\nu1,{SECRET_TEXT}\n", "row 1"),
    "an id that is there twice": ("uid,label\nu0,1\nu1,0\nu0,0\n", "row 2 has the same id as row 0"),
    "an id in two forms": ("uid,label\n007,1\nu1,0\n7,0\n", "rows 0 and 2 have the same id, written differently"),
    "rows that have no label": ("uid,label\nu0,1\nu1,0\n", "118 of the 120 rows"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["score", "choose", "moments", "pure"])
def test_bad_labels(owner, name, command):
    text, words = BAD[name]
    owner.labels.write_text(text)
    files = {"score": (owner.a,), "choose": (owner.a, owner.b), "moments": (owner.x,), "pure": (owner.x,)}[command]
    outcome = owner.ask(
        "moments" if command in ("moments", "pure") else "score",
        *files,
        options={"choose": ("--choose", "brier"), "pure": ("--pure",)}.get(command, ()),
    )
    owner.expect_bad(outcome, words)


def _predicted(owner, what):
    ids, p = owner.ids.copy(), owner.p.copy()
    if what == "other ids":
        ids[3] = "somebody"
    elif what == "twice":
        ids[3] = ids[2]
    elif what == "NaN":
        p[7, 0] = np.nan
    elif what == "negative":
        p[7] = (-0.5, 1.5)
    elif what == "classes":
        p = np.full((ROWS, 3), 1 / 3, np.float32)
    elif what == "logits":
        p = p * 10
    write_predictions(owner.a, ids, p)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("other ids", "1 of the 120 rows"), ("twice", "row 3 of the public file has the same id as row 2"), ("NaN", "row 7"),
        ("negative", "row 7"), ("classes", "2 columns"), ("logits", "softmax"),
    ],
)  # fmt: skip
def test_bad_predictions(owner, what, words):
    _predicted(owner, what)
    owner.expect_bad(owner.ask("score", owner.a), words)


def test_ids_that_are_missing(owner):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(owner.p.reshape(-1)), 2)
    pq.write_table(pa.table({"id": pa.array([None, *owner.ids[1:]]), "probabilities": lists}), owner.a)
    owner.expect_bad(owner.ask("score", owner.a), "row 0 of the public file has no id")
    owner.expect_bad(owner.ask("score", owner.b, owner.a), "other rows")


def test_models_of_other_rows_and_one_model_twice(owner):
    write_predictions(owner.b, owner.ids[:50], owner.p[:50])
    owner.expect_bad(owner.ask("score", owner.a, owner.b), "other rows")
    owner.expect_bad(owner.ask("score", owner.a, owner.files / ".." / "files" / "a.parquet"), "there twice")
    (owner.files / "c").mkdir()
    write_predictions(owner.files / "c" / "a.parquet", owner.ids, owner.p)
    outcome = owner.ask("score", owner.a, owner.files / "c" / "a.parquet", options=("--json",))
    assert list(outcome.json["models"]) == ["a", "c/a"]  # and not a path of the owner's


def test_an_array_goes_by_number(owner):
    np.save(owner.files / "p.npy", owner.p[:100])
    owner.expect_bad(owner.ask("score", owner.files / "p.npy"), "120 labels for 100 public rows")
    np.save(owner.files / "p.npy", owner.p[:, 1])
    outcome = owner.ask("score", owner.files / "p.npy", epsilon="8", options=("--json",))
    assert outcome.code == 0, outcome.err
    right = outcome.json["models"]["p"]["metrics"]["accuracy"]["interval_95"]
    assert right[1] > 0.95  # these predictions are right: rows were not mixed up
    numbered = owner.files / "numbered.parquet"
    write_predictions(numbered, np.arange(ROWS), owner.p, {"named": False})
    outcome = owner.ask("score", numbered, epsilon="8", out=owner.outs / "n.parquet")
    assert outcome.code == 3  # of the same rows, under another name
    assert "--again charge" in outcome.err


READ_BY = {
    "score": "is a score, which `labeldp inspect` and `labeldp report` read",
    "choice": "is the choice of a model, which `labeldp inspect` and `labeldp report` read",
    "confusion": "is a confusion matrix, which `labeldp inspect` and `labeldp report` read",
    "moments": "is a file of moments, which `labeldp train --moments` reads",
    "release": "is a release of rows, which `labeldp train --release` reads",
}
NO_TABLE, NO_PROBABILITIES = "no table of labels or features", "no file of probabilities"


def test_a_file_in_place_of_another(owner):
    """Every kind that labeldp hands over, wherever another is wanted: a sentence says what it is, what reads it, and what is missing."""
    made = {name: owner.outs / f"{name}.parquet" for name in READ_BY}
    budget = ("--again", "charge", "--budget", "9", "--budget-gaussian", "9", "--budget-delta", "1e-5")
    assert owner.ask("score", owner.a, out=made["score"], options=budget).code == 0
    assert owner.ask("score", owner.a, out=made["confusion"], options=(*budget, "--confusion")).code == 0
    assert owner.ask("score", owner.a, owner.b, out=made["choice"], options=(*budget, "--choose", "brier")).code == 0
    assert owner.ask("moments", owner.x, out=made["moments"], options=budget).code == 0
    assert owner.release(owner.labels, "--id", "uid", *budget, out=made["release"]).code == 0
    x, run, new = ("--features", owner.x, "--id", "uid"), owner.folder / "run", owner.folder / "new"
    assert owner.run("train", "--release", made["release"], *x, "--out", run).code == 0
    planted, secret = owner.files / "planted.parquet", owner.files / "c.npz"
    asked = ("--label", "label", "--id", "uid", "--classes", "2")
    plant = ("canaries", "plant", owner.labels, *asked, "--count", "10", "--out", planted, "--secret", secret)
    assert owner.run(*plant, "--ledger", owner.folder / "other.ledger").code == 0
    paid = ("--epsilon", "1", "--out", owner.outs / "new.parquet", "--ledger", owner.ledger, *budget)
    planting = ("--out", owner.outs / "new.parquet", "--secret", owner.outs / "new.npz")
    charged = owner.charges()
    for name, file in made.items():
        wrong = {
            ("train", "--release", file, *x, "--out", new): "no release of rows",
            ("evaluate", run, "--release", file, *x): "no release of rows",
            ("audit", owner.a, "--canaries", secret, "--release", file): "no release of rows",
            ("report", run, "--release", file, "--out", new): "no release of rows",
            ("train", "--moments", file, *x, "--out", new): "it is no",
            ("train", "--release", made["release"], "--features", file, "--id", "uid", "--out", new): NO_TABLE,
            ("train", "--release", made["release"], "--features", file, "--out", new): NO_TABLE,
            ("train", "--moments", made["moments"], "--features", file, "--id", "uid", "--out", new): NO_TABLE,
            ("predict", file, *x, "--out", owner.outs / "new.npy"): "not a run",
            ("predict", run, "--features", file, "--id", "uid", "--out", owner.outs / "new.npy"): NO_TABLE,
            ("evaluate", file, "--release", made["release"], *x): "not a run",
            ("audit", file, "--canaries", secret): NO_PROBABILITIES,
            ("score", file, "--labels", owner.labels, *asked, *paid): NO_PROBABILITIES,
            ("score", owner.a, "--labels", file, *asked, *paid): NO_TABLE,
            ("moments", file, "--labels", owner.labels, *asked, *paid): NO_TABLE,
            ("moments", owner.x, "--labels", file, *asked, *paid): NO_TABLE,
            ("release", file, *asked, *paid): NO_TABLE,
            ("release", owner.labels, *asked, *paid, "--public-prior", file): NO_PROBABILITIES,
            ("features", file, "--label", "label", "--id", "uid", "--out", owner.outs / "new.parquet"): NO_TABLE,
            ("features", owner.x, "--like", file, "--out", owner.outs / "new.parquet"): NO_TABLE,
            ("canaries", "plant", file, *asked, "--count", "9", *planting): NO_TABLE,
        }
        right = {"release": ("no release of rows",), "moments": ("it is no",)}.get(name, ())
        few = name in ("choice", "confusion")  # which are told apart in one place, as a score is
        for command, words in itertools.islice(wrong.items(), 5 if few else None):
            if words in right:
                continue
            outcome = owner.run(*command)
            assert outcome.code == 2, command
            expect_sentence(outcome, READ_BY[name], words)
    reported = owner.run("report", made["release"], "--out", new)
    expect_sentence(reported, READ_BY["release"], "name the directory of a run")
    assert owner.charges() == charged
    assert not new.exists()
    assert not list(owner.outs.glob("new*"))


def test_the_ledgers_commands_know_them(owner):
    options = ("--again", "charge", "--budget", "9", "--budget-gaussian", "9", "--budget-delta", "1e-5")
    files = [owner.outs / f"{name}.parquet" for name in ("score", "choice", "moments", "histogram")]
    assert owner.ask("score", owner.a, out=files[0], options=options).code == 0
    assert owner.ask("score", owner.a, owner.b, out=files[1], options=(*options, "--choose", "brier")).code == 0
    assert owner.ask("moments", owner.x, out=files[2], options=options).code == 0
    assert owner.ask("moments", owner.x, out=files[3], options=(*options, "--pure")).code == 0
    verified = owner.run("ledger", "verify", *files, "--ledger", owner.ledger, "--json")
    assert verified.code == 0, verified.err
    assert len(verified.json["releases"]) == 4
    shown = owner.run("ledger", "show", "--ledger", owner.ledger)
    for path in files:
        assert path.stem in shown.out
        inspected = owner.run("inspect", path)
        assert inspected.code == 0
        assert "no file can show" in inspected.out
        assert json.dumps(owner.run("inspect", path, "--json").json)
    number = verified.json["releases"][1]["entry"]
    assert owner.run("ledger", "get", number, "--ledger", owner.ledger, "--out", owner.outs / "got.parquet").code == 0
    assert (owner.outs / "got.parquet").read_bytes() == files[1].read_bytes()
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")
    expect_sentence(owner.run("ledger", "verify", files[0], "--ledger", owner.ledger))
    released = owner.outs / "r.parquet"
    more = ("--id", "uid", "--again", "charge", "--budget", "20", "--raise-budget")
    assert owner.release(owner.labels, *more, out=released).code == 0
    train = ("train", "--release", released, "--features", owner.x, "--id", "uid", "--out", owner.folder / "run")
    assert owner.run(*train).code == 0
    page = owner.folder / "page.html"
    reported = owner.run("report", owner.folder / "run", "--ledger", owner.ledger, "--release", released, "--out", page)
    assert reported.code == 0, reported.err
    assert "</html>" in page.read_text()
