"""What a page says is what the run's files say; what it must not say it does not."""

import json
import re
import shutil
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


def test_metrics_are_those_of_the_run_by_its_own_account(runs):
    html, summary = page(runs / "two"), json.loads((runs / "two" / "summary.json").read_text())
    words = text(html)
    for name, title in (
        ("roc_auc", "ROC AUC"),
        ("average_precision", "Average precision"),
        ("log_loss", "Log loss"),
        ("brier", "Brier score"),
    ):
        metric = summary["metrics"][name]
        assert {metric["value"], *metric["interval_95"]} <= numbers(html)
        assert title in words
    curves = json.loads((runs / "two" / "curves.json").read_text())
    told = [point[name] for point in curves["points"] for name in ("true_positive_rate", "precision", "lift")]
    told += [one["observed"] for one in curves["calibration"]]
    assert {value for value in told if value is not None} <= numbers(html)
    for title in ("ROC curve", "Calibration: what the model says", "Lift, by the share"):
        assert f">{title}" in html
    assert "For “yes” as the positive class, from the released labels of" in words
    assert "Bands and bars are 95% point by point" in words
    assert re.search(r"ROC AUC, estimated 0\.\d{3} \( 95%: 0\.\d{3} to [01]\.\d{3}\) by its own account", words)
    assert "by which an epoch was chosen. These rows report nothing." in words
    found = Report.of([runs / "two"]).to_json()["runs"][0]["metrics"]
    assert found["roc_auc"]["value"] == summary["metrics"]["roc_auc"]["value"]
    assert all("by its own account" in metric["given"] for metric in found.values())


def test_what_cannot_be_told_is_no_number(runs, tmp_path):
    shutil.copytree(runs / "two", tmp_path / "run")
    summary, curves = (json.loads((tmp_path / "run" / name).read_text()) for name in ("summary.json", "curves.json"))
    summary["metrics"]["roc_auc"] |= {"value": None, "standard_error": None, "interval_95": [0.0, 1.0], "rows": 160}
    summary["metrics"]["roc_auc"] |= {"rows_needed": 92_000}
    for one in (*curves["points"], *curves["calibration"]):
        told = [name for name in one if f"{name}_95" in one]
        one |= dict.fromkeys(told) | {f"{name}_95": [0.0, 1.0] for name in told}
    for name, data in (("summary.json", summary), ("curves.json", curves)):
        (tmp_path / "run" / name).write_text(json.dumps(data))
    html = page(tmp_path / "run")
    words = text(html)
    assert "ROC AUC, estimated unknown cannot be told from 160 rows; about 92,000 would do" in words
    for title in ("The ROC curve", "Calibration", "Lift"):
        assert f"{title} cannot be told from {curves['rows']:,} rows." in words
    assert ">ROC curve" not in html
    # Of some points only: the others are drawn.
    curves["points"][3] |= {"true_positive_rate": 0.5, "false_positive_rate": 0.25, "lift": 1.5}
    curves["calibration"][0]["observed"] = 0.5
    (tmp_path / "run" / "curves.json").write_text(json.dumps(curves))
    html = page(tmp_path / "run")
    assert all(f">{title}" in html for title in ("ROC curve", "Calibration: what", "Lift, by"))


def test_metrics_class_by_class(runs):
    each = json.loads((runs / "plain" / "summary.json").read_text())["metrics"]["roc_auc"]["by_class"]
    html = page(runs / "plain")
    assert {one["value"] for one in each if one["value"] is not None} <= numbers(html)
    assert "One class against the rest; intervals are each 95%" in text(html)
    assert "ROC, lift and calibration" not in html


def test_the_auc_side_by_side(runs, tmp_path):
    words = text(page(runs / "two", runs / "few"))
    assert "ROC AUC, estimated, by its own account" in words
    shutil.copytree(runs / "two", tmp_path / "old")
    summary = json.loads((tmp_path / "old" / "summary.json").read_text())
    del summary["metrics"]  # as earlier versions left it
    (tmp_path / "old" / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "old" / "curves.json").unlink()
    words = text(page(tmp_path / "old"))
    assert "ROC" not in words
    assert "The model" in words


def test_curves_of_another_class_or_metrics_of_other_classes(runs, tmp_path):
    shutil.copytree(runs / "two", tmp_path / "run")
    curves = json.loads((tmp_path / "run" / "curves.json").read_text())
    (tmp_path / "run" / "curves.json").write_text(json.dumps(curves | {"positive": 2}))
    with pytest.raises(InputError, match="of a class that the run does not have"):
        page(tmp_path / "run")
    (tmp_path / "run" / "curves.json").write_text("{")
    with pytest.raises(InputError, match=r"curves\.json is missing or damaged"):
        page(tmp_path / "run")
    (tmp_path / "run" / "curves.json").unlink()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    summary["metrics"]["roc_auc"]["by_class"] = [dict(summary["metrics"]["roc_auc"])]
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match="another number of classes"):
        page(tmp_path / "run")


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


def test_stages(runs):
    words = text(page(runs / "staged"))
    assert "subset + prior" in text(page(runs / "staged", runs / "plain"))
    assert "Release 1: subset" in words
    assert "Release 2: prior" in words
    assert "stage 1" in words


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


def test_central_trust_is_said(runs, tmp_path):
    words = text(page(runs / "pate"))
    assert "central: whoever made the release saw features and labels together" in words
    assert "What it takes for what" in words  # judged by the rows that were held out
    summary = json.loads((runs / "pate" / "summary.json").read_text())
    # Everybody's labels are on the page: those who were held out have paid more here, and the headline says what they have.
    held_out = labeldp.Release.load(runs / "pate" / "held-out.parquet")
    (run,) = Report.of([runs / "pate"]).runs
    assert run.epsilon == max(summary["certificate"]["epsilon"], held_out.guarantee.epsilon)
    assert run.certificate.delta == summary["certificate"]["delta"]
    assert f"{len(held_out):,}, released by {held_out.mechanism.name}" in words
    # A summary that keeps silent of them, or a release that is missing, makes it no less.
    for change in (lambda folder, s: s.update(held_out=None), lambda folder, s: (folder / "answers.parquet").unlink()):
        copy = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(runs / "pate", copy)
        altered = json.loads((copy / "summary.json").read_text())
        altered["accuracy_estimated"]["mean"] = None
        change(copy, altered)
        (copy / "summary.json").write_text(json.dumps(altered))
        assert Report.of([copy]).runs[0].epsilon == run.epsilon
    assert {summary["accuracy_test"]["mean"], summary["accuracy_estimated"]["mean"]} <= numbers(page(runs / "pate"))


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


def test_an_audit_that_saw_true_labels_is_the_owners(tmp_path, runs):
    from labeldp.audit.result import KeptAudit
    from tests.audit.test_result import measured

    KeptAudit.of(measured(), None, None, knows_truth=True).save(tmp_path / "audit")
    public = Report.of([tmp_path / "audit"])
    assert public.runs[0].measured == ()
    assert public.runs[0].violins is None
    assert "--owner shows it" in public.html()
    assert Report.of([tmp_path / "audit"], owner=True).runs[0].measured


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


def test_audits_of_many_trainings(runs):
    summary = json.loads((runs / "games" / "summary.json").read_text())
    html = page(runs / "games")
    assert {summary["certificate"], summary["epsilon_low"]} <= numbers(html)
    assert "labeldp audit-repeat" in text(html)
    words = text(page(runs / "heuristic"))
    assert "all canaries in one training" in words
    assert "The claim" not in words  # no release is behind it
    assert "labeldp audit-heuristic" in words


def test_a_selected_candidate(runs):
    words = text(page(runs / "chosen"))
    said = json.loads((runs / "chosen" / "selection.json").read_text())
    assert f"candidate {said['candidate']}, counted from 0, of 2" in words
    assert f"{said['score']:.2%}" in words
    assert "central: whoever made the release" in words
    # How long the choice took says how many runs there were: neither an hour nor a day is noted.
    (start,) = json.loads((runs / "chosen" / "starts.json").read_text())["starts"]
    assert start["day"] is None
