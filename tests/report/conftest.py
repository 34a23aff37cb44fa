"""A real browser: Debian's chromium, driven by Playwright. Without one tests are skipped, but in CI (LABELDP_BROWSER=required)."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        if os.environ.get("LABELDP_BROWSER") == "required":
            pytest.fail("no chromium: apt-get install chromium")
        pytest.skip("no chromium (apt-get install chromium)")
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
