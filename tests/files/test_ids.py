"""One form for ids, in which they are compared; what was written stays in the file."""

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL, comparable, find, repeated


def by_hand(text: str) -> str:
    """The rule, one id at a time."""
    text = unicodedata.normalize("NFC", text).strip()
    number = re.fullmatch(r"(-?)([0-9]+)(\.0*)?", text)
    if not number:
        return text
    digits = number[2].lstrip("0") or "0"
    return digits if digits == "0" else number[1] + digits


# White space by Unicode's property, of which Python's str.strip and Arrow have the same list but for four control characters.
letters = st.characters(codec="utf-8", exclude_characters="\x1c\x1d\x1e\x1f\x85")
numerals = st.from_regex(r"\A ?-?[0-9]{1,4}(\.0{0,2})?[ \t]?\Z")


@given(st.lists(st.text(letters, max_size=5) | numerals | st.sampled_from(["e\u0301", "\u00e9", "-0", ".0", "-", ""])))
def test_the_canonical_form_is_the_rule_applied_to_each(ids):
    assert comparable(pa.array(ids, pa.string())).to_pylist() == [by_hand(text) for text in ids]


@given(st.lists(st.text(letters, max_size=5) | numerals))
def test_the_canonical_form_is_its_own(ids):
    once = comparable(pa.array(ids, pa.string()))
    assert comparable(once).equals(once)


def test_the_issues_examples():
    assert comparable(["00042", "00042 ", "42.0", "42"]).unique().to_pylist() == ["42"]
    assert comparable(["e\u0301"]).equals(comparable(["\u00e9"]))
    assert comparable(["7.5", "1e3", "+5", "0x10", "007a"]).to_pylist() == ["7.5", "1e3", "+5", "0x10", "007a"]


def test_as_written_nothing_changes():
    odd = ["00042", " 42", "42.0", "e\u0301"]
    assert comparable(odd, AS_WRITTEN).to_pylist() == odd


def test_numbers_and_their_text_are_one_id():
    for numbers in (np.array([7, 12]), pa.array([7, 12], pa.int16()), [7, 12]):
        assert comparable(numbers).to_pylist() == ["7", "12"]
    dictionary = pa.chunked_array([pa.array(["7", "012"]).dictionary_encode()])
    assert comparable(dictionary).to_pylist() == ["7", "12"]


def test_what_is_no_id():
    for wrong in ([1.5], [[1]], [object()]):
        with pytest.raises(InputError, match="ids must be whole numbers or text"):
            comparable(wrong)


def test_find_joins_in_the_form_that_is_asked_for():
    assert find(["007", "x"], [7, 8], "there").tolist() == [0, -1]
    assert find(["007", "7"], ["7", "007"], "there", AS_WRITTEN).tolist() == [1, 0]
    with pytest.raises(InputError, match="looked for repeat"):
        find(["007", "7"], ["7"], "there")
    with pytest.raises(InputError, match="in the file repeat"):
        find(["7"], ["7", "007"], "the file")


@given(st.lists(numerals, min_size=1), st.sampled_from([CANONICAL, AS_WRITTEN]))
def test_the_first_repetition_is_found(ids, form):
    seen = {}
    expected = None
    for row, text in enumerate(map(by_hand, ids) if form == CANONICAL else ids):
        if text in seen:
            expected = row, seen[text]
            break
        seen[text] = row
    assert repeated(pa.array(ids), form) == expected
