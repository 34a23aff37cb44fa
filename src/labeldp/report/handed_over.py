"""To whom something was handed over, what for, and who allowed it, in words: as its owner wrote it into the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labeldp.release.header import NOBODY_SAID, HandedOver

HOW = "--recipient NAME --purpose TEXT --approver NAME"


def stated_in(header: Mapping[str, Any]) -> HandedOver:
    """What a file's header, or an entry of a ledger, states. Either may be another party's: what is not as it should be is not stated."""
    return HandedOver.from_json(header.get("handed_over")) or NOBODY_SAID


def recipient_words(said: HandedOver) -> str:
    """In a line, with what is missing."""
    parts = (("to", said.recipient), ("for", said.purpose), ("approved by", said.approver))
    return "; ".join(f"{what} {f'“{text}”' if text else 'not stated'}" for what, text in parts)


def recipient_options(said: HandedOver) -> list[str]:
    """What states the same again."""
    return [word for name, text in said.to_json().items() for word in (f"--{name}", text)]
