"""What Python calls an argument, the command line calls an option."""

import ast
import re
import sys
from pathlib import Path

import pytest

import labeldp
from labeldp.cli.arguments import as_options

SOURCES = sorted(Path(labeldp.__file__).parent.rglob("*.py"))
APART = ("cli", "reproduce", "report")  # for commands only
FLAG = re.compile(r"(?<![\w-])--[a-z]")
COMMAND = re.compile(r"`labeldp [^`]*`|pip install .*")  # a command is written as one


@pytest.mark.parametrize(
    ("words", "said", "shown"),
    [
        ("release", "add `again='charge'` now", "add --again charge now"),
        ("release", "choose another `out`.", "choose another --out."),
        ("release", "name `id_column='user id'`", "name --id 'user id'"),
        ("release", "`ids`", "--id"),
        ("release", "`budget=2.5, raise_budget=True`", "--budget 2.5 --raise-budget"),
        (
            "release",
            "`budget_gaussian=(0.5, 1e-05), raise_budget=True`",
            "--budget-gaussian 0.5 --budget-delta 1e-05 --raise-budget",
        ),
        ("train", "`prior_saw_none=True` and `holdout=0`", "--other-rows and --holdout 0"),
        ("features", "among `labels`", "among --label"),
        ("pate run", "your own `labels`", "your own --labels"),
        (
            "ledger show",
            "`labeldp release --id` and `no_such_argument`",
            "`labeldp release --id` and `no_such_argument`",
        ),
        ("", "`out=1,000`", "`out=1,000`"),
        ("release", "`data_set=f(1)` and `", "`data_set=f(1)` and `"),
    ],
)
def test_arguments_are_shown_as_options(monkeypatch, words, said, shown):
    monkeypatch.setattr(sys, "argv", ["labeldp", *words.split(), "file", "--out", "release"])
    assert as_options(said) == shown


def raised(path):
    """Every text of a `raise`, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise):
            texts = [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            yield node.lineno, "".join(texts)


def test_no_error_of_the_library_names_a_flag():
    """Whoever calls it from Python has none; `as_options` makes them."""
    places = [path for path in SOURCES if path.relative_to(SOURCES[0].parent).parts[0] not in APART]
    texts = [(path, line, text) for path in places for line, text in raised(path)]
    assert len(texts) > 300  # they are found
    assert not [found for found in texts if FLAG.search(COMMAND.sub("", found[2]))]
