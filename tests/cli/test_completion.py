"""What the shell offers: commands, options, and the values of options; at once, and without touching anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.commands import values as known
from tests.cli.terminal import commands, environment

SHELLS = ("bash", "zsh", "fish")
_HEAVY = ("torch", "numpy", "pyarrow", "sklearn", "sqlite3")


def start(line, shell="bash", code="from labeldp.cli import main; main()", **changes):
    """The process that the shell starts when Tab is pressed at the end of `line`."""
    words = line.split()
    asked = {
        "_LABELDP_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - (not line.endswith(" "))),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = f"import sys; sys.argv = ['labeldp']\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(**asked, **changes)
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def offered(line, shell="bash", **changes):
    out = start(line, shell, **changes).stdout
    if shell == "zsh":
        out = out.removeprefix("_arguments '*: :((").rstrip().removesuffix("))'")
    lines = (text.replace('"', "").replace("\\", "").split("\t")[0] for text in out.splitlines())
    return {text.split(":")[0] if shell == "zsh" else text for text in lines if text.strip()}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell(shell):
    assert offered("labeldp ", shell) >= {words[0] for words in commands()}
    assert offered("labeldp ledger ", shell) >= {"show", "verify", "get"}
    assert offered("labeldp train --mod", shell) == {"--model"}
    assert offered("labeldp train --model wide", shell) == {f"wide-resnet-28-{k}" for k in (2, 4, 8)}


def values(words, option, incomplete="", **given):
    """The same, without a process."""
    command = commands()[tuple(words.split())]
    context = command.make_context("labeldp", [], resilient_parsing=True)
    context.params.update(given)
    (parameter,) = (found for found in command.params if option in found.opts)
    return {item.value for item in parameter.shell_complete(context, incomplete)}


@pytest.mark.parametrize(
    ("words", "option", "begun", "names"),
    [
        ("release", "--mechanism", "", {*known.MECHANISMS, "none"}),
        ("release", "--again", "", {"charge"}),
        ("experiment", "--mechanism", "u", {"unary"}),
        ("experiment", "--dataset", "", set(known.DATASETS)),
        ("experiment", "--preset", "alibi-cifar10-", {f"alibi-cifar10-{level}" for level in ("high", "medium", "low")}),
        ("train", "--device", "", {"auto", "cpu", "cuda", "mps"}),
        ("train", "--features", "", set()),  # left to the shell, which offers files
        ("evaluate", "--model", "l", {"linear"}),
        ("train", "--model", "l", {"linear", "lightgbm"}),
        ("audit-repeat", "--model", "", set(known.MODELS)),
        ("audit-heuristic", "--dataset", "cifar", {"cifar10", "cifar100"}),
        ("pate run", "--preset", "pate-cifar100-l", {"pate-cifar100-low"}),
        ("pate teachers", "--method", "", {"frozen", "fixmatch"}),
        ("reproduce", "name", "ta", {name for name in known.REPRODUCED if name.startswith("ta")}),
        ("reproduce", "--scale", "", {"smoke", "cpu", "paper"}),
        ("download", "name", "", set(known.DOWNLOADS)),
    ],
)
def test_values(words, option, begun, names):
    assert values(words, option, begun) == names


def test_the_names_are_those_of_the_registries():
    from labeldp import models
    from labeldp.data import bundled, public
    from labeldp.data import download as published
    from labeldp.denoise import WAYS
    from labeldp.experiments import compare, from_moments
    from labeldp.mechanisms import plan
    from labeldp.reproduce import names

    assert known.MODELS == models.NAMES
    assert known.MECHANISMS == plan.NAMES
    assert known.FITTABLE == from_moments.NAMES
    assert known.DATASETS == bundled.NAMES
    assert tuple(published.PUBLISHED) == known.DOWNLOADS
    assert known.REPRODUCED == names.NAMES
    assert known.TABLES == public.TABLES
    assert known.COMPARED == compare.MODELS
    assert ("bayes", *WAYS) == known.DENOISERS


def test_scales_devices_and_types_are_accepted():
    from labeldp.machine import Machine
    from labeldp.reproduce.methods import check_scale

    for scale in known.SCALES:
        check_scale(scale)
    for dtype in known.DTYPES:
        Machine("cpu", dtype).chosen(images=False)


def test_names_of_data_sets(desk, tmp_path, monkeypatch):
    """From the ledger that the line names, else the user's own; without one there are none, and none is begun."""
    assert desk.release(desk.numbered(), "--data-set", "visits").code == 0
    assert desk.release(desk.numbered(name="b.csv", shift=500), out=desk.outs / "b.parquet").code == 0
    before = desk.ledger.read_bytes()
    assert offered(f"labeldp release x.csv --ledger {desk.ledger} --data-set ") == {"b", "visits"}
    asking = [words for words, command in commands().items() if any("--data-set" in p.opts for p in command.params)]
    assert ("ledger", "show") in asking
    monkeypatch.setenv("LABELDP_LEDGER", str(desk.ledger))
    for words in asking:
        assert values(" ".join(words), "--data-set", "v") == {"visits"}, words
    assert desk.ledger.read_bytes() == before
    nowhere = tmp_path / "none.ledger"
    monkeypatch.setenv("LABELDP_LEDGER", str(nowhere))
    assert values("ledger show", "--data-set") == set()
    assert not nowhere.exists()
    nowhere.write_text("no ledger")
    assert values("ledger show", "--data-set") == set()


@pytest.mark.parametrize(
    "line", ["labeldp ", "labeldp train --", "labeldp train --model ", "labeldp release x --mechanism "]
)
def test_it_is_quick_and_touches_nothing(line, tmp_path):
    """No heavy import; no ledger is opened, nor looked for."""
    code = (
        "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from labeldp.cli import main; main()"
    )
    done = start(line, code=code, LABELDP_LEDGER=str(tmp_path / "ledger"))
    assert done.stdout
    assert not set(_HEAVY) & set(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_in_a_real_bash(tmp_path):
    """As a user would: install, start a shell, press Tab."""
    bash = shutil.which("bash")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert shutil.which("labeldp", path=path), "`make test` installs it"
    place = environment(HOME=str(tmp_path), PATH=path)
    installed = subprocess.run(
        [bash, "-c", "labeldp --install-completion; exit $?"], capture_output=True, text=True, env=place
    )
    assert installed.returncode == 0, installed.stderr
    press_tab = (
        "source ~/.bashrc; COMP_WORDS=(labeldp release x.csv --mechanism su); COMP_CWORD=4\n"
        "$(complete -p labeldp | sed 's/.*-F \\([^ ]*\\) .*/\\1/') labeldp; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run([bash, "-c", press_tab], capture_output=True, text=True, env=place)
    assert done.stdout.split() == ["subset"], done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_each_shell(shell):
    program = "import sys; sys.argv = ['labeldp']; from labeldp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(_LABELDP_COMPLETE=f"source_{shell}"),
    )
    assert done.returncode == 0
    assert f"complete_{shell}" in done.stdout
