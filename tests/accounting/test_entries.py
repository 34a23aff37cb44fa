"""Entries are read back as what was written, and nothing else is read."""

import json
from dataclasses import fields

import pytest

from labeldp.accounting.cost import Cost
from labeldp.accounting.entries import (
    Begun,
    BudgetChanged,
    Charged,
    DataSetOpened,
    Fingerprint,
    StateReached,
    Unprotected,
    read_entry,
)
from labeldp.accounting.rows import RowNumbers
from labeldp.errors import InputError

COST, ROWS = Cost(pure=1.0).to_json(), RowNumbers(0, 9).to_json()
REQUEST = {"mechanism": {"name": "response"}}
ENTRIES = (
    Begun("ab", "cd", "2020-01-01"),
    DataSetOpened(
        "d", Fingerprint("ids", 9, "ab", "cd", "ef"), 0.0, COST, ("original", "x"), {"by": "id"}, "2020-01-01"
    ),
    DataSetOpened("d", Fingerprint("name", 9, None), 1e-5, None, ("original",), None, "2020-01-01"),
    BudgetChanged("d", COST, 1e-5, True, "2020-01-01"),
    Unprotected("d", "seed", "2020-01-01"),
    Charged("d", ROWS, REQUEST, None, "2020-01-01", COST),
    Charged("d", ROWS, REQUEST, "seed", "2020-01-01", None),
    StateReached("complete", 3),
    StateReached("published", 3, "ab"),
    StateReached("lost", 3),
)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_what_was_written_is_read(entry):
    kind, body = entry.written()
    assert read_entry(kind, json.loads(json.dumps(body))) == entry


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_what_newer_versions_say_beside_it_is_ignored(entry):
    kind, body = entry.written()
    assert read_entry(kind, {**body, "new": [1]}) == entry


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
@pytest.mark.parametrize("odd", [[], 1.5, True, "", "a\nb", "\ud800", 2**70, -1, {}])
def test_one_field_that_cannot_be_is_refused_or_is_another(entry, odd):
    """Nothing is converted, and nothing is an error of another kind."""
    kind, body = entry.written()
    for field in fields(entry):
        if field.name not in ("state", "at"):
            try:
                found = getattr(read_entry(kind, {**body, field.name: odd}), field.name)
            except ValueError:  # which an InputError is
                continue
            assert type(found) is type(odd)
            assert found == odd


def test_a_checksum_is_said_where_there_is_one():
    assert StateReached("complete", 3).written() == ("complete", {"release": 3})
    with pytest.raises(InputError, match="has a checksum"):
        read_entry("published", {"release": 3})


def test_older_entries_lack_what_came_later():
    said = read_entry("data set", {"name": "d", "fingerprint": {"by": "ids", "rows": 3, "digest": "ab"}, "delta": 0})
    assert said == DataSetOpened("d", Fingerprint("ids", 3, "ab"), 0.0)


@pytest.mark.parametrize("kind", ["", "x", "charge", "Charged"])
def test_another_kind_is_refused(kind):
    with pytest.raises(InputError, match="none that labeldp writes"):
        read_entry(kind, {})


@pytest.mark.parametrize("key", ["", "x", "a", "ab" * 65])
def test_a_key_that_hashes_nothing_is_refused(key):
    with pytest.raises(ValueError):  # as Python says it, or as labeldp does
        read_entry("ledger", {"ledger": "ab", "key": key})
