"""The page in a real browser: the slider moves, runs fold and unfold, nothing is fetched, and it can be read everywhere."""

import json
from itertools import pairwise

import pytest

from labeldp.report.page import Report
from labeldp.report.promise import best_guess, up_to

pytestmark = pytest.mark.xdist_group("runs")


@pytest.fixture(scope="session")
def pages(runs, owned):
    Report.of([owned / "run", owned / "audit"], ledger=owned / "reader.ledger", owner=True).save(runs / "owned.html")
    Report.of([runs / "none"]).save(runs / "none.html")
    Report.of([runs / "plain"]).save(runs / "one.html")
    Report.of([runs / "two"]).save(runs / "two.html")
    Report.of([runs / "few"]).save(runs / "few.html")
    Report.of([runs / name for name in ("plain", "gaussian", "none", "pate")]).save(runs / "many.html")
    return runs


def test_the_slider(pages, visit):
    page = visit(pages / "one.html")
    epsilon = json.loads((pages / "plain" / "summary.json").read_text())["certificate"]["epsilon"]
    slider = page.get_by_role("slider", name="guess that would be right")
    slider.focus()
    for key, p in (("Home", 0.01), ("ArrowRight", 0.02), ("End", 0.99)):
        page.keyboard.press(key)
        after = best_guess(p, epsilon)
        shown = up_to(after)
        assert page.locator(".before").inner_text() == f"{p:.0%}"
        assert page.locator(".after").inner_text() == shown
        assert shown in slider.get_attribute("aria-valuetext")


def test_without_javascript_it_says_the_same(pages, visit):
    page = visit(pages / "one.html", java_script_enabled=False)
    epsilon = json.loads((pages / "plain" / "summary.json").read_text())["certificate"]["epsilon"]
    assert page.locator(".after").inner_text() == up_to(best_guess(0.1, epsilon))


def test_runs_unfold(pages, visit):
    page = visit(pages / "many.html")
    folded = page.locator("details.one")
    assert folded.count() == 4
    assert not page.locator("#run-2 .cards").is_visible()
    page.get_by_role("link", name="gaussian").click()
    assert page.locator("#run-2 .cards").is_visible()
    assert not page.locator("#run-1 .cards").is_visible()
    page.locator("summary", has_text="none").focus()
    page.keyboard.press("Enter")
    assert page.locator("#run-3 .alarm").is_visible()


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("owned.html", "Nothing wrong was found"),
        ("one.html", "Look at this before you sign"),
        ("none.html", "Do not sign"),
    ],
)
@pytest.mark.parametrize("size", [(380, 740), (1200, 800)])
@pytest.mark.parametrize("script", [True, False])
def test_the_verdict_is_what_one_sees_first(pages, visit, name, state, size, script):
    """On the first screen, wide or narrow, with its sentence; no script, no scrolling."""
    page = visit(pages / name, viewport=dict(zip(("width", "height"), size, strict=True)), java_script_enabled=script)
    assert page.locator(".verdict .state").inner_text() == state
    box = page.locator(".verdict .sentence").bounding_box()
    assert box["y"] + box["height"] <= size[1]
    questions = page.locator(".answers th").all_inner_texts()
    assert questions == [
        "What was promised?",
        "To whom?",
        "What was measured?",
        "Is anything wrong?",
        "What to do next?",
    ]
    below = page.locator(".answers").bounding_box()["y"]
    assert page.locator(".cards").bounding_box()["y"] > below > box["y"]


def test_a_status_is_more_than_a_colour(pages, visit):
    page = visit(pages / "owned.html")
    found = page.locator(".checklist .status")
    assert found.count() == 16
    assert set(found.all_inner_texts()) == {"done", "cannot be seen from files"}
    marks = page.evaluate(
        "[...document.querySelectorAll('.status')].map((one) => getComputedStyle(one, '::before').content)"
    )
    assert set(marks) == {'"✓"', '"?"'}


@pytest.mark.parametrize("width", [320, 380, 768, 1200])
@pytest.mark.parametrize("name", ["one.html", "two.html", "few.html", "many.html", "owned.html", "none.html"])
def test_nothing_is_wider_than_the_screen(pages, visit, name, width):
    page = visit(pages / name, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(pages, visit, scheme):
    """WCAG's AA: text against its ground at 4.5 to 1, for every colour that the style uses for words."""
    page = visit(pages / "one.html", color_scheme=scheme)
    found = page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          const rgb = (name) => {
            probe.style.color = `var(${name})`;
            return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
          };
          const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          const light = (c) => {
            const [r, g, b] = c.map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
          const names = ["--text", "--quiet", "--proven", "--measured", "--good", "--danger", "--violet", "--ochre"];
          return names.flatMap((n) => ["--ground", "--raised"].map((g) => [n + " on " + g, ratio(rgb(n), rgb(g))]));
        }"""
    )
    assert {name: ratio for name, ratio in found if ratio < 4.5} == {}


@pytest.mark.parametrize("name", ["one.html", "two.html", "owned.html"])
def test_for_screen_readers(pages, visit, name):
    page = visit(pages / name)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("main").count() == 1
    assert page.locator("h1").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))")
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for image in page.locator("svg").all():
        assert image.get_attribute("role") == "img"
        title, description = image.get_attribute("aria-labelledby").split()
        assert image.locator(f"#{title}").text_content()
        assert image.locator(f"#{description}").text_content()
    assert page.evaluate(
        "[...document.querySelectorAll('[id]')].length === new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size"
    )
    unnamed = "[...document.querySelectorAll('th')].filter((c) => !c.scope || !c.textContent.trim()).length"
    assert page.evaluate(unnamed) == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_print(pages, visit):
    """All of it on white paper, without what only a screen can do."""
    page = visit(pages / "many.html", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#run-4 .cards").is_visible()
    assert page.locator("#run-4 .checklist").is_visible()
    assert page.locator("#run-4 .verdict").is_visible()
    assert not page.locator("#run-1 input[type=range]").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")


def test_it_may_fetch_nothing(pages, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto((pages / "one.html").as_uri())
    outcome = page.evaluate("fetch('https://example.com').then(() => 'fetched', () => 'refused')")
    context.close()
    assert outcome == "refused"
