"""From JSON to frozen dataclasses: one decoder for whatever lies on disk, which may be damaged or somebody else's.

Rules of the formats that are read with it:

- A file is one JSON object, and a dataclass says what is in it. What the dataclass does not name is ignored, so that newer versions
  may say more.
- A field with a default may be missing: older versions did not write it. One without a default must be there.
- Numbers are finite; a whole number does for a float, `true` and `false` for neither; text is text. Nothing is converted.
- null is only what a type says may be None. A list becomes a tuple, of the length that its type gives.

Whatever does not fit is refused in a sentence that names the place (`audit.model.epsilon_low`), never a value.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from labeldp.errors import InputError

T = TypeVar("T")

_KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


class SchemaError(InputError):
    """A file's content is not what its type says."""


def decode(cls: type[T], data: Any, of: str = "") -> T:
    """The dataclass from a JSON object; `of` names the place of the object in its file."""
    if not isinstance(data, Mapping):
        raise SchemaError(f"{of or 'the content'} is not a JSON object.")
    given = {}
    for name, kind, required in _fields(cls):  # type: ignore[arg-type]
        if name in data:
            given[name] = _decoded(kind, data[name], f"{of}.{name}" if of else name)
        elif required:
            raise SchemaError(f"{f'{of}.{name}' if of else name} is missing.")
    try:
        return cls(**given)
    except SchemaError:
        raise
    except InputError as error:
        raise SchemaError(f"{of or 'the content'} cannot be: {error}") from None


@lru_cache
def _fields(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(cls)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(cls)
        if field.init
    )


def _decoded(kind: Any, value: Any, of: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, of)
    if origin is Literal:
        return _literal(get_args(kind), value, of)
    if origin is tuple:
        return _items(get_args(kind), value, of)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise SchemaError(f"{of} is not a JSON object.")
        return {name: _decoded(get_args(kind)[1], one, f"{of}.{name}") for name, one in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value, of)
    return _plain(kind, value, of)


def _plain(kind: Any, value: Any, of: str) -> Any:
    if kind is float and type(value) in (int, float):
        try:
            if math.isfinite(float(value)):
                return float(value)
        except OverflowError:
            pass
    elif type(value) is kind:
        return value
    raise SchemaError(f"{of} is not {_KINDS[kind]}.")


def _one_of(kinds: tuple[Any, ...], value: Any, of: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _decoded(kind, value, of)
        except SchemaError:
            continue
    return _decoded(others[-1], value, of)


def _literal(choices: tuple[Any, ...], value: Any, of: str) -> Any:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise SchemaError(f"{of} is none of {', '.join(map(repr, choices))}.")
    return value


def _items(kinds: tuple[Any, ...], value: Any, of: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise SchemaError(f"{of} is not a list.")
    if kinds[1:] == (Ellipsis,):
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise SchemaError(f"{of} has {len(value)} items instead of {len(kinds)}.")
    return tuple(_decoded(kind, one, f"{of}[{i}]") for i, (kind, one) in enumerate(zip(kinds, value, strict=True)))
