"""What `main` says when something other than the input goes wrong."""

import pytest

from labeldp.release import make
from tests.cli.conftest import SECRET_TEXT


@pytest.fixture
def failing(desk, monkeypatch):
    def release(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(make, "make_release", fail)
        return desk.release(desk.csv("label,x\n0,1\n"))

    return release


def test_another_librarys_message_is_withheld(failing):
    outcome = failing(RuntimeError(f"could not convert {SECRET_TEXT}"))
    assert outcome.code == 1
    assert SECRET_TEXT not in outcome.out + outcome.err
    assert "RuntimeError" in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_it_is_shown_on_request(failing, monkeypatch):
    monkeypatch.setenv("LABELDP_DEBUG", "1")
    with pytest.raises(RuntimeError, match=SECRET_TEXT):
        failing(RuntimeError(SECRET_TEXT))


def test_an_interrupt_says_what_to_do(failing):
    outcome = failing(KeyboardInterrupt())
    assert outcome.code == 130
    assert outcome.err.strip() == "interrupted; the same command finishes what was begun, and nothing is charged twice."


def test_out_of_memory(failing):
    outcome = failing(MemoryError())
    assert outcome.code == 1
    assert "out of memory" in outcome.err


def test_no_arguments_show_help(run):
    outcome = run()
    assert "Usage" in outcome.out + outcome.err
