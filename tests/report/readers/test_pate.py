"""What a page says of PATE: whom one trusts, and what everybody paid."""

import json
import shutil

import pytest

import labeldp
from labeldp.report.page import Report

from ..pages import numbers, page, text

pytestmark = pytest.mark.xdist_group("runs")


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
