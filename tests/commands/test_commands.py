"""What the command line prints as JSON, Python gets from the same function."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import commands as of

ROWS = 300


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Labels and features of one data set, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels, ids = rng.integers(0, 3, ROWS), [f"u{i}" for i in range(ROWS)]
    pq.write_table(pa.table({"uid": ids, "y": labels}), "y.parquet")
    columns = {f"x{i}": 2.0 * (labels == i) + rng.normal(size=ROWS) for i in range(3)}
    pq.write_table(pa.table({"uid": ids, **columns}), "x.parquet")
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "ledger"))
    return tmp_path


@pytest.fixture
def asked(cli):
    """A command's JSON."""

    def run(line):
        code, out, err = cli(*line.split(), "--json")
        assert code == 0, err
        return json.loads(out)

    return run


# What a second run has anew: times, places, charges, and the checksums of releases in a ledger of its own.
ANEW = ("seconds", "out", "charged", "ledger_begun", "budget", "fetched", "judge", "releases", "release")


def plain(result):
    """As JSON has it, without what a second run has anew."""
    data = json.loads(json.dumps(result.to_json() if hasattr(result, "to_json") else result))
    return {name: value for name, value in data.items() if name not in ANEW}


LABELS = {"labels": "y.parquet", "label": "y", "classes": 3, "id_column": "uid"}
TYPED = "y.parquet --label y --classes 3 --id uid"
GIVEN = {"features": "x.parquet", "id_column": "uid"}


def test_the_owners_half(place, asked):
    assert plain(of.plan(of.PlanOptions(classes=3, epsilon=2.0))) == asked("plan --classes 3 --epsilon 2")
    released = of.release(of.ReleaseOptions(**LABELS, epsilon=2.0, out="r.parquet"))
    assert plain(released) == plain(asked(f"release {TYPED} --epsilon 2 --out r.parquet"))
    assert plain(of.inspect(of.InspectOptions(release="r.parquet"))) == plain(asked("inspect r.parquet"))
    assert of.ledger_show(of.LedgerShowOptions()) == asked("ledger show")
    assert of.ledger_verify(of.LedgerVerifyOptions(files="r.parquet")) == asked("ledger verify r.parquet")
    got = of.ledger_get(of.LedgerGetOptions(entry=released["entry"], out="copy.parquet"))
    assert plain(got) == plain(asked(f"ledger get {released['entry']} --out copy.parquet"))


def test_classes_rows_and_prior_as_objects(place, asked):
    from labeldp.release.classes import Classes
    from labeldp.release.rows import Span

    given = {**LABELS, "epsilon": 2.0, "prior": [0.5, 0.25, 0.25], "rows": (0, 100)}
    first = of.release(of.ReleaseOptions(**given, out="r.parquet"))
    for changes in ({"classes": Classes(3)}, {"classes": "3"}, {"rows": Span(0, 100)}, {"rows": "0:100"}):
        again = of.release(of.ReleaseOptions(**given | changes, out="r.parquet"))
        assert (again["charged"], again["checksum"]) == (False, first["checksum"])
    (place / "prior.json").write_text("[0.5, 0.25, 0.25]")
    typed = asked(f"release {TYPED} --epsilon 2 --prior prior.json --rows 0:100 --out r.parquet")
    assert (typed["charged"], typed["checksum"]) == (False, first["checksum"])


def test_the_feature_owners_half(place, asked):
    of.release(of.ReleaseOptions(**LABELS, epsilon=4.0, out="r.parquet", rows=(0, 200)))
    of.release(of.ReleaseOptions(**LABELS, epsilon=4.0, out="later.parquet", rows=(200, 300)))
    trained = of.train(of.TrainOptions(release=("r.parquet",), **GIVEN, epochs=2, out="run"))
    typed = asked("train --release r.parquet --features x.parquet --id uid --epochs 2 --out again")
    assert plain(trained) == plain(typed)
    predicted = of.predict(of.PredictOptions(folder="run", **GIVEN, out="scores.parquet"))
    assert plain(predicted) == plain(asked("predict run --features x.parquet --id uid --out again.parquet"))
    judged = of.evaluate(of.EvaluateOptions(folder="run", **GIVEN, release="later.parquet"))
    assert plain(judged) == asked("evaluate run --release later.parquet --features x.parquet --id uid")


def test_canaries_and_their_audit(place, asked):
    planted = of.canaries_plant(of.CanariesOptions(**LABELS, count=5, out="p.parquet", secret="c.npz"))
    typed = asked(f"canaries plant {TYPED} --count 5 --out p.parquet --secret c.npz")
    assert {**plain(planted), "made": "nothing"} == plain(typed)
    of.release(of.ReleaseOptions(**LABELS | {"labels": "p.parquet"}, epsilon=2.0, out="r.parquet"))
    found = of.audit(of.AuditOptions(canaries="c.npz", release="r.parquet", out="kept"))
    assert plain(found) == plain(asked("audit --canaries c.npz --release r.parquet"))
    page = of.report(of.ReportOptions(runs="kept", out="a.html"))
    assert plain(page) == plain(asked("report kept --out a.html"))


def test_warnings_are_pythons(place):
    with pytest.warns(UserWarning, match=r"5.0% of the rows are canaries; above 2% the model itself suffers"):
        of.canaries_plant(of.CanariesOptions(**LABELS, count=15, out="p.parquet", secret="c.npz"))


def test_features(place, asked):
    (place / "t.csv").write_text("uid,y,colour,size\n1,0,red,3\n2,1,blue,4\n")
    made = of.features(of.FeaturesOptions(file="t.csv", labels="y", id_column="uid", out="a.parquet"))
    assert plain(made) == plain(asked("features t.csv --label y --id uid --out b.parquet"))


def test_an_experiment(place, asked):
    given = {"dataset": "digits", "epsilon": 4.0, "insecure_seed": 1, "epochs": 2, "model": "linear"}
    made = of.experiment(of.ExperimentOptions(**given, out="a"))
    line = "--dataset digits --epsilon 4 --insecure-seed 1 --epochs 2 --model linear"
    assert plain(made) == plain(asked(f"experiment {line} --out b"))


def test_a_selection(place, asked):
    (place / "c.json").write_text('[{"mechanism": "response", "epochs": 1}, {"mechanism": "subset", "epochs": 1}]')
    given = {**LABELS, "features": "x.parquet", "candidates": "c.json", "epsilon": 4.0, "expected_runs": 2.0}
    first = of.select(of.SelectOptions(**given, out="chosen"))
    line = f"select {TYPED} --features x.parquet --candidates c.json --epsilon 4 --expected-runs 2 --out chosen"
    again = asked(line)
    assert (first["charged"], again["charged"]) == (True, False)
    assert plain(first) == plain(again)


def test_pate_stage_by_stage(place, asked):
    run = {"teachers": 10, "max_asked": 40, "out": "run"}
    voted = of.pate_teachers(of.PateTeachersOptions(dataset="digits", **run, processes=0))
    assert plain(voted) == plain(asked("pate teachers --dataset digits --teachers 10 --max-asked 40 --out run"))
    noise = {"sigma1": 8.0, "sigma2": 4.0, "threshold": 5.0, "max_answered": 20}
    with pytest.warns(UserWarning, match="2 answers a class are few"):
        answered = of.pate_aggregate(of.PateAggregateOptions(out="run", **noise))
    assert plain(answered) == plain(asked("pate aggregate run --sigma1 8 --sigma2 4 --threshold 5 --max-answered 20"))
    taught = of.pate_student(of.PateStudentOptions(out="run", student="evidence", student_epochs=1))
    assert plain(taught) == plain(asked("pate student run --student evidence --student-epochs 1"))


def test_what_votes_cost(place, asked):
    np.savez("votes.npz", votes=np.array([[90, 10], [60, 40]]), answered=np.array([True, False]))
    options = of.PateAccountOptions(votes="votes.npz", sigma1=20.0, sigma2=10.0, threshold=70.0)
    assert plain(of.pate_account(options)) == asked("pate account votes.npz --sigma1 20 --sigma2 10 --threshold 70")


def test_research(place, asked):
    listed = of.reproduce(of.ReproduceOptions(name="table1", list_cells=True))
    assert listed == asked("reproduce table1 --list")
    given = {"dataset": "digits", "mechanism": "none", "processes": 1}
    played = of.audit_repeat(of.RepeatOptions(**given, trainings=2, epochs=1, out="games"))
    usual = "--dataset digits --mechanism none --processes 1 --epochs 1"
    assert plain(played) == plain(asked(f"audit-repeat {usual} --trainings 2 --out games"))
