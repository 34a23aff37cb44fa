"""What every file says of itself."""

import pytest

from labeldp.errors import InputError
from labeldp.release.header import NOBODY_SAID, HandedOver, is_common, stated_statistic, told_before
from tests.release.test_sealed import header


def test_who_gets_it_is_free_text_on_one_line():
    said = HandedOver("Ann, Ads GmbH", purpose="Q3 — test")
    assert said.to_json() == {"recipient": "Ann, Ads GmbH", "purpose": "Q3 — test"}
    assert HandedOver.from_json(said.to_json()) == said
    for text in ("", "  ", "a\nb", "\x1b[8m", "x" * 501, 3):
        with pytest.raises(InputError, match="`purpose` is a line"):
            HandedOver(purpose=text)


@pytest.mark.parametrize(
    "data", [None, {}, [], {"who": "x"}, {"recipient": None}, {"recipient": 3}, {"purpose": "\x1b"}]
)
def test_what_a_file_says_of_it_is_checked(data):
    found = HandedOver.from_json(data)
    assert found is None or found == NOBODY_SAID


def test_another_recipient_of_the_same_file_is_said():
    ann, bob = HandedOver("Ann"), HandedOver("Bob")
    assert told_before(ann, ann.to_json()) == []
    assert told_before(NOBODY_SAID, ann.to_json()) == []
    assert "recipient 'Ann'" in told_before(bob, ann.to_json())[0]
    assert "have nothing on record" in told_before(bob, None)[0]


def test_a_budget_says_what_may_be_published():
    """Readers print it: what is missing would be a crash, or worse, a promise."""
    assert is_common(header())
    whole = {"raised": [], "publishable": None, "of": "ids", "groups": ["x"], "publishable_if_same": None}
    assert is_common(header(budget=whole))
    for name in ("publishable", "groups", "publishable_if_same", "raised"):
        assert not is_common(header(budget={key: value for key, value in whole.items() if key != name}))
    for epsilon, delta in ((1, 0), (0.5, 1e-5)):
        assert is_common(header(budget={**whole, "publishable": {"epsilon": epsilon, "delta": delta}}))
    for epsilon, delta in ((10**400, 0), (1, 10**400), (-1, 0), (1, True), (1, "0")):
        assert not is_common(header(budget={**whole, "publishable": {"epsilon": epsilon, "delta": delta}}))


def test_which_statistic():
    assert stated_statistic(header()) == "test"
    for odd in (None, [], {}, {"statistic": 3}, {"statistic": {"name": "\x1b"}}, {"statistic": {"name": ""}}):
        assert stated_statistic(odd) is None
