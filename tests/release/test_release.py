"""Rows are positions: what is known to be that, and what looks like labels."""

import pickle
import warnings

import numpy as np
import pytest

import labeldp
from labeldp.errors import InputError, LabelsAsRowsWarning
from labeldp.release.release import Release, Rows


def made(rows, classes, ids=None):
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=classes)
    observations = np.random.default_rng(0).integers(0, classes, rows).astype(np.uint8 if classes <= 256 else np.uint16)
    header = {"rows": rows, "data_set": "x", "first_row": 0, "ids": None, "label_names": None}
    return Release(header, mechanism, ids, observations, f"{rows}-{classes}")


@pytest.fixture
def random():
    return np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("batch", [8, 32, 1000])
def test_labels_are_warned_of(classes, batch, random):
    release, torch = made(5000, classes), pytest.importorskip("torch")
    if batch == 8 and classes == 10:
        pytest.skip("eight labels of ten classes may all differ")
    labels = random.integers(0, classes, batch)
    for given in (labels, labels.tolist(), labels.astype(np.uint8), torch.from_numpy(labels)):
        with pytest.warns(LabelsAsRowsWarning, match="look like class labels"):
            release.evidence(given)
        with pytest.warns(LabelsAsRowsWarning):
            release.soft_labels(given, "none")
    with pytest.raises(InputError, match="Are they labels"):
        release.evidence(labels.astype(np.float32))


def test_an_epoch_of_a_hundred_classes_is_warned_of(random):
    """Of 32 labels of 100 classes none repeats with probability Π(1 − i/100) = 0.4%: not so in two batches out of 20."""
    release, warned = made(50_000, 100), 0
    for _ in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            release.evidence(random.integers(0, 100, 32))
        warned += len(caught)
    assert warned >= 18


def test_the_warning_points_at_the_line_that_is_wrong():
    with pytest.warns(LabelsAsRowsWarning) as caught:
        made(1000, 2).evidence(np.zeros(20, int))
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("rows", "classes"), [(10, 10), (12, 10), (40, 10), (64, 2), (1000, 100), (300, 1000), (50_000, 10)]
)
def test_rows_are_not(rows, classes, random):
    """Warnings are errors here. Batches without repeats never warn; with repeats, at random, one in 2^30 might."""
    release = made(rows, classes)
    for batch in (1, 8, 16, 32, 128, rows):
        order = random.permutation(rows)
        for start in range(0, min(rows, 2000), batch):
            release.evidence(order[start : start + batch])
            release.evidence(np.arange(rows)[start : start + batch])
        for _ in range(50):
            release.evidence(random.integers(0, rows, batch))  # a bootstrap
    first = random.permutation(min(rows, classes))  # to see whether a model can learn a few rows by heart
    release.evidence(first)
    release.evidence(range(min(16, rows)))
    release.evidence(slice(None))
    release.evidence(np.zeros(rows, bool))
    release.evidence(3)
    release.evidence([])


def test_whoever_knows_says_so(random):
    release = made(1000, 10)
    again = np.repeat(np.arange(5), 20)
    with pytest.warns(LabelsAsRowsWarning):
        plain = release.evidence(again)
    rows = release.rows(again)
    np.testing.assert_array_equal(release.evidence(rows), plain)
    for kept in (
        rows[:50],
        rows[random.permutation(100)],
        rows[rows > 0],
        pickle.loads(pickle.dumps(rows)),
        rows.copy(),
        rows[::-1],
    ):
        assert type(kept) is Rows
        release.evidence(kept)
    np.testing.assert_array_equal(release.rows(np.arange(1000) % 2 == 0), np.arange(0, 1000, 2))
    np.testing.assert_array_equal(release.rows(slice(3, 6)), [3, 4, 5])
    with pytest.raises(InputError, match="from 0 to 999"):
        release.rows([1000])


def test_what_is_computed_from_rows_is_plain():
    rows = made(1000, 10).rows([5, 6, 7])
    for result in (rows % 2, rows + 1, rows == 5, np.unique(rows) * 2, rows.astype(float) / 2):
        assert type(result) is np.ndarray
    for number in (rows.max(), rows.sum(), rows[0]):
        assert isinstance(number, np.integer)


def test_positions_and_targets_are_rows(random):
    torch = pytest.importorskip("torch")
    release, other = made(1000, 10), made(999, 10)
    assert type(release.positions(np.arange(20))) is Rows
    target = release.target(np.repeat(np.arange(900, 905), 20))
    assert type(release.positions_of(target, "")) is Rows
    low = release.target(release.rows(np.repeat(np.arange(5), 20)))
    for given in (low, torch.from_numpy(low), low[random.permutation(100)][:32]):
        assert release.evidence(given).shape == (len(given), 10)
    np.testing.assert_array_equal(release.evidence(target), release.evidence(np.repeat(np.arange(900, 905), 20)))
    with pytest.raises(InputError, match="this release's own target"):
        other.evidence(low)
    assert release.evidence(target[:0]).shape == (0, 10)
    assert torch.from_numpy(release.positions(np.arange(20))).dtype == torch.int64
