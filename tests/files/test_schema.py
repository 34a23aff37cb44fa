"""One decoder: what fits is decoded as it is, what does not is refused by its place."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.files.schema import SchemaError, decode


@dataclass(frozen=True)
class Inner:
    low: float
    high: float | None = None


@dataclass(frozen=True)
class Outer:
    kind: Literal["training", "audit"]
    rows: int
    share: float
    name: str
    done: bool
    inner: Inner
    pair: tuple[int, str]
    many: tuple[Inner, ...] = ()
    by_name: dict[str, float] = dataclasses.field(default_factory=dict)
    anything: Any = None
    either: int | str | None = None

    def __post_init__(self):
        if self.rows < 0:
            raise InputError("`rows` is not negative.")


GOOD = {
    "kind": "audit", "rows": 3, "share": 1, "name": "x", "done": True, "inner": {"low": 0.5}, "pair": [1, "a"],
    "many": [{"low": 1.0, "high": 2.0}], "by_name": {"a": 1.5}, "anything": [None], "either": "x", "newer": "ignored",
}  # fmt: skip


def test_what_fits():
    found = decode(Outer, GOOD)
    assert found == Outer("audit", 3, 1.0, "x", True, Inner(0.5), (1, "a"), (Inner(1.0, 2.0),), {"a": 1.5}, [None], "x")
    assert isinstance(found.share, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "else"}, r"^kind is none of 'training', 'audit'\.$"),
        ({"rows": 3.0}, r"^rows is not a whole number\.$"),
        ({"rows": True}, r"^rows is not a whole number\.$"),
        ({"rows": -1}, r"^the content cannot be: `rows` is not negative\.$"),
        ({"share": float("nan")}, r"^share is not a finite number\.$"),
        ({"share": 10**400}, r"^share is not a finite number\.$"),
        ({"share": "1"}, r"^share is not a finite number\.$"),
        ({"name": None}, r"^name is not text\.$"),
        ({"done": 1}, r"^done is not true or false\.$"),
        ({"inner": []}, r"^inner is not a JSON object\.$"),
        ({"inner": {}}, r"^inner\.low is missing\.$"),
        ({"pair": [1]}, r"^pair has 1 items instead of 2\.$"),
        ({"pair": "ab"}, r"^pair is not a list\.$"),
        ({"many": [{"low": 1}, {"low": "?"}]}, r"^many\[1\]\.low is not a finite number\.$"),
        ({"by_name": {"a": None}}, r"^by_name\.a is not a finite number\.$"),
        ({"either": 1.5}, r"^either is not text\.$"),
    ],
)
def test_what_does_not_is_named_by_its_place(change, message):
    with pytest.raises(SchemaError, match=message):
        decode(Outer, {**GOOD, **change})


@pytest.mark.parametrize("name", ["kind", "rows", "inner"])
def test_only_defaults_may_be_missing(name):
    with pytest.raises(SchemaError, match=f"^{name} is missing"):
        decode(Outer, {key: value for key, value in GOOD.items() if key != name})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.fixed_dictionaries({name: st.just(value) | _JSON for name, value in GOOD.items()}))
def test_anything_is_decoded_or_refused_and_a_decoded_value_survives_the_round(data):
    try:
        found = decode(Outer, data)
    except SchemaError:
        return
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert dataclasses.replace(decode(Outer, again), anything=None) == dataclasses.replace(found, anything=None)
