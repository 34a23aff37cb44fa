"""Import does nothing heavy, and the label owner's half needs no torch."""

import subprocess
import sys

import pytest

OWNER = (
    "labeldp.accounting.ledger",
    "labeldp.mechanisms.plan",
    "labeldp.release.files",
    "labeldp.evaluation",
    "labeldp.cli",
)


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_owners_half_works_without_torch():
    python(
        "import sys; sys.modules['torch'] = None\n"
        f"import importlib, labeldp; [importlib.import_module(name) for name in {OWNER!r}]\n"
        "[getattr(labeldp, name) for name in labeldp.__all__]"
    )


def test_training_says_what_to_install():
    out = python(
        "import sys; sys.modules['torch'] = None\n"
        "try: import labeldp.training\nexcept ImportError as error: print(error)"
    )
    assert 'pip install "labeldp[train]"' in out


@pytest.mark.parametrize("module", ["labeldp", "labeldp.cli"])
def test_nothing_heavy_is_loaded_before_it_is_used(module):
    loaded = python(f"import sys, {module}; print(*sys.modules)").split()
    assert not {"numpy", "pyarrow", "torch", "rich.table", "sqlite3", "filelock"} & set(loaded)


def test_unknown_names_are_said():
    import labeldp

    with pytest.raises(AttributeError, match="no attribute 'Lapalce'"):
        _ = labeldp.Lapalce
    assert "Laplace" in dir(labeldp)
