"""Old module names work, and say the new ones."""

import importlib
import sys

import pytest

import labeldp
from labeldp.renamed import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_is_the_new_one(old, new):
    sys.modules.pop(f"labeldp.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"^`labeldp\.{old}` is `labeldp\.{new}` now"):
        found = importlib.import_module(f"labeldp.{old}")
    there = importlib.import_module(f"labeldp.{new}")
    assert {name: value for name, value in vars(found).items() if not name.startswith("__")} == {
        name: value for name, value in vars(there).items() if not name.startswith("__")
    }


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        importlib.import_module("labeldp.training.nonsense")
    assert labeldp.__version__
