"""The happy path of every command, for people and as JSON."""

import json
import math
import os
import stat
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import Ledger, Release

# ── plan ──


def test_plan_for_programs(run):
    plan = run("plan", "--classes", "10", "--epsilon", "1", "--json").json
    assert plan["recommended"] == "subset"
    assert [m["name"] for m in plan["mechanisms"]] == ["response", "subset", "unary", "laplace", "gaussian"]
    for option in plan["mechanisms"]:
        assert 0.99 < option["epsilon"] <= 1
        assert option["delta"] == (1e-5 if option["name"] == "gaussian" else 0)
        assert 0 < option["information_nats"] < math.log(10)
        assert option["parameters"]
    best = max(plan["mechanisms"], key=lambda m: m["information_nats"])
    assert best["name"] == "subset"


def test_plan_for_people(run):
    outcome = run("plan", "--classes", "10", "--epsilon", "1")
    assert (outcome.code, outcome.err) == (0, "")
    for name in ("response", "> subset", "unary", "laplace", "gaussian", "nats", "take subset"):
        assert name in outcome.out
    assert "none" not in outcome.out


def test_plan_by_names_and_prior(run, tmp_path):
    prior = tmp_path / "prior.json"
    prior.write_text('{"yes": 0.01, "no": 0.99}')
    rare = run("plan", "--classes", "no,yes", "--epsilon", "1", "--prior", prior, "--json").json
    even = run("plan", "--classes", "2", "--epsilon", "1", "--json").json
    assert rare["classes"] == 2
    assert rare["mechanisms"][0]["information_nats"] < even["mechanisms"][0]["information_nats"] / 5


@pytest.mark.parametrize("text", ["[0.2, 0.8]", "0.2\n0.8\n", "0.2, 0.8", '{"0": 0.2, "1": 0.8}'])
def test_spellings_of_a_prior(run, tmp_path, text):
    (tmp_path / "prior").write_text(text)
    plan = run("plan", "--classes", "2", "--epsilon", "1", "--prior", tmp_path / "prior", "--json").json
    direct = labeldp.plan(1.0, 2, prior=[0.2, 0.8])
    assert {name: value for name, value in plan.items() if name != "rows_to_judge"} == direct.to_json()


@pytest.mark.parametrize(("epsilon", "pure"), [("0.02", True), ("1", False)])
def test_plan_of_a_statistic(run, epsilon, pure):
    asked = ("plan", "--classes", "2", "--epsilon", epsilon, "--rows", "30000", "--columns", "20")
    plan = run(*asked, "--json").json
    assert (plan["moments_beat_rows"], plan["pure_beats_rows"]) == (True, pure)
    text = run(*asked).out
    assert "`labeldp moments` tells a linear model more than rows do" in text
    assert ("`labeldp moments --pure` tells more than rows do" in text) == pure
    assert ("rows tell more than `labeldp moments --pure`" in text) != pure
    assert "pure_beats_rows" not in run(*asked[:5], "--json").json
    assert run(*asked[:7]).code == 2


def test_plan_looks_at_no_ledger(run, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "ledger"))
    run("plan", "--classes", "2", "--epsilon", "1")
    assert not (tmp_path / "ledger").exists()


# ── release ──


def test_release_for_people(desk):
    outcome = desk.release(desk.numbered())
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.fact("released") == (
        f"{desk.out}: 200 rows of data set 'labels' (the file's stem; --data-set names another)"
    )
    assert outcome.fact("mechanism").startswith("response: keeps the label")
    assert outcome.fact("certificate").startswith("ε = 1 (pure")
    assert outcome.fact("cost") == "charged now"
    assert "since no --budget was given" in outcome.fact("budget")
    assert outcome.fact("ledger").startswith(str(desk.ledger))
    assert "INSECURE" not in outcome.out


def test_release_for_programs(desk):
    done = desk.released(desk.numbered(), "--data-set", "visits", "--budget", "2")
    assert (done["out"], done["rows"], done["data_set"], done["data_set_from"]) == (str(desk.out), 200, "visits", None)
    assert (done["charged"], done["resumed"], done["insecure"], done["warnings"]) == (True, False, None, [])
    assert done["certificate"]["epsilon"] == pytest.approx(1, rel=1e-3)
    assert done["certificate"]["epsilon"] <= 1
    assert (done["certificate"]["delta"], done["certificate"]["reason"]) == (0, None)
    assert done["budget"]["caps"]["pure"] == 2
    assert done["budget"]["spent"]["pure"] == done["certificate"]["epsilon"]
    assert done["ledger"] == str(desk.ledger)
    assert done["checksum"] == desk.load().checksum


@pytest.mark.parametrize("mechanism", ["response", "subset", "unary", "laplace", "gaussian"])
def test_every_mechanism_can_be_named(desk, mechanism):
    done = desk.released(desk.numbered(), "--mechanism", mechanism)
    assert done["mechanism"]["name"] == mechanism
    assert done["certificate"]["delta"] == (1e-5 if mechanism == "gaussian" else 0)
    assert desk.load().evidence().shape == (200, 2)


def test_the_recommended_mechanism_is_the_default(desk):
    arguments = ("--label", "label", "--classes", "2", "--epsilon", "1", "--out", desk.out, "--ledger", desk.ledger)
    done = desk.run("release", desk.numbered(), *arguments, "--json").json
    assert (
        done["mechanism"]["name"] == desk.run("plan", "--classes", "2", "--epsilon", "1", "--json").json["recommended"]
    )


def test_the_labels_arrive(desk):
    """At ε = 32 a wrong observation is a one-in-10^13 event, for all 200 rows together below 10^-11."""
    desk.released(desk.numbered(), epsilon="32")
    assert desk.load().evidence().argmax(axis=1).tolist() == [0, 1] * 100


def test_class_names_are_handed_over(desk):
    labels = desk.csv("answer,x\nno,1\nnot sure,2\nyes,3\n")
    desk.released(labels, label="answer", classes="no,yes,not sure", epsilon="32")
    release = desk.load()
    assert release.label_names == ("no", "yes", "not sure")
    assert release.evidence().argmax(axis=1).tolist() == [0, 2, 1]
    assert desk.run("inspect", desk.out, "--json").json["label_names"] == ["no", "yes", "not sure"]


def test_a_file_of_labels_alone_is_known_by_its_name_with_a_warning(desk):
    outcome = desk.release(desk.csv("label\n0\n1\n"), "--json")
    assert outcome.err.startswith("warning: these labels come without ids or other columns")
    assert len(outcome.json["warnings"]) == 1
    assert outcome.json["data_set"] == "labels"


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.tsv"])
def test_the_files_stem_is_the_data_sets_name(desk, name):
    import gzip

    content = b"label,x\n0,1\n"
    done = desk.released(desk.csv(gzip.compress(content) if name.endswith(".gz") else content, name))
    assert done["data_set"] == "visits"


def test_rows_by_id_and_by_number(desk):
    desk.released(desk.numbered(), "--id", "id")
    assert desk.load().ids.tolist() == [f"u{i}" for i in range(200)]
    part = desk.outs / "part"
    desk.released(desk.numbered(name="other.csv", shift=1), "--rows", "50:60", out=part)
    assert desk.load(part).ids.tolist() == list(range(50, 60))


def test_a_shuffled_release_has_every_id_once_and_its_own_label(desk):
    done = desk.released(desk.numbered(), "--id", "id", "--shuffle", epsilon="32")
    release = desk.load()
    assert done["rows"] == 200
    assert sorted(release.ids) == sorted(f"u{i}" for i in range(200))
    assert release.ids.tolist() != [f"u{i}" for i in range(200)]
    assert release.evidence().argmax(axis=1).tolist() == [int(i[1:]) % 2 for i in release.ids]


def test_any_parquet_tool_reads_a_release(desk):
    desk.released(desk.numbered(), "--id", "id")
    table = pq.read_table(desk.out)
    assert table.column_names == ["id", "observation"]
    assert table.num_rows == 200


def test_a_release_may_be_read_by_others_and_the_ledger_by_its_owner_alone(desk):
    old = os.umask(0o022)
    try:
        desk.released(desk.numbered())
    finally:
        os.umask(old)
    assert stat.S_IMODE(desk.out.stat().st_mode) == 0o644
    assert stat.S_IMODE(desk.ledger.stat().st_mode) == 0o600


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_beside_the_label(desk, unit):
    """Parquet files that pandas writes have times in nanoseconds."""
    times = np.array(["2024-01-01T00:00:00.123456789", "NaT"], dtype=f"datetime64[{unit}]")
    assert desk.released(desk.parquet(label=[0, 1], at=times))["charged"]


# ── where the ledger is ──


def test_the_environment_names_the_ledger(run, desk, monkeypatch):
    monkeypatch.setenv("LABELDP_LEDGER", str(desk.ledger))
    arguments = ("--label", "label", "--classes", "2", "--epsilon", "1", "--out", desk.out)
    outcome = run("release", desk.numbered(), *arguments)
    assert outcome.fact("ledger").startswith(str(desk.ledger))
    assert desk.charges() == 1
    assert run("ledger", "show", "--json").json["ledger"] == str(desk.ledger)
    assert run("ledger", "verify").code == 0


def test_the_default_ledger_is_one_for_each_user_and_its_path_is_printed(run, desk):
    arguments = ("--label", "label", "--classes", "2", "--epsilon", "1", "--out", desk.out)
    outcome = run("release", desk.numbered(), *arguments)
    path = os.path.join(os.environ["XDG_DATA_HOME"], "labeldp", "labels.ledger")
    assert outcome.fact("ledger").startswith(path)
    assert len(Ledger(path, create=False).book().releases) == 1
    assert run("ledger", "show", "--json").json["ledger"] == path


# ── inspect ──


def test_inspect_for_programs(desk):
    done = desk.released(desk.numbered(), "--budget", "3")
    shown = desk.run("inspect", desk.out, "--json").json
    assert shown["rows"] == 200
    for key in ("data_set", "mechanism", "certificate", "made", "insecure", "checksum"):
        assert shown[key] == done[key]
    assert shown["budget"]["caps"]["pure"] == 3
    assert shown["ledger"]["entry"] == done["entry"]


def test_inspect_for_people(desk):
    done = desk.released(desk.numbered())
    outcome = desk.run("inspect", desk.out)
    assert "200 rows of data set 'labels'" in outcome.fact("release")
    assert outcome.fact("certificate").startswith("ε = 1 (pure")
    assert outcome.fact("checksum") == done["checksum"]
    assert "INSECURE" not in outcome.out


# ── ledger ──


def test_ledger_show_for_programs(desk):
    done = desk.released(desk.numbered(), "--budget", "3")
    shown = desk.run("ledger", "show", "--ledger", desk.ledger, "--json").json
    (data_set,) = shown["data_sets"]
    assert (data_set["name"], data_set["rows"], data_set["known_by"]) == ("labels", 200, "columns")
    assert data_set["caps"]["pure"] == 3
    assert data_set["spent"] == done["budget"]["spent"]
    (release,) = data_set["releases"]
    assert (release["entry"], release["checksum"], release["state"]) == (done["entry"], done["checksum"], "delivered")
    assert release["rows"] == {"by": "number", "start": 0, "stop": 200}


def test_ledger_show_for_people(desk):
    desk.released(desk.numbered(), "--id", "id", "--budget", "3")
    outcome = desk.run("ledger", "show", "--ledger", desk.ledger)
    for text in (str(desk.ledger), "labels: 200 rows, known by ids", "pure ε = 3; spent so far pure ε = 1", "200 ids"):
        assert text in outcome.out
    assert "delivered" in outcome.out


def test_ledger_show_of_one_data_set(desk):
    desk.released(desk.numbered(), "--data-set", "a")
    desk.released(desk.numbered(shift=1), "--data-set", "b", out=desk.outs / "b")
    shown = desk.run("ledger", "show", "--ledger", desk.ledger, "--data-set", "b", "--json").json
    assert [d["name"] for d in shown["data_sets"]] == ["b"]
    outcome = desk.run("ledger", "show", "--ledger", desk.ledger, "--data-set", "c")
    assert (outcome.code, outcome.out) == (2, "")
    assert "knows no data set 'c'" in outcome.err


def test_ledger_show_keeps_its_key_to_itself(desk):
    desk.released(desk.numbered(), "--id", "id")
    key = Ledger(desk.ledger).book().key.hex()
    for form in ([], ["--json"]):
        assert key not in desk.run("ledger", "show", "--ledger", desk.ledger, *form).out
    assert key.encode() not in desk.out.read_bytes()


def test_ledger_verify(desk):
    desk.released(desk.numbered(), "--rows", "0:100")
    second = desk.outs / "second"
    desk.released(desk.numbered(), "--rows", "100:200", out=second)
    outcome = desk.run("ledger", "verify", "--ledger", desk.ledger, "--releases", desk.out, second)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("unaltered") == 2
    result = desk.run("ledger", "verify", "--ledger", desk.ledger, "--releases", desk.out, "--json").json
    assert result["ok"] is True
    assert [r["file"] for r in result["releases"]] == [str(desk.out)]


# ── the rest ──


def test_json_is_all_there_is_on_standard_output(desk):
    outcome = desk.release(desk.csv("label\n0\n1\n"), "--json")
    assert json.loads(outcome.out)["rows"] == 2
    assert "warning" in outcome.err


def test_the_version():
    done = subprocess.run([sys.executable, "-m", "labeldp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"labeldp {labeldp.__version__}\n"


@pytest.mark.parametrize("command", [[], ["plan"], ["release"], ["inspect"], ["ledger"], ["ledger", "show"]])
def test_help(run, command):
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert "Usage" in outcome.out


def test_help_warns_of_sorted_files(run):
    assert "sorted by its label" in " ".join(run("release", "--help").out.split())


def test_python_does_what_the_command_line_does(desk):
    from labeldp.commands import ReleaseOptions
    from labeldp.commands import release as release_file

    labels = desk.numbered()
    given = {"label": "label", "classes": 2, "epsilon": 1.0, "mechanism": "response"}
    done = release_file(ReleaseOptions(labels=labels, out=desk.out, ledger=desk.ledger, **given))
    again = desk.released(labels)
    assert (again["charged"], again["checksum"]) == (False, done["checksum"])
    assert Release.load(desk.out).checksum == done["checksum"]
