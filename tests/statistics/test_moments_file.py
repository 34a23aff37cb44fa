"""Moments as files, perhaps another party's."""

import io

import numpy as np
import pytest

from labeldp import Ledger
from labeldp.errors import AlreadyReleasedError, FileFormatError, InputError
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.sealed import shapes, write_sealed
from labeldp.release.source import ArraySource
from labeldp.statistics import Moments, moments
from labeldp.statistics.moments_file import LinearFromMoments, moments_order
from labeldp.statistics.statistic import PublicRows

ROWS = 400
DRAW = np.random.default_rng(0)
Y = DRAW.integers(0, 2, ROWS)
X = DRAW.normal(size=(ROWS, 3)) + 2 * Y[:, None]
IDS = np.arange(ROWS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return moments(X, Y, num_classes=2, epsilon=8.0, ids=IDS, data_set="d", ledger=tmp_path_factory.mktemp("m") / "l")


def forged(made, path, arrays=None, **said):
    arrays = {**made._arrays, **(arrays or {})}
    header = {**made.header, "statistic": {**made.header["statistic"], **said}, "arrays": shapes(arrays)}
    with path.open("wb") as file:
        write_sealed(file, header, arrays)
    return path


def test_saved_loaded_and_fitted(made, tmp_path):
    made.save(tmp_path / "m.parquet")
    again = Moments.load(tmp_path / "m.parquet")
    assert (again.checksum, again.to_json()) == (made.checksum, made.to_json())
    np.testing.assert_array_equal(again.sums, made.sums)
    fitted = again.fit(X)
    assert np.mean(fitted.probabilities(X).argmax(axis=1) == Y) > 0.9
    kept = LinearFromMoments.from_bytes(fitted.to_bytes())
    np.testing.assert_array_equal(kept.probabilities(X), fitted.probabilities(X))


def test_the_sums_are_all_that_is_of_labels(made, tmp_path):
    other = moments(X, 1 - Y, num_classes=2, epsilon=8.0, ids=IDS, data_set="d", ledger=tmp_path / "l")
    assert made._arrays.keys() == other._arrays.keys()
    for name, one in made._arrays.items():
        assert (name == "moments") != np.array_equal(one, other._arrays[name])


def test_other_features_are_another_request(tmp_path):
    ledger = Ledger(tmp_path / "l")
    common = {"num_classes": 2, "epsilon": 1.0, "ids": IDS, "data_set": "d", "ledger": ledger}
    moments(X, Y, **common)
    with pytest.raises(AlreadyReleasedError):
        moments(X[:, :2], Y, **common)


def test_the_same_rows_in_another_order_are_the_same_request(tmp_path, recwarn):
    turn = np.random.default_rng(2).permutation(ROWS)
    common = {"num_classes": 2, "epsilon": 8.0, "data_set": "d", "ledger": Ledger(tmp_path / "l")}
    first = moments(X[turn], Y[turn], ids=IDS[turn], **common)
    assert moments(X, Y, ids=IDS, **common).checksum == first.checksum
    assert np.mean(first.fit(X).probabilities(X).argmax(axis=1) == Y) > 0.9  # and each label is beside its own row
    with pytest.raises(AlreadyReleasedError, match="differs in the features"):
        moments(X[turn], Y, ids=IDS, **common)


def test_a_row_that_is_too_long_is_never_summed(made):
    """The proof needs the length of rows, and it is checked where they are summed."""
    order = moments_order(
        ArraySource(PrivateLabels(Y, 2), Classes(2), IDS), "d", X, PublicRows.of(ROWS, IDS), epsilon=1.0
    )
    gathering = order.gathering()
    gathering._features[5] = 32767
    with pytest.raises(InputError, match="longer than"):
        gathering.add(PrivateLabels(Y, 2), np.arange(ROWS))


@pytest.mark.parametrize(
    "columns",
    [["a", "b"], ["a", "a", "b"], ["a", "b", "\x1b[2J"], ["a", "b", ""], ["a", "b", 3], "abc", None, ["a"] * 40_000],
)
def test_names_of_columns(made, tmp_path, columns):
    with pytest.raises(FileFormatError):
        Moments.load(forged(made, tmp_path / "s", columns=columns))


def test_names_that_no_reader_takes_are_refused_before_the_charge(tmp_path):
    source = ArraySource(PrivateLabels(Y, 2), Classes(2), IDS)
    for names in (("a", "b", "c\x1b"), ("a", "b", "b")):
        with pytest.raises(InputError):
            moments_order(source, "d", X, PublicRows.of(ROWS, IDS), epsilon=1.0, columns=names)


@pytest.mark.parametrize(
    "changes",
    [
        {"sigma": 1.0}, {"sigma": 1e300}, {"sigma": "x"}, {"sigma": True}, {"radius": 0}, {"radius": 1 << 20}, {"radius": 100},
        {"dimensions": 1 << 30}, {"dimensions": 2}, {"num_classes": 3}, {"num_classes": 1}, {"delta": 0.0}, {"delta": 1.0}, {"name": "x"},
    ],
)  # fmt: skip
def test_noise_that_cannot_be(made, tmp_path, changes):
    noise = {**made.header["statistic"]["noise"], **changes}
    with pytest.raises(FileFormatError):
        Moments.load(forged(made, tmp_path / "s", noise=noise))


def test_sums_are_whole_numbers(made, tmp_path):
    for sums in (made.sums.astype(float), np.full(made.sums.shape, np.nan), made.sums[:-1], made.sums.T):
        with pytest.raises(FileFormatError, match="its sums are"):
            Moments.load(forged(made, tmp_path / "s", {"moments": sums}))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 10**15, 0])
def test_absurd_sums_are_fitted_or_refused(made, tmp_path, value):
    absurd = Moments.load(forged(made, tmp_path / "s", {"moments": np.full_like(made.sums, value)}))
    try:
        found = absurd.fit(X).probabilities(X)
    except InputError:
        return
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_features_of_other_rows_are_refused(made):
    with pytest.raises(InputError, match="summed over 400 rows; the features have 399"):
        made.fit(X[:-1])
    with pytest.raises(InputError, match="columns"):
        made.fit(X[:, :2])


def without(made, path, name):
    """As files were before they had this array."""
    arrays = {key: one for key, one in made._arrays.items() if key != name}
    with path.open("wb") as file:
        write_sealed(file, {**made.header, "arrays": shapes(arrays)}, arrays)
    return Moments.load(path)


def test_features_that_only_look_alike_are_refused(made):
    """As many rows and columns: those of another table, with columns swapped, or with one person in another's place."""
    other = np.random.default_rng(1).normal(size=X.shape) + 2 * Y[:, None]
    for x in (other, X[:, [1, 0, 2]], np.concatenate((X[1:], X[5:6])), X + 0.1):
        with pytest.raises(InputError, match="not the features that the moments were summed over"):
            made.fit(x)


def test_features_in_another_order_or_precision_are_the_same(made):
    first = made.fit(X).probabilities(X)
    np.testing.assert_allclose(made.fit(X[::-1]).probabilities(X), first, atol=1e-5)
    np.testing.assert_allclose(made.fit(X.astype(np.float32)).probabilities(X), first, atol=1e-3)


def test_a_file_of_before_is_read_and_fitted_as_it_was(made, tmp_path):
    old = without(made, tmp_path / "old", "feature_sums")
    assert old.certificate() == made.certificate()
    np.testing.assert_array_equal(old.fit(X).model.weights, made.fit(X).model.weights)
    old.fit(X[:, [1, 0, 2]])  # it cannot tell


def test_the_check_is_of_features_alone_and_promises_nothing(made, tmp_path):
    """Whatever a forger writes there, the certificate is the noise's, and right features are refused or fitted as before."""
    np.testing.assert_array_equal(
        made._arrays["feature_sums"], made.statistic.preprocessing.apply(X).sum(axis=0, dtype=np.int64)
    )
    for value in (0, 2**63 - 1, -(2**63)):
        forgery = {"feature_sums": np.full_like(made._arrays["feature_sums"], value)}
        absurd = Moments.load(forged(made, tmp_path / "s", forgery))
        assert absurd.certificate() == made.certificate()
        with pytest.raises(InputError, match="not the features"):
            absurd.fit(X)
    sums = made._arrays["feature_sums"]
    for damaged in (sums[:-1], sums[:, None], sums.astype(float)):
        with pytest.raises(FileFormatError, match="sums of all features"):
            Moments.load(forged(made, tmp_path / "s", {"feature_sums": damaged}))


def test_a_damaged_model_is_refused(made):
    content = made.fit(X).to_bytes()
    for damage in (
        b"",
        content[:7],
        content[:100],
        content[:-10],
        b"\xff" * 8 + content[8:],
        content[8:],
        bytes(len(content)),
    ):
        with pytest.raises(InputError, match="damaged"):
            LinearFromMoments.from_bytes(damage)


def test_a_model_whose_parts_unfold_is_refused(made):
    """The same numbers, packed: whoever opens somebody's run must not be filled with what a few bytes unfold to."""
    fitted = made.fit(X)
    packed = io.BytesIO()
    np.savez_compressed(packed, **fitted.preprocessing.to_arrays())
    content = len(packed.getvalue()).to_bytes(8, "little") + packed.getvalue() + fitted.model.to_bytes()
    with pytest.raises(InputError, match="damaged"):
        LinearFromMoments.from_bytes(content)
