"""The exit codes that `labeldp --help` promises, each from a real process."""

import os
import re
import signal
import subprocess
import sys

import pytest

from labeldp.cli import app
from tests.cli.conftest import SECRET_TEXT
from tests.cli.terminal import commands, environment, process

CODES = (0, 1, 2, 3, 4, 130, 141)


def release(desk, labels, *options):
    return (
        "release", labels, "--label", "label", "--classes", "2", "--epsilon", "1", "--out", desk.out, "--ledger", desk.ledger, *options,
    )  # fmt: skip


def broken(where, error, *arguments):
    """A process in which one function fails."""
    module, name = where.rsplit(".", 1)
    code = (
        f"import {module} as module\ndef fail(*_, **__): raise {error}\nmodule.{name} = fail\n"
        "from labeldp.cli import main; main()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment())


def test_help_names_all_of_them():
    said = re.sub(r"\s+", " ", process("--help", COLUMNS="200").stdout)
    for code in CODES:
        assert re.search(rf"(: |· ){code} [a-z]", said), code


def test_0_done(desk):
    assert process(*release(desk, desk.numbered())).returncode == 0
    assert process("--version").returncode == 0
    assert process("train", "--help").returncode == 0


def test_1_a_defect(desk):
    done = broken(
        "labeldp.release.make.make_release", f"RuntimeError({SECRET_TEXT!r})", *release(desk, desk.numbered())
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert SECRET_TEXT not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("plan", "--no-such-option"),
        ("plan", "--classes", "2"),
        ("plan", "--classes", "2", "--epsilon", "much"),
        ("plan", "--classes", "2", "--epsilon", "-1"),
        ("inspect", "no-such-file.parquet"),
        ("ledger", "show", "--ledger", "no-such.ledger"),
        (),
    ],
)
def test_2_unusable_input(arguments):
    """Whether typer says so or we do."""
    done = process(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_3_the_ledger_refuses(desk):
    labels = desk.numbered()
    assert process(*release(desk, labels)).returncode == 0
    refused = process(*release(desk, labels, "--epsilon", "2", "--out", desk.outs / "more.parquet"))
    assert (refused.returncode, refused.stdout) == (3, "")


def test_3_verification_fails(desk):
    assert process(*release(desk, desk.numbered())).returncode == 0
    before = desk.ledger.read_bytes()
    more = ("--data-set", "another", "--out", desk.outs / "more.parquet")
    assert process(*release(desk, desk.numbered(name="more.csv", shift=500), *more)).returncode == 0
    desk.ledger.write_bytes(before)  # rolled back
    done = process("ledger", "verify", "--releases", desk.outs / "more.parquet", "--ledger", desk.ledger)
    assert (done.returncode, done.stdout) == (3, "")


def test_4_charged_but_not_finished(desk):
    command = release(desk, desk.numbered())
    full = broken("labeldp.release.make._write", "OSError(28, 'No space left on device')", *command)
    assert (full.returncode, full.stdout) == (4, "")
    assert "nothing more is charged" in full.stderr
    assert process(*command).returncode == 0
    assert desk.charges() == 1


def test_130_interrupted(tmp_path):
    command = [
        "experiment",
        "--dataset",
        "digits",
        "--epsilon",
        "1",
        "--epochs",
        "5000",
        "--out",
        str(tmp_path / "run"),
    ]
    started = subprocess.Popen(
        [sys.executable, "-m", "labeldp", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert started.stderr.readline().startswith("epoch 1/")
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("interrupted; the same command finishes what was begun")
    assert "Traceback" not in err


def test_130_in_subcommands_too(desk):
    command = ("ledger", "show", "--ledger", desk.ledger)
    done = broken("labeldp.accounting.ledger.Ledger", "KeyboardInterrupt", *command)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("interrupted; ")


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("train", "--help"), ("plan", "--classes", "2", "--epsilon", "1", "--json")],
)
def test_141_the_reader_went_away(arguments):
    """Quietly: `labeldp … | head` is no mistake."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "labeldp", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment())
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_141_for_a_table_too(desk):
    """Which rich writes."""
    assert desk.release(desk.numbered()).code == 0
    reader, writer = os.pipe()
    os.close(reader)
    code = (
        "from labeldp.cli import main, output\n"
        "import typer; typer.echo = lambda *_, **__: None\n"  # only the table is written
        "main()"
    )
    command = [sys.executable, "-c", code, "ledger", "show", "--ledger", str(desk.ledger)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment())
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


# ── standard output that cannot be written: the exit code speaks of the work ──

NOWHERE = {  # what a shell does to the streams: standard output, standard error
    "closed": (">&-", ""),
    "full": ("> /dev/full", ""),
    "both closed": (">&-", "2>&-"),
    "both full": ("> /dev/full", "2> /dev/full"),
    "only standard error closed": ("", "2>&-"),
    "only standard error full": ("", "2> /dev/full"),
}


def in_shell(arguments, out="", err=""):
    command = ["sh", "-c", f'"$@" {out} {err}', "sh", sys.executable, "-m", "labeldp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment())


@pytest.mark.parametrize("way", NOWHERE)
def test_0_a_release_that_nobody_could_be_told_of(desk, way):
    out, err = NOWHERE[way]
    json = ("--json",) if way == "full" else ()
    done = in_shell(release(desk, desk.numbered(), *json), out, err)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == (out == "")
    warned = [
        line for line in done.stderr.splitlines() if line.startswith("warning: standard output cannot be written")
    ]
    assert len(warned) == (out != "" and err == "")
    assert "error" not in done.stderr
    assert len(desk.load()) == 200
    assert desk.run("ledger", "verify", desk.out, "--ledger", desk.ledger).code == 0


@pytest.mark.parametrize("out", [">&-", "> /dev/full"])
@pytest.mark.parametrize("arguments", [("plan", "--classes", "2", "--epsilon", "1"), ("ledger", "show")])
def test_2_what_is_printed_is_the_result(desk, arguments, out):
    assert desk.release(desk.numbered()).code == 0
    done = in_shell((*arguments, *(("--ledger", desk.ledger) if arguments[0] == "ledger" else ())), out)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: standard output cannot be written: ")


def test_a_refused_release_stays_refused(desk):
    assert desk.release(desk.numbered()).code == 0
    more = release(desk, desk.numbered(), "--epsilon", "2", "--out", desk.outs / "more")
    assert in_shell(more, *NOWHERE["both closed"]).returncode == 3


def test_a_page_is_files_a_list_of_cells_is_not(tmp_path):
    plan = ("plan", "--classes", "2", "--epsilon", "1", "--html", tmp_path / "plan.html")
    assert in_shell(plan, "> /dev/full").returncode == 0
    assert (tmp_path / "plan.html").exists()
    assert in_shell(("reproduce", "table1", "--list"), "> /dev/full").returncode == 2


def test_every_command_is_in_a_panel():
    """`labeldp --help` is read by two parties: each finds its own commands together."""
    panels = {info.name: info.rich_help_panel for info in [*app.registered_commands, *app.registered_groups]}
    assert {words[0] for words in commands()} == set(panels)
    assert all(isinstance(panel, str) for panel in panels.values()), panels
