"""What the label owner asks for, and when it is the same again."""

import numpy as np
import pytest

import labeldp
from labeldp import Ledger
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, RepeatedReleaseWarning
from labeldp.release.header import HandedOver
from labeldp.statistics import score
from labeldp.statistics.scoring import both_classes

ROWS = 300
DRAW = np.random.default_rng(0)
Y = DRAW.integers(0, 2, ROWS)
P = 1 / (1 + np.exp(-DRAW.normal(2 * Y - 1)))
IDS = np.array([f"u{i}" for i in range(ROWS)])


def scored(ledger, predictions=P, labels=Y, ids=IDS, epsilon=1.0, **more):
    return score(predictions, labels, num_classes=2, ids=ids, epsilon=epsilon, data_set="d", ledger=ledger, **more)


def test_the_same_again_costs_nothing_in_any_order_of_rows(tmp_path):
    ledger = Ledger(tmp_path / "l")
    first = scored(ledger)
    turn = np.random.default_rng(1).permutation(ROWS)
    with pytest.warns(RepeatedReleaseWarning, match="nothing charged"):
        again = scored(ledger, P[turn], Y[turn], IDS[turn])
    assert again.checksum == first.checksum
    assert len(ledger.book().releases) == 1


def test_other_predictions_are_another_request(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=9.0)
    scored(ledger)
    with pytest.raises(AlreadyReleasedError):
        scored(ledger, P**2)
    assert scored(ledger, P**2, again="charge").checksum
    assert len(ledger.book().releases) == 2


def test_other_predictions_of_the_same_cells_are_another_request(tmp_path):
    """All rows keep their bin and its edges; what is within has other means, and so another log loss."""
    ledger = Ledger(tmp_path / "l")
    first = scored(ledger, bins=3)
    layout = first.counts().layout
    other = P.copy()
    inner = [i for i in range(ROWS) if not np.isin(P[i], (*layout.low, *layout.high))]
    other[inner] = np.clip(other[inner] - 1e-4, *np.array([layout.low[layout.bin.searchsorted(0)], 1]))
    edges = np.searchsorted(layout.high[:-1], other) == np.searchsorted(layout.high[:-1], P)
    other = np.where(edges, other, P)
    assert (other != P).any()
    with pytest.raises(AlreadyReleasedError):
        scored(ledger, other, bins=3)


def test_another_recipient_of_the_same_is_said(tmp_path):
    scored(tmp_path / "l", handed_over=HandedOver("Ann"))
    with pytest.warns(RepeatedReleaseWarning, match=r"recipient 'Ann' on record"):
        again = scored(tmp_path / "l", handed_over=HandedOver("Bob"))
    assert again.header["handed_over"] == {"recipient": "Ann"}


def test_what_is_over_budget_leaves_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=1.5)
    scored(ledger)
    before = sorted(path.name for path in ledger.folder.iterdir())
    with pytest.raises(BudgetError):
        scored(ledger, P**2, again="charge")
    assert sorted(path.name for path in ledger.folder.iterdir()) == before
    assert len(ledger.book().releases) == 1


def test_rows_that_were_held_out_pay_for_the_score_only(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=3.0)
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=2.0, num_classes=2)
    released, held_out = slice(0, 200), slice(200, None)
    mechanism.release(Y[released], data_set="train", ids=IDS[released], ledger=ledger)
    score(P[held_out], Y[held_out], num_classes=2, ids=IDS[held_out], epsilon=1.0, data_set="test", ledger=ledger)
    book = ledger.book()
    assert book.data_sets["test"].spent().epsilon() == pytest.approx(1.0, rel=1e-6)
    assert book.data_sets["train"].spent().epsilon() == pytest.approx(2.0, rel=1e-6)
    mixed = slice(100, 250)
    with pytest.raises(labeldp.LabelDPError):
        score(P[mixed], Y[mixed], num_classes=2, ids=IDS[mixed], epsilon=1.5, data_set="both", ledger=ledger)


def test_ids_in_another_form_are_the_same_people(tmp_path):
    padded, plain = [f"{i:05d}" for i in range(ROWS)], np.arange(ROWS)
    ledger = Ledger(tmp_path / "l")
    first = scored(ledger, ids=padded)
    with pytest.warns(RepeatedReleaseWarning):
        assert scored(ledger, ids=plain).checksum == first.checksum
    with pytest.raises(InputError, match="same id"):
        scored(Ledger(tmp_path / "m"), ids=["007", "7", *map(str, range(100, 100 + ROWS - 2))])
    scored(Ledger(tmp_path / "n"), ids=["007", "7", *map(str, range(100, 100 + ROWS - 2))], ids_as_written=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"predictions": P[:-1]}, {"predictions": np.full((ROWS, 3), 1 / 3)}, {"predictions": np.where(np.arange(ROWS) == 7, np.nan, P)},
        {"predictions": P + 1}, {"predictions": -P}, {"predictions": {}}, {"predictions": {"a\n": P}}, {"predictions": np.arange(ROWS)},
        {"labels": Y[:-1]}, {"labels": Y + 1}, {"ids": IDS[:-1]}, {"ids": np.zeros(ROWS, int)}, {"bins": 0}, {"bins": True},
        {"epsilon": 0.0}, {"epsilon": float("nan")}, {"epsilon": 1e9}, {"delta": 0.5, "epsilon": -1.0}, {"delta": 1.0},
        {"again": "yes"}, {"entropy": 3}, {"label_names": ["a"]}, {"predictions": {f"m{i}": P for i in range(1001)}},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_charged(tmp_path, changes):
    with pytest.raises(InputError):
        scored(tmp_path / "l", **changes)
    assert not (tmp_path / "l").exists() or not Ledger(tmp_path / "l").book().releases


def test_a_ledger_is_a_ledger():
    with pytest.raises(InputError, match="ledger must be"):
        scored(3)


def test_one_column_says_both_of_two_classes():
    np.testing.assert_allclose(both_classes(P, 2), both_classes(P[:, None], 2))
    np.testing.assert_allclose(both_classes(P, 2).sum(axis=1), 1)
    with pytest.raises(InputError, match="3 columns"):
        both_classes(P, 3)
