"""The frontier: budgets, what others published, and what is drawn of both."""

import math
from pathlib import Path

import pytest

from labeldp.reproduce.frontier import GRID, NAMES, OURS, THEIRS, budget_of, noisy_labels
from labeldp.reproduce.names import plan
from labeldp.reproduce.page import Chart, Line
from labeldp.reproduce.papers import CURVES, NOISY_LABELS, NOISY_RATES


def test_symmetric_noise_is_randomized_response():
    """P[observed = true] = 1 − r + r/C, any other class r/C."""
    for rate, epsilon in NOISY_RATES:
        kept, other = 1 - rate + rate / 10, rate / 10
        assert math.log(kept / other) == pytest.approx(epsilon, abs=0.01)


def test_all_that_was_asked_for_is_in_the_queue():
    cells = plan("frontier", "cpu").cells()
    asked = {(cell.dataset, budget_of(cell), cell.epsilon, cell.seed) for cell in cells if cell.method == "subset"}
    assert {("cifar10", "1e15", epsilon, 0) for epsilon in (1.0, 2.0)} <= asked
    assert {("cifar10", "3e14", e, seed) for e in (0.5, 1.0, 2.0, 4.0) for seed in (0, 1)} <= asked
    assert {("cifar10", "6e13", 8.0, seed) for seed in range(3)} <= asked
    assert {("cifar100", "3e14", epsilon, 0) for epsilon in (4.0, 8.0)} <= asked
    theirs = {(cell.dataset, budget_of(cell), cell.epsilon, cell.seed) for cell in cells if cell.method == "alibi"}
    assert theirs == asked
    assert [cell.name for cell in cells][:2] == ["cifar10-subset-3e14-eps1-seed0", "cifar10-alibi-3e14-eps1-seed0"]
    assert {budget for _, budget, *_ in GRID} == {"6e13", *OURS}


@pytest.mark.parametrize("budget", OURS)
def test_both_have_the_compute_that_is_said(budget):
    """45,000 rows; consistency is a pass forward more, in the epochs that have it."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from labeldp import models

    for recipe in (OURS[budget], THEIRS[budget]):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            models.build(recipe["model"], (3, 32, 32), 10)(torch.zeros(1, 3, 32, 32))
        epochs = recipe["epochs"]
        late = sum(epoch >= recipe["strong_from"] * epochs for epoch in range(epochs)) if "consistency" in recipe else 0
        flop = 45_000 * counter.get_total_flops() * (3 * epochs + late)
        assert 0.85 * float(budget) < flop < 1.02 * float(budget)


def test_published_curves_are_drawn_behind_ours(tmp_path):
    pytest.importorskip("matplotlib")
    line = Line("ours", ((1.0, [0.8]), (2.0, [0.9])))
    quoted = Line("theirs", ((0.5, [0.4]), (2.0, [0.7])))
    assert Chart("ε", 100, (line, quoted), log=True, quoted=(quoted,)).draw(tmp_path / "a.svg")
    assert not Chart("ε", 100, (), log=True, quoted=(quoted,)).draw(
        tmp_path / "b.svg"
    )  # nothing of ours: nothing to show
    drawn = (tmp_path / "a.svg").read_text()
    assert "theirs" in drawn
    assert "ours" in drawn


def test_quoted_numbers_are_percentages_with_a_source():
    for curve in (*NOISY_LABELS, *(one for some in CURVES.values() for one in some)):
        assert curve.source
        assert all(10 < value < 100 for value in curve.accuracies.values())
    sheet = noisy_labels()
    assert len({len(row) for row in sheet.rows} | {len(sheet.columns)}) == 1


def test_smoke_has_both():
    cells = plan("frontier", "smoke").cells()
    assert {cell.method for cell in cells} == set(NAMES)
    assert all("--out" in cell.command(Path("x")) for cell in cells)
