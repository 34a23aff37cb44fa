"""The rules, on books that are made by hand."""

import dataclasses

import pytest

from labeldp.accounting.book import Book, DataSet, ReleaseRecord
from labeldp.accounting.cost import Cost
from labeldp.accounting.entries import CHARGED, DELIVERED, Fingerprint
from labeldp.accounting.filter import Budget, Decision, Request, decide
from labeldp.accounting.rows import RowNumbers
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, RefusedError

PRINT = Fingerprint("columns", 100, "ab")
ALL = RowNumbers(0, 100)
ONE = Cost(pure=1.0)
DETAILS = {"mechanism": {"name": "response"}}


def request(**changes):
    base = Request("visits", PRINT, ALL, ONE, DETAILS)
    return dataclasses.replace(base, **changes)


def record(number=3, rows=ALL, cost=ONE, details=DETAILS, state=DELIVERED):
    return ReleaseRecord(number, "head", "visits", rows, cost, details, None, "then", state)


def book(*records, caps=ONE, unprotected=None):
    data_set = DataSet("visits", PRINT, caps, unprotected=unprotected, releases=list(records))
    return Book("id", b"key", {"visits": data_set}, {r.number: r for r in records})


EMPTY = Book("id", b"key")
OTHER = {"mechanism": {"name": "laplace"}}


def kinds(decision: Decision):
    return [entry.kind for entry in decision.entries]


def test_a_first_release_sets_the_cap_to_its_own_cost():
    decision = decide(EMPTY, request(), Budget(), "now")
    assert kinds(decision) == ["data set", CHARGED]
    assert Cost.from_json(decision.entries[0].caps) == ONE
    assert decision.repeats is None


def test_a_first_release_with_a_budget():
    decision = decide(EMPTY, request(), Budget(pure=4.0), "now")
    assert Cost.from_json(decision.entries[0].caps) == Cost(pure=4.0)
    with pytest.raises(BudgetError, match="Nothing was charged"):
        decide(EMPTY, request(), Budget(pure=0.5), "now")


def test_the_same_again_is_free():
    earlier = record()
    decision = decide(book(earlier), request(), Budget(), "now")
    assert decision == Decision((), earlier)


def test_an_interrupted_release_is_resumed_under_its_charge():
    earlier = record(state=CHARGED)
    assert decide(book(earlier), request(), Budget(), "now").repeats is earlier
    assert decide(book(earlier), request(again="charge"), Budget(), "now").repeats is earlier


def test_anything_else_on_the_same_rows_is_refused():
    for changed in (
        request(details=OTHER),
        request(details={**DETAILS, "label": "other"}),
        request(rows=RowNumbers(99, 100)),
    ):
        with pytest.raises(AlreadyReleasedError, match="`again='charge'`"):
            decide(book(record()), changed, Budget(), "now")


def test_again_is_charged_within_the_budget():
    with pytest.raises(BudgetError):
        decide(book(record()), request(details=OTHER, again="charge"), Budget(), "now")
    decision = decide(book(record(), caps=Cost(pure=2.0)), request(details=OTHER, again="charge"), Budget(), "now")
    assert kinds(decision) == [CHARGED]
    second_draw = decide(book(record(), caps=Cost(pure=2.0)), request(again="charge"), Budget(), "now")
    assert kinds(second_draw) == [CHARGED]


def test_disjoint_rows_take_the_maximum():
    half = record(rows=RowNumbers(0, 50))
    decision = decide(book(half), request(rows=RowNumbers(50, 100)), Budget(), "now")
    assert kinds(decision) == [CHARGED]
    with pytest.raises(BudgetError):
        decide(book(half), request(rows=RowNumbers(49, 100), again="charge"), Budget(), "now")


def test_the_two_caps_are_never_traded():
    caps = Cost(pure=5.0, gaussian=0.1)
    with pytest.raises(BudgetError):
        decide(book(caps=caps), request(cost=Cost(gaussian=0.11)), Budget(), "now")
    with pytest.raises(BudgetError):
        decide(book(caps=Cost(gaussian=5.0)), request(cost=Cost(pure=0.1)), Budget(), "now")
    with pytest.raises(BudgetError):
        decide(book(caps=caps), request(cost=Cost(gaussian=0.1, slack_ratio=1e-9)), Budget(), "now")


def test_a_budget_may_fall_but_rises_only_when_asked_to():
    lower = decide(book(caps=Cost(pure=3.0)), request(), Budget(pure=2.0), "now")
    assert kinds(lower) == ["budget", CHARGED]
    assert lower.entries[0].raised is False
    with pytest.raises(BudgetError, match="raise_budget=True`"):
        decide(book(), request(), Budget(pure=2.0), "now")
    raised = decide(book(), request(), Budget(pure=2.0, raise_it=True), "now")
    assert raised.entries[0].raised is True
    assert kinds(decide(book(caps=Cost(pure=2.0)), request(), Budget(pure=2.0), "now")) == [CHARGED]


def test_naming_one_cap_leaves_the_other():
    lowered = decide(book(caps=Cost(2.0, 0.5, 0.01)), request(), Budget(pure=1.0), "now")
    assert Cost.from_json(lowered.entries[0].caps) == Cost(1.0, 0.5, 0.01)


def test_names_and_fingerprints():
    with pytest.raises(RefusedError, match="`data_set"):
        decide(book(), request(fingerprint=Fingerprint("columns", 100, "cd")), Budget(), "now")
    with pytest.raises(RefusedError, match="'visits'"):
        decide(book(), request(data_set="copies"), Budget(), "now")
    by_name = Fingerprint("name", 100, None)  # nothing to recognise it by under another name
    assert kinds(decide(book(), request(data_set="copies", fingerprint=by_name), Budget(), "now")) == [
        "data set",
        CHARGED,
    ]


def test_insecure_releases_need_a_data_set_without_a_budget():
    seeded = request(insecure="seed")
    for ledger, budget, remedy in (
        (book(), Budget(), "has a budget, .* Use another `data_set` and `ledger`"),
        (book(), Budget(pure=1.0), "has a budget, .* Use another `data_set` and `ledger`"),
        (EMPTY, Budget(pure=1.0), "leave out `budget`\\.$"),
        (EMPTY, Budget(gaussian=(1.0, 1e-5)), "leave out `budget_gaussian`\\.$"),
    ):
        with pytest.raises(RefusedError, match=remedy):
            decide(ledger, seeded, budget, "now")
    decision = decide(EMPTY, seeded, Budget(), "now")
    assert kinds(decision) == ["data set", "unprotected", CHARGED]
    assert decision.entries[0].caps is None


def test_unprotected_is_for_good():
    ledger = book(caps=None, unprotected="seed")
    with pytest.raises(RefusedError, match="unprotected for good"):
        decide(ledger, request(), Budget(pure=1.0), "now")
    decision = decide(ledger, request(), Budget(), "now")
    assert decision.entries[-1].insecure == "the data set is unprotected since an earlier release (seed)"


@pytest.mark.parametrize(
    "arguments",
    [{"pure": 0}, {"pure": float("nan")}, {"gaussian": (1.0, 0.0)}, {"gaussian": (-1.0, 1e-5)}, {"raise_it": True}],
)
def test_bad_budgets(arguments):
    with pytest.raises(InputError):
        Budget(**arguments)


@pytest.mark.parametrize("changes", [{"again": "yes"}, {"data_set": ""}, {"data_set": "a\nb"}, {"data_set": "x" * 201}])
def test_bad_requests(changes):
    with pytest.raises(InputError):
        request(**changes)


def test_a_delta_at_which_nothing_could_be_said_any_more_is_refused():
    """Caps at δ = 1e-3 leave room for slack of 1e-6: at δ = 1e-7 what was promised under them has no finite ε."""
    given = Budget(gaussian=(1.0, 1e-3))
    caps = given.caps(Cost())
    spent = Cost.gaussian_cap(0.1, 1e-9)
    earlier = record(cost=spent)
    data_set = DataSet("visits", PRINT, caps, 1e-3, promised=caps, releases=[earlier])
    known = Book("id", b"key", {"visits": data_set}, {3: earlier})
    again = request(cost=spent, details=OTHER, again="charge")
    with pytest.raises(BudgetError, match="finite ε only at a δ above"):
        decide(known, again, Budget(gaussian=(1.0, 1e-7)), "now")
    assert kinds(decide(known, again, Budget(gaussian=(1.0, 1e-4), raise_it=True), "now"))[-1] == CHARGED
