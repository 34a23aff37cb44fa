"""The shape of the source tree: packages point downward only, names mean one thing, tests mirror modules."""

import ast
from pathlib import Path

import pytest

import labeldp

SOURCE = Path(labeldp.__file__).parent
TESTS = Path(__file__).parent

# From the ground up: a package imports from itself and from those named before it, nothing else.
LAYERS = (
    "renamed", "errors", "entropy", "private", "wording", "provenance", "requirements", "files", "accounting", "mechanisms", "denoise",
    "evaluation", "release", "data", "audit",
    # torch begins here
    "models", "training", "features", "estimators", "experiments", "selection", "pate",
    # above
    "report", "reproduce", "commands", "cli",
)  # fmt: skip
NEEDS_TORCH = ("models", "training", "features", "experiments", "selection", "pate")

# `mechanism.release(labels, …)` is what users write; it hands everything to the package above.
UPWARD = {("mechanisms.base", "release"), ("mechanisms.base", "accounting")}


def modules() -> dict[str, ast.Module]:
    """By dotted name without `labeldp.`."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if name not in ("__init__", "__main__"):
            found[name] = ast.parse(path.read_text())
    return found


MODULES = modules()


def imported(tree: ast.AST) -> set[str]:
    """The modules of labeldp that a module imports, wherever it does so."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
    inside = {name.removeprefix("labeldp.") for name in names if name.startswith("labeldp.")}
    return {name for name in inside if name in MODULES}


def package(module: str) -> str:
    return module.split(".")[0]


def test_every_package_has_its_layer():
    assert {package(name) for name in MODULES} == set(LAYERS)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_packages_point_downward(name):
    mine = LAYERS.index(package(name))
    upward = {package(one) for one in imported(MODULES[name]) if LAYERS.index(package(one)) > mine}
    assert {one for one in upward if (name, one) not in UPWARD} == set()
