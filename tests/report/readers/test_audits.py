"""What a page says of audits, and to whom."""

import json

import pytest

from labeldp.report.page import Report

from ..pages import numbers, page, text

pytestmark = pytest.mark.xdist_group("runs")


def test_an_audit_that_saw_true_labels_is_the_owners(tmp_path, runs):
    from labeldp.audit.result import KeptAudit
    from tests.audit.test_result import measured

    KeptAudit.of(measured(), None, None, knows_truth=True).save(tmp_path / "audit")
    public = Report.of([tmp_path / "audit"])
    assert public.runs[0].measured == ()
    assert public.runs[0].violins is None
    assert "--owner shows it" in public.html()
    assert Report.of([tmp_path / "audit"], owner=True).runs[0].measured


def test_audits_of_many_trainings(runs):
    summary = json.loads((runs / "games" / "summary.json").read_text())
    html = page(runs / "games")
    assert {summary["certificate"], summary["epsilon_low"]} <= numbers(html)
    assert "labeldp audit-repeat" in text(html)
    words = text(page(runs / "heuristic"))
    assert "all canaries in one training" in words
    assert "The claim" not in words  # no release is behind it
    assert "labeldp audit-heuristic" in words
