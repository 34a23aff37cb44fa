"""What lies beside a run and is the owner's: canaries, votes, the ledger. Which of it may be shown to others is decided here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labeldp.audit.canaries import Canaries
from labeldp.audit.guesses import LOWEST, Violins, canary_comparisons, count_guesses
from labeldp.errors import InputError, LabelDPError
from labeldp.report.files import read_json

_SHOWN = 200  # canaries that the owner's page lists


def own_ledger(path: Path) -> Path | None:
    """An experiment's own ledger, if the run directory has one."""
    return path if path.is_file() else None


def run_violins(folder: Path, owner: bool) -> tuple[Violins | None, tuple[str, ...]]:
    """Right and wrong guesses of planted labels, from what `--canaries` left in a run directory; and why they are left out.

    Planted labels are drawn without looking at anybody's, so what is counted here costs nobody anything. Where candidates were chosen by
    looking at true labels, only the owner sees it.
    """
    secrets = (folder / "canaries.npz", folder / "owner" / "planted" / "canaries.npz")
    secret = next((path for path in secrets if path.is_file()), None)
    said = next(
        (p for p in (folder / "probabilities.npy", folder / "student-1" / "probabilities.npy") if p.is_file()), None
    )
    if secret is None or said is None:
        return None, ()
    canaries = Canaries.load(secret)
    if canaries.true is not None and not owner:
        return None, (
            "Violins are left out: these canaries were chosen by looking at true labels. --owner shows them.",
        )
    try:
        table = np.load(said, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InputError(f"{said} is damaged.") from None
    if table.ndim != 2 or canaries.rows.max() >= len(table) or canaries.candidates.max() >= table.shape[1]:
        raise InputError(f"{said} and {secret} do not belong together.")
    return count_guesses(canary_comparisons(table, canaries)(), LOWEST), ()


def canary_facts(path: Path) -> tuple[tuple[str, str], ...]:
    """Where the canaries are."""
    if not path.is_file():
        return ()
    canaries = Canaries.load(path)
    names = canaries.rows if canaries.ids is None else canaries.ids
    more = f" … and {len(canaries) - _SHOWN:,} more, in {path.name}" if len(canaries) > _SHOWN else ""
    listed = ", ".join(map(str, names[:_SHOWN].tolist())) + more
    return ((f"Rows of the {len(canaries):,} canaries", listed),)


def pate_facts(folder: Path) -> tuple[tuple[str, str], ...]:
    """What votes and true labels say, and nobody has paid for."""
    try:
        found = read_json(folder / "summary.json")
    except LabelDPError:
        found = None
    if found is None:
        return ()
    shares = (
        ("Accuracy of a teacher, on private labels", "teacher_accuracy"),
        ("Accuracy of the ensemble, on private labels", "ensemble_accuracy"),
        ("Accuracy of the answers, on private labels", "answers_accuracy"),
        ("Share of the votes for the winner", "agreement"),
    )
    facts = [(words, f"{found[name]:.2%}") for words, name in shares if found.get(name) is not None]
    facts.append(
        (
            "Data-dependent ε",
            f"{found['epsilon_data_dependent']:.6g} (Rényi order {found['order']:g}): not a guarantee, and itself a leak",
        )
    )
    return (*facts, *canary_facts(folder / "planted" / "canaries.npz"))
