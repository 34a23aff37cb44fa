"""Axes of numbers that may be anybody's."""

import pytest

from labeldp.files.summary import StatedSearch, StatedTrial
from labeldp.report.charts import trials
from labeldp.report.svg import ticks


def trial(name, likelihood):
    return StatedTrial(name, "fast", 1, 1, 1e9, likelihood, 0.0, 0.0, 0.0, name == "a")


@pytest.mark.parametrize("apart", [5e-324, 3.5e-323, 1e-320, 1e-300, 1e-15, 1.0, 9e11])
def test_trials_are_drawn_however_near_they_are(apart):
    drawn = trials(StatedSearch(1e12, 10, (trial("a", 0.0), trial("b", apart)), "a", 1))
    assert drawn is not None
    assert len(ticks(0.0, apart)) < 20
