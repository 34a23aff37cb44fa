"""What any run may have lying with it: releases, audits, and what is the owner's. Which of that others may see is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from labeldp.audit.canaries import Canaries
from labeldp.audit.violins import LOWEST, Violins, canary_comparisons, count_guesses
from labeldp.errors import InputError, LabelDPError
from labeldp.files.predictions import read_predictions
from labeldp.files.run import OwnerFolder, RunFolder, read_as
from labeldp.files.summary import OwnersSummary, Start, StatedAudit, Value
from labeldp.release.release import Release
from labeldp.report.runs import Measured, each_measured, who_sees
from labeldp.statistics.reading import Fittable, is_fittable, load_fittable

Facts: TypeAlias = tuple[tuple[str, str], ...]

_SHOWN = 200  # canaries that the owner's page lists


def releases_of(run: RunFolder, starts: Sequence[Start], wanted: tuple[str, ...]) -> tuple[Release, ...]:
    """The wanted releases, where they are still where the run found them, or in the run directory itself."""
    others = (run.trained.name, run.crossfitted.name)
    places = [*sorted(run.path.glob("*.parquet")), *(run.path / path for start in starts for path in start.releases)]
    found: dict[str, Release] = {}
    for place in dict.fromkeys(path for path in places if path.name not in others):
        try:
            if not place.is_file():
                continue
            release = Release.load(place)
        except (LabelDPError, OSError, ValueError):
            continue  # predictions, say, or an altered file: not what the run was made from
        if release.checksum in wanted:
            found[release.checksum] = release
    return tuple(found.values())


def moments_of(run: RunFolder, starts: Sequence[Start], wanted: tuple[str, ...]) -> tuple[Fittable, ...]:
    """The moments, or the histogram, that it was fitted to, where they are still where the run found them."""
    for place in dict.fromkeys(run.path / path for start in starts for path in start.releases):
        try:
            if place.is_file() and is_fittable(place):
                moments = load_fittable(place)
                if wanted == (moments.checksum,):
                    return (moments,)
        except (LabelDPError, OSError, ValueError):
            continue
    return ()


def audits(found: Mapping[str, StatedAudit]) -> tuple[Measured, ...]:
    """Every attack of a run's own audits."""
    return tuple(one for audit in found.values() for one in each_measured(audit, who_sees))


def audit_notes(found: Mapping[str, StatedAudit]) -> tuple[str, ...]:
    """What the run's audits warn of."""
    return tuple(dict.fromkeys(note for audit in found.values() for note in audit.warnings))


def listed(options: Mapping[str, Value | tuple[int, ...]]) -> str:
    """Options in a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def own_ledger(run: RunFolder) -> Path | None:
    """An experiment's own ledger, if the run directory has one."""
    return run.ledger if run.ledger.is_file() else None


def violins_of(run: RunFolder, owner: bool) -> tuple[Violins | None, tuple[str, ...]]:
    """Right and wrong guesses of planted labels, from what `--canaries` left in a run directory; and why they are left out.

    Planted labels are drawn without looking at anybody's, so what is counted here costs nobody anything. Where candidates were chosen by
    looking at true labels, only the owner sees it.
    """
    planted = run.planted()
    if planted is None:
        return None, ()
    secret, said = planted
    canaries = Canaries.load(secret)
    if canaries.true is not None and not owner:
        return None, (
            "Violins are left out: these canaries were chosen by looking at true labels. --owner shows them.",
        )
    table = read_predictions(said).values
    if table.ndim != 2 or canaries.rows.max() >= len(table) or canaries.candidates.max() >= table.shape[1]:
        raise InputError(f"{said} and {secret} do not belong together.")
    return count_guesses(canary_comparisons(table, canaries)(), LOWEST), ()


def canary_facts(path: Path) -> Facts:
    """Where the canaries are."""
    if not path.is_file():
        return ()
    canaries = Canaries.load(path)
    names = canaries.rows if canaries.ids is None else canaries.ids
    more = f" … and {len(canaries) - _SHOWN:,} more, in {path.name}" if len(canaries) > _SHOWN else ""
    listed = ", ".join(map(str, names[:_SHOWN].tolist())) + more
    return ((f"Rows of the {len(canaries):,} canaries", listed),)


def owners_facts(owner: OwnerFolder) -> Facts:
    """What votes and true labels say, and nobody has paid for."""
    if not owner.summary.is_file():
        return ()
    found = read_as(OwnersSummary, owner.summary)
    shares = (
        ("Accuracy of a teacher, on private labels", found.teacher_accuracy),
        ("Accuracy of the ensemble, on private labels", found.ensemble_accuracy),
        ("Accuracy of the answers, on private labels", found.answers_accuracy),
        ("Share of the votes for the winner", found.agreement),
    )
    facts = [(words, f"{share:.2%}") for words, share in shares if share is not None]
    if found.epsilon_data_dependent is not None and found.order is not None:
        said = f"{found.epsilon_data_dependent:.6g} (Rényi order {found.order:g}): not a guarantee, and itself a leak"
        facts.append(("Data-dependent ε", said))
    return (*facts, *canary_facts(owner.canaries))
