"""The rules: may this be released, what is charged, or is it the same again? A pure function of book and request.

A budget is a privacy filter (Smith & Thakurta 2022): caps on the pure ε and on the Gaussian μ² of every row, fixed beforehand and
never traded. Requests may depend on everything that was released before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from labeldp.accounting.book import Book, DataSet, ReleaseRecord
from labeldp.accounting.cost import SLACK_SHARE, Cost, check_delta
from labeldp.accounting.entries import (
    DELIVERED,
    BudgetChanged,
    Charged,
    DataSetOpened,
    Fingerprint,
    LedgerEntry,
    Unprotected,
)
from labeldp.accounting.rows import RowIds, Rows, coverings, highest, shared_ids
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, RefusedError

AGAIN_CHARGE = "charge"


@dataclass(frozen=True)
class Budget:
    """What a user asked for. A part that is None stays as it is; for a new data set it is nothing.

    Where neither part is named, a new data set's caps are its first release's own cost, or the ε that was asked for, if that is more.
    """

    pure: float | None = None
    gaussian: tuple[float, float] | None = None
    raise_it: bool = False

    def __post_init__(self) -> None:
        # A budget is a sum of releases: it may exceed the largest ε of one.
        for name, value in (("a budget", self.pure), ("the Gaussian budget", self.gaussian and self.gaussian[0])):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be a positive number; got {value}.")
        if self.gaussian is not None:
            check_delta(self.gaussian[1], "the budget's delta")
        if self.raise_it and not self.given:
            raise InputError("raising a budget needs the new one: add `budget` or `budget_gaussian`.")

    @property
    def given(self) -> bool:
        """Whether the user named any cap."""
        return bool(self.named)

    @property
    def named(self) -> list[str]:
        """The arguments that named caps."""
        return [
            name for name, cap in (("`budget`", self.pure), ("`budget_gaussian`", self.gaussian)) if cap is not None
        ]

    def caps(self, otherwise: Cost) -> Cost:
        """The caps, with the parts that were not named taken from `otherwise`."""
        pure = otherwise.pure if self.pure is None else float(self.pure)
        gaussian = otherwise if self.gaussian is None else Cost.gaussian_cap(*self.gaussian)
        return Cost(pure, gaussian.gaussian, gaussian.slack_ratio, gaussian.slack_mass)

    def delta(self, otherwise: float) -> float:
        """The δ at which the Gaussian cap is stated."""
        return otherwise if self.gaussian is None else float(self.gaussian[1])


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
    delta: float = 0.0  # at which the mechanism's ε is stated
    delivered: str | None = None  # the checksum of the release that is already where this one shall go
    # The pure ε that the user named; what integers make of it, or what a prior leaves of it, may be less.
    requested_epsilon: float = 0.0
    ids: RowIds | None = None  # all ids of the data set, released now or not
    other_ids: str | None = None  # the group of ids that these are said to be of: other people than equal ids elsewhere
    ledger: str | None = None  # the one with whose key ids and columns were hashed
    handed_over: dict[str, str] = field(default_factory=dict)  # to whom, what for: recorded, and no part of the request

    def __post_init__(self) -> None:
        check_again(self.again)
        check_name(self.data_set)
        if self.other_ids is not None:
            check_name(self.other_ids, "a group of ids")
            if self.fingerprint.by != "ids":
                raise InputError("`other_ids` is said of rows that go by id: `ids` name them.")


def check_again(again: str | None) -> None:
    """One word says that a second release is meant."""
    if again not in (None, AGAIN_CHARGE):
        raise InputError(f"`again` takes only {AGAIN_CHARGE!r}; got {again!r}.")


def check_name(name: str, what: str = "a data set") -> None:
    """Names go into files and messages."""
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise InputError(f"the name of {what} is 1 to 200 printable characters.")


@dataclass(frozen=True)
class Decision:
    """What to write into the ledger, and the release that is repeated or resumed, if it is one."""

    entries: tuple[LedgerEntry, ...]
    repeats: ReleaseRecord | None


def decide(book: Book, request: Request, budget: Budget, now: str) -> Decision:
    """Allow, repeat or refuse (by raising)."""
    entries: list[LedgerEntry] = []
    known = _recognise(book, request)
    if request.insecure and known is not None and known.unprotected is None:
        raise RefusedError(
            f"the data set {request.data_set!r} has a budget, and an insecure release ({request.insecure}) would void it. "
            "Use another `data_set` and `ledger` for experiments."
        )
    if request.insecure and budget.given:
        raise RefusedError(
            f"an insecure release ({request.insecure}) keeps no budget: leave out {' and '.join(budget.named)}."
        )
    if known is None:
        data_set = _opened(book, request, budget)
        entries.append(_opening(data_set, now))
    else:
        data_set = known
        if budget.given:
            data_set = _with_budget(data_set, _changed(data_set, budget), budget, now, entries)
    repeats = _same(data_set, request)
    if repeats is not None:
        return Decision(tuple(entries), repeats)
    _check_protection(data_set, request)
    before = data_set.releases_of(request.rows)
    raised: dict[str, Cost] = {}
    for other, _, _ in _too_low(data_set, request, raised) if budget.raise_it else ():
        if other.name != data_set.name:
            higher = _with_budget(other, highest(other.caps or Cost(), budget.caps(Cost())), budget, now, entries)
            raised[other.name] = higher.caps or Cost()
    over = _over_budget(data_set, request, raised)
    # Nothing is left to protect where labels were handed out insecurely: no ritual either.
    if before and request.again != AGAIN_CHARGE and data_set.unprotected is None:
        raise AlreadyReleasedError(
            f"{_released_before(data_set, before, request)}{' And then: ' + over if over else ''}"
        )
    if over:
        raise BudgetError(f"{over} Nothing was charged or released.")
    if request.insecure and data_set.unprotected is None:
        entries.append(Unprotected(data_set.name, request.insecure, now))
    insecure = request.insecure
    if insecure is None and data_set.unprotected is not None:
        insecure = f"the data set is unprotected since an earlier release ({data_set.unprotected})"
    rows, cost = request.rows.to_json(), _json(request.cost)
    entries.append(Charged(data_set.name, rows, request.details, insecure, now, cost, request.handed_over or None))
    return Decision(tuple(entries), None)


def _opened(book: Book, request: Request, budget: Budget) -> DataSet:
    """A data set that the ledger did not know. Its ids are of the group that is named, else of every group there is."""
    caps = None
    if not request.insecure and request.cost is not None:
        caps = budget.caps(Cost() if budget.given else highest(request.cost, Cost(pure=request.requested_epsilon)))
    groups = book.groups() if request.other_ids is None else (request.other_ids,)
    return DataSet(
        request.data_set, request.fingerprint, caps, budget.delta(request.delta), groups, request.ids, book=book
    )


def _opening(data_set: DataSet, now: str) -> DataSetOpened:
    ids = data_set.ids.to_json() if data_set.ids is not None else None
    return DataSetOpened(
        data_set.name, data_set.fingerprint, data_set.delta, _json(data_set.caps), data_set.groups, ids, now
    )


def _with_budget(data_set: DataSet, caps: Cost, budget: Budget, now: str, entries: list[LedgerEntry]) -> DataSet:
    """The data set under these caps, and the entry that says so if they are new."""
    delta = budget.delta(data_set.delta)
    if delta < data_set.delta:
        _check_statable(data_set, caps, delta)
    if (caps, delta) == (data_set.caps, data_set.delta):
        return data_set
    raised = not caps.within(data_set.caps or caps)
    entries.append(BudgetChanged(data_set.name, caps.to_json(), delta, raised, now))
    return replace(data_set, caps=caps, delta=delta)


def _check_protection(data_set: DataSet, request: Request) -> None:
    """Ids are protected wherever they appear, or nowhere."""
    peers = {peer.name: peer for group in data_set.groups for peer in data_set.peers(group)}
    for other in peers.values():
        if other.name == data_set.name or (request.insecure is None) == (other.unprotected is None):
            continue
        held = [release.rows for release in other.releases]
        if request.insecure and other.ids is not None:
            held.append(other.ids)
        shared = max((shared_ids(request.rows, rows) for rows in held), default=0)
        if shared and request.insecure:
            raise RefusedError(
                f"{shared:,} of these ids are protected by the budget of data set {other.name!r}, which an insecure release "
                f"({request.insecure}) would void. Use another `ledger` for experiments with other people's ids."
            )
        if shared:
            raise RefusedError(
                f"{shared:,} of these ids were released without protection in data set {other.name!r} ({other.unprotected}): nothing can "
                "be promised of their labels. If these ids name other people, `other_ids='NAME'` says so."
            )


def _released_before(data_set: DataSet, before: list[ReleaseRecord], request: Request) -> str:
    """Which earlier releases have these rows, and what to do."""
    own = [release for release in before if release.data_set == data_set.name]
    if own:
        return (
            f"rows of {data_set.name!r} were released before ({_describe(own[-1])}, made on {own[-1].made}), and this "
            f"request differs in {_differences(own, request)}. A second look at the same labels costs again: add "
            f"`again='charge'` if that is meant."
        )
    names = ", ".join(dict.fromkeys(repr(release.data_set) for release in before))
    shared, last = max(shared_ids(request.rows, release.rows) for release in before), before[-1]
    return (
        f"{shared:,} of these {len(request.rows):,} ids were released before, in data set {names} ({_describe(last)}, made on "
        f"{last.made}). "
        "A second look at the same labels costs again: add `again='charge'` and it adds up; or release only the other rows; or, if these "
        "ids name other people, say so with `other_ids='NAME'`."
    )


def _recognise(book: Book, request: Request) -> DataSet | None:
    known, mine = book.data_sets.get(request.data_set), request.fingerprint
    if known is not None and not known.fingerprint.matches(mine):
        if known.fingerprint.same_file(mine):
            way = "with ids (`ids`)" if known.fingerprint.by == "ids" else "without ids (`ids`)"
            raise RefusedError(
                f"these rows were released before {way}, and the ledger must know them in one way: do so again."
            )
        raise RefusedError(
            f"the ledger knows {request.data_set!r} by {_of(known.fingerprint)}, and this input does not match: it has "
            f"{_of(mine)}. If these are other people's labels, name them with `data_set`; if some rows are the same, their "
            "budget is spent under the old name."
        )
    if known is not None and request.other_ids is not None and known.groups != (request.other_ids,):
        raise RefusedError(
            f"the ledger has the ids of {known.name!r} in the group {', '.join(map(repr, known.groups))}: a data set stays where it is."
        )
    for other in book.data_sets.values() if known is None else ():
        theirs = other.fingerprint
        same = (mine.digest and theirs.matches(mine)) or theirs.same_file(mine)
        if same and not _in_named_group(other, request):
            how = f"Use `data_set={other.name!r}`."
            if "planting" in request.details:  # such a file says itself what it is of
                how = f"Plant the canaries again with `data_set={other.name!r}`: a planted file carries its data set's name."
            if mine.by == theirs.by == "ids":
                how += " If these ids name other people, say so with `other_ids='NAME'`."
            elif mine.by != theirs.by:
                how += (
                    f" Its rows go {'by id (`ids`)' if theirs.by == 'ids' else 'without ids'}: name them in that way."
                )
            raise RefusedError(
                f"these rows are known to the ledger as data set {other.name!r}; under another name they would escape its budget. {how}"
            )
    return known


def _in_named_group(other: DataSet, request: Request) -> bool:
    """Whether the owner names the group of these ids, and the other's rows go by id too: then accounts by id tell them apart."""
    return request.other_ids is not None and other.fingerprint.by == "ids"


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
    spent = data_set.spent()
    if not spent.within(caps):
        raise BudgetError(
            f"{describe_caps(spent)} of the budget of {data_set.name!r} is spent; it cannot be lowered to "
            f"{describe_caps(caps)}, which would promise what is no longer true."
        )
    if not caps.within(data_set.caps) and not budget.raise_it:
        raise BudgetError(
            f"the budget of {data_set.name!r} was fixed at {describe_caps(data_set.caps)}, which this would raise to "
            f"{describe_caps(caps)}. That weakens what was promised; add `raise_budget=True` to record it and go on."
        )
    return caps


def _check_statable(data_set: DataSet, caps: Cost, delta: float) -> None:
    """What was promised before must have a finite ε at the new δ too, or nothing could be said of the data set any more."""
    most = highest(data_set.promised, caps)
    if most.gaussian and delta <= most.slack_mass:
        raise BudgetError(
            f"the budget of {data_set.name!r} was stated at δ = {data_set.delta:g}, and what was released under it has a finite ε only "
            f"at a δ above {most.slack_mass:g}; got {delta:g}. Nothing was charged or released."
        )


def _same(data_set: DataSet, request: Request) -> ReleaseRecord | None:
    same = [r for r in data_set.releases if r.request == request.details and r.rows == request.rows]
    if request.again != AGAIN_CHARGE:
        return same[-1] if same else None
    # Whoever asks to be charged again gets another draw; but not if it is there already, or was interrupted.
    for release in same:
        if not release.reached(DELIVERED) or (release.checksum and release.checksum == request.delivered):
            return release
    return None


def _differences(before: list[ReleaseRecord], request: Request) -> str:
    """In what the request differs from the release that it is closest to."""
    words = {"mechanism": "mechanism or ε", "label": "the label column", "label_names": "the class names",
             "shuffle": "`shuffle`", "entropy": "the source of the noise",
             "public_prior": "where the public prior comes from", "channels": "the public prior", "selection": "the candidates",
             "cells": "the predictions", "bins": "the bins", "predictions": "the predictions", "features": "the features",
             "planting": "the canaries (these rows were released before without them, or with others)"}  # fmt: skip

    def differing(release: ReleaseRecord) -> list[str]:
        known = dict.fromkeys((*request.details, *release.request))
        keys = [key for key in known if release.request.get(key) != request.details.get(key)]
        rows = "the rows"
        if getattr(release.rows, "form", "") != getattr(request.rows, "form", ""):
            rows += " (ids were compared in another form then; if the file is the same, `ids_as_written=True` says so)"
        return [words.get(key, key) for key in keys] + ([rows] if release.rows != request.rows else [])

    closest = min(before, key=lambda release: len(differing(release)))
    return ", ".join(differing(closest)) or "nothing but the draw"


def _needed(data_set: DataSet, request: Request) -> dict[str, tuple[DataSet, Cost]]:
    """What each data set that holds some of these rows would have to allow: the most that such a row will have paid."""
    needed: dict[str, tuple[DataSet, Cost]] = {}
    if request.cost is None:
        return needed
    for group in data_set.groups:
        # A data set holds all ids of its file, released or not; older ledgers kept only the released ones.
        held = [
            (peer, rows, cost)
            for peer in data_set.peers(group)
            for rows, cost in (
                *((release.rows, release.cost or Cost()) for release in peer.releases),
                *([(peer.ids, Cost())] if peer.ids is not None else []),
            )
        ]
        for covering in coverings(request.rows, [rows for _, rows, _ in held]):
            total = sum((held[i][2] for i in covering), request.cost)
            for holder in (data_set, *(held[i][0] for i in covering)):
                _, most = needed.get(holder.name, (holder, Cost()))
                needed[holder.name] = holder, highest(most, total)
    return needed


def _too_low(data_set: DataSet, request: Request, raised: dict[str, Cost]) -> list[tuple[DataSet, Cost, Cost]]:
    """The data sets whose caps (given here, with those that are raised now) do not hold what some row would then have paid."""
    held = [(d, raised.get(d.name, d.caps), total) for d, total in _needed(data_set, request).values()]
    return [(d, caps, total) for d, caps, total in held if caps is not None and not total.within(caps)]


def _over_budget(data_set: DataSet, request: Request, raised: dict[str, Cost]) -> str | None:
    """Why the request does not fit the caps, and what would make it fit; None if it fits."""
    over = _too_low(data_set, request, raised)
    if not over or request.cost is None:
        return None
    alone = [d.name for d, _, _ in over] == [data_set.name]
    budgets = " and ".join(f"{describe_caps(caps)} for {d.name!r}" for d, caps, _ in over)
    said = f"these ids are under several budgets, each of which counts: {budgets}"
    if alone:
        said = f"the budget of {data_set.name!r} is {describe_caps(over[0][1])}"
    options, total = [], Cost()
    for _, _, needed in over:
        total = highest(total, needed)
    if any(needed.pure > caps.pure for _, caps, needed in over):
        options.append(f"budget={_few_digits(total.pure)}")
    if any(not Cost(0.0, *needed.numbers()[1:]).within(caps) for _, caps, needed in over):
        delta = data_set.delta or request.delta or 1e-5
        epsilon = Cost(0.0, *total.numbers()[1:]).epsilon(delta) * (1 + 2 * SLACK_SHARE)
        options.append(f"budget_gaussian=({_few_digits(epsilon)}, {delta:g})")
    which = "" if alone else f" (which raises {' and '.join(repr(d.name) for d, _, _ in over)})"
    return (
        f"{said}; {describe_caps(data_set.spent_on(request.rows))} of it is spent on these rows, and this release costs "
        f"{describe_caps(request.cost)}. To weaken the promise, on the record: `{', '.join(options)}, raise_budget=True`{which}."
    )


def _few_digits(value: float) -> str:
    """A number that is no smaller, and short."""
    return f"{math.ceil(value * 1e4 - 1e-6) / 1e4:g}"


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
