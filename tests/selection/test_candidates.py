"""What a selection is among: lists, grids, and what no candidate can be."""

import pytest

from labeldp.errors import InputError
from labeldp.selection.candidates import candidates, listed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "2 to 255 candidates; these are 0"), ([{}], "2 to 255"), ([{}] * 256, "these are 256"), ({}, "these are 1"),
        ({"epochs": list(range(1, 30)), "batch_size": list(range(2, 30))}, "these are 812"),
        ({"epochs": [], "batch_size": [1, 2]}, "these are 0"), ({"model": "mlp"}, "these are 1"),
        ("subset", "objects"), (None, "objects"), (3, "objects"), ([{}, 5], "objects"), ([[], []], "objects"),
    ],
)  # fmt: skip
def test_lists_that_are_none(data, message):
    with pytest.raises(InputError, match=message):
        listed(data)


def test_a_grid_is_every_combination():
    found = listed({"mechanism": ["subset", "laplace"], "model": "mlp", "epochs": [1, 2, 3]})
    assert len(found) == 6
    assert found[0] == {"mechanism": "subset", "model": "mlp", "epochs": 1}
    assert found[-1] == {"mechanism": "laplace", "model": "mlp", "epochs": 3}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"lr": 0.1}, "'lr' is no option of a candidate; options are mechanism, model, epochs, batch_size, learning_rate"),
        ({"seed": 3}, "'seed' is no option"), ({"epochs": 1.5}, "epochs is a whole number"), ({"epochs": "3"}, "epochs is a whole"),
        ({"epochs": True}, "epochs is a whole"), ({"epochs": None}, "epochs is a whole"), ({"epochs": 10**400}, "epochs is a whole"),
        ({"learning_rate": "fast"}, "learning_rate is a number"), ({"learning_rate": float("nan")}, "learning_rate is a number"),
        ({"learning_rate": float("inf")}, "learning_rate is a number below"), ({"learning_rate": 1e300}, "learning_rate is a number below"),
        ({"learning_rate": [0.1]}, "learning_rate is a number"),
        ({"model": 5}, "model is text"), ({"mechanism": "a\nb"}, "mechanism is text"), ({"prior": "x" * 300}, "prior is text"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(bad, message):
    with pytest.raises(InputError, match=r"candidate 1 \(they count from 0\): " + message):
        candidates([{}, bad], "linear")


def test_candidates_differ():
    """A selection among equals would be paid for and choose nothing."""
    with pytest.raises(InputError, match="candidates 0 and 2 are the same"):
        candidates([{}, {"epochs": 3}, {"mechanism": "subset"}], "linear")


def test_a_grids_keys_are_read_before_it_is_counted():
    with pytest.raises(InputError, match="'lr' is no option"):
        listed({"lr": [0.1]})
