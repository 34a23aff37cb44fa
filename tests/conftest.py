"""What every test needs: nobody's own ledger is ever touched; a browser for pages."""

import os
import shutil
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


# ── pages: a real browser, Debian's chromium, driven by Playwright. Without one they are skipped, but in CI (LABELDP_BROWSER=required) ──

NO_BROWSER = "no browser (apt-get install chromium)"


def pytest_terminal_summary(terminalreporter):
    """Tests that are skipped are said, with what it takes to run them."""
    skipped = sum(NO_BROWSER in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if skipped:
        terminalreporter.write_line(f"{skipped} tests of pages were skipped: {NO_BROWSER}", yellow=True)


@pytest.fixture(scope="session")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        if os.environ.get("LABELDP_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open a file as a page; what the console complains of, and every request for anything else, ends the test."""
    contexts, complaints = [], []

    def go(path, **settings):
        context = browser.new_context(offline=True, **({"viewport": {"width": 1200, "height": 900}} | settings))
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: complaints.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(path.absolute().as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert not complaints
