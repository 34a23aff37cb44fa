"""What an order of rows and one of a statistic have in common."""

import numpy as np
import pytest

from labeldp import Ledger, RandomizedResponse, SecureEntropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.header import HandedOver
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource
from labeldp.statistics.scoring import both_classes, score_order
from labeldp.statistics.statistic import PublicRows

ROWS = 40


def source(label="y"):
    return ArraySource(PrivateLabels(np.arange(ROWS) % 2, 2), Classes(2), np.arange(ROWS), label)


def rows_order(handed_over, label="y"):
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    return Order(source(label), mechanism, "d", handed_over=handed_over)


def statistic_order(handed_over, label="y"):
    models = {"m": both_classes(np.linspace(0, 1, ROWS), 2)}
    rows = PublicRows.of(ROWS, np.arange(ROWS))
    return score_order(source(label), "d", models, rows, epsilon=1.0, handed_over=handed_over)


@pytest.mark.parametrize("order", [rows_order, statistic_order])
class TestBoth:
    def test_who_gets_it_is_on_record_and_no_part_of_the_request(self, order, tmp_path):
        ledger = Ledger(tmp_path / "l")
        first = make_release(order(HandedOver("Ann", "test")), ledger=ledger, entropy=SecureEntropy())
        again = make_release(order(HandedOver("Bob")), ledger=ledger, entropy=SecureEntropy())
        assert (first.charged_now, again.charged_now) == (True, False)
        assert again.path == first.path
        assert again.record.handed_over == {"recipient": "Ann", "purpose": "test"}

    def test_nothing_is_said_where_nobody_said_it(self, order, tmp_path):
        ledger = Ledger(tmp_path / "l")
        make_release(order(HandedOver()), ledger=ledger, entropy=SecureEntropy())
        (charge,) = (entry for entry in ledger.verify() if entry.kind == "charged")
        assert not charge.body.get("handed_over")

    def test_a_file_that_changed_since_is_refused(self, order, tmp_path, monkeypatch):
        wanted = order(HandedOver())
        monkeypatch.setattr(type(wanted), "stamp", (1,))
        object.__setattr__(wanted, "stamp", (1,))
        with pytest.raises(InputError, match=r"changed while its release was being prepared\. Nothing was charged"):
            make_release(wanted, ledger=Ledger(tmp_path / "l"), entropy=SecureEntropy())

    def test_what_no_reader_takes_is_not_charged(self, order, tmp_path):
        ledger = Ledger(tmp_path / "l")
        with pytest.raises(InputError, match="printable"):
            make_release(order(HandedOver(), label="a\x1b"), ledger=ledger, entropy=SecureEntropy())
        assert not ledger.book().releases
