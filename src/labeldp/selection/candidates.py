"""What a selection is among: mechanisms, models and recipes, as a file lists them. All of it is public."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostingRecipe
from labeldp.mechanisms.selected import MOST_CANDIDATES
from labeldp.training.recipe import Recipe, changed, default_recipe

_MORE = "A list of them, or one object whose values are lists: every combination is a candidate."
_KINDS: dict[str, type] = {
    "mechanism": str, "model": str, "epochs": int, "batch_size": int, "learning_rate": float, "weight_decay": float, "average": float,
    "prior": str, "denoise": str, "randaugment": int, "cutout": int,
}  # fmt: skip
_OF_TREES = {"epochs": "rounds", "learning_rate": "rate"}
_WORDS = {str: "text", int: "a whole number below 10^15", float: "a number below 10^15"}
_LARGE = 10**15


@dataclass(frozen=True)
class Candidate:
    """One of them: how labels are released, which model is trained, and what is changed in its usual recipe."""

    mechanism: str
    model: str
    changes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any], model: str) -> Candidate:
        """From an object of the file; `model` is trained where none is named."""
        for name, value in options.items():
            if name not in _KINDS:
                raise InputError(f"{name[:50]!r} is no option of a candidate; options are {', '.join(_KINDS)}.")
            if not _is(value, _KINDS[name]):
                raise InputError(f"{name} is {_WORDS[_KINDS[name]]}.")
        rest = {name: value for name, value in options.items() if name not in ("mechanism", "model")}
        return cls(options.get("mechanism", "subset"), options.get("model", model), tuple(sorted(rest.items())))

    def recipe(self, num_classes: int, seed: int) -> Recipe | BoostingRecipe:
        """The model's usual recipe, changed."""
        if self.model == "lightgbm":
            said = {_OF_TREES.get(name, name): value for name, value in self.changes}
            unknown = next((name for name in said if name not in _OF_TREES.values()), None)
            if unknown is not None:
                raise InputError(f"{unknown} is for models that are trained by gradient steps; lightgbm is not.")
            return BoostingRecipe(seed=seed, **said)
        return changed(default_recipe(self.model, num_classes), **dict(self.changes), seed=seed)

    def to_json(self) -> dict[str, Any]:
        """As the file has it, with what it leaves out."""
        return {"mechanism": self.mechanism, "model": self.model, **dict(self.changes)}


def read_candidates(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, a grid written out."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is not JSON. Candidates are objects. {_MORE}") from None
    return listed(data)


def listed(data: Any) -> list[dict[str, Any]]:
    """A list of objects as it is; one object of lists as all its combinations, the last name's values changing fastest."""
    if isinstance(data, dict):
        for name in data:
            if name not in _KINDS:
                raise InputError(f"{name[:50]!r} is no option of a candidate; options are {', '.join(_KINDS)}.")
        axes = {name: values if isinstance(values, list) else [values] for name, values in data.items()}
        _check_number(math.prod(len(values) for values in axes.values()))
        return [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())]
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise InputError(f"candidates are objects. {_MORE}")
    _check_number(len(data))
    return data


def candidates(objects: list[dict[str, Any]], model: str) -> tuple[Candidate, ...]:
    """All of them; an error says which is at fault."""
    made = []
    for number, options in enumerate(objects):
        with at_fault(number):
            made.append(Candidate.of(options, model))
    for number, candidate in enumerate(made):
        if candidate in made[:number]:
            raise InputError(f"candidates {made.index(candidate)} and {number} are the same (they count from 0).")
    return tuple(made)


@contextmanager
def at_fault(number: int) -> Iterator[None]:
    """Say in an error which candidate it is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"candidate {number} (they count from 0): {error}") from None


def _check_number(count: int) -> None:
    if not 2 <= count <= MOST_CANDIDATES:
        raise InputError(f"a selection is among 2 to {MOST_CANDIDATES} candidates; these are {count:,}. {_MORE}")


def _is(value: Any, kind: type) -> bool:
    """JSON has whole numbers that no float holds, and Python's reader knows NaN and Infinity."""
    if kind is str:
        return isinstance(value, str) and value.isprintable() and len(value) <= 200
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        return False
    return abs(value) < _LARGE  # which NaN is not
