"""Options that commands of one statistic share: what goes together, how ids are compared, to whom it goes."""

from pathlib import Path

import pytest

from labeldp.commands.statistic import StatisticOptions
from labeldp.errors import InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL

USUAL = {"labels": Path("y.csv"), "label": "y", "classes": "2", "epsilon": 0.1, "out": Path("s.parquet")}


def test_a_gaussian_cap_is_two_numbers():
    assert StatisticOptions(**USUAL).gaussian_caps() is None
    assert StatisticOptions(**USUAL, budget_gaussian=1.0, budget_delta=1e-5).gaussian_caps() == (1.0, 1e-5)
    for half in ({"budget_gaussian": 1.0}, {"budget_delta": 1e-5}):
        with pytest.raises(InputError, match="go together"):
            StatisticOptions(**USUAL, **half).gaussian_caps()


def test_how_ids_are_compared():
    assert StatisticOptions(**USUAL).id_form == CANONICAL
    assert StatisticOptions(**USUAL, ids_as_written=True).id_form == AS_WRITTEN


def test_what_was_said_first_stands():
    asked = StatisticOptions(**USUAL, recipient="a", purpose="b")
    assert asked.told_before({"recipient": "a", "purpose": "b"}) == []
    assert StatisticOptions(**USUAL).told_before({"recipient": "a"}) == []
    (said,) = asked.told_before({"recipient": "c"})
    assert "recipient 'c'" in said
    (said,) = asked.told_before(None)
    assert "have nothing on record" in said
