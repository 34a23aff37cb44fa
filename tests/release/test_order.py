"""An order says what is asked of the ledger, and what the file states; it is refused before anything is charged."""

import inspect
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import labeldp
from labeldp import SecureEntropy, SeededEntropy
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, RefusedError
from labeldp.mechanisms import NoPrivacy
from labeldp.release.make import check_release, make_release
from labeldp.release.order import Order
from labeldp.release.prior import PublicPrior
from labeldp.release.release import Release

from .test_make import IDS, MECHANISM, ROWS, charges, source

ORDER = Order(source(), MECHANISM, "visits")
SAFE = SecureEntropy()


def asked(order, ledger, tmp_path, entropy=SAFE):
    """What the ledger would be asked for."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    book = ledger.book()
    return order.request(order.survey(book.key, scratch), book, ledger, entropy, None)


def test_a_release_is_made_of_an_order_and_five_things_beside_it():
    assert list(inspect.signature(make_release).parameters) == [
        "order",
        "ledger",
        "entropy",
        "again",
        "out",
        "progress",
    ]


def test_nobody_changes_an_order():
    with pytest.raises(FrozenInstanceError):
        ORDER.data_set = "others"
    with pytest.raises(TypeError):
        Order(source(), MECHANISM, "visits", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_set": ""}, "printable"),
        ({"data_set": "a\tb"}, "printable"),
        ({"source": source(ids=None), "shuffle": True}, "`shuffle` needs `id_column`"),
    ],
)
def test_what_cannot_be_is_refused_at_once(changes, message):
    with pytest.raises(InputError, match=message):
        replace(ORDER, **changes)


def test_equal_orders_ask_for_the_same(ledger, tmp_path):
    first, again = (asked(Order(source(), MECHANISM, "visits"), ledger, tmp_path) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    "changes",
    [
        {"shuffle": True},
        {"about": {"selection": 1}},
        {"known_by": {"channels": "x"}},
        {"mechanism": labeldp.SubsetSelection.calibrated(epsilon=1.0, num_classes=10)},
    ],
)
def test_another_order_asks_for_another_release(ledger, tmp_path, changes):
    assert asked(replace(ORDER, **changes), ledger, tmp_path).details != asked(ORDER, ledger, tmp_path).details


def test_what_is_insecure_is_said_to_the_ledger(ledger, tmp_path):
    assert asked(ORDER, ledger, tmp_path).insecure is None
    assert asked(ORDER, ledger, tmp_path, SeededEntropy(1)).insecure == "the noise comes from a known seed"
    plain = asked(replace(ORDER, mechanism=NoPrivacy(10)), ledger, tmp_path)
    assert (plain.insecure, plain.cost) == (NoPrivacy.reason, None)


def test_the_epsilon_that_was_named_is_a_pure_one(ledger, tmp_path):
    order = replace(ORDER, requested_epsilon=1.5)
    assert asked(order, ledger, tmp_path).requested_epsilon == 1.5
    for mechanism in (NoPrivacy(10), labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=10)):
        assert asked(replace(order, mechanism=mechanism), ledger, tmp_path).requested_epsilon == 0.0


def test_what_is_known_by_is_for_the_ledger_alone(ledger):
    made = make_release(replace(ORDER, about={"told": 1}, known_by={"hidden": 2}), ledger=ledger, entropy=SAFE)
    header = Release.load(made.path).header
    assert header["told"] == 1
    assert "hidden" not in header
    assert made.record.request["hidden"] == 2


def test_a_public_prior_makes_an_order(ledger):
    prior = PublicPrior.of(np.full((ROWS, 10), 0.1), IDS)
    order = Order.with_prior(prior, source(), "visits", epsilon=1.0, entropy=SAFE, selected=None)
    assert order.requested_epsilon == 1.0
    assert order.known_by.keys() == {"channels", "public_prior"}
    release = Release.load(make_release(order, ledger=ledger, entropy=SAFE).path)
    assert release.origins == (prior.origin(ledger.book().data_sets["visits"], ledger.book().releases[3]),)


def test_what_would_be_refused_is_refused_before_the_work(tmp_path):
    ledger = labeldp.Ledger(tmp_path / "l", budget=1.5)
    check_release(ORDER, ledger=ledger, entropy=SAFE)
    assert not (tmp_path / "l").exists()
    make_release(ORDER, ledger=ledger, entropy=SAFE)
    check_release(ORDER, ledger=ledger, entropy=SAFE)  # the same again
    other = replace(ORDER, mechanism=labeldp.SubsetSelection.calibrated(epsilon=1.0, num_classes=10))
    for again, entropy, error in (
        (None, SAFE, AlreadyReleasedError), ("charge", SAFE, BudgetError), ("charge", SeededEntropy(1), RefusedError),
    ):  # fmt: skip
        for use in (check_release, make_release):
            with pytest.raises(error):
                use(other, ledger=ledger, entropy=entropy, again=again)
    assert charges(ledger) == 1
