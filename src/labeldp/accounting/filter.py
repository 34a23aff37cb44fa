"""The rules: may this be released, what is charged, or is it the same again? A pure function of book and request.

A budget is a privacy filter (Smith & Thakurta 2022): caps on the pure ε and on the Gaussian μ² of every row, fixed beforehand and
never traded. Requests may depend on everything that was released before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labeldp.accounting.book import CHARGED, DELIVERED, Book, DataSet, Fingerprint, ReleaseRecord
from labeldp.accounting.cost import Cost, check_delta, check_epsilon
from labeldp.accounting.rows import Rows, overlap
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, RefusedError

AGAIN_CHARGE = "charge"


@dataclass(frozen=True)
class Budget:
    """What a user asked for; a part that is None stays as it is (or, for a new data set, is its first release's cost)."""

    pure: float | None = None
    gaussian: tuple[float, float] | None = None
    raise_it: bool = False

    def __post_init__(self) -> None:
        # A budget is a sum of releases: it may exceed the largest ε of one.
        if self.pure is not None and not (math.isfinite(self.pure) and self.pure > 0):
            raise InputError(f"a budget must be a positive number; got {self.pure}.")
        if self.gaussian is not None:
            check_epsilon(self.gaussian[0], "the Gaussian budget")
            check_delta(self.gaussian[1], "the budget's delta")
        if self.raise_it and not self.given:
            raise InputError("raising a budget needs the new one: add --budget or --budget-gaussian.")

    @property
    def given(self) -> bool:
        """Whether the user named any cap."""
        return self.pure is not None or self.gaussian is not None

    def caps(self, otherwise: Cost) -> Cost:
        """The caps, with the parts that were not named taken from `otherwise`."""
        pure = otherwise.pure if self.pure is None else float(self.pure)
        gaussian = otherwise if self.gaussian is None else Cost.gaussian_cap(*self.gaussian)
        return Cost(pure, gaussian.gaussian, gaussian.slack_ratio, gaussian.slack_mass)


@dataclass(frozen=True)
class Request:
    """A wish to release rows of a data set. `details` says which release it would be; all of it is public."""

    data_set: str
    fingerprint: Fingerprint
    rows: Rows
    cost: Cost | None
    details: dict[str, Any]
    insecure: str | None = None
    again: str | None = None

    def __post_init__(self) -> None:
        if self.again not in (None, AGAIN_CHARGE):
            raise InputError(f"`again` takes only {AGAIN_CHARGE!r}; got {self.again!r}.")
        if not self.data_set or len(self.data_set) > 200 or not self.data_set.isprintable():
            raise InputError("a data set's name is 1 to 200 printable characters.")


@dataclass(frozen=True)
class Decision:
    """What to write into the ledger, and the release that is repeated or resumed, if it is one."""

    entries: tuple[tuple[str, dict[str, Any]], ...]
    repeats: ReleaseRecord | None


def decide(book: Book, request: Request, budget: Budget, now: str) -> Decision:
    """Allow, repeat or refuse (by raising)."""
    entries: list[tuple[str, dict[str, Any]]] = []
    data_set = _recognise(book, request)
    if request.insecure and (budget.given or (data_set is not None and data_set.unprotected is None)):
        raise RefusedError(
            f"the data set {request.data_set!r} has a budget, and an insecure release ({request.insecure}) would void it. "
            "Use another --data-set and --ledger for experiments."
        )
    if data_set is None:
        caps = None if request.insecure or request.cost is None else budget.caps(request.cost)
        data_set = DataSet(request.data_set, request.fingerprint, caps)
        entries.append((
            "data set",
            {"name": data_set.name, "fingerprint": request.fingerprint.to_json(), "caps": _json(caps), "at": now},
        ))  # fmt: skip
    elif budget.given:
        caps = _changed(data_set, budget)
        if caps != data_set.caps:
            raised = not caps.within(data_set.caps or caps)
            entries.append(("budget", {"data_set": data_set.name, "caps": caps.to_json(), "raised": raised, "at": now}))
            data_set = DataSet(data_set.name, data_set.fingerprint, caps, None, data_set.raised, data_set.releases)
    repeats = _same(data_set, request)
    if repeats is not None:
        return Decision(tuple(entries), repeats)
    before = [release for release in data_set.releases if overlap(request.rows, release.rows)]
    if before and request.again != AGAIN_CHARGE:
        earlier = before[-1]
        raise AlreadyReleasedError(
            f"rows of {data_set.name!r} were released before (release {earlier.number}, {earlier.made}: "
            f"{_describe(earlier)}), and this is not the same request. A second look at the same labels costs again: "
            'add `--again charge` (in Python again="charge") if that is meant.'
        )
    _check_budget(data_set, request)
    if request.insecure and data_set.unprotected is None:
        entries.append(("unprotected", {"data_set": data_set.name, "reason": request.insecure, "at": now}))
    entries.append((CHARGED, {
        "data_set": data_set.name, "rows": request.rows.to_json(), "cost": _json(request.cost),
        "request": request.details, "insecure": request.insecure or data_set.unprotected, "at": now,
    }))  # fmt: skip
    return Decision(tuple(entries), None)


def _recognise(book: Book, request: Request) -> DataSet | None:
    known = book.data_sets.get(request.data_set)
    if known is not None and known.fingerprint != request.fingerprint:
        raise RefusedError(
            f"the ledger knows {request.data_set!r} by {_of(known.fingerprint)}, and this input does not match: it has "
            f"{_of(request.fingerprint)}. If these are other labels, name them with --data-set."
        )
    if request.fingerprint.digest is not None:
        for other in book.data_sets.values():
            if other.name != request.data_set and other.fingerprint == request.fingerprint:
                raise RefusedError(
                    f"these rows are known to the ledger as data set {other.name!r}; under another name they would escape "
                    f"its budget. Use --data-set {other.name}."
                )
    return known


def _of(fingerprint: Fingerprint) -> str:
    what = {"ids": "their ids", "columns": "their other columns", "name": "nothing but their number"}[fingerprint.by]
    mark = f" (fingerprint {fingerprint.digest[:8]})" if fingerprint.digest else ""
    return f"{fingerprint.rows:,} rows and {what}{mark}"


def _changed(data_set: DataSet, budget: Budget) -> Cost:
    if data_set.unprotected is not None or data_set.caps is None:
        raise RefusedError(
            f"the data set {data_set.name!r} is unprotected for good ({data_set.unprotected}): a budget would promise "
            "what can no longer be kept."
        )
    caps = budget.caps(data_set.caps)
    if not caps.within(data_set.caps) and not budget.raise_it:
        raise BudgetError(
            f"the budget of {data_set.name!r} was fixed at {describe_caps(data_set.caps)}, which this would raise to "
            f"{describe_caps(caps)}. That weakens what was promised; add --raise-budget to record it and go on."
        )
    return caps


def _same(data_set: DataSet, request: Request) -> ReleaseRecord | None:
    for release in reversed(data_set.releases):
        if release.request == request.details and release.rows == request.rows:
            # Whoever asks to be charged again gets a second draw, but an interrupted one is finished first.
            if request.again == AGAIN_CHARGE and release.reached(DELIVERED):
                return None
            return release
    return None


def _check_budget(data_set: DataSet, request: Request) -> None:
    if data_set.caps is None or request.cost is None:
        return
    spent = data_set.spent_on(request.rows)
    if (spent + request.cost).within(data_set.caps):
        return
    raise BudgetError(
        f"the budget of {data_set.name!r} is {describe_caps(data_set.caps)}; {describe_caps(spent)} of it is spent on these rows, "
        f"and this release costs {describe_caps(request.cost)}. Nothing was charged or released."
    )


def describe_caps(cost: Cost) -> str:
    """Both numbers in words."""
    parts = [f"pure ε = {cost.pure:.6g}"] if cost.pure or not cost.gaussian else []
    if cost.gaussian:
        parts.append(f"Gaussian μ = {math.sqrt(cost.gaussian):.6g}")
    return " and ".join(parts)


def _describe(release: ReleaseRecord) -> str:
    mechanism = release.request.get("mechanism", {})
    name = mechanism.get("name", "?") if isinstance(mechanism, dict) else "?"
    return f"{name}, {describe_caps(release.cost)}" if release.cost else str(name)


def _json(cost: Cost | None) -> dict[str, float] | None:
    return cost.to_json() if cost is not None else None
