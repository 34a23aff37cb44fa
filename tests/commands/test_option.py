"""Options are declared once, say what they are, and are the same for Python and for the command line."""

import dataclasses
import inspect
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from labeldp import commands
from labeldp.commands.option import Argument, Option, Options, declarations
from labeldp.errors import InputError
from tests.cli.terminal import commands as tree

EVERY = [
    kind
    for name in commands.__all__
    if isinstance(kind := getattr(commands, name), type) and issubclass(kind, Options) and kind is not Options
]
FUNCTIONS = [function for name in commands.__all__ if inspect.isfunction(function := getattr(commands, name))]
SOURCE = "".join(path.read_text() for path in sorted(Path(commands.__file__).parent.glob("*.py")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given(Options):
    place: Annotated[Path, Argument("A place.")]
    maybe: Annotated[Path | None, Option("Another.")] = None
    several: Annotated[tuple[Path, ...], Option("Places.", panel="Data")] = ()
    words: Annotated[tuple[str, ...], Option("Words.")] = ()
    count: Annotated[int, Option("How many.", flag="--so-many")]


def test_texts_are_paths_and_one_is_several():
    given = Given(place="a", maybe="b", several="c", words="d", count=1)
    assert given == Given(place=Path("a"), maybe=Path("b"), several=[Path("c")], words=["d"], count=1)
    assert given.several == (Path("c"),)
    assert hash(given) == hash(dataclasses.replace(given))


def test_what_must_be_given_comes_first():
    assert [one.name for one in declarations(Given)] == ["place", "count", "maybe", "words", "several"]
    assert [one.flag for one in declarations(Given)][1:] == ["--so-many", "--maybe", "--words", "--several"]
    assert [one.required for one in declarations(Given)] == [True, True, False, False, False]


def test_a_field_that_says_nothing_is_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Silent(Options):
        word: str = ""

    with pytest.raises(AssertionError, match="word says nothing of itself"):
        Silent()


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_option_has_help_and_a_flag_of_its_own(kind):
    assert kind.__dataclass_params__.frozen
    declared = declarations(kind)
    for one in declared:
        assert one.option.help.endswith((".", "?")), one.name
    flags = [one.flag for one in declared if not isinstance(one.option, Argument)]
    assert len(set(flags)) == len(flags)


def test_every_function_is_a_command_and_takes_options():
    words = {"_".join(words).replace("-", "_") for words in tree()}
    assert {function.__name__ for function in FUNCTIONS} == words
    for function in FUNCTIONS:
        options, progress = inspect.signature(function).parameters.values()
        assert getattr(commands, options.annotation) in EVERY
        assert progress.default is not inspect.Parameter.empty


@pytest.mark.parametrize("words", tree(), ids=" ".join)
def test_the_command_line_has_the_same_options_and_defaults(words):
    function = getattr(commands, "_".join(words).replace("-", "_"))
    kind = getattr(commands, inspect.signature(function).parameters["options"].annotation)
    shown = {parameter.name: parameter for parameter in tree()[words].params}
    assert set(shown) - {"help", "json"} == {one.name for one in declarations(kind)}
    for one in declarations(kind):
        assert shown[one.name].required == one.required
        if not one.required and one.default != ():
            assert shown[one.name].default == one.default


def test_an_option_is_declared_once():
    """A flag of its own, or a help text, stands in one place; where there are two, they mean two things."""
    assert SOURCE.count('"--id"') == 1
    declared = {}
    for kind in EVERY:
        for one in declarations(kind):
            declared.setdefault(one.option.help, set()).add(one.name)
    assert {help for help, names in declared.items() if SOURCE.count(f'"{help}"') > 1} <= {
        "For --smooth-sensitivity.", "Of the bound.",
    }  # fmt: skip


def test_errors_name_fields():
    with pytest.raises(commands.release.__globals__["InputError"], match="`budget_gaussian` and `budget_delta`"):
        commands.release(
            commands.ReleaseOptions(labels="y.csv", label="y", classes=2, epsilon=1.0, out="r", budget_delta=1e-5)
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"raise_budget": "no"}, "`raise_budget` is True or False; got str"),
        ({"ids_as_written": "no"}, "`ids_as_written` is True or False; got str"),
        ({"epsilon": "1"}, "`epsilon` is a number; got str"),
        ({"budget": True}, "`budget` is a number; got bool"),
        ({"label": 3}, "`label` is text; got int"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_its_field(given, message):
    """Python has no parser in front of it: "no" would be true."""
    usual = {"labels": "l.csv", "label": "y", "classes": "2", "epsilon": 1, "out": "r.parquet"}
    with pytest.raises(InputError, match=message):
        commands.ReleaseOptions(**{**usual, **given})
    assert commands.ReleaseOptions(**usual, budget=np.float64(2)).budget == 2
