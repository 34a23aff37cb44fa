"""What mechanisms are by type; how often the class for which an observation speaks most is the true one."""

from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labeldp import Ledger, PrivateLabels, SecureEntropy
from labeldp.errors import InputError
from labeldp.mechanisms import NoPrivacy, PateAnswers, PriorAware, RowMechanism, Selected, UnaryEncoding
from labeldp.mechanisms.base import row_wise
from labeldp.mechanisms.coordinates import truth_wins
from labeldp.mechanisms.joint import Joint
from labeldp.mechanisms.plan import NAMES, calibrate
from labeldp.mechanisms.prior import Shape
from labeldp.mechanisms.table import WHOLE
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource

from .channels import EPSILONS, calibrated, channel, weights


def enumerated(table):
    """Σ over observations of p(o | truth)·[truth speaks most]/(number of ties), for truth 0."""
    won = Fraction(0)
    for likelihood in table.values():
        most = max(likelihood)
        if likelihood[0] == most:
            won += likelihood[0] / likelihood.count(most)
    return won


def counted(mechanism):
    """Over how many of the others tie, and how many are below: binomial, in exact fractions."""
    w = [Fraction(x, WHOLE) for x in weights(mechanism)]
    levels = {j: w[-1 - j] / w[j] for j in range(len(w))}
    others, won = mechanism.num_classes - 1, Fraction(0)
    for level in set(levels.values()):
        below = sum(w[j] for j in levels if levels[j] < level)
        tied = sum(w[j] for j in levels if levels[j] == level)
        chance = sum(comb(others, t) * tied**t * below ** (others - t) * Fraction(1, t + 1) for t in range(others + 1))
        won += sum(w[-1 - j] for j in levels if levels[j] == level) * chance
    return won


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", ["response", "subset", "unary"])
@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_enumerated(name, num_classes, epsilon):
    mechanism = calibrated(name, epsilon, num_classes)
    assert mechanism.probability_kept() == pytest.approx(float(enumerated(channel(mechanism))), rel=1e-14)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_two_noisy_coordinates_enumerated(name, epsilon):
    mechanism = calibrated(name, epsilon, 2)
    w = weights(mechanism)
    won = 0
    for i, j in product(range(len(w)), repeat=2):  # cell i at the true class, j at the other
        mine, its = w[-1 - i] * w[j], w[i] * w[-1 - j]
        won += 2 * mine if mine > its else mine if mine == its else 0
    assert mechanism.probability_kept() == pytest.approx(float(Fraction(won, 2 * WHOLE**2)), rel=1e-13)


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("name", ["unary", "laplace", "gaussian"])
def test_ties_counted(name, num_classes):
    mechanism = calibrated(name, 2.0, num_classes)
    assert mechanism.probability_kept() == pytest.approx(float(counted(mechanism)), rel=1e-13)


@given(
    st.lists(st.one_of(st.just(1), st.integers(1, 9), st.integers(1, 2**60)), min_size=1, max_size=4),
    st.integers(2, 4),
)
@example([146402730743726600, 1, 125], 2)
@example([1, 1], 2)
def test_any_table_enumerated(parts, num_classes):
    """Tiny weights and ties, of any table that adds up."""
    w = [*parts, WHOLE - sum(parts)]
    table = {}
    for cells in product(range(len(w)), repeat=num_classes):
        table[cells] = [
            Fraction(prod(w[-1 - c] if i == y else w[c] for i, c in enumerate(cells)), WHOLE**num_classes)
            for y in range(num_classes)
        ]
    assert truth_wins(w, num_classes) == pytest.approx(float(enumerated(table)), rel=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_classes", [2, 10, 1000, 50_000])
def test_between_chance_and_certainty(name, num_classes):
    kept = [calibrated(name, epsilon, num_classes).probability_kept() for epsilon in (0.5, 2.0, 8.0, 32.0)]
    assert kept == sorted(kept)
    assert 1 / num_classes < kept[0]
    assert kept[-1] <= 1
    if num_classes == 2:
        assert kept[-1] > 0.98


def test_one_coin_and_no_privacy():
    assert NoPrivacy(5).probability_kept() == 1
    assert UnaryEncoding(2, WHOLE // 2).probability_kept() == 0.5
    assert calibrated("response", 1.0, 2).probability_kept() == pytest.approx(np.e / (np.e + 1))


@pytest.mark.parametrize("name", NAMES)
def test_sampled(name):
    """20,000 draws, the values' own share at the truth. Within 5 standard errors: a false alarm in 10^6."""
    mechanism = calibrated(name, 2.0, 10)
    y = np.arange(20_000) % 10
    evidence = mechanism.evidence(mechanism.observe_uncharged(PrivateLabels(y, 10), SecureEntropy()))
    most = evidence == evidence.max(axis=1, keepdims=True)
    won = most[np.arange(len(y)), y] / most.sum(axis=1)
    assert abs(won.mean() - mechanism.probability_kept()) < 5 * won.std() / len(y) ** 0.5


SUBSET = calibrate("subset", epsilon=1.0, num_classes=4)
NOT_BY_ROW = {
    "releases nothing itself": Joint(4, (SUBSET, SUBSET)),
    "labeldp release --public-prior": PriorAware(4, (Shape.calibrated(1.0, 3, 1),)),
    "labeldp select": Selected.calibrated(epsilon=2.0, num_classes=4, names=["response", "subset"]),
    "labeldp pate": PateAnswers(4, 200, 160, 20, 100, 50, 50),
}


def test_what_draws_row_by_row():
    assert row_wise(SUBSET) is SUBSET
    assert all(isinstance(calibrated(name, 1.0, 4), RowMechanism) for name in NAMES)


@pytest.mark.parametrize("where", NOT_BY_ROW)
def test_what_takes_more_than_labels_says_where_that_is_given(where):
    """It has no method that would refuse; whoever needs one that draws row by row asks once."""
    mechanism = NOT_BY_ROW[where]
    assert {"release", "observe_uncharged", "probability_kept", "kept"} & set(dir(mechanism)) == set()
    with pytest.raises(InputError, match=where):
        row_wise(mechanism)


@pytest.mark.parametrize("where", NOT_BY_ROW)
def test_it_is_refused_before_anything_is_charged(where, tmp_path):
    source = ArraySource(PrivateLabels([0, 1, 2], 4), Classes(4, None), [1, 2, 3])
    ledger = Ledger(tmp_path / "l")
    with pytest.raises(InputError, match=where):
        make_release(Order(source, NOT_BY_ROW[where], "d"), ledger=ledger, entropy=SecureEntropy())
    assert not ledger.book().releases


def test_the_old_name_works_and_names_the_new_one():
    with pytest.warns(DeprecationWarning, match="`RowMechanism.kept` is `probability_kept` now"):
        assert SUBSET.kept() == SUBSET.probability_kept()
