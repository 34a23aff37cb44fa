"""To whom, for what, allowed by whom: printable text that a header states, or not stated."""

import pytest

from labeldp.report.handed_over import recipient_options, recipient_words, stated_in


def test_any_part_may_be_stated():
    whole = stated_in({"handed_over": {"recipient": "Acme", "purpose": "fraud model", "approver": "M. Muster"}})
    assert recipient_words(whole) == "to “Acme”; for “fraud model”; approved by “M. Muster”"
    assert recipient_options(whole) == ["--recipient", "Acme", "--purpose", "fraud model", "--approver", "M. Muster"]
    some = stated_in({"handed_over": {"purpose": "fraud"}})
    assert recipient_words(some) == "to not stated; for “fraud”; approved by not stated"
    assert recipient_options(some) == ["--purpose", "fraud"]


@pytest.mark.parametrize(
    "said",
    [
        None, "Acme", [], 5, {}, {"recipient": None}, {"recipient": ["Acme"]}, {"other": "Acme"}, {"recipient": "x" * 10_000},
        *({"recipient": text} for text in ("", "  ", "a\nb", "a\0b", "a\u202eb", "\x1b[31m")),
    ],
)  # fmt: skip
def test_what_is_no_printable_text_is_not_stated(said):
    assert stated_in({"handed_over": said}).to_json() == {}
    assert stated_in({}).to_json() == {}
