"""Any value in any file of a run makes a page or a refusal, never anything else: a run may be somebody else's."""

import copy
import json
import random
import shutil

import pytest

from labeldp.errors import InputError
from labeldp.report.page import Report

pytestmark = pytest.mark.xdist_group("runs")

ODD = [
    None, "x", "", [], {}, float("nan"), float("inf"), -1, -0.5, 0, 1e308, 10**400, [[1]], True, "<script>", [None], {"a": 1}, 5e-324,
]  # fmt: skip
FILES = (
    "summary.json",
    "config.json",
    "starts.json",
    "confusion.json",
    "curves.json",
    "metrics.jsonl",
    "selection.json",
)


def leaves(data, path=()):
    """Where a value can be replaced: every place of dictionaries, some of long lists."""
    yield path
    if isinstance(data, dict):
        for key in data:
            yield from leaves(data[key], (*path, key))
    elif isinstance(data, list):
        for place in {0, 1, len(data) - 1} & set(range(len(data))):
            yield from leaves(data[place], (*path, place))


def replaced(data, path, value):
    if not path:
        return value
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize("name", ["plain", "staged", "pate", "chosen", "two"])
def test_a_page_or_a_refusal(runs, tmp_path, name):
    rng = random.Random(name)
    folder = tmp_path / name
    shutil.copytree(runs / name, folder)
    present = [file for file in FILES if (folder / file).exists()]
    outcomes = set()
    for _ in range(60):
        file = folder / rng.choice(present)
        before = file.read_text()
        lines = before.splitlines() if file.suffix == ".jsonl" else [before]
        place = rng.randrange(len(lines))
        data = json.loads(lines[place])
        lines[place] = json.dumps(replaced(data, rng.choice(list(leaves(data))), rng.choice(ODD)))
        file.write_text("\n".join(lines))
        try:
            report = Report.of([folder])
            assert "<script>alert" not in report.html()
            json.dumps(report.to_json(), allow_nan=False)
            outcomes.add("page")
        except InputError:
            outcomes.add("refusal")
        file.write_text(before)
    assert outcomes == {"page", "refusal"}
