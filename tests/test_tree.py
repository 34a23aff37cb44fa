"""The shape of the source tree: packages point downward only, names mean one thing, tests mirror modules."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import labeldp

SOURCE = Path(labeldp.__file__).parent
TESTS = Path(__file__).parent

# From the ground up: a package imports from itself and from those named before it, nothing else.
LAYERS = (
    "renamed", "errors", "entropy", "private", "wording", "provenance", "requirements", "files", "accounting", "mechanisms",
    "denoise", "evaluation", "release", "statistics", "data", "audit", "machine",
    # torch begins here
    "models", "training", "features", "estimators", "runs", "experiments", "selection", "pate",
    # above
    "report", "reproduce", "commands", "cli",
)  # fmt: skip
NEEDS_TORCH = ("models", "training", "features", "experiments", "selection", "pate")
# A run's way of training networks; it is loaded when one is to be trained.
TORCH_DOOR = "runs.networks"

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
MOST_WITHOUT = 67


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


def classes(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_a_public_class_name_means_one_thing():
    names = Counter(name for tree in MODULES.values() for name in classes(tree))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_package_has_its_layer():
    assert {package(name) for name in MODULES} == set(LAYERS)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_packages_point_downward(name):
    mine = LAYERS.index(package(name))
    upward = {package(one) for one in imported(MODULES[name]) if LAYERS.index(package(one)) > mine}
    assert {one for one in upward if (name, one) not in UPWARD} == set()


def at_import(tree: ast.Module) -> set[str]:
    """The top-level names of what is imported with the module itself, not later by a function."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
    return names


@pytest.mark.parametrize(
    "name", sorted(name for name in MODULES if package(name) not in NEEDS_TORCH and name != TORCH_DOOR)
)
def test_torch_is_not_needed_below_it_nor_to_start_what_is_above(name):
    needed = at_import(MODULES[name])
    assert not [one for one in needed if one.split(".")[0] in ("torch", "safetensors")]
    assert not [
        one
        for one in needed
        if one.split(".")[0] == "labeldp" and one.split(".")[1:2] and one.split(".")[1] in NEEDS_TORCH
    ]


def test_no_module_imports_itself_through_others():
    later = {name: {one for one in modules_at_import(tree) if one != name} for name, tree in MODULES.items()}
    while leaves := [name for name, needed in later.items() if not needed]:
        later = {name: needed - set(leaves) for name, needed in later.items() if name not in leaves}
    assert later == {}


def modules_at_import(tree: ast.Module) -> set[str]:
    """The modules of labeldp that are imported with a module itself; `from package import name` may mean a module of it."""
    body = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
    found = imported(body)
    named = {
        f"{node.module}.{one.name}".removeprefix("labeldp.")
        for node in body.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    return {one for one in found if not any(other.startswith(f"{one}.") and other in named for other in found)}


# Suites that are of no single module, and what they are of.
SUITES = {
    "cli": "commands as users type them", "docs": "the documents", "examples": "the examples", "forged": "what another party wrote",
    "torture": "kills, races and failing file calls",
}  # fmt: skip


def test_tests_mirror_packages():
    """A folder of tests is called like the package that it tests."""
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    assert folders - set(SUITES) - set(LAYERS) == set()


def test_most_modules_have_a_test_of_their_name():
    """The others are tested by the suites of their package; there shall be no more of them."""
    tested = {
        ".".join(path.relative_to(TESTS).with_suffix("").parts).replace("test_", "")
        for path in TESTS.rglob("test_*.py")
    }
    alone = sorted(name for name in MODULES if "." in name and name not in tested)
    assert len(alone) <= MOST_WITHOUT, alone
