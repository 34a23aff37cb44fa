"""An audit as a directory, so that a report can show it: the result, what violins are drawn of, and how it was made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeldp import provenance
from labeldp.audit.guesses import LOWEST, Violins, count_guesses
from labeldp.audit.result import AuditResult
from labeldp.errors import InputError
from labeldp.files.atomic import explain, is_unfinished, place_file
from labeldp.release.release import Release

FILE, FORMAT = "audit.json", "labeldp audit 1"
_MOST = 10**6  # bounds that may have stood at one place
OWNER_ONLY = "it depends on true labels that nobody has paid for"


@dataclass(frozen=True)
class KeptAudit:
    """What was measured, of which release, and whether only the owner may see it."""

    result: dict[str, Any]
    violins: Violins | None
    owner_only: str | None
    release: str | None  # checksums: of the release that was looked at, and of the one that the model was trained on
    trained_on: str | None
    model: str | None  # a digest, where the scores say of which model they are
    planted: int | None  # how many of the canaries are in the release
    data_set: str | None
    start: dict[str, Any]
    parts: tuple[str, ...] = ()  # the releases that were looked at as one, where there were several
    replaced: int = 0  # bounds of other audits that stood here before: they share the doubt with these

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
        return cls(
            result.to_json(),
            count_guesses(result.compared(), LOWEST) if result.compared is not None else None,
            OWNER_ONLY if knows_truth else None,
            release.checksum if release is not None else None,
            trained_on,
            model,
            planted,
            release.data_set if release is not None else None,
            {
                **provenance.start(dated=dated),
                "releases": [str(path) for path in release.paths] if release is not None else [],
            },
            release.checksums if release is not None else (),
        )

    def save(self, folder: Path) -> None:
        """As folder/audit.json; an earlier audit there is replaced, and counted. Anything else is left alone."""
        check_place(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise InputError(f"{folder} cannot be made a directory (`out`).") from None
        data = {
            "format": FORMAT,
            "audit": self.result,
            "violins": self.violins.to_json() if self.violins is not None else None,
            "owner_only": self.owner_only,
            "release": self.release,
            "trained_on": self.trained_on,
            "model": self.model,
            "planted": self.planted,
            "data_set": self.data_set,
            "parts": list(self.parts),
            "replaced": self.replaced + self._takes_the_place_of(folder),
            "start": {**self.start, "releases": [os.path.relpath(path, folder) for path in self.start["releases"]]},
        }
        content = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        place_file(folder / FILE, lambda file: file.write(content), private=self.owner_only is not None)

    def _takes_the_place_of(self, folder: Path) -> int:
        """How many other bounds stood here. The same audit again is the same bounds."""
        if not (folder / FILE).exists():
            return 0
        try:
            before = KeptAudit.load(folder)
            other = before.result != json.loads(json.dumps(self.result))
            return before.replaced + (before.bounds if other else 0)
        except (InputError, KeyError, TypeError):
            return 1  # damaged, but it was one

    @property
    def bounds(self) -> int:
        """How many lower bounds on ε it states; the paper's interval is none."""
        return 0 if self.result["method"] == "paper" else max(1, len(self.result["looks"]))

    @classmethod
    def load(cls, folder: Path) -> KeptAudit:
        """As `save` wrote it."""
        try:
            data = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise ValueError
            violins = Violins.from_json(data["violins"]) if data["violins"] is not None else None
            replaced, parts = data.get("replaced", 0), tuple(data.get("parts", ()))
            if (
                type(replaced) is not int
                or not 0 <= replaced <= _MOST
                or not all(isinstance(part, str) for part in parts)
            ):
                raise ValueError
            names = ("owner_only", "release", "trained_on", "model", "planted", "data_set", "start")
            kept = cls(data["audit"], violins, *(data[name] for name in names))
            if kept.owner_only is None and kept.result["method"] == "paper":
                raise ValueError  # the paper's attack looks at true labels, whatever the file says
            if not isinstance(kept.start, dict):
                raise ValueError
            return replace(kept, parts=parts, replaced=replaced)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{folder / FILE} is missing, damaged, or of another version of labeldp.") from None


def check_place(folder: Path) -> None:
    """Before anything is computed: an audit can be kept here."""
    try:
        holds = [path for path in folder.iterdir() if not is_unfinished(path)] if folder.is_dir() else []
        if folder.is_file() or (holds and folder / FILE not in holds):
            raise InputError(f"{folder} holds something else than an audit; choose another `out`.")
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise explain(folder, error) from None
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"nothing can be written to {there}, so {folder} cannot be made a directory (`out`).")
