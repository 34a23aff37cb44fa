"""What every test needs: nobody's own ledger is ever touched."""

import sys

import pytest
from hypothesis import settings

from labeldp.cli import main

settings.register_profile("labeldp", deadline=None)  # how long an example takes is no property of the code
settings.load_profile("labeldp")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path, monkeypatch):
    """The default ledger lies in a temporary folder, and messages are those that users see."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    monkeypatch.delenv("LABELDP_LEDGER", raising=False)
    monkeypatch.delenv("LABELDP_DEBUG", raising=False)


@pytest.fixture
def cli(monkeypatch, capsys):
    """The command line in this process: exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["labeldp", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
