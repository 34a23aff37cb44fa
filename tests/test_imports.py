"""Import does nothing heavy, and the label owner's half needs no torch."""

import subprocess
import sys

import pytest

OWNER = (
    "labeldp.accounting.ledger",
    "labeldp.mechanisms.plan",
    "labeldp.commands",
    "labeldp.evaluation.accuracy",
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


TRAINING = (
    "experiment --dataset digits --epsilon 1 --out run",
    "train --release r.parquet --features x.parquet --out run",
    "audit-repeat --dataset digits --epsilon 1 --out run",
    "pate run --dataset digits --out run",
)


@pytest.mark.parametrize("gone", ["torch", "safetensors"])
def test_every_command_that_trains_says_what_to_install(gone, tmp_path, monkeypatch):
    """In one process in which the library cannot be imported; and before a label is released."""
    monkeypatch.chdir(tmp_path)
    said = python(
        f"import sys; sys.modules[{gone!r}] = None\n"
        "from labeldp.cli import main\n"
        "sys.stderr = sys.stdout\n"
        f"for command in {TRAINING!r}:\n"
        "    sys.argv = ['labeldp', *command.split()]\n"
        "    try: main()\n"
        "    except SystemExit as end: print(end.code)\n"
    ).splitlines()
    assert said[1::2] == ["2"] * len(TRAINING)
    for sentence in said[::2]:
        assert sentence.startswith("error: ")
        assert gone in sentence
        assert 'pip install "labeldp[train]"' in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["labeldp", "labeldp.commands", "labeldp.cli"])
def test_nothing_heavy_is_loaded_before_it_is_used(module):
    loaded = python(f"import sys, {module}; print(*sys.modules)").split()
    assert not {"numpy", "pyarrow", "torch", "rich.table", "sqlite3", "filelock"} & set(loaded)


def test_unknown_names_are_said():
    import labeldp

    with pytest.raises(AttributeError, match="no attribute 'Lapalce'"):
        _ = labeldp.Lapalce
    assert "Laplace" in dir(labeldp)
