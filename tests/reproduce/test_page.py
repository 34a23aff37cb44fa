"""From finished cells to Markdown, HTML and JSON: golden pages, missing cells, text that looks like markup."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labeldp.reproduce.frontier import noisy_labels
from labeldp.reproduce.names import NAMES, plan
from labeldp.reproduce.page import collect, to_html, to_markdown
from labeldp.reproduce.plan import Document, Sheet
from tests.reproduce.conftest import audit, finished

FRONTIER = {
    "alibi": (0.6753, 0.069),
    "subset": (0.681, 0.564),
    "lp-2st-hard": (0.6, 0.1),
    "lp-2st-evidence": (0.65, 0.1),
}


class Page(HTMLParser):
    """Counts tags, and notices what is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attributes)))
        if tag not in ("meta", "br") and not (self.open and "svg" in self.open):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if "svg" in self.open and tag != "svg":
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def run_equal(place, seeds=(0,), **changes):
    """The frontier at ε = 1 with made-up accuracies; a second seed is half a point better, or as said."""
    chosen = plan("equal-compute", "cpu")
    for cell in chosen.cells():
        if cell.epsilon == 1.0 and cell.seed in seeds and cell.method in FRONTIER:
            accuracy, low = FRONTIER[cell.method]
            better = changes.get(cell.method, 0.005) * cell.seed
            finished(place, cell, accuracy=accuracy + better, audit=audit(0.0, low + cell.seed))
    return chosen


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_page(place):
    found = collect(run_equal(place), place, "labeldp reproduce equal-compute --scale cpu")
    page = (place.out / "equal-compute.md").read_text()
    assert "Made by: `labeldp reproduce equal-compute --scale cpu`." in page
    assert lines(page, "| ALIBI")[0] == "| ALIBI | 71.0 | 67.53% (n = 1) | 1 | 0 | 0.069 | – | 5.62e+13 | 340 |"
    assert lines(page, "| AGIBI")[0] == "| AGIBI | – | – | – | – | – | – | – | – |"
    # sqrt(.681·.319/10000 + .6753·.3247/10000) = 0.66 points, by hand.
    (difference,) = lines(page, "k-subset − ALIBI")
    assert "+0.57 points; standard error 0.66 (test-set sampling only" in difference
    assert "paired seeds" not in difference
    assert "LP-2ST, evidence − LP-2ST" in page
    assert "cells of this table, of these or of further seeds, are not finished" in page
    assert "`cifar10-agibi-eps1-seed0`" in lines(page, "Not finished")[0]
    assert len(found.missing) == len(plan("equal-compute", "cpu").cells()) - 4
    data = json.loads((place.out / "equal-compute.json").read_text())
    assert {cell["cell"]["name"] for cell in data["cells"]} == {f"cifar10-{name}-eps1-seed0" for name in FRONTIER}
    (one, _) = data["beside"]
    assert one["difference"] == pytest.approx(0.0057)
    assert one["error_seeds"] is None


def test_several_seeds(place):
    """A mean with its deviation, and the error of paired differences: 0.57 and 1.57 points, so 0.50."""
    collect(run_equal(place, (0, 1), subset=0.015), place, "x")
    page = (place.out / "equal-compute.md").read_text()
    assert lines(page, "| k-subset |")[0].startswith(
        "| k-subset | – | 68.85% ± 1.06% (n = 2) | 1 | 0 | 0.564 to 1.56 |"
    )
    (difference,) = lines(page, "k-subset − ALIBI")
    assert "+1.07 points" in difference
    assert "standard error over 2 paired seeds 0.50" in difference


def test_nothing_is_finished(place):
    for name in NAMES:
        for scale in ("smoke", "cpu", "paper"):
            chosen = plan(name, scale)
            found = collect(chosen, place, "x")
            assert found.data["cells"] == []
            assert len(found.missing) == len(chosen.cells())
            assert found.report.pictures == ()
            for sheet in found.report.sheets:
                assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
                assert any("–" in row for row in sheet.rows) or sheet == noisy_labels()  # which is all quoted


def test_table1_beside_the_paper(place):
    chosen = plan("table1", "paper")
    for cell in chosen.cells():
        if cell.name == "paper-cifar10-alibi-eps8-seed0":
            finished(place, cell, accuracy=0.941, epsilon=8.0)
    collect(chosen, place, "x", failed=["paper-cifar10-alibi-eps1-seed0"])
    page = (place.out / "table1.md").read_text()
    row = "| CIFAR-10 | high | ALIBI | 94% | 8 | 2.9 to 4.0 | 94.10% (n = 1) | 8 | 0 | 0.5 | – | 5.62e+13 | 340 |"
    assert row in page.splitlines()
    assert "| CIFAR-100 | very-high | PATE-FM: not in the paper | – | – | – |" in page
    assert "| CIFAR-100 | high | PATE-FM | 69.9% | 715 | 0.4 to 1.0 | – |" in page
    assert "Failed when last started (see their log.txt): `paper-cifar10-alibi-eps1-seed0`." in page


def test_pages_are_whole_html(place):
    collect(run_equal(place), place, 'labeldp --only "<b>"')
    page = Page((place.out / "equal-compute.html").read_text())
    assert page.open == []
    assert page.tags.count("caption") == page.tags.count("table") == 4
    scopes = [attributes.get("scope") for tag, attributes in page.attributes if tag == "th"]
    assert set(scopes) == {"col", "row"}
    assert "script" not in page.tags
    assert not any(
        "src" in attributes or "href" in attributes
        for tag, attributes in page.attributes
        if tag in ("img", "link", "script")
    )
    assert "svg" in page.tags  # the figure is in the page itself
    assert 'labeldp --only "<b>"' in page.text
    assert "prefers-color-scheme: dark" in page.text


def test_text_is_not_markup():
    odd = "a|b <i>*x*</i> _y_ `z` & [l](u)\nnext"
    sheet = Sheet(odd, ("one", odd), (("r", odd),), notes=(odd,))
    report = Document(odd, "made", (odd,), (sheet,), (odd,), ("cell",))
    text = to_markdown(report)
    (row,) = lines(text, "| r |")
    assert row == "| r | a\\|b \\<i>\\*x\\*\\</i> \\_y\\_ \\`z\\` & \\[l\\](u) next |"
    assert len([part for part in row.replace("\\|", "").split("|") if part.strip()]) == 2
    page = Page(to_html(report, Path()))
    assert page.open == []
    assert "i" not in page.tags
    assert odd in page.text


def test_without_matplotlib_there_is_a_note_and_no_figure(place, monkeypatch):
    monkeypatch.setattr("labeldp.reproduce.page.can_draw", lambda: False)
    found = collect(run_equal(place), place, "x")
    assert found.report.pictures == ()
    assert any("labeldp[figures]" in note for note in found.report.notes)
    assert not list(place.out.glob("*.svg"))


def test_markdown_to_a_path_has_its_figures_beside_it(place, tmp_path):
    collect(run_equal(place), place, "x", markdown=tmp_path / "docs" / "results.md")
    text = (tmp_path / "docs" / "results.md").read_text()
    assert "(results-cifar10.svg)" in text
    assert (tmp_path / "docs" / "results-cifar10.svg").read_text().startswith("<?xml")
    assert (place.out / "equal-compute-cifar10.svg").exists()
    again = (tmp_path / "docs" / "results-cifar10.svg").read_bytes()
    collect(run_equal(place), place, "x", markdown=tmp_path / "docs" / "results.md")
    assert (tmp_path / "docs" / "results-cifar10.svg").read_bytes() == again
