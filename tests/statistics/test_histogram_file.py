"""Histograms of labels by public cluster as files, perhaps another party's."""

import io
import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from labeldp import Ledger
from labeldp.accounting.rounding import CONTEXT
from labeldp.entropy import SeededEntropy
from labeldp.errors import AlreadyReleasedError, FileFormatError, InputError
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.sealed import shapes, write_sealed
from labeldp.release.source import ArraySource
from labeldp.statistics import LabelHistogram, histogram
from labeldp.statistics.clusters import PARTS
from labeldp.statistics.histogram_file import SharesFromHistogram, histogram_order
from labeldp.statistics.statistic import PublicRows

ROWS = 400
DRAW = np.random.default_rng(0)
Y = DRAW.integers(0, 2, ROWS)
X = DRAW.normal(size=(ROWS, 3)) + 2 * Y[:, None]
IDS = np.arange(ROWS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return histogram(X, Y, num_classes=2, epsilon=2.0, ids=IDS, data_set="d", ledger=tmp_path_factory.mktemp("h") / "l")


def order_of(x, y, classes, epsilon=1.0, **more):
    ids = np.arange(len(y))
    source = ArraySource(PrivateLabels(y, classes), Classes(classes), ids)
    return histogram_order(source, "d", x, PublicRows.of(len(y), ids), epsilon=epsilon, **more)


def forged(made, path, arrays=None, header=None, **said):
    arrays = {**made._arrays, **(arrays or {})}
    statistic = {**made.header["statistic"], **said}
    changed = {**made.header, **(header or {}), "statistic": statistic, "arrays": shapes(arrays)}
    with path.open("wb") as file:
        write_sealed(file, changed, arrays)
    return path


def test_saved_loaded_and_fitted(made, tmp_path):
    made.save(tmp_path / "h.parquet")
    again = LabelHistogram.load(tmp_path / "h.parquet")
    assert (again.checksum, again.to_json()) == (made.checksum, made.to_json())
    np.testing.assert_array_equal(again.counts, made.counts)
    assert again.guarantee.delta == 0
    fitted = again.fit(X)
    assert np.mean(fitted.probabilities(X).argmax(axis=1) == Y) > 0.9
    assert fitted.class_shares.sum() == pytest.approx(1)
    kept = SharesFromHistogram.from_bytes(fitted.to_bytes())
    np.testing.assert_array_equal(kept.probabilities(X), fitted.probabilities(X))


# ── what it costs ──


def exact_counts(order, y, classes):
    gathering = order.gathering()
    gathering.add(PrivateLabels(np.asarray(y), classes), np.arange(len(y)))
    return gathering._counts


@pytest.mark.parametrize("classes", [2, 3])
def test_the_certificate_is_the_worst_ratio_of_all_neighbours(classes):
    """All labels of a few rows, each replaced by each other, and the exact law of what is then released, by fractions of 2^64.

    P[o | t] is a product of q^|o − t|, so that of two neighbours the ratio is q to the difference of ℓ1 distances: largest at o = t.
    """
    x = np.random.default_rng(1).normal(size=(4, 2))
    order = order_of(x, np.zeros(4, int), classes)
    q, worst = Fraction(order.statistic.noise.stay, 1 << 64), Fraction(1)
    for labels in itertools.product(range(classes), repeat=4):
        t = exact_counts(order, labels, classes)
        for row, other in itertools.product(range(4), range(classes)):
            changed = [*labels]
            changed[row] = other
            u = exact_counts(order, changed, classes)
            for o in (t, u, (t + u) // 2, 2 * t - u):
                power = int(np.abs(o - t).sum() - np.abs(o - u).sum())
                worst = max(worst, q**power if power >= 0 else 1 / q**-power)
    with localcontext(CONTEXT):
        exact = (Decimal(worst.numerator) / Decimal(worst.denominator)).ln()
    stated = order.cost().epsilon()
    assert exact <= Decimal(stated) <= exact * (1 + Decimal("1e-12"))
    assert stated <= 1.0
    assert stated > 0.999
    assert order.delta() == 0
    assert not order.cost().gaussian


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_released_is_the_count_and_noise_of_the_stated_law(classes):
    """χ² over 20 values and the tails, of 40,000 numbers. False alarm: one in a million."""
    x, y = X[:60], np.arange(60) % classes
    order, entropy, drawn = order_of(x, y, classes), SeededEntropy(3), []
    exact = exact_counts(order, y, classes)
    while sum(map(len, drawn)) < 40_000:
        gathering = order.gathering()
        gathering.add(PrivateLabels(y, classes), np.arange(60))
        drawn.append((gathering.finish(entropy)["count"] - exact).ravel())
    noise = np.concatenate(drawn)
    q = order.statistic.noise.stay / 2**64
    values = np.arange(-10, 10)
    tails = q**11 / (1 + q), q**10 / (1 + q)
    expected = np.array([tails[0], *((1 - q) / (1 + q) * q ** np.abs(values)), tails[1]]) * len(noise)
    found = [(noise < -10).sum(), *((noise == k).sum() for k in values), (noise > 9).sum()]
    assert expected.sum() == pytest.approx(len(noise))
    assert stats.chisquare(found, expected).pvalue > 1e-6


def test_the_pure_epsilon_is_charged_to_the_pure_cap(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=1.0)
    histogram(X, Y, num_classes=2, epsilon=0.5, ids=IDS, data_set="d", ledger=ledger)
    spent = ledger.book().data_sets["d"].spent()
    assert 0.4999 < spent.pure <= 0.5
    assert spent.gaussian == 0


# ── what is in it ──


def test_the_counts_are_all_that_is_of_labels(made, tmp_path):
    other = histogram(X, 1 - Y, num_classes=2, epsilon=2.0, ids=IDS, data_set="d", ledger=tmp_path / "l")
    assert made._arrays.keys() == other._arrays.keys()
    for name, one in made._arrays.items():
        assert (name == "count") != np.array_equal(one, other._arrays[name])


def test_sizes_are_of_all_rows(made):
    plan = made.statistic
    assert int(plan.sizes.sum()) == PARTS * ROWS
    where, weights = plan.clusters.spread(plan.preprocessing.apply(X))
    np.testing.assert_array_equal(np.bincount(where.ravel(), weights.ravel(), minlength=len(plan.sizes)), plan.sizes)


def test_the_same_rows_in_another_order_are_the_same_request(tmp_path, recwarn):
    turn = np.random.default_rng(2).permutation(ROWS)
    common = {"num_classes": 2, "epsilon": 1.0, "data_set": "d", "ledger": Ledger(tmp_path / "l")}
    first = histogram(X, Y, ids=IDS, **common)
    again = histogram(X[turn], Y[turn], ids=IDS[turn], **common)
    assert again.checksum == first.checksum
    with pytest.raises(AlreadyReleasedError, match="differs in the features"):
        histogram(X[turn], Y, ids=IDS, **common)
    with pytest.raises(AlreadyReleasedError):
        histogram(X[:, :2], Y, ids=IDS, **common)


def test_labels_are_counted_where_their_features_are(tmp_path):
    """Features and labels in different orders: at a large ε, the counts show whether they were matched by id."""
    turn = np.random.default_rng(2).permutation(ROWS)
    source = ArraySource(PrivateLabels(Y[turn], 2), Classes(2), IDS[turn])
    order = histogram_order(source, "d", X, PublicRows.of(ROWS, IDS), epsilon=1.0)
    place, gathering = order.rows.places(source.id_form), order.gathering()
    for batch in source.batches():
        gathering.add(batch.labels, place(batch.ids, 0, np.arange(ROWS)))
    plan = order.statistic
    where, weights = plan.clusters.spread(plan.preprocessing.apply(X))
    wanted = np.bincount(where[Y == 1].ravel(), weights[Y == 1].ravel(), minlength=plan.clusters.count)
    np.testing.assert_array_equal(gathering._counts[:, 0], wanted)


def test_a_row_that_weighs_too_much_is_never_counted():
    """The proof needs that weights add up, and it is checked where they are counted."""
    gathering = order_of(X, Y, 2).gathering()
    gathering._weights[5, 0] += 1
    with pytest.raises(InputError, match="must add up to 4"):
        gathering.add(PrivateLabels(Y, 2), np.arange(ROWS))


# ── somebody's file ──


@pytest.mark.parametrize("parts", [1, 3, 5, 0, -4, 4.0, True, "4", None, 1 << 40])
def test_parts_that_are_not_those_of_the_sizes(made, tmp_path, parts):
    """Fewer parts would state a smaller ε."""
    with pytest.raises(FileFormatError):
        LabelHistogram.load(forged(made, tmp_path / "s", parts=parts))


def test_classes_that_are_not_those_of_the_counts(made, tmp_path):
    """Two classes pay half of what three do."""
    three = histogram(X, np.arange(ROWS) % 3, num_classes=3, epsilon=1.0, ids=IDS, data_set="d", ledger=tmp_path / "l")
    for one, classes in ((three, 2), (three, 4), (made, 3), (made, 1), (made, "2"), (made, None)):
        with pytest.raises(FileFormatError):
            LabelHistogram.load(forged(one, tmp_path / "s", num_classes=classes))


def test_less_noise_is_a_larger_epsilon(made, tmp_path):
    """Whatever a file says of its noise, its certificate follows from that."""
    noise, promised = {"name": "geometric", "stay": str(1 << 62)}, {**made.header["budget"], "publishable": None}
    less = LabelHistogram.load(forged(made, tmp_path / "s", header={"budget": promised}, noise=noise))
    with pytest.raises(FileFormatError, match="promises less"):
        LabelHistogram.load(forged(made, tmp_path / "s", noise=noise))
    assert less.guarantee.epsilon == pytest.approx(PARTS * math.log(4))
    assert less.certificate()["epsilon"] == less.guarantee.epsilon


@pytest.mark.parametrize(
    "noise",
    [
        {"name": "geometric", "stay": "0"}, {"name": "geometric", "stay": str(1 << 64)}, {"name": "geometric", "stay": -1}, None, "x",
        {"name": "gaussian", "sigma": 1.0, "delta": 1e-5}, {"name": "geometric"},
    ],
)  # fmt: skip
def test_noise_that_cannot_be(made, tmp_path, noise):
    with pytest.raises(FileFormatError):
        LabelHistogram.load(forged(made, tmp_path / "s", noise=noise))


@pytest.mark.parametrize("rows", [0, ROWS - 1, ROWS + 1])
def test_sizes_of_other_rows(made, tmp_path, rows):
    with pytest.raises(FileFormatError, match="do not add up"):
        LabelHistogram.load(forged(made, tmp_path / "s", header={"rows": rows}))


def changed(array, value):
    found = array.copy()
    found.flat[0] = value
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {"size": changed(a["size"], a["size"][0] + 1)}, lambda a: {"size": changed(a["size"], -1)},
        lambda a: {"size": a["size"].astype(float)}, lambda a: {"size": a["size"][:-1]}, lambda a: {"size": changed(a["size"], 2**63 - 1)},
        lambda a: {"centres": changed(a["centres"], np.nan)}, lambda a: {"centres": changed(a["centres"], np.inf)},
        lambda a: {"centres": changed(a["centres"], 0.1)}, lambda a: {"centres": changed(a["centres"], 40_000.0)},
        lambda a: {"centres": a["centres"][:, :-1]}, lambda a: {"centres": a["centres"][:-1]}, lambda a: {"centres": a["size"]},
        lambda a: {"centres": np.zeros((5000, a["centres"].shape[1]))}, lambda a: {"centres": a["centres"][:0]},
        lambda a: {"width": np.array([0.0])}, lambda a: {"width": np.array([1e-300])}, lambda a: {"width": np.array([np.nan])},
        lambda a: {"width": np.array([1e300])}, lambda a: {"width": np.array([1.0, 1.0])}, lambda a: {"width": np.array([1])},
        lambda a: {"count": a["count"].astype(float)}, lambda a: {"count": a["count"][:-1]}, lambda a: {"count": a["count"].T},
        lambda a: {"count": changed(a["count"], 2**63 - 1)}, lambda a: {"count": changed(a["count"], -(2**63))},
        lambda a: {"more": a["width"]}, lambda a: {"variances": a["variances"][:-1]},
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(made, tmp_path, change):
    with pytest.raises(FileFormatError):
        LabelHistogram.load(forged(made, tmp_path / "s", change(made._arrays)))


@pytest.mark.parametrize("columns", [["a", "b"], ["a", "a", "b"], ["a", "b", "\x1b[2J"], ["a", "b", 3], "abc", None])
def test_names_of_columns(made, tmp_path, columns):
    with pytest.raises(FileFormatError):
        LabelHistogram.load(forged(made, tmp_path / "s", columns=columns))


def test_names_that_no_reader_takes_are_refused_before_the_charge():
    with pytest.raises(InputError):
        order_of(X, Y, 2, columns=("a", "b", "c\x1b"))


@pytest.mark.parametrize("value", [1 << 52, -(1 << 52), 10**12, 0])
def test_absurd_counts_are_fitted(made, tmp_path, value):
    absurd = LabelHistogram.load(forged(made, tmp_path / "s", {"count": np.full_like(made.counts, value)}))
    found = absurd.fit(X).probabilities(X)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_another_kind_of_file(made, tmp_path):
    with pytest.raises(FileFormatError, match=r"is a file of moments, which .* it is no histogram of labels"):
        LabelHistogram.load(forged(made, tmp_path / "s", name="moments"))


def test_features_of_other_rows_are_refused(made):
    with pytest.raises(InputError, match="counted over 400 rows; the features have 399"):
        made.fit(X[:-1])
    with pytest.raises(InputError, match="columns"):
        made.fit(X[:, :2])
    for other in (X[:, ::-1], np.random.default_rng(9).normal(size=X.shape)):
        with pytest.raises(InputError, match="not the features whose labels were counted"):
            made.fit(other)
    made.fit(np.random.default_rng(0).permutation(X))  # in any order


def test_a_damaged_model_is_refused(made):
    fitted = made.fit(X)
    content = fitted.to_bytes()
    with np.load(io.BytesIO(content)) as read:
        arrays = {name: read[name] for name in read.files}

    def packed(save=np.savez, **changes):
        file = io.BytesIO()
        save(file, **arrays | changes)
        return file.getvalue()

    assert SharesFromHistogram.from_bytes(packed()).class_shares.tolist() == fitted.class_shares.tolist()
    shares = arrays["shares"]
    for damage in (
        b"", content[:100], content[:-10], bytes(len(content)), packed(np.savez_compressed), packed(shares=shares * 2),
        packed(shares=shares[:-1]), packed(shares=shares * np.nan), packed(shares=1 - 2 * shares), packed(parts=np.array([0])),
        packed(parts=np.array([4.0])), packed(class_shares=np.ones(3) / 3), packed(centres=arrays["centres"][:, 1:]),
    ):  # fmt: skip
        with pytest.raises(InputError, match="damaged"):
            SharesFromHistogram.from_bytes(damage)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_handful_of_rows(rows, tmp_path):
    few = np.arange(2.0 * rows).reshape(rows, 2) ** 2
    common = {"num_classes": 2, "epsilon": 1.0, "ids": IDS[:rows], "data_set": "d", "ledger": tmp_path / "l"}
    if rows == 1:
        with pytest.raises(InputError, match="the same in every row"):
            histogram(few, Y[:rows], **common)
        return
    found = histogram(few, Y[:rows], **common).fit(few).probabilities(few)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
