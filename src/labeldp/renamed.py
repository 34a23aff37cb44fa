"""Names that public things and modules had before: each still works, and warns with what it is called now. labeldp itself uses none."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

# Modules that documents named.
MOVED = {
    "data.join": "data.features",
    "reproduce.collect": "reproduce.page",
    "reproduce.place": "reproduce.cells",
    "release.core": "release.release",
    "release.files": "commands.release",
    "release.origin": "release.prior",
    "release.statement": "release.order",
    "release.verify": "release.copies",
    "report.acting": "report.view",
    "report.build": "report.page",
    "training.crossfit": "runs.crossfit",
    "training.finished": "runs.run",
    "training.job": "runs.job",
    "training.machine": "machine",
    "training.run": "runs.run",
    "training.selecting": "commands.select",
    "training.selection": "selection.drafts",
    "training.staged": "experiments.staged",
}


class Renamed:
    """A class's member under its old name; `now` is the new one."""

    def __init__(self, now: str) -> None:
        self._now = now

    def __set_name__(self, owner: type, name: str) -> None:
        self._was = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        _warn(self._was, self._now)
        return self._found(instance)

    def _found(self, instance: Any) -> Any:
        return getattr(instance, self._now)


class NowFunction(Renamed):
    """A method that is a function now, of what it was a method of; `now` is where it is."""

    def _found(self, instance: Any) -> Any:
        return partial(resolve_name(self._now), instance)


class NowItself(Renamed):
    """A method whose result is the object itself now; `now` is its class."""

    def _found(self, instance: Any) -> Any:
        return lambda: instance


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`, for what it called otherwise before: old names and new ones."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", names[name])
        return getattr(sys.modules[module], names[name])

    return find


def _warn(was: str, now: str) -> None:
    warnings.warn(f"`{was}` is `{now}` now; the old name will go.", DeprecationWarning, stacklevel=3)


class _MovedModules(MetaPathFinder, Loader):
    """Asked last, so that a module which is there is never looked for here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.removeprefix("labeldp.") in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = f"labeldp.{MOVED[module.__name__.removeprefix('labeldp.')]}"
        _warn(module.__name__, new)
        found = importlib.import_module(new)
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})


def find_moved_modules() -> None:
    """From now on, under their old names too; once, however often labeldp is imported anew."""
    if not any(type(finder).__qualname__ == _MovedModules.__qualname__ for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
