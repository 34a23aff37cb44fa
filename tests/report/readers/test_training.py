"""What a page says of a training: metrics and curves by its own account, stages, what `select` chose."""

import json
import re
import shutil

import pytest

from labeldp.errors import InputError
from labeldp.report.page import Report

from ..pages import numbers, page, text

pytestmark = pytest.mark.xdist_group("runs")


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
    assert (
        "ROC AUC, estimated too few rows to tell (160 rows) about 92,000 would do. The label owner can measure it"
        in words
    )
    assert "cannot be told from 160 rows; about 92,000 would do" in words
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


def test_stages(runs):
    words = text(page(runs / "staged"))
    assert "subset + prior" in text(page(runs / "staged", runs / "plain"))
    assert "Release 1: subset" in words
    assert "Release 2: prior" in words
    assert "stage 1" in words


def test_a_selected_candidate(runs):
    words = text(page(runs / "chosen"))
    said = json.loads((runs / "chosen" / "selection.json").read_text())
    assert f"candidate {said['candidate']}, counted from 0, of 2" in words
    assert f"{said['score']:.2%}" in words
    assert "central: whoever made the release" in words
    # How long the choice took says how many runs there were: neither an hour nor a day is noted.
    (start,) = json.loads((runs / "chosen" / "starts.json").read_text())["starts"]
    assert start["day"] is None
