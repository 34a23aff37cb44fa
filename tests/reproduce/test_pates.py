"""Tables with columns of their own: the heuristic's two intervals, PATE's parameters, the studies."""

import json

import pytest

from labeldp.reproduce.names import plan
from labeldp.reproduce.page import can_draw, collect
from tests.reproduce.conftest import audit, finished
from tests.reproduce.test_memorized import planted


def rows(place, name):
    page = (place.out / f"{name}.md").read_text().splitlines()
    return [line for line in page if line.startswith("|")][2:]


def pate_summary(accuracy, answered=50, asked=94, **more):
    """As `labeldp pate run` sums up."""
    parameters = {
        "teachers": 200,
        "sigma1": 77.1,
        "sigma2": 25.7,
        "threshold": 60.0,
        "max_asked": 100,
        "max_answered": 50,
    }
    return {
        "certificate": {"epsilon": 1.5991, "delta": 1e-5, "reason": None},
        "trust": "central",
        "insecure": None,
        "release": "ab" * 32,
        "mechanism": {"name": "pate", "num_classes": 10, "parameters": parameters | more},
        "asked": asked,
        "answered": answered,
        "accuracy_test": {"mean": accuracy, "std": None},
        "students": [{}],
        "teachers_flop": 2e9,
        "students_flop": 3e9,
        "audit": audit(0.0, 0.0),
    }


def finished_ensemble(place, cell, accuracy, **more):
    folder = place.folder(cell)
    (folder / "owner").mkdir(parents=True)
    given = dict(zip(cell.arguments, cell.arguments[1:], strict=False))
    told = {name: float(given[f"--{name}"]) for name in ("sigma1", "sigma2", "threshold")}
    told |= {name: int(given[f"--{name.replace('_', '-')}"]) for name in ("teachers", "max_asked", "max_answered")}
    (folder / "summary.json").write_text(json.dumps(pate_summary(accuracy, **more, **told)))
    owner = {"ensemble_accuracy": 0.89, "answers_accuracy": 0.8, "teachers_seconds": 0.5}
    (folder / "owner" / "summary.json").write_text(json.dumps(owner))
    (folder / "owner" / "cost.json").write_text(json.dumps({"flop": 2, "seconds": 0.5, "students_seconds": 1.5}))


def test_pates_table(place):
    chosen = plan("table-pate", "smoke")
    finished_ensemble(place, chosen.cells()[0], 0.7194)
    collect(chosen, place, "x")
    high, medium, low = rows(place, "table-pate")
    assert high == (
        "| digits | high | 200 | 160, 20 | 100 | 500 | 90.8% | 93.7% | 200 | 77.1, 25.7 | 60 | 50 of 94 | 89.0% | 71.94% (n = 1) | "
        "1.599 (δ = 1e-05) | 5e+09 | 2 |"
    )
    assert medium == "| digits | medium | 800 | 800, 300 | 400 | 250 | 60.8% | 86.9% |" + " – |" * 9
    assert low.startswith("| digits | low | 800 | 800, 500 | 400 | 250 | 36.4% | 73.4% | – |")


def test_a_studys_table_and_figure(place):
    chosen = plan("study-answers", "smoke")
    for cell, accuracy in zip(chosen.cells()[:3], (0.6, 0.7, 0.75), strict=True):
        finished_ensemble(place, cell, accuracy)
    found = collect(chosen, place, "x")
    assert rows(place, "study-answers")[0] == (
        "| 10 | 60 of 200 | 50 of 94 | 100 of 200 | 1.599 (δ = 1e-05) | 89.0% | 80.0% | 60.00% (n = 1) |"
    )
    assert rows(place, "study-answers")[4] == "| 100 |" + " – |" * 7
    assert len(found.report.pictures) == can_draw()


@pytest.mark.parametrize("complete", [True, False])
def test_the_heuristics_intervals(place, complete):
    """Five trainings that are laid end to end once all of them are there."""
    chosen = plan("table-heuristic", "smoke")
    row = chosen.rows[0]
    cells = (*row.cells, *row.apart[0])
    for cell in cells if complete else cells[:-1]:
        finished(place, cell, accuracy=0.9)
        planted(place.folder(cell))
    collect(chosen, place, "x")
    high = rows(place, "table-heuristic")[0]
    beside = json.loads((place.out / "table-heuristic.json").read_text())["beside"][0]
    start = "| digits | high | 2.9 to 4.0 | 2.7 to 3.6 | 8 | 4.1 to ∞ ("
    assert high.startswith(start), high
    together = beside["together"]
    if complete:
        assert beside["apart"]["canaries"] == 5 * together["canaries"]
        assert "| yes | 90.00% (n = 1) | 90.00% ± 0.00% (n = 5) |" in high
    else:
        assert beside["apart"] is None
        assert "| – | – | 90.00% (n = 1) | 90.00% ± 0.00% (n = 4) |" in high


def test_figure_1_is_drawn_from_what_is_there(place):
    chosen = plan("figure1", "smoke")
    alibi = chosen.rows[0].cells[0]
    finished(place, alibi, accuracy=0.9, epsilon=8.0)
    planted(place.folder(alibi))
    found = collect(chosen, place, "x")
    if can_draw():
        assert [picture.file for picture in found.report.pictures] == ["figure1-alibi.svg"]
        assert "ALIBI (digits, high)" in (place.out / "figure1-alibi.svg").read_text()
        assert "<svg" in (place.out / "figure1.html").read_text()


def test_an_interval_waits_for_the_data_set(place, monkeypatch):
    """Collected where CIFAR is not, and again where it is."""
    from labeldp.errors import InputError
    from labeldp.reproduce import memorized

    cell = plan("table1", "smoke").cells()[0]
    finished(place, cell)
    planted(place.folder(cell))
    real = memorized._labels

    def missing(dataset, data):
        raise InputError("there is no file.")

    monkeypatch.setattr(memorized, "_labels", missing)
    assert place.facts(cell)["interval"] is None
    monkeypatch.setattr(memorized, "_labels", real)
    assert place.facts(cell)["interval"]["canaries"] > 150
    assert json.loads((place.folder(cell) / "cell.json").read_text())["interval"]["canaries"] > 150
