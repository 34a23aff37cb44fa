"""What a page says is what the run's files say; what it must not say it does not."""

import json
import re
import stat

import numpy as np
import pytest

import labeldp
from labeldp.errors import InputError
from labeldp.report.page import Report

from .conftest import labeldp_commands
from .pages import numbers, page, text

pytestmark = pytest.mark.xdist_group("runs")  # which are made once for all of them


def test_numbers_are_those_of_the_runs_json(runs):
    html = page(runs / "plain")
    summary = json.loads((runs / "plain" / "summary.json").read_text())
    confusion = json.loads((runs / "plain" / "confusion.json").read_text())
    low, high = summary["interval_95"]
    expected = {
        summary["certificate"]["epsilon"], summary["accuracy_test"], summary["accuracy_estimated"], low, high,
        summary["commonest_class_estimated"], *(one["epsilon_low"] for one in summary["audit"].values()),
        *(share for row in confusion["shares"] for share in row),
    }  # fmt: skip
    assert expected <= numbers(html)
    words = text(html)
    assert "pure: δ = 0" in words
    assert "local: the owner released each label on its own" in words
    assert "computed from the sampler’s integers" in words
    assert "not checked" not in words
    found = summary["audit"]["release"]
    assert f"{found['correct']} of {found['guesses']}; {found['abstained']} abstained" in words
    command = "labeldp experiment --dataset digits --model linear --epochs 3 --epsilon 4 --canaries 100 --candidates 10 --out plain"
    assert command in words
    assert labeldp.__version__ in words
    assert "torch" in words


def test_did_it_act(runs):
    html = page(runs / "plain")
    release = labeldp.Release.load(runs / "plain" / "released.parquet")
    assert 1 - release.mechanism.probability_kept() in numbers(html)
    assert release.mechanism.information() in numbers(html)
    planted = 100 / len(release)
    for c in range(10):
        estimate = release.estimate_accuracy(slice(None), np.full(len(release), c)).without_canaries(planted, 10)
        assert {estimate.accuracy, *estimate.interval()} <= numbers(html)
    assert "planted labels ( 7.0% , by its own account) are taken out" in text(html)
    assert "planted labels, if there are any, are among them" in text(page(runs / "best"))


def test_the_ledgers_entries_are_this_data_sets_alone(tmp_path):
    rows = "".join(f"v{i},{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(60))
    (tmp_path / "visits.csv").write_text("visit,page,bought\n" + rows)
    (tmp_path / "strangers.csv").write_text("visit,page,bought\n" + rows.replace("v", "w"))
    (tmp_path / "x.csv").write_text("visit,page\n" + "".join(f"v{i},{i % 7}\n" for i in range(60)))
    release = "--label bought --classes no,yes --id visit --epsilon 1"
    commands = [
        f"release visits.csv {release} --out visits.parquet",
        f"release strangers.csv {release} --out strangers.parquet",
        "train --release visits.parquet --features x.csv --id visit --out run",
    ]
    labeldp_commands(commands, tmp_path)
    html = page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    assert "visits" in text(html)
    assert "strangers" not in html
    assert "The ledger" not in page(tmp_path / "run")
    # The release is found where the run found it; moved, it is asked for, and what the summary says is not vouched for.
    assert "Did it act?" in html
    (tmp_path / "visits.parquet").rename(tmp_path / "moved.parquet")
    alone = text(page(tmp_path / "run"))
    assert "--release FILE" in alone
    assert "stated by the run’s summary and not checked" in alone
    assert "computed from the sampler" not in alone
    assert "Did it act?" in page(tmp_path / "run", releases=[tmp_path / "moved.parquet"])
    with pytest.raises(InputError, match="recorded in the ledger"):
        page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    # Whose run this is does not decide which entries of the owner's ledger it sees.
    (tmp_path / "moved.parquet").rename(tmp_path / "visits.parquet")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"data_set": "strangers"}))
    with pytest.raises(InputError, match="another data set"):
        page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="none of these runs was made from"):
        page(tmp_path / "run", releases=[tmp_path / "strangers.parquet"])


def test_insecure_runs_are_shown_in_red(runs):
    for name, reason in (("seeded", "known seed"), ("none", "no privacy")):
        html = page(runs / name)
        assert re.search(rf'class="alarm"[^>]*>INSECURE: [^<]*{reason}', html)
        assert "What that means for one label" not in html
    assert "INSECURE" not in page(runs / "plain")
    assert page(runs / "plain", runs / "seeded").count("none: INSECURE") == 1


def test_a_delta_changes_the_reading(runs):
    words = text(page(runs / "gaussian"))
    assert "at δ = 1e-05" in words
    assert "For any one such guess, and but for an event of probability at most 1e-05 (δ)" in words


def test_owner_only_numbers_are_for_the_owner(runs, tmp_path):
    owners = json.loads((runs / "pate" / "owner" / "summary.json").read_text())
    secret = [f"{owners['epsilon_data_dependent']:.6g}", f"{owners['ensemble_accuracy']:.2%}"]
    canaries = labeldp.audit.canaries.Canaries.load(runs / "plain" / "canaries.npz")
    positions = ", ".join(map(str, canaries.rows[:5].tolist()))
    public = page(runs / "pate", runs / "plain")
    assert not any(number in text(public) for number in secret)
    assert positions not in public
    assert (
        "owner" not in text(public).lower().split("for the owner of the labels alone")[0]
        or "For the owner of the labels alone" not in public
    )
    report = Report.of([runs / "pate", runs / "plain"], owner=True)
    private = report.html()
    assert all(number in text(private) for number in secret)
    assert positions in private
    assert "For the owner of the labels alone" in private
    report.save(tmp_path / "owner.html")
    assert stat.S_IMODE((tmp_path / "owner.html").stat().st_mode) == 0o600


def test_an_audit_joins_the_run_that_it_is_of(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = np.where(x[:, 0] > 0, "yes", "no")
    (tmp_path / "v.csv").write_text(
        "id,a,b,y\n" + "".join(f"r{i},{a:.3f},{b:.3f},{c}\n" for i, ((a, b), c) in enumerate(zip(x, y, strict=True)))
    )
    (tmp_path / "x.csv").write_text("id,a,b\n" + "".join(f"r{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(x)))
    commands = [
        "canaries plant v.csv --label y --id id --classes no,yes --count 60 --out planted.parquet --secret canaries.npz",
        "release planted.parquet --label y --classes no,yes --id id --epsilon 3 --out released.parquet",
        "train --release released.parquet --features x.csv --id id --canary-share 0.15 --out run",
        "predict run --features x.csv --id id --out scores.parquet",
        "audit scores.parquet --canaries canaries.npz --release released.parquet --out audit",
    ]
    labeldp_commands(commands, tmp_path)
    report = Report.of([tmp_path / "run", tmp_path / "audit"])
    assert len(report.runs) == 1
    kept = json.loads((tmp_path / "audit" / "audit.json").read_text())
    measured = {one.who: one.low for one in report.runs[0].measured}
    assert measured == {f"who sees the {look['attack']}": look["epsilon_low"] for look in kept["audit"]["looks"]}
    html = report.html()
    assert "Right and wrong guesses of planted labels" in html
    assert "labeldp audit scores.parquet" in text(html)
    alone = Report.of([tmp_path / "audit"]).html()
    assert "The model" not in [h.strip() for h in re.findall(r"<h2>([^<]*)</h2>", alone)]
    assert 'ε ≤ <data value="' in alone


def test_several_runs_and_their_size(runs, tmp_path):
    folders = [runs / name for name in ("plain", "gaussian", "staged", "best", "seeded", "none", "pate")]
    report = Report.of([*folders, *folders[:3]])
    size = report.save(tmp_path / "ten.html")
    assert size < 2_000_000
    assert Report.of(folders[:1]).save(tmp_path / "one.html") < 1_000_000
    assert len({run.name for run in report.runs}) == 10
    assert "Accuracy against proven ε" in report.html()


def test_what_is_no_run(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "reproduced" / "cells").mkdir(parents=True)
    for name, message in (
        ("nowhere", "does not exist"),
        ("file", "is a file"),
        ("empty", "is no run"),
        ("reproduced", "name some of"),
    ):
        code, _, said = cli("report", tmp_path / name, "--out", tmp_path / "r.html")
        assert code == 2
        assert message in said
    assert not (tmp_path / "r.html").exists()


def test_the_command(runs, tmp_path, cli):
    code, out, _ = cli("report", runs / "plain", runs / "gaussian", "--out", tmp_path / "r.html", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["bytes"] == (tmp_path / "r.html").stat().st_size
    assert [run["name"] for run in said["runs"]] == ["plain", "gaussian"]
    summary = json.loads((runs / "plain" / "summary.json").read_text())
    assert said["runs"][0]["certificate"] == summary["certificate"]
    code, out, _ = cli("report", runs / "plain", "--out", tmp_path / "r.html")
    assert code == 0
    assert "r.html: 1 run" in out
    assert cli("report", runs / "plain", "--out", tmp_path)[0] == 2
    assert cli("report", runs / "plain", "--ledger", tmp_path / "no.ledger", "--out", tmp_path / "r.html")[0] == 2
