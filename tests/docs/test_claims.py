"""Numbers that a page states in a sentence are those that the code computes."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

import labeldp
from labeldp import Laplace, SubsetSelection
from tests.docs.blocks import ROOT, pages, read


def test_the_readmes_claim_is_what_the_code_computes():
    (claimed,) = re.findall(r"k-subset selection tells a learner (\d+)% more", read("README.md"))
    subset = SubsetSelection.calibrated(epsilon=1.0, num_classes=10).information()
    laplace = Laplace.calibrated(epsilon=1.0, num_classes=10).information()
    assert int(claimed) == round(100 * (subset / laplace - 1))


def test_the_three_walks_name_what_is_there():
    """`package.module.name` in CONTRIBUTING's lists of functions."""
    text = read("CONTRIBUTING.md").split("## Three walks")[1].split("## Rules")[0]
    named = re.findall(r"`([a-z_]+\.[a-z_]+(?:\.\w+)*)`", text)
    assert len(named) > 30
    for name in named:
        assert resolve_name(f"labeldp.{name}") is not None


def test_the_map_has_every_package():
    text = read("CONTRIBUTING.md").split("## The map")[1].split("## Three walks")[0]
    there = {
        path.name.removesuffix(".py") for path in Path(labeldp.__file__).parent.iterdir() if path.suffix in ("", ".py")
    }
    for name in there - {"__init__", "__main__", "__pycache__"}:
        assert re.search(rf"`{name}/?`", text), name


@pytest.mark.parametrize("page", [page for page in pages() if "reference" not in page])
def test_files_that_a_page_names_are_there(page):
    """`tests/…/test_x.py`, and `package/module.py` of labeldp."""
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)(?:::\w+)?`", read(page))
    missing = [
        name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "src/labeldp", ROOT / "src"))
    ]
    assert missing == []
