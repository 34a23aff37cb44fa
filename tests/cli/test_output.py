"""What people see: tables and facts on a terminal, plain and whole lines in a pipe; bars on a terminal alone."""

import subprocess
import sys

import pytest

from labeldp.cli.output import print_facts, print_table
from labeldp.cli.progress import TerminalProgress
from tests.cli.terminal import environment, process, terminal

SENTENCE = (
    "a value of many words that goes on and on, longer than any terminal is wide, until it has to be wrapped somewhere"
)
PATH = "/a/path/" + "that-is-long/" * 10 + "end.parquet"
ESCAPE = "\x1b"


def on_terminal(code, **options):
    """What a few lines of Python show."""
    shown = terminal(program=("-c", code), **options)
    assert shown.code == 0, shown.text
    return shown


# ── facts ──


def test_piped_facts_are_one_line_each(capsys):
    print_facts([("name", SENTENCE), ("INSECURE", "who cares")])
    assert capsys.readouterr().out == f"name         {SENTENCE}\nINSECURE     who cares\n"


@pytest.mark.parametrize("columns", [40, 80])
def test_a_long_fact_hangs_on_a_terminal(columns):
    code = f"from labeldp.cli.output import print_facts; print_facts([('name', {SENTENCE!r}), ('next', 'one')])"
    lines = on_terminal(code, columns=columns).text.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert lines[0].startswith("name         a value")
    assert all(line.startswith(" " * 13) and line[13] != " " for line in lines[1:-1])
    assert lines[-1] == "next         one"
    assert " ".join(" ".join(lines[:-1]).split()) == f"name {SENTENCE}"


def test_a_path_is_never_broken():
    """So that it can be copied; nor is it moved away from its name."""
    code = f"from labeldp.cli.output import print_facts; print_facts([('out', {PATH!r}), ('odd', '[bold]x[/bold]')])"
    assert on_terminal(code).text.splitlines() == [f"out          {PATH}", "odd          [bold]x[/bold]"]


def test_what_is_insecure_is_red():
    code = "from labeldp.cli.output import print_facts; print_facts([('cost', 'none'), ('INSECURE', 'a known seed')])"
    plain, red = on_terminal(code).raw.splitlines()[:2]
    assert ESCAPE not in plain
    assert "31m" in red.split("INSECURE")[0]
    assert "31m" not in on_terminal(code, NO_COLOR="1").raw
    assert "INSECURE     a known seed" in on_terminal(code, NO_COLOR="1").text


# ── tables ──

ROWS = [("first", "1.25", SENTENCE), ("[second]", "12,345,678.5", PATH)]
TABLE = f"from labeldp.cli.output import print_table; print_table(('name', '>number', 'what'), {ROWS!r})"


def test_a_piped_table_is_whole(capsys):
    print_table(("name", ">number", "what"), [*ROWS, ("long", "0", "w" * 500)])
    out = capsys.readouterr().out
    assert ESCAPE not in out
    for row in (*ROWS, ("w" * 500,)):
        assert any(all(cell in line for cell in row) for line in out.splitlines()), row


@pytest.mark.parametrize("columns", [60, 80])
def test_a_table_fits_the_terminal_and_nothing_is_cut(columns):
    text = on_terminal(TABLE, columns=columns).text
    assert all(len(line) <= columns for line in text.splitlines())
    assert "…" not in text
    assert "12,345,678.5" in text  # a number stays in one piece
    assert "[second]" in text
    lines = text.splitlines()
    (start,) = {line.index("what") for line in lines if "what" in line}
    column = "".join(line[start:] for line in lines).replace(" ", "")
    for words in (SENTENCE, PATH):
        assert words.replace(" ", "") in column


def test_numbers_are_aligned_to_the_right(capsys):
    print_table(("name", ">number"), [("a", "1"), ("b", "1,000")])
    lines = capsys.readouterr().out.splitlines()
    (one,), (thousand,) = ([line for line in lines if line.split()[:1] == [name]] for name in "ab")
    assert one.rstrip().endswith("    1")
    assert len(one.rstrip()) == len(thousand.rstrip())


def test_no_codes_in_a_pipe_even_if_colours_are_forced(desk):
    """Programs that set FORCE_COLOR still get whole lines."""
    assert desk.release(desk.numbered(), "--insecure-seed", "1").code == 0
    plain = process("inspect", desk.out)
    assert plain.returncode == 0
    assert ESCAPE not in plain.stdout
    assert process("inspect", desk.out, FORCE_COLOR="1").stdout == plain.stdout
    assert ESCAPE not in process("plan", "--classes", "2", "--epsilon", "1").stdout


# ── progress ──

WORK = """
from labeldp.cli.progress import TerminalProgress
with TerminalProgress("preparing") as shown:
    for done in range(0, 1001, 100):
        shown.show("sorting", done, 1000, "rows", lines=2)
    shown.line("[half] way")
    shown.show("moving", 2_500_000, None, "bytes")
    shown.begin(2)
    for epoch in (1, 2):
        shown.step(5 * epoch, 10)
        shown.epoch({"epoch": epoch, "loss": 0.5, "seconds": 1.0})
print("result")
"""


def test_an_epoch_that_says_neither_steps_nor_seconds(capsys):
    """Of an encoder, or under central trust."""
    with TerminalProgress("learning") as shown:
        shown.begin(2)
        for epoch in (1, 2):
            shown.epoch({"epoch": epoch, "loss": 0.5})
    assert capsys.readouterr().err == "epoch 1/2: loss 0.5000\nepoch 2/2: loss 0.5000\n"


def test_a_bar_on_a_terminal_and_its_result_in_the_pipe():
    shown = on_terminal(WORK, pipe=True)
    assert shown.out == "result\n"
    for words in ("epoch 2/2", "10 of 10 steps", "[half] way", "epoch 2/2: loss 0.5000, 1.0 s", "left "):
        assert words in shown.text, words
    assert "of 1,000 rows\n" not in shown.text  # the bar says so


@pytest.mark.parametrize("changes", [{}, {"FORCE_COLOR": "1"}])
def test_no_bar_elsewhere(changes):
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, env=environment(**changes))
    assert done.stdout == "result\n"
    first, *rest = done.stderr.splitlines()
    assert first == "0 of 1,000 rows"
    assert rest[:3] == ["500 of 1,000 rows", "1,000 of 1,000 rows", "[half] way"]
    assert [line.split(";")[0] for line in rest[3:]] == [
        "epoch 1/2: loss 0.5000, 1.0 s",
        "epoch 2/2: loss 0.5000, 1.0 s",
    ]


def test_nor_on_a_terminal_that_cannot_draw_one():
    assert "━" not in on_terminal(WORK, pipe=True, TERM="dumb").raw


def test_nothing_at_all_from_processes_that_are_not_the_first(capsys):
    with TerminalProgress(shown=False) as shown:
        shown.show("sorting", 1, 2, "rows", lines=2)
        shown.line("a line")
        shown.begin(1)
        shown.step(1, 1)
        shown.epoch({"epoch": 1, "loss": 0.5, "seconds": 1.0})
    assert capsys.readouterr() == ("", "")


def test_a_command_that_trains_often_says_how_far_it_is(tmp_path):
    options = ("--dataset", "digits", "--mechanism", "none", "--canaries", "20", "--plantings", "2", "--epochs", "1")
    shown = terminal("audit-heuristic", *options, "--processes", "1", "--out", tmp_path / "out", pipe=True)
    assert shown.code == 0, shown.text
    assert "3 of 3 models" in shown.text
    assert shown.out.startswith("1 × 20")


def test_what_a_terminal_would_obey_is_not_printed(capsys):
    """Names in a run that somebody else made: they are shown, and change no title, colour or line."""
    odd = "fast\x1b]0;mine\x07\x1b[2J\r, plain"
    print_facts([("recipe", odd)])
    print_table(("recipe",), [(odd,)])
    out = capsys.readouterr().out
    assert not {ESCAPE, "\x07", "\r"} & set(out)
    assert out.count(", plain") == 2
