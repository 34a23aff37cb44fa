"""Modules that documents once named and that have moved: the old name still works, and says the new one."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "data.join": "data.features",
    "reproduce.collect": "reproduce.page",
    "reproduce.place": "reproduce.cells",
    "training.selecting": "selection.select",
    "training.selection": "selection.drafts",
    "training.staged": "experiments.staged",
}


class _MovedModules(MetaPathFinder, Loader):
    """Asked last, so that a module which is there is never looked for here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.removeprefix("labeldp.") in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = f"labeldp.{MOVED[module.__name__.removeprefix('labeldp.')]}"
        warnings.warn(f"{module.__name__} is {new} now.", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new)
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})


def install() -> None:
    """Once, however often labeldp is imported anew."""
    if not any(type(finder).__qualname__ == _MovedModules.__qualname__ for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
