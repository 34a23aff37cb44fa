"""The tests' own manners: what they could not run, they say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_tests_without_a_browser_say_what_to_install(tmp_path, workers):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_page.py").write_text(
        "def test_one(visit): pass\ndef test_two(browser): pass\ndef test_all(): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PATH": str(tmp_path), "LABELDP_BROWSER": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    *_, said, last = done.stdout.strip().splitlines()
    assert said == "2 tests of pages were skipped: no browser (apt-get install chromium)"
    assert "1 passed, 2 skipped" in last
