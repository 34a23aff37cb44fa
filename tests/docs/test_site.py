"""The site builds without a warning, fetches nothing, and its search works in a page that was opened from the disk."""

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, pages

_FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source|object|embed|audio|video|use|image)\b[^>]*?"
    r"""\b(?:src|href|srcset|data|xlink:href)\s*=\s*["']?([^"'\s>]+)""",
    re.IGNORECASE,
)
_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?([^"')\s]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = _build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def _build(folder, *arguments):
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "properdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_page_is_built(site):
    for page in pages():
        if page.startswith("docs/"):
            assert (site / page.removeprefix("docs/")).with_suffix(".html").exists()


def _fetched(site):
    for path in site.rglob("*"):
        if path.suffix in (".html", ".svg", ".css"):
            text = path.read_text()
            yield from ((path, target) for pattern in (_FETCHED, _STYLE) for target in pattern.findall(text))


def test_nothing_is_fetched_from_elsewhere(site):
    """Scripts, styles and images are the site's own files; an anchor may lead elsewhere."""
    found = list(_fetched(site))
    assert len(found) > 4 * len(pages())
    for path, target in found:
        if not target.startswith(("data:", "#")):
            assert not re.match(r"[a-z]+:|//", target), f"{path.name} fetches {target}"
            assert (path.parent / target).exists(), f"{path.name} fetches {target}"
    scripts = "".join(path.read_text() for path in (site / "assets").glob("*.js"))
    assert not re.search(r"https?://", scripts)


@pytest.mark.parametrize("mistake", ["[a](nowhere.md)", "[a](owner.md#nowhere)", "[a](../src/nowhere.py)"])
def test_a_mistake_ends_the_build(tmp_path, mistake):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{mistake}\n")
    (tmp_path / "docs" / "owner.md").write_text("# Owner\n")
    config = (ROOT / "properdocs.yml").read_text().split("nav:\n  -")[0].replace("tools/", f"{ROOT}/tools/")
    (tmp_path / "properdocs.yml").write_text(config)
    done = _build(tmp_path / "site", "--config-file", str(tmp_path / "properdocs.yml"))
    assert done.returncode == 1
    assert "nowhere" in done.stderr


def test_search_works_from_the_disk(site, visit):
    page = visit(site / "owner.html")
    page.fill("#search", "ledger verify")
    page.wait_for_selector("#found a")
    assert page.locator("#found a").first.inner_text().startswith("labeldp ledger verify")
    page.press("#search", "Enter")
    page.wait_for_url("**/reference/cli.html#labeldp-ledger-verify")
    for text in ("ε", "--shuffle", "p·e^ε/(1", "[x"):  # signs are words, and no pattern
        page.fill("#search", text)
        page.locator("#found li").first.wait_for()
        assert text == "[x" or "Nothing found" not in page.locator("#found").inner_text()
    page.fill("#search", "zzzqqq")
    page.wait_for_selector("#found li:has-text('Nothing found')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_telephone_in_light_and_dark(site, visit, scheme):
    for name in ("training.html", "reference/cli.html", "reference/api.html", "results.html"):
        page = visit(site / name, color_scheme=scheme, viewport={"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        lightness = page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
        )
        assert (lightness > 500) == (scheme == "light")
