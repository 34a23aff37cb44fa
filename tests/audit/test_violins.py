"""Figure 1: the counts are those of the attack, and the same figure is the same file."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from labeldp.audit import audit
from labeldp.audit.canaries import Canaries
from labeldp.audit.paper import comparisons, paper_intervals
from labeldp.audit.violins import HIGHEST, LOWEST, ZOOM, canary_figure, count_guesses, memorization_figure, save_figure
from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError

needs_matplotlib = pytest.mark.usefixtures("_matplotlib")


@pytest.fixture
def _matplotlib():
    pytest.importorskip("matplotlib")


def example(n=300, classes=6, sharpness=0.05, seed=0, kind=np.float64):
    """Canaries of a model that is often sure, and two times in three of the planted label."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(classes, sharpness), n).astype(kind)
    order = table.argsort(axis=1)
    true = order[:, 0]
    label = np.where(rng.random(n) < 2 / 3, order[:, -1], order[:, 1])
    return table, true, label


def compared(*data):
    return ((planted, others) for _, planted, others in comparisons(*data))


def texts(figure):
    """Everything that the figure says."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("low", [LOWEST, 0.5, ZOOM])
def test_the_counts_are_those_of_the_attack(kind, low):
    data = example(kind=kind)
    counts = count_guesses(compared(*data), low)
    (attack,) = paper_intervals(*data, thresholds=[low])
    right = attack.guesses - attack.correct if attack.flipped else attack.correct
    assert counts.right.sum() == right > 0
    assert counts.right.sum() + counts.wrong.sum() == attack.guesses
    assert counts.right_below + counts.wrong_below == attack.abstained


def test_the_bins_are_those_of_the_odds():
    """C = 3, one comparison a canary: each lands where its log-odds lie between 1% and 99.999%; a tie is wrong."""
    confidences = np.array([0.011, 0.5, 0.9, 0.9999, 1.0])
    table = np.stack([1 - confidences, confidences, np.zeros(5)], axis=1)
    table[1] = [0.0, 0.5, 0.5]
    counts = count_guesses(compared(table, np.zeros(5, int), np.ones(5, int)), LOWEST)
    odds = np.log(confidences[:4] / (1 - confidences[:4]))
    bottom, top = (np.log(p / (1 - p)) for p in (LOWEST, HIGHEST))
    bins = [int(bin) for bin in (odds - bottom) / (top - bottom) * len(counts.right)] + [len(counts.right) - 1]
    assert counts.right.nonzero()[0].tolist() == [bins[0], *bins[2:]]
    assert counts.wrong.nonzero()[0].tolist() == [bins[1]]


@needs_matplotlib
def test_what_the_figure_says():
    data = example()
    zoom, whole = count_guesses(compared(*data), ZOOM), count_guesses(compared(*data), LOWEST)
    sure = zoom.right.sum() + zoom.wrong.sum()
    figure = memorization_figure(*data, title="a run")
    said = texts(figure)
    assert tuple(figure.get_size_inches()) == (6, 4)
    assert "a run" in said
    assert f"≥ 99%: {sure:,} comparisons" in said
    assert f"right {zoom.right.sum() / sure:.1%}" in said
    assert f"wrong {zoom.wrong.sum() / sure:.1%}" in said
    below = whole.right_below + whole.wrong_below
    assert any(f"both labels below 1%: {below:,} comparisons" in text for text in said)
    assert all(axes.get_yticks().size for axes in figure.axes)


@needs_matplotlib
def test_the_violins_have_the_area_of_their_guesses():
    data = example()
    for axes, low in zip(memorization_figure(*data).axes, (LOWEST, ZOOM), strict=True):
        counts = count_guesses(compared(*data), low)
        areas = []
        for violin in axes.collections:
            x, y = violin.get_paths()[0].vertices.T
            areas.append(abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2)
        assert areas == pytest.approx([counts.wrong.sum(), counts.right.sum()], rel=0.01)


@needs_matplotlib
@pytest.mark.parametrize("suffix", [".svg", ".png", ".SVG"])
def test_the_same_figure_is_the_same_file(tmp_path, suffix):
    for name in "ab":
        save_figure(memorization_figure(*example()), tmp_path / (name + suffix))
    first = (tmp_path / f"a{suffix}").read_bytes()
    assert first == (tmp_path / f"b{suffix}").read_bytes()
    assert b"dc:date" not in first
    if suffix == ".png":
        assert first.startswith(b"\x89PNG")
        assert int.from_bytes(first[16:20], "big") == 1200  # 6 inches of 200 dots
    else:
        assert ET.fromstring(first).tag.endswith("svg")


@needs_matplotlib
def test_a_users_own_style_does_not_change_the_file(tmp_path):
    import matplotlib

    save_figure(memorization_figure(*example()), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "svg.hashsalt": None}):
        save_figure(memorization_figure(*example()), tmp_path / "styled.svg")
        assert matplotlib.rcParams["font.size"] == 20
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "styled.svg").read_bytes()


@needs_matplotlib
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "rows",
    [
        [(0.3, 0.6, 0.1)] * 20,  # nobody above 99%
        [(0.995, 0.003, 0.002)] * 20,  # nobody above 1%
        [(0.0, 1.0, 0.0)] * 20,  # all right, and certain
        [(0.0, 0.0, 1.0)] * 20,  # all wrong
        [(0.5, 0.5, 0.0)],  # one canary
    ],
)
def test_odd_runs_are_drawn(tmp_path, rows):
    figure = memorization_figure(np.array(rows), [0] * len(rows), [1] * len(rows))
    for name in ("a.png", "a.svg"):
        save_figure(figure, tmp_path / name)
    empty = sum(sum(max(row[1:]) >= low for row in rows) == 0 for low in (LOWEST, ZOOM))
    assert texts(figure).count("no such label\ngets this much") == empty


@needs_matplotlib
def test_other_formats_are_refused(tmp_path):
    figure = memorization_figure(*example())
    for name in ("a.pdf", "figure"):
        with pytest.raises(InputError, match=r"saved as \.svg or \.png"):
            save_figure(figure, tmp_path / name)


@needs_matplotlib
def test_logits_are_refused():
    table, true, label = example()
    with pytest.raises(InputError, match="may be logits"):
        memorization_figure(np.log(table + 1e-3), true, label)


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_matplotlib_is_an_extra():
    out = python(
        "import sys; sys.modules['matplotlib'] = None\n"
        "from labeldp.audit.violins import memorization_figure\n"
        "try: memorization_figure([[0.2, 0.5, 0.3]] * 20, [0] * 20, [1] * 20)\n"
        "except ValueError as error: print(error)"
    )
    assert 'pip install "labeldp[figures]"' in out


@needs_matplotlib
def test_pyplot_is_left_alone():
    out = python(
        "import sys\nfrom labeldp.audit import violins\nassert 'matplotlib' not in sys.modules\n"
        "violins.memorization_figure([[0.2, 0.5, 0.3]] * 20, [0] * 20, [1] * 20)\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)"
    )
    assert out.split() == ["True", "False", "False"]


@needs_matplotlib
def test_a_fair_draw_is_drawn_too(tmp_path):
    """Planted against the other candidates: 60 canaries of 3 candidates are 120 comparisons, counted one by one."""
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.full(5, 0.3), 200)
    canaries = Canaries.draw(60, rows=200, num_classes=5, candidates=3, entropy=SeededEntropy(2))
    right = sum(
        table[row, planted] > table[row, other]
        for row, candidates, planted in zip(canaries.rows, canaries.candidates, canaries.planted, strict=True)
        for other in candidates
        if other != planted and max(table[row, planted], table[row, other]) >= LOWEST
    )
    figure = canary_figure(table, canaries)
    said = " ".join(texts(figure))
    drawn = int(re.search(r"≥ 1%: (\d+) comparisons", said)[1])
    assert f"right {right / drawn:.1%}" in said
    below = re.search(r"below 1%: (\d+) comparisons", said)
    assert drawn + (int(below[1]) if below else 0) == 120
    audit(table, canaries).plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
