"""To whom something was handed over, what for, and who allowed it: as its owner wrote it into the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 200  # characters of each that a page shows
HOW = "--recipient NAME --purpose TEXT --approver NAME"


@dataclass(frozen=True)
class HandedOver:
    """What a header states of it; None where it does not, or not in printable text."""

    recipient: str | None = None
    purpose: str | None = None
    approver: str | None = None

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> HandedOver:
        """From a file's header, or a ledger's request. Either may be another party's: whatever is no text is not stated."""
        said = header.get("handed_over")
        if not isinstance(said, Mapping):
            return cls()
        return cls(*(_text(said.get(name)) for name in ("recipient", "purpose", "approver")))

    @property
    def stated(self) -> bool:
        """Whether anything is."""
        return any((self.recipient, self.purpose, self.approver))

    @property
    def words(self) -> str:
        """In a line, with what is missing."""
        said = (("to", self.recipient), ("for", self.purpose), ("approved by", self.approver))
        return "; ".join(f"{what} {f'“{text}”' if text else 'not stated'}" for what, text in said)

    @property
    def options(self) -> list[str]:
        """What states the same again."""
        said = (("--recipient", self.recipient), ("--purpose", self.purpose), ("--approver", self.approver))
        return [word for option, text in said if text for word in (option, text)]

    def to_json(self) -> dict[str, str | None]:
        """As a header has it; null where nothing is stated."""
        return {"recipient": self.recipient, "purpose": self.purpose, "approver": self.approver}


def _text(said: object) -> str | None:
    if not isinstance(said, str) or not said.strip() or not said.isprintable():
        return None
    text = said.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
