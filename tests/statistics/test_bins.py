"""Public bins: every row in a cell, ties together, argmax followed; and what a file may hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.statistics.bins import ScoreLayout, number_of_bins
from labeldp.statistics.noise import GeometricNoise

NOISE = GeometricNoise.calibrated(epsilon=1.0, moved=1)


def predictions(rows: int, classes: int, seed: int, levels: int | None = None) -> np.ndarray:
    """With ties if there are few levels."""
    rng = np.random.default_rng(seed)
    if levels:
        made = rng.integers(1, levels + 1, (rows, classes)).astype(np.float64)
    else:
        made = rng.gamma(0.5, size=(rows, classes)) + 1e-9
    return made / made.sum(axis=1, keepdims=True)


@given(
    rows=st.integers(2, 300), classes=st.integers(2, 5), seed=st.integers(0, 10**6),
    levels=st.sampled_from([None, 1, 2, 5]), bins=st.sampled_from([None, 1, 3, 40]), single=st.booleans(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_every_row_is_in_the_cell_that_says_so(rows, classes, seed, levels, bins, single):
    p = predictions(rows, classes, seed, levels).astype(np.float32 if single else np.float64)
    layout = ScoreLayout.of(p, noise=NOISE, bins=bins)
    cells = layout.cells(p)
    called = p.argmax(axis=1)
    for place, c in enumerate([1] if classes == 2 else range(classes)):
        cell = cells if classes == 2 else cells[:, place]
        scores = p[:, c].astype(np.float64)
        assert (layout.label[cell] == c).all()
        assert (layout.predicted[cell] == (called == c)).all()
        assert (layout.low[cell] <= scores).all()
        assert (scores <= layout.high[cell]).all()
        assert len({(s, b) for s, b in zip(scores, layout.bin[cell], strict=True)}) == len(set(scores))  # ties together
        mine = layout.of_class(c)
        assert (np.bincount(cell, minlength=len(layout))[mine] == layout.rows[mine]).all()
        assert layout.mean[cell[0]] == pytest.approx(scores[cell == cell[0]].mean())
        assert layout.purity[cell[0]] == pytest.approx((p.astype(np.float64) ** 2).sum(axis=1)[cell == cell[0]].mean())
        if classes == 2 and not single:  # 0.5 is a boundary: no bin has both
            assert not ((layout.low <= 0.5) & (layout.high > 0.5)).any()
    again = ScoreLayout.from_columns(classes, rows, layout.columns())
    assert all((again.columns()[name] == column).all() for name, column in layout.columns().items())
    assert layout.moved == (1 if classes == 2 else 2)


def test_bins_are_about_as_large_and_the_highest_is_halved():
    p = predictions(5000, 2, 1)
    layout = ScoreLayout.of(p, noise=NOISE, bins=20)
    assert layout.rows.min() > 60
    assert len(layout) in (20, 21)
    halved = ScoreLayout.of(p, noise=NOISE)
    assert halved.rows[-1] < 0.6 * np.median(halved.rows)


def test_bins_follow_rows_and_noise_publicly():
    quiet, loud = (GeometricNoise.calibrated(epsilon=e, moved=1).variance for e in (2.0, 0.05))
    assert number_of_bins(200, 0.5, loud) == 2
    assert number_of_bins(5000, 0.5, loud) < number_of_bins(5000, 0.5, quiet) <= 142
    assert number_of_bins(5000, 0.01, quiet) < number_of_bins(5000, 0.5, quiet)
    assert number_of_bins(10**7, 0.5, quiet) == 2048
    # The rule is where noise and what is hidden add up to least.
    n, v = 5000, loud
    best = min(range(2, 200), key=lambda b: 1.959964 * np.sqrt(v * b / 6) / (n * 0.25) + 1 / (2 * b))
    assert abs(best - number_of_bins(n, 0.5, v)) <= 1


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("label", lambda x: x + 1),
        ("label", lambda x: x[::-1]),
        ("bin", lambda x: x + 1),
        ("bin", lambda x: x[::-1]),
        ("bin", lambda x: x * 2),
        ("bin", lambda x: x.astype(float)),
        ("predicted", lambda x: x.astype(int)),
        ("rows", lambda x: -x),
        ("rows", lambda x: x + 1),
        ("rows", lambda x: np.where(np.arange(len(x)) == 0, 0, x)),
        ("rows", lambda x: x.astype(float)),
        ("rows", lambda x: x[:-1]),
        ("rows", lambda x: x[:, None]),
        ("low", lambda x: x * np.nan),
        ("low", lambda x: x - 1),
        ("high", lambda x: x + 1),
        ("high", lambda x: x * np.inf),
        ("mean", lambda x: x[::-1]),
        ("mean", lambda x: x.astype(object)),
        ("purity", lambda x: x + 5),
        ("purity_square", lambda x: x * 0),
        ("predicted", lambda x: ~x),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_that_no_predictions_have_are_refused(column, change, classes):
    columns = ScoreLayout.of(predictions(500, classes, 3), noise=NOISE).columns()
    changed = change(columns[column])
    if classes == 2 and np.array_equal(changed, columns[column]):
        return
    if column == "predicted" and classes == 2 and changed.dtype == bool:
        return  # of two classes, any bin may be called
    with pytest.raises(InputError):
        ScoreLayout.from_columns(classes, 500, columns | {column: changed})


def test_wrong_totals_and_columns_are_refused():
    columns = ScoreLayout.of(predictions(500, 3, 3), noise=NOISE).columns()
    for rows, classes, given_ in (
        (499, 3, columns),
        (500, 4, columns),
        (500, 2, columns),
        (500, 3, {}),
        (1, 3, columns),
    ):
        with pytest.raises(InputError):
            ScoreLayout.from_columns(classes, rows, given_)


@pytest.mark.parametrize(
    "p", [np.ones((5, 2)), np.full((5, 2), np.nan), np.ones((1, 2)) / 2, np.ones(4), np.ones((5, 2), dtype=int),
          np.array([[-0.5, 1.5], [0.5, 0.5]])]
)  # fmt: skip
def test_what_is_no_table_of_probabilities_is_refused(p):
    with pytest.raises(InputError):
        ScoreLayout.of(p, noise=NOISE)


@pytest.mark.parametrize("bins", [0, -1, True, 2.0, 10**6])
def test_bins_are_a_possible_number(bins):
    with pytest.raises(InputError, match="bins"):
        ScoreLayout.of(predictions(50, 2, 0), noise=NOISE, bins=bins)


def test_other_predictions_have_no_cell():
    layout = ScoreLayout.of(np.array([[0.9, 0.1], [0.8, 0.2]]), noise=NOISE)
    with pytest.raises(InputError, match="not the predictions"):
        layout.cells(np.array([[0.1, 0.9], [0.8, 0.2]]))
