"""`labeldp plan --html`: where the page is put, and what is printed."""

import json
import os
import re

import pytest

from labeldp.evaluation.rows import rows_for_auc
from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.plan import plan
from labeldp.report.plan_page import plan_page
from tests.cli.conftest import expect_sentence

ARGUMENTS = ("plan", "--classes", "10", "--epsilon", "1")


def given(path):
    """The data within a page."""
    found = re.search(r'<script type="application/json" id="given">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(found[1])


def test_the_page_for_people(run, tmp_path):
    path = tmp_path / "plan.html"
    outcome = run(*ARGUMENTS, "--html", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.fact("page:") == str(path)
    assert "take subset" in outcome.out
    assert os.listdir(tmp_path) == ["plan.html"]
    assert path.read_text(encoding="utf-8") == plan_page(plan(1.0, 10))


def test_the_page_for_programs(run, tmp_path):
    path = tmp_path / "plan.html"
    outcome = run(*ARGUMENTS, "--html", path, "--json").json
    assert outcome.pop("html") == str(path)
    assert outcome == run(*ARGUMENTS, "--json").json
    assert outcome.pop("rows_to_judge")["mechanisms"].keys() == {entry["name"] for entry in outcome["mechanisms"]}
    assert outcome == given(path)["plan"]
    assert "html" not in run(*ARGUMENTS, "--json").json


def test_rows_to_judge_a_skewed_label(run, tmp_path):
    (tmp_path / "prior.json").write_text("[0.99, 0.01]")
    arguments = ("plan", "--classes", "2", "--epsilon", "1", "--prior", tmp_path / "prior.json")
    people, data = run(*arguments).out, run(*arguments, "--json").json["rows_to_judge"]
    assert (data["standard_error"], data["auc"], data["share"]) == (0.01, 0.8, pytest.approx(0.01))
    assert data["mechanisms"]["response"] == rows_for_auc(
        RandomizedResponse.calibrated(epsilon=1.0, num_classes=2), 0.01
    )
    assert "16,000,000" in people
    assert "if 1% are positive; with true labels, 47,600" in people
    coarse = run(*arguments, "--auc-error", "0.1", "--json").json["rows_to_judge"]["mechanisms"]["response"]
    assert coarse == pytest.approx(data["mechanisms"]["response"] / 100, abs=1)
    outcome = run(*arguments, "--auc-error", "0")
    assert outcome.code == 2
    assert "the standard error of an AUC is from" in outcome.err
    (tmp_path / "prior.json").write_text("[1, 0]")
    assert run(*arguments, "--json").json["rows_to_judge"] is None
    assert "to judge:" not in run(*arguments).out


def test_flip_probabilities_for_people_and_programs(run):
    data = run(*ARGUMENTS, "--json").json
    people = run(*ARGUMENTS).out
    assert "flipped" in people
    for entry in data["mechanisms"]:
        assert 0 < entry["flip_probability"] < 0.9
        assert f"{entry['flip_probability']:.1%}" in people


def test_all_arguments_reach_the_page(run, tmp_path):
    prior, path = tmp_path / "prior.json", tmp_path / "plan.html"
    prior.write_text('{"yes": 0.25, "no <b>": 0.75}')
    outcome = run(
        "plan", "--classes", "no <b>,yes", "--epsilon", "2.5", "--delta", "1e-7", "--prior", prior, "--html", path
    )
    assert outcome.code == 0
    data = given(path)
    assert (data["classes"], data["epsilon"], data["delta"], data["accepts_delta"]) == (2, 2.5, 1e-7, True)
    assert (data["shares"], data["names"]) == ([0.75, 0.25], ["no <b>", "yes"])
    assert "no <b>" not in path.read_text(encoding="utf-8")


def test_an_older_page_is_replaced(run, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text("old")
    assert run(*ARGUMENTS, "--html", path).code == 0
    assert given(path)["classes"] == 10


def test_a_directory_as_the_page(run, tmp_path):
    outcome = run(*ARGUMENTS, "--html", tmp_path)
    assert outcome.code == 2
    expect_sentence(outcome, "is a directory")
    assert os.listdir(tmp_path) == []


def test_no_such_folder_for_the_page(run, tmp_path):
    outcome = run(*ARGUMENTS, "--html", tmp_path / "nowhere" / "plan.html")
    assert outcome.code == 2
    expect_sentence(outcome, "there is no directory")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("classes", "epsilon", "why"), [("2000", "1", "1,000 classes"), ("2", "20", "0.1 to 16")])
def test_settings_that_the_page_does_not_reach(run, tmp_path, classes, epsilon, why):
    outcome = run("plan", "--classes", classes, "--epsilon", epsilon, "--html", tmp_path / "plan.html")
    assert outcome.code == 2
    expect_sentence(outcome, why, "--json")
    assert os.listdir(tmp_path) == []
