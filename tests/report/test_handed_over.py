"""To whom, for what, allowed by whom: printable text that a header states, or not stated."""

import pytest

from labeldp.report.handed_over import HandedOver


def test_any_part_may_be_stated():
    whole = HandedOver.of({"handed_over": {"recipient": "Acme", "purpose": "fraud model", "approver": "M. Muster"}})
    assert whole.words == "to “Acme”; for “fraud model”; approved by “M. Muster”"
    assert whole.options == ["--recipient", "Acme", "--purpose", "fraud model", "--approver", "M. Muster"]
    some = HandedOver.of({"handed_over": {"purpose": " fraud "}})
    assert some.to_json() == {"recipient": None, "purpose": "fraud", "approver": None}
    assert some.stated
    assert some.words == "to not stated; for “fraud”; approved by not stated"
    assert some.options == ["--purpose", "fraud"]


@pytest.mark.parametrize(
    "said", [None, "Acme", [], 5, {}, {"recipient": None}, {"recipient": ["Acme"]}, {"other": "Acme"}]
)
def test_what_is_no_text_is_not_stated(said):
    assert not HandedOver.of({"handed_over": said}).stated
    assert not HandedOver.of({}).stated


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\0b", "a\u202eb", "\x1b[31m"])
def test_what_cannot_be_printed_is_not_stated(text):
    assert HandedOver.of({"handed_over": {"recipient": text}}).recipient is None


def test_a_long_text_is_cut():
    text = HandedOver.of({"handed_over": {"recipient": "x" * 10_000}}).recipient
    assert len(text) == 200
    assert text.endswith("…")
