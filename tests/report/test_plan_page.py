"""The plan's page in a real browser: its numbers are Python's, its controls work, and it reads well everywhere."""

import json
import time

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.evaluation.rows import AUC, auc_variance, noise_variances, rarest_share, scores_apart
from labeldp.mechanisms.plan import NAMES, calibrate, plan
from labeldp.report.plan_page import NORMAL, percent, plan_page, rows_needed, short, whole, write_plan_page

ZIPF = (1 / np.arange(1, 41) / (1 / np.arange(1, 41)).sum()).tolist()
PRIORS = {
    "two": [0.5, 0.5],
    "rare": [0.99, 0.01],
    "three": [0.2, 0.3, 0.5],
    "ten": [0.1] * 10,
    "with a zero": [0.0, 0.25, 0.25, 0.5],
    "one of ten": [0.01] * 9 + [0.91],
    "Zipf": ZIPF,
    "hundred": [0.01] * 100,
    "one of thousand": [0.5] + [0.5 / 999] * 999,
}

JUDGED = {"auc": AUC, "apart": scores_apart(AUC), "error": 0.03}


@pytest.fixture
def opened(visit, tmp_path):
    """A page for this setting, in the browser, once its script has written the table."""

    def go(epsilon=1.0, classes=10, *, prior=None, delta=None, names=None, after="", **settings):
        path = tmp_path / f"plan{time.monotonic_ns()}.html"
        made = plan(epsilon, classes, prior=prior, delta=delta)
        write_plan_page(path, plan_page(made, prior=prior, delta=delta, class_names=names))
        page = visit(path, **settings)
        if after:
            page.goto(path.absolute().as_uri() + after)
            page.reload()
        if settings.get("java_script_enabled", True):
            page.wait_for_selector("body[data-ready]")
        return page

    return go


def table(page):
    return page.eval_on_selector_all(
        "#mechanisms tbody tr",
        """rows => rows.map(row => ({name: row.id.slice(4), chosen: row.classList.contains("chosen"),
             ...Object.fromEntries([...row.querySelectorAll("td")].map(cell => [cell.dataset.field, cell.textContent]))}))""",
    )


def settled(page):
    """After the script has answered what was typed last."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return table(page)


# ── the numbers ──


@pytest.mark.parametrize("kind", PRIORS)
def test_the_scripts_numbers_are_pythons(opened, kind):
    """Nats, flip probability and rows: 1e-9 relative where there are two cells a class or none, 1e-6 for additive noise."""
    prior = PRIORS[kind]
    page = opened()
    settings = ((0.1, 1e-12), (0.7, 1e-5), (2.0, 0.1), (5.0, 1e-5), (16.0, 1e-9))
    for epsilon, delta in settings if len(prior) < 500 else settings[1::2]:
        found = page.evaluate(
            """setting => Numbers.plan(setting).options.map(o => [o.name, o.nats, o.flip, o.rows, o.auc, o.bytes, o.says])""",
            {"judged": JUDGED, "epsilon": epsilon, "prior": prior, "delta": delta, "acceptsDelta": True, "within": 0.02, "z": NORMAL["95"]},
        )  # fmt: skip
        for name, nats, flip, rows, auc, bytes_, says in found:
            uniform = len(set(prior)) == 1
            mechanism = calibrate(
                name, epsilon=epsilon, num_classes=len(prior), delta=delta, prior=None if uniform else prior
            )
            close = 1e-6 if name in ("laplace", "gaussian") else 1e-9
            expected = mechanism.information(prior)
            assert nats == pytest.approx(expected, rel=close, abs=1e-12), (name, epsilon)
            assert flip == pytest.approx(1 - mechanism.probability_kept(), rel=close, abs=1e-14), (name, epsilon)
            assert rows == pytest.approx(rows_needed(mechanism.law(), 0.02), rel=close), (name, epsilon)
            wanted = auc_variance(rarest_share(len(prior), prior), AUC, noise_variances(mechanism)) / 0.03**2
            assert auc == pytest.approx(wanted, rel=close), (name, epsilon)
            assert (bytes_, says) == (mechanism.observation_bytes, mechanism.describe())


@pytest.mark.parametrize(
    ("epsilon", "classes", "prior", "delta"),
    [
        (1.0, 10, None, None),
        (0.1, 1000, None, None),
        (16.0, 2, None, None),
        (2.0, 40, ZIPF, 1e-6),
        (1.0, 3, [0.999, 0.001, 0], None),
    ],
)
def test_the_script_writes_what_python_wrote(opened, epsilon, classes, prior, delta):
    still = opened(epsilon, classes, prior=prior, delta=delta, java_script_enabled=False)
    moving = opened(epsilon, classes, prior=prior, delta=delta)
    assert table(still) == table(moving)
    for part in (
        "#setting",
        "#entropy",
        "#advice",
        "#said-within",
        "#said-sure",
        "#true-rows",
        "#rarest",
        "#true-auc-rows",
    ):
        assert still.text_content(part) == moving.text_content(part)
    for page in (still, moving):
        assert page.locator("#mechanisms .mark:visible").count() == 1
    assert still.is_hidden("#controls")
    assert "need JavaScript" in still.text_content("body")


def test_numbers_on_the_page_are_those_of_the_json(opened):
    page, data = opened(2.0, 5), plan(2.0, 5).to_json()
    assert json.loads(page.text_content("#given"))["plan"] == data
    rows = {row["name"]: row for row in table(page)}
    assert [name for name in rows if rows[name]["chosen"]] == [data["recommended"]]
    for entry in data["mechanisms"]:
        row = rows[entry["name"]]
        assert row["nats"] == short(entry["information_nats"])
        assert row["share"] == percent(entry["information_nats"] / data["prior_entropy_nats"])
        assert row["flip"] == percent(entry["flip_probability"])
        assert row["bytes"] == str(entry["bytes_per_row"])


def test_rows_needed_are_what_the_estimate_needs():
    """With so many rows, z standard errors of an estimate are at most the half width, and at the worst accuracy equal to it."""
    for name in NAMES:
        law = calibrate(name, epsilon=1.0, num_classes=10).law()
        rows, gap = rows_needed(law, 0.03), law.gap
        widths = []
        for a in np.linspace(0, 1, 1001):
            variance = a * law.variance_true + (1 - a) * law.variance_other + a * (1 - a) * gap**2
            widths.append(1.959964 * (variance / rows) ** 0.5 / gap)
        assert max(widths) == pytest.approx(0.03, rel=1e-4)


def test_how_numbers_are_written():
    assert [short(x) for x in (0, 1.23456e-7, 1e-5, 0.00123456, 2.302585, 16, 12345.6)] == [
        "0", "1.235e-7", "1e-5", "0.001235", "2.303", "16", "12350",
    ]  # fmt: skip
    assert [whole(x) for x in (1.234, 96, 2405, 23456, 1.2345e9)] == ["1.23", "96", "2,410", "23,500", "1,230,000,000"]


def test_numbers_are_written_alike_by_the_script(opened):
    page = opened()
    values = [10.0 ** (e / 7) * 1.2345678 for e in range(-60, 70)]
    assert page.evaluate("v => v.map(x => Numbers.short(x))", values) == [short(v) for v in values]
    large = [v for v in values if v >= 1]
    assert page.evaluate("v => v.map(Numbers.whole)", large) == [whole(v) for v in large]


# ── the controls ──


def expect_plan(rows, made):
    for row, option in zip(rows, made.options, strict=True):
        assert (row["name"], row["nats"]) == (option.mechanism.name, short(option.information))
        assert row["chosen"] == (option.mechanism == made.recommended)
        assert row["says"] == option.mechanism.describe()


def test_controls_by_keyboard_and_pointer(opened):
    page = opened()
    page.fill("#classes", "25")
    page.fill("#epsilon", "3.5")
    expect_plan(settled(page), plan(3.5, 25))
    page.focus("#slider")
    page.keyboard.press("End")
    expect_plan(settled(page), plan(16.0, 25))
    assert page.input_value("#epsilon") == "16"
    assert page.get_attribute("#slider", "aria-valuetext") == "ε = 16"
    page.keyboard.press("Home")
    expect_plan(settled(page), plan(0.1, 25))
    page.focus("input[value=uniform]")
    page.keyboard.press("ArrowDown")
    page.fill("#share", "80")
    expect_plan(settled(page), plan(0.1, 25, prior=[0.8] + [0.2 / 24] * 24))
    page.check("input[value=list]")
    page.fill("#shares", "20% 30%\n50%")
    expect_plan(settled(page), plan(0.1, 3, prior=[0.2, 0.3, 0.5]))
    assert page.input_value("#classes") == "3"
    assert page.is_disabled("#classes")


def test_delta_lets_the_gaussian_compete(opened):
    page = opened(0.1, 2)
    page.fill("#delta", "0.4")
    assert not next(row for row in settled(page) if row["name"] == "gaussian")["chosen"]
    page.check("#accepts")
    expect_plan(settled(page), plan(0.1, 2, delta=0.4))
    assert page.text_content("#advice") == "Take gaussian: it carries the most."


def test_rows_follow_the_accuracy_wanted(opened):
    page = opened()
    page.fill("#within", "1")
    page.select_option("#sure", "99")
    for row in settled(page):
        law = calibrate(row["name"], epsilon=1.0, num_classes=10).law()
        assert row["rows"] == whole(np.ceil(rows_needed(law, 0.01, NORMAL["99"])))
    assert page.text_content("#said-sure") == "99"


@pytest.mark.parametrize(
    ("control", "text", "why"),
    [
        ("#classes", "1", "from 2 to 1000"),
        ("#classes", "2.5", "whole number"),
        ("#epsilon", "40", "from 0.1 to 16"),
        ("#epsilon", "", "ε must be"),
        ("#delta", "<b>", "δ must be"),
        ("#shares", "0.5 x", "Share number 2"),
        ("#shares", "1", "there are 1"),
        ("#shares", "0 0", "more than 0"),
        ("#shares", "0 1", "One class has all"),
        ("#shares", "0.5 -0.5", "Share number 2"),
    ],
)
def test_what_cannot_be_is_said_and_mended(opened, control, text, why):
    page = opened()
    if control == "#shares":
        page.check("input[value=list]")
    before = table(page)
    page.fill(control, text)
    assert settled(page) == before
    assert why in page.text_content("#fault")
    assert page.get_attribute(control, "aria-invalid") == "true"
    page.fill(control, "0.3 0.7" if control == "#shares" else "0.5" if control == "#delta" else "3")
    settled(page)
    assert page.is_hidden("#fault")
    assert page.get_attribute(control, "aria-invalid") is None


def test_a_setting_travels_in_the_address(opened):
    page = opened()
    page.fill("#classes", "7")
    page.check("input[value=one]")
    page.fill("#share", "60")
    page.check("#accepts")
    there = settled(page)
    address = page.evaluate("location.hash")
    other = opened(after=address)
    assert table(other) == there
    assert other.input_value("#share") == "60"
    other.evaluate("location.hash = '#classes=4&epsilon=2&balance=list&shares=1 2 3 4'")
    other.wait_for_function("document.getElementById('setting').textContent.startsWith('4 classes')")
    expect_plan(table(other), plan(2.0, 4, prior=[0.1, 0.2, 0.3, 0.4], delta=1e-5))


def test_an_address_is_no_markup(opened):
    page = opened(
        after='#epsilon=<img src=x onerror=alert(1)>&classes=3&balance="]x&shares=<script>&sure=7&within=%3Cb%3E'
    )
    assert page.is_visible("#fault")
    assert page.eval_on_selector_all("img, b", "found => found.length") == 0


@pytest.mark.parametrize(("classes", "shares"), [(100, "equal"), (100, "list"), (1000, "equal")])
def test_a_change_takes_a_moment_only(opened, classes, shares):
    """200 ms up to 100 classes on an idle machine; three tries, the best counts, and a busy one gets as much again."""
    page = opened()
    prior = (
        np.full(classes, 1 / classes) if shares == "equal" else np.arange(1, classes + 1) * 2 / classes / (classes + 1)
    )
    setting = {
        "judged": JUDGED,
        "epsilon": 1.0,
        "prior": prior.tolist(),
        "delta": 1e-5,
        "acceptsDelta": False,
        "within": 0.02,
        "z": 2,
    }
    took = page.evaluate(
        "setting => [0, 1, 2].map(() => { const began = performance.now(); Numbers.plan(setting); return performance.now() - began; })",
        setting,
    )
    assert min(took) < 400, took


# ── the chart, the names, the looks ──


def test_the_chart_and_its_table(opened):
    page = opened(1.0, 4, prior=[0.4, 0.3, 0.2, 0.1])
    page.wait_for_selector("#drawing[aria-busy=false] svg")
    label = page.get_attribute("#drawing svg", "aria-label")
    assert label.startswith("Nats carried against ε")
    made = plan(1.0, 4, prior=[0.4, 0.3, 0.2, 0.1])
    for option in made.options:
        assert f"{option.mechanism.name} {short(option.information)}" in label
    assert page.locator("#drawing polyline").count() == 5
    cells = page.eval_on_selector_all(
        "#curve tbody tr", "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )
    assert [row[0] for row in cells] == ["0.1", "0.2", "0.5", "1", "2", "4", "8", "16"]
    assert cells[3][1:] == [short(option.information) for option in made.options]
    first = page.get_attribute("#drawing line.now", "x1")
    page.fill("#epsilon", "4")
    settled(page)
    assert float(page.get_attribute("#drawing line.now", "x1")) > float(first)


def test_a_long_list_of_shares_has_a_coarser_chart(opened):
    prior = (np.arange(1, 161) * 2 / 160 / 161).tolist()
    page = opened(1.0, 160, prior=prior)
    page.wait_for_selector("#drawing[aria-busy=false] svg")
    assert len(page.get_attribute("#drawing polyline", "points").split()) == 8
    row = page.eval_on_selector("#curve tbody tr:nth-child(4)", "r => [...r.children].map(c => c.textContent)")
    assert row == ["1", *(short(option.information) for option in plan(1.0, 160, prior=prior).options)]


def test_class_names_are_text(opened):
    names = ("<script>alert(1)</script>", "</script><b>", "a & b")
    page = opened(1.0, 3, prior=[0.2, 0.3, 0.5], names=names)
    page.click("#names summary")
    assert page.eval_on_selector_all("#names tbody th", "cells => cells.map(c => c.textContent)") == list(names)
    assert page.eval_on_selector_all("#names td", "cells => cells.map(c => c.textContent)") == ["20%", "30%", "50%"]
    page.check("input[value=uniform]")
    settled(page)
    assert page.text_content("#names td") == "33.3%"
    page.fill("#classes", "5")
    settled(page)
    assert page.is_hidden("#names")


@pytest.mark.parametrize("width", [320, 380, 800, 1200])
def test_nothing_is_wider_than_the_screen(opened, width):
    page = opened(2.0, 40, prior=ZIPF, viewport={"width": width, "height": 800})
    page.wait_for_selector("#drawing[aria-busy=false] svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_has_a_name_and_every_table_a_head(opened):
    page = opened(names=tuple("abcdefghij"))
    nameless = page.eval_on_selector_all(
        "input, select, textarea",
        "all => all.filter(one => !one.labels.length && !one.getAttribute('aria-label')).map(one => one.id)",
    )
    assert nameless == []
    assert page.eval_on_selector_all("th:not([scope])", "found => found.length") == 0
    described = page.eval_on_selector_all(
        "[aria-describedby]", "all => all.map(one => one.getAttribute('aria-describedby'))"
    )
    assert all(page.locator(f"#{name}").count() == 1 for name in described)


def test_print_shows_the_table_and_not_the_controls(opened):
    page = opened()
    page.emulate_media(media="print")
    assert page.is_hidden("#controls")
    assert page.is_visible("#mechanisms")
    assert page.is_visible("#setting")
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 between its margins: still a table, not cards
    assert page.eval_on_selector("#mechanisms tbody tr", "row => getComputedStyle(row).display") == "table-row"
    assert page.evaluate("document.documentElement.scrollWidth") <= 720


# ── what no page is made for ──


def test_a_prior_that_leaves_nothing_to_tell():
    with pytest.raises(InputError, match="tells nothing"):
        plan_page(plan(1.0, 2, prior=[1, 0]), prior=[1, 0])


@pytest.mark.parametrize(
    ("epsilon", "classes", "delta", "why"),
    [(1.0, 1001, None, "1,000 classes"), (17.0, 2, None, "0.1 to 16"), (0.05, 2, None, "0.1 to 16"), (1.0, 2, 0.95, "δ from")],
)  # fmt: skip
def test_settings_out_of_the_pages_range(epsilon, classes, delta, why):
    with pytest.raises(InputError, match=why):
        plan_page(plan(epsilon, classes, delta=delta), delta=delta)
