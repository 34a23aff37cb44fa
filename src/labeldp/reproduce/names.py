"""What can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable

from labeldp.errors import InputError
from labeldp.reproduce.equal_compute import equal_compute
from labeldp.reproduce.frontier import frontier
from labeldp.reproduce.memorized import figure1, table_heuristic
from labeldp.reproduce.methods import check_scale
from labeldp.reproduce.moments import moments
from labeldp.reproduce.pates import study_answers, study_threshold, table_pate
from labeldp.reproduce.plan import Reproduction
from labeldp.reproduce.tables import table1, table2, table_agibi
from labeldp.reproduce.tabular import tabular

_OWN_SEEDS: dict[str, Callable[[str, int | None], Reproduction]] = {
    "frontier": frontier,
    "equal-compute": equal_compute,
    "tabular": tabular,
    "moments": moments,
}
_PLANS: dict[str, Callable[[str, int], Reproduction]] = {
    "table1": table1,
    "table2": table2,
    "table-agibi": table_agibi,
    "table-heuristic": table_heuristic,
    "table-pate": table_pate,
    "figure1": figure1,
    "study-answers": study_answers,
    "study-threshold": study_threshold,
}
NAMES = (*_PLANS, *_OWN_SEEDS)


def plan(name: str, scale: str, seeds: int | None = None) -> Reproduction:
    """The named table, figure or study at a scale, from so many seeds (default: one; the frontier and the tables have their own)."""
    check_scale(scale)
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds is at least 1; got {seeds}.")
    if name in _OWN_SEEDS:
        return _OWN_SEEDS[name](scale, seeds)
    if name not in _PLANS:
        raise InputError(f"unknown name {name!r}; choose one of {', '.join(NAMES)}.")
    return _PLANS[name](scale, seeds or 1)
