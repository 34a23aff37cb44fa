"""The sixteen lines: the tutorial's and the page's are one list, and each status is what the files tell."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.report.checklist import CHECKLIST, checklist, counted
from labeldp.report.page import Report
from labeldp.report.promise import cap_of

from .pages import text

pytestmark = pytest.mark.xdist_group("runs")

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "privacy-engineer.md"


def statuses(run):
    return [line.status for line in checklist(run, cap_of(run))]


def why(run, number):
    return checklist(run, cap_of(run))[number - 1].why


def test_the_tutorial_has_the_same_lines():
    table = TUTORIAL.read_text(encoding="utf-8").split("## The checklist")[1].split("\n## ")[0]
    found = [
        re.split(r" \| ", line.strip("| \n"), maxsplit=2) for line in table.splitlines() if re.match(r"\| \d", line)
    ]
    assert [tuple(cells) for cells in found] == [
        (str(number), line.question, line.where) for number, line in enumerate(CHECKLIST, start=1)
    ]


def test_with_the_ledger_and_an_audit(owned):
    (run,) = Report.of([owned / "run", owned / "audit"], ledger=owned / "reader.ledger").runs
    assert statuses(run) == ["done"] * 8 + ["ask"] + ["done"] * 2 + ["ask"] * 4 + ["done"]
    assert "ε = 2 (pure label-DP)" in why(run, 1)
    assert "noted the canaries with the release" in why(run, 10)
    assert (
        counted(checklist(run, cap_of(run)))
        == "The checklist has 16 lines: 11 done, and 5 that only people can answer."
    )


def test_without_the_ledger(owned):
    (run,) = Report.of([owned / "run", owned / "audit"]).runs
    assert [n for n, status in enumerate(statuses(run), start=1) if status == "not done"] == [1, 3, 4, 5, 10]
    assert "the newest release here says: every label has ε = 2" in why(run, 1)
    (alone,) = Report.of([owned / "run"]).runs
    assert (why(alone, 10), why(alone, 11)) == ("no audit with a bound is among these files", "nothing was measured")


def test_without_the_release_hardly_anything_is_done(owned):
    (run,) = Report.of([owned / "run"]).runs
    gone = replace(run, releases=(), checked=False)
    assert [n for n, status in enumerate(statuses(gone), start=1) if status == "done"] == [16]
    assert "look" not in statuses(gone)


def test_what_is_wrong_is_to_be_looked_at(runs, owned):
    for name in ("seeded", "none"):
        (run,) = Report.of([runs / name]).runs
        assert [n for n, status in enumerate(statuses(run), start=1) if status == "look"] == [1, 2, 5, 6]
    (run,) = Report.of([owned / "run", owned / "audit"], ledger=owned / "reader.ledger").runs
    entry = run.ledger["data_sets"][0]

    def changed(**facts):
        return replace(run, ledger=run.ledger | {"data_sets": [entry | facts]})

    assert statuses(changed(raised=[{"at": "2026-01-02"}]))[2] == "look"
    assert why(changed(raised=[{"at": "2026-01-02"}]), 3) == "it was raised on 2026-01-02"
    assert statuses(changed(broken="some have paid more"))[0] == "look"
    assert statuses(changed(releases=[]))[3] == "look"
    assert statuses(changed(releases=[{**entry["releases"][0], "insecure": "a seed"}]))[4] == "look"
    assert statuses(changed(unprotected="a seed", publishable=None))[0] == "look"
    assert statuses(changed(publishable_if_same={"epsilon": 4.0, "delta": 0.0}))[11] == "look"
    assert statuses(replace(run, ledger=None, unrecorded=True))[3] == "look"


def test_central_trust_and_priors_are_said(runs):
    (pate,), (staged,) = (Report.of([runs / name]).runs for name in ("pate", "staged"))
    assert "must be trusted" in why(pate, 7)
    assert "a public prior is behind a release" in why(staged, 9)


def test_it_is_on_the_page(owned):
    words = text(Report.of([owned / "run"]).html())
    assert "Which ε, δ do I sign, for all releases together?" in words
    assert "cannot be seen from files" in words
    assert "a page each" in words
    assert "../proofs" not in words
