"""What "stronger" means, in one place.

A reader's statements are claims by name. A forged file may take a claim away, weaken it, or have it said "by its own account" (a mark
that readers set, never a file); it may not add one, strengthen one, or take a warning away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Claim:
    """kind     most    a number that something is at most (ε, δ): a smaller one is stronger, None says nothing
             least   a number that something is at least (a measured ε, checks that were passed): a larger one is stronger
             within  an interval: one that leaves out a part of the honest one is stronger
             warning whether it is there (insecure, given, owner only), said of everything that could have it: to lose it is stronger
             trust   central, or local, which asks less of everybody
             text    anything else that people rely on: another one is stronger
    account  the reader says that it has this from the file and has not checked it
    """

    kind: str
    value: Any
    account: bool = False


Claims = dict[str, Claim]


def stronger(honest: Claims, forged: Claims) -> dict[str, Claim]:
    """The claims of the forged file that say more than the honest one's did."""
    return {name: claim for name, claim in forged.items() if _says_more(honest.get(name), claim)}


def _says_more(before: Claim | None, now: Claim) -> bool:
    if now.kind == "warning":
        return before is not None and bool(before.value) and not now.value
    if now.value is None:
        return False
    if before is None or before.value is None:
        return not (now.kind == "least" and not now.value)
    if now.kind != "text" and type(now.value) is not type(before.value):
        return True  # no reader should have passed it on
    if now.kind == "most":
        return bool(now.value < before.value)
    if now.kind == "least":
        return bool(now.value > before.value)
    if now.kind == "within":
        if len(now.value) != 2 or not all(isinstance(end, (int, float)) for end in now.value):
            return True
        return bool(now.value[0] > before.value[0] or now.value[1] < before.value[1])
    if now.kind == "trust":
        return (before.value, now.value) != ("local", "central") and before.value != now.value
    return bool(before.value != now.value)
