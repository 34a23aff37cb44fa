"""What every file that may be handed over says of itself, and what readers take of it: the file may be anybody's."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from labeldp.errors import InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL

FORMAT = 1
_LONGEST = 500
_MOST = 1e300  # beyond, a number is no ε, and perhaps no float


@dataclass(frozen=True)
class HandedOver:
    """To whom a file goes, what for, and who said so: for the record, in the owner's own words."""

    recipient: str | None = None
    purpose: str | None = None
    approver: str | None = None

    def __post_init__(self) -> None:
        for name, text in self.to_json().items():
            if not isinstance(text, str) or not text.isprintable() or not 1 <= len(text.strip()) <= _LONGEST:
                raise InputError(f"`{name}` is a line of 1 to {_LONGEST} printable characters.")

    def to_json(self) -> dict[str, str]:
        """What is stated, and nothing else."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) is not None}

    @classmethod
    def from_json(cls, data: Any) -> HandedOver | None:
        """None, if it is none."""
        if not isinstance(data, dict) or not data or not set(data) <= {one.name for one in fields(cls)}:
            return None
        try:
            return cls(**data)
        except InputError:
            return None


NOBODY_SAID = HandedOver()


def told_before(now: HandedOver, recorded: dict[str, str] | None) -> list[str]:
    """The same again is the same file: what it says of its recipient is what was said the first time."""
    said = now.to_json()
    if not said or said == (recorded or {}):
        return []
    before = ", ".join(f"{name} {text!r}" for name, text in (recorded or {}).items()) or "nothing"
    return [f"this was released before, and the file and the ledger have {before} on record, not what is said now."]


def is_text(value: Any) -> bool:
    """Text is printed to people: it must be printable."""
    return isinstance(value, str) and value != "" and value.isprintable()


def stated_statistic(header: Any) -> str | None:
    """What kind of statistic a header says that its file holds; None for one of rows, or none at all."""
    said = header.get("statistic") if isinstance(header, dict) else None
    name = said.get("name") if isinstance(said, dict) else None
    return name if is_text(name) else None


def is_common(header: Any) -> bool:
    """Whether every field that all kinds of files have, and that is ever used, is there and of its kind."""

    def text_or_null(value: Any) -> bool:
        return value is None or is_text(value)

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(is_text(one) for one in value)

    def raises(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(r, dict) and is_text(r.get("at")) for r in value)

    def promise(value: Any) -> bool:
        return value is None or (
            isinstance(value, dict) and number(value.get("epsilon"), _MOST) and number(value.get("delta"), 1)
        )

    def number(value: Any, most: float) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most

    names, ids, budget, ledger = (header.get(key) for key in ("label_names", "ids", "budget", "ledger"))
    return (
        {"ids", "label_names", "insecure"} <= set(header)
        and isinstance(header.get("rows"), int)
        and header["rows"] >= 0
        and all(is_text(header.get(key)) for key in ("data_set", "made", "adjacency", "labeldp"))
        and all(text_or_null(header.get(key)) for key in ("insecure", "label"))
        and header.get("chosen_by_id", True) is True
        and ("handed_over" not in header or HandedOver.from_json(header["handed_over"]) is not None)
        and (names is None or texts(names))
        and (
            ids is None
            or (
                isinstance(ids, dict)
                and is_text(ids.get("column"))
                and ids.get("form", CANONICAL) in (CANONICAL, AS_WRITTEN)
            )
        )
        and isinstance(budget, dict)
        and "publishable" in budget
        and (budget.get("of") != "ids" or {"groups", "publishable_if_same"} <= set(budget))
        and raises(budget.get("raised"))
        and all(promise(budget.get(key)) for key in ("publishable", "publishable_if_same"))
        and text_or_null(budget.get("unprotected_if_same"))
        and budget.get("of", "ids") in ("ids", "this name")
        and texts(budget.get("groups", []))
        and isinstance(ledger, dict)
        and isinstance(ledger.get("entry"), int)
        and all(is_text(ledger.get(key)) for key in ("id", "head"))
    )
