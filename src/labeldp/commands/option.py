"""What a command can be told: frozen dataclasses whose fields carry their own help. The command line, its help, its completion and its
reference are derived from them; Python calls the same functions with the same objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from labeldp.errors import InputError

Offered = Callable[[Mapping[str, Any]], list[str]]

# What help groups options by, in this order; those without a panel come first.
DATA, SELECTION, PRIVACY, BUDGET, RECORD, TEACHERS, ANSWERS, STUDENTS, MODEL, JUDGING, BOUND, MACHINE, EXPERIMENTS = PANELS = (
    "Data", "Selection", "Privacy", "Budget and ledger", "For the record", "Teachers", "Answers", "Students", "Model and recipe", "Judging", "Bound",
    "Machine", "Experiments",
)  # fmt: skip


@dataclass(frozen=True)
class Option:
    """A field that is an option on the command line.

    flag    how it is written there; by default as the field is called
    kind    what is read there, where Python takes more than a text
    values  what a shell offers: names, or a function of the options given so far
    hidden  whether help and reference are silent about it
    """

    help: str
    flag: str | None = None
    panel: str = ""
    metavar: str | None = None
    kind: type | None = None
    values: tuple[str, ...] | Offered = ()
    hidden: bool = False

    def but(self, **changes: Any) -> Option:
        """The same option, of which a command has something else to say."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Argument(Option):
    """A field that stands by itself on the command line, without a flag."""


@dataclass(frozen=True)
class Declared:
    """A field as it was declared."""

    name: str
    kind: Any
    option: Option
    default: Any  # MISSING: it must be given

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING

    @property
    def flag(self) -> str:
        """As written on the command line."""
        return self.option.flag or "--" + self.name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command is told. Paths may be given as text, and one thing where there may be several."""

    def __post_init__(self) -> None:
        for declared in declarations(type(self)):
            given = getattr(self, declared.name)
            if not _fits(declared.kind, given) and not _fits(declared.kind, _understood(declared.kind, given)):
                raise InputError(f"`{declared.name}` is {_words(declared.kind)}; got {type(given).__name__}.")
            if (value := _understood(declared.kind, given)) is not given:
                object.__setattr__(self, declared.name, value)


_KNOWN: dict[Any, tuple[Declared, ...]] = {}


def declarations(options: type[Options]) -> tuple[Declared, ...]:
    """Every field: arguments first, then what must be given, then panel by panel."""
    if options not in _KNOWN:
        hints = get_type_hints(options, include_extras=True)
        found = [_declared(field, hints[field.name]) for field in fields(options)]
        _KNOWN[options] = tuple(sorted(found, key=_place))
    return _KNOWN[options]


def _declared(field: Field[Any], hint: Any) -> Declared:
    assert get_origin(hint) is Annotated, f"{field.name} says nothing of itself"
    kind, option = get_args(hint)
    return Declared(field.name, kind, option, field.default)


def _place(declared: Declared) -> tuple[bool, int]:
    panel = declared.option.panel
    order = PANELS.index(panel) + 2 if panel else int(not declared.required)
    return not isinstance(declared.option, Argument), order


_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text", Path: "a path"}


def _fits(kind: Any, given: Any) -> bool:
    """Whether it is of this kind; a kind that is nobody's plain type takes what it is given."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(part, given) for part in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(given, tuple | list) and all(_fits(get_args(kind)[0], one) for one in given)
    if kind is NoneType:
        return given is None
    if kind in (int, float):
        return isinstance(given, Integral if kind is int else Real) and not isinstance(given, bool)
    return kind not in _WORDS or isinstance(given, kind)


def _words(kind: Any) -> str:
    """What is wanted, for people."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_words(part) for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is tuple:
        return f"{_words(get_args(kind)[0])}, or several"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _understood(kind: Any, given: Any) -> Any:
    """Text as a path where a path is meant, one as a tuple where there may be several."""
    if get_origin(kind) is tuple:
        several = given if isinstance(given, tuple | list) else (given,)
        return tuple(_understood(get_args(kind)[0], one) for one in several)
    if get_origin(kind) in (Union, UnionType):
        (kind, *others) = (part for part in get_args(kind) if part is not NoneType)
        if others:
            return given
    return Path(given) if kind is Path and isinstance(given, str) else given
