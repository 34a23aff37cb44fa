"""What an audit says: a lower bound on ε, what it rests on, and how it was found."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from labeldp import provenance
from labeldp.audit.counts import Bound, Counts, Headline, Stated, counts_json
from labeldp.audit.violins import LOWEST, Comparisons, StatedViolins, count_guesses
from labeldp.errors import InputError
from labeldp.files.atomic import explain, is_unfinished, place_file
from labeldp.files.run import RunFolder, read_json
from labeldp.files.schema import decode
from labeldp.files.summary import Start, StatedAudit
from labeldp.mechanisms import Guarantee
from labeldp.release.release import Release
from labeldp.wording import downward, upward

THROUGH_THIS = (
    "that the model saw these labels through this release alone; what its file says of that, nobody can check"
)
PAPER = "independence of the canaries' guesses, and a normal mean; thresholds and sign not paid for: no proven bound"


@dataclass(frozen=True)
class Look:
    """One attack, at the threshold that served it best; and what it counted at each, so that its bound can be stated at another level."""

    attack: str
    epsilon_low: float
    guesses: int
    correct: int
    abstained: int
    alpha: float
    threshold: float
    counts: tuple[Counts, ...]

    @classmethod
    def of(cls, stated: Stated, canaries: int) -> Look:
        """Of a bound at its share of the doubt."""
        look = stated.look
        return cls(
            stated.bound.attack, stated.epsilon, look.guesses, look.correct, canaries - look.guesses, stated.level, look.share,
            stated.bound.looks,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Never rounded."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**data, "counts": [counts_json(counts) for counts in self.counts]}


@dataclass(frozen=True)
class AuditResult:
    """With the stated confidence, no mechanism of a smaller ε (at this δ) would have let this many guesses be right.

    `given` is what the comparison takes for granted. `shared_by` bounds share the doubt, 1 − confidence; None for the paper's interval,
    which is no bound. `certificate` is the proven ε of the release, for comparison. At 95% one audit in twenty is above it by chance; one
    far above it, or a second one with fresh canaries, has found a defect.
    """

    epsilon_low: float
    epsilon_high: float | None
    delta: float
    confidence: float
    method: str
    assumption: str
    guesses: int
    correct: int
    abstained: int
    canaries: int
    candidates: int
    attack: str
    threshold: float | None = None
    shared_by: int | None = None
    looks: tuple[Look, ...] = ()
    certificate: float | None = None
    warnings: tuple[str, ...] = ()
    given: str | None = None
    compared: Comparisons | None = field(default=None, repr=False, compare=False)  # for violins; not part of the JSON

    @classmethod
    def of(
        cls,
        bounds: Sequence[Bound],
        statement: Guarantee,
        *,
        confidence: float,
        canaries: int,
        candidates: int,
        warnings: Sequence[str] = (),
        given: str | None = None,
        compared: Comparisons | None = None,
    ) -> AuditResult:
        """What these attacks prove together, at the δ of the statement that they stand beside (of ε = ∞, where nothing is promised)."""
        headline = Headline.of(bounds, delta=statement.delta, confidence=confidence)
        best, looks = headline.best, tuple(Look.of(stated, canaries) for stated in headline.bounds)
        return cls(
            epsilon_low=best.epsilon,
            epsilon_high=None,
            delta=statement.delta,
            confidence=confidence,
            method=best.look.kind,
            assumption=best.look.assumption,
            guesses=best.look.guesses,
            correct=best.look.correct,
            abstained=canaries - best.look.guesses,
            canaries=canaries,
            candidates=candidates,
            attack=best.bound.attack,
            threshold=best.look.share,
            shared_by=headline.shared_by,
            looks=looks,
            certificate=_finite(statement.epsilon),
            warnings=tuple(warnings),
            given=given,
            compared=compared,
        )

    def each(self) -> dict[str, AuditResult]:
        """One result an attack, by its name. The doubt is shared as before: all of them hold together."""
        same = ("epsilon_low", "guesses", "correct", "abstained", "attack", "threshold")
        return {
            look.attack: replace(self, looks=(look,), **{name: getattr(look, name) for name in same})
            for look in self.looks
        }

    def to_json(self) -> dict[str, Any]:
        """Everything, never rounded; null where an end is infinite."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "compared"}
        data["epsilon_low"], data["epsilon_high"] = _finite(self.epsilon_low), _finite(self.epsilon_high)
        data["looks"] = [look.to_json() for look in self.looks]
        data["warnings"] = list(self.warnings)
        return data

    def summary(self) -> str:
        """A few lines for people."""
        if self.method == "paper":
            interval = f"{percent(self.confidence)} interval of the paper, which is no bound"
            what = f"{self.epsilon_low:.4g} to {_text(self.epsilon_high)} ({interval})"
        else:
            at = f" at δ = {self.delta:g}" if self.delta else ""
            what = f"≥ {downward(self.epsilon_low)}{at} ({percent(self.confidence)} confidence, {self.method})"
        lines = [
            f"measured ε {what}",
            f"{self.correct:,} of {self.guesses:,} guesses right, {self.abstained:,} abstained; {self.canaries:,} "
            f"{'trainings' if self.method == 'repeated' else f'canaries of {self.candidates} candidates'}; attack: {self.attack}",
            f"assumes {self.assumption}",
        ]
        if len(self.looks) > 1:
            shares = f"{percent(1 - self.confidence)} shared by {self.shared_by} attacks"
            each = "; ".join(f"{look.attack} ≥ {downward(look.epsilon_low)}" for look in self.looks)
            lines.append(f"each attack: {each} ({shares})")
        if self.certificate is not None:
            above = f", WHICH IS LESS: chance does that in {percent(1 - self.confidence)} of audits; if fresh canaries do it too, report it"
            given = f", given {self.given}" if self.given else ""
            less = above if self.epsilon_low > self.certificate else ""
            lines.append(f"certificate ε ≤ {upward(self.certificate)}{less}{given}")
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def plot(self, path: str | Path) -> None:
        """Right and wrong guesses by how confident the model was (Figure 1 of the paper), as SVG or PNG."""
        from labeldp.audit.violins import save_figure, violins
        from labeldp.errors import InputError

        if self.compared is None:
            raise InputError("there is nothing to draw: this audit saw no model's probabilities.")
        save_figure(violins(self.compared), path)


def one_line(said: dict[str, Any]) -> str:
    """A bound among others, as a summary keeps it: with what it is sure of, and of how many bounds that is said."""
    at = f" at δ = {said['delta']:g}" if said["delta"] else ""
    together = f", shared by {said['shared_by']} bounds" if (said.get("shared_by") or 1) > 1 else ""
    right = f"{said['correct']:,} of {said['guesses']:,} guesses right"
    return f"ε ≥ {downward(said['epsilon_low'])}{at} ({right}; {percent(said['confidence'])} confidence{together})"


def percent(share: float) -> str:
    """As many digits as it has: 99.9% is not 100%."""
    return f"{100 * share:.10g}%"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _text(value: float | None) -> str:
    return "∞" if value is None or math.isinf(value) else f"{value:.4g}"


# ----------------------------------------------------------------
# An audit as a directory, so that a report can show it: the result, what violins are drawn of, and how it was made.

FORMAT: Final = "labeldp audit 1"
_MOST_PLANTED = 10**12
_MOST = 10**6  # bounds that may have stood at one place
OWNER_ONLY = "it depends on true labels that nobody has paid for"


@dataclass(frozen=True)
class KeptAudit:
    """What was measured, of which release, and whether only the owner may see it."""

    audit: StatedAudit
    violins: StatedViolins | None
    owner_only: str | None
    release: str | None  # checksums: of the release that was looked at, and of the one that the model was trained on
    trained_on: str | None
    model: str | None  # a digest, where the predictions say of which model they are
    planted: int | None  # how many of the canaries are in the release
    data_set: str | None
    start: Start
    parts: tuple[str, ...] = ()  # the releases that were looked at as one, where there were several
    replaced: int = 0  # bounds of other audits that stood here before: they share the doubt with these
    format: Literal["labeldp audit 1"] = FORMAT

    def __post_init__(self) -> None:
        if not 0 <= self.replaced <= _MOST or not 0 <= (self.planted or 0) <= _MOST_PLANTED:
            raise InputError("no audit has replaced so many, or so many canaries.")
        if self.owner_only is None and self.audit.method == "paper":
            raise InputError("the paper's attack looks at true labels, so it is the owner's.")

    @classmethod
    def of(
        cls,
        result: AuditResult,
        release: Release | None,
        trained_on: str | None,
        *,
        model: str | None = None,
        planted: int | None = None,
        knows_truth: bool,
    ) -> KeptAudit:
        """Of a finished audit; `knows_truth` if its canaries, its method or its reference looked at true labels."""
        dated = release is not None and release.mechanism.trust == "local"  # as runs note it
        start = decode(Start, provenance.start(dated=dated))
        return cls(
            decode(StatedAudit, result.to_json()),
            count_guesses(result.compared(), LOWEST).stated() if result.compared is not None else None,
            OWNER_ONLY if knows_truth else None,
            release.checksum if release is not None else None,
            trained_on,
            model,
            planted,
            release.data_set if release is not None else None,
            replace(start, releases=tuple(map(str, release.paths)) if release is not None else ()),
            release.checksums if release is not None else (),
        )

    def save(self, folder: Path) -> None:
        """As folder/audit.json; an earlier audit there is replaced, and counted. Anything else is left alone."""
        check_place(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise InputError(f"{folder} cannot be made a directory (`out`).") from None
        kept = replace(
            self,
            start=replace(self.start, releases=tuple(os.path.relpath(path, folder) for path in self.start.releases)),
            replaced=self.replaced + self._takes_the_place_of(folder),
        )
        content = json.dumps(asdict(kept), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        place_file(RunFolder(folder).audit, lambda file: file.write(content), private=self.owner_only is not None)

    def _takes_the_place_of(self, folder: Path) -> int:
        """How many other bounds stood here. The same audit again is the same bounds."""
        if not RunFolder(folder).audit.exists():
            return 0
        try:
            before = KeptAudit.load(folder)
        except InputError:
            return 1  # damaged, but it was one
        return before.replaced + (before.bounds if before.audit != self.audit else 0)

    @property
    def bounds(self) -> int:
        """How many lower bounds on ε it states; the paper's interval is none."""
        return 0 if self.audit.method == "paper" else max(1, len(self.audit.looks))

    @classmethod
    def load(cls, folder: Path) -> KeptAudit:
        """As `save` wrote it."""
        path = RunFolder(folder).audit
        try:
            return decode(cls, read_json(path))
        except InputError:
            raise InputError(f"{path} is missing, damaged, or of another version of labeldp.") from None


def check_place(folder: Path) -> None:
    """Before anything is computed: an audit can be kept here."""
    try:
        holds = [path for path in folder.iterdir() if not is_unfinished(path)] if folder.is_dir() else []
        if folder.is_file() or (holds and RunFolder(folder).audit not in holds):
            raise InputError(f"{folder} holds something else than an audit; choose another `out`.")
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise explain(folder, error) from None
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"nothing can be written to {there}, so {folder} cannot be made a directory (`out`).")
