"""One page, one file: style and script are in it, and its own security policy lets it fetch nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import labeldp
from labeldp import provenance
from labeldp.audit.result import percent
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.release.release import Release
from labeldp.release.sealed import statistic_name
from labeldp.report import charts
from labeldp.report.checklist import checklist, counted
from labeldp.report.claims import checked, with_ledger
from labeldp.report.handed_over import HOW, recipient_words, stated_in
from labeldp.report.promise import cap_of, up_to
from labeldp.report.readers import read_run
from labeldp.report.runs import Run, who_sees
from labeldp.report.scores import ScoreView
from labeldp.report.signoff import TITLES, SignOff
from labeldp.report.view import View
from labeldp.wording import downward, upward

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(template: str, **content: Any) -> str:
    """A template of this package, filled in; every text is escaped, since a run may come from somebody else."""
    environment = Environment(
        loader=PackageLoader("labeldp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "json": inline_json,
        "upward": upward,
        "downward": downward,
        "up_to": up_to,
        "percent": percent,
        "counted": counted,
        "recipient": recipient_words,
    }
    return environment.get_template(template).render(policy=POLICY, asset=asset, **content)


def asset(name: str) -> Markup:
    """A style sheet or a script of this package, to stand within the page."""
    return Markup((files("labeldp.report") / "templates" / name).read_text(encoding="utf-8"))


def inline_json(data: Any) -> Markup:
    """JSON within a script element, which no text in it can end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# ----------------------------------------------------------------
# `labeldp report`: runs in, one page out.


@dataclass(frozen=True)
class Report:
    """Some runs, ready to be shown; `owner` if numbers are among them that only the owner of the labels may see."""

    runs: tuple[Run, ...]
    owner: bool = False
    scores: tuple[ScoreView, ...] = ()

    @classmethod
    def of(
        cls, folders: Sequence[Path], *, releases: Sequence[Path] = (), ledger: Path | None = None, owner: bool = False
    ) -> Report:
        """Read run directories, and files of scores.

        releases  release files that the runs were made from, where they have been moved since
        ledger    the label owner's, which must have recorded a release of these runs: shown are the entries of its data set, and no others
        owner     also what only the owner may know; the page says so
        """
        if not folders:
            raise InputError("name at least one run directory, or a score.")
        files = [path for path in folders if path.is_file() and statistic_name(path) is not None]
        scores = tuple(ScoreView.of(path, number) for number, path in enumerate(files, start=1))
        folders = [path for path in folders if path not in files]
        if scores and not folders and (releases or ledger is not None):
            raise InputError("a score alone has no run to show a release or a ledger beside: name the run too.")
        loaded = [(path, Release.load(path)) for path in releases]
        given = {release.checksum: release for _, release in loaded}
        read = [replace(read_run(folder, owner=owner), folders=(folder.resolve().name,)) for folder in folders]
        runs = _joined([run.with_releases(given) for run in read])
        used = {one for run in runs for one in run.made_from}
        unused = ", ".join(str(path) for path, release in loaded if release.checksum not in used)
        if unused:
            raise InputError(f"none of these runs was made from {unused}.")
        runs = [with_ledger(checked(run), ledger) for run in runs]
        if ledger is not None and folders and not any(run.ledger for run in runs):
            raise InputError(
                f"none of these runs' releases is recorded in the ledger {ledger}, or they are not here (--release)."
            )
        return cls(tuple(_told_apart(_with_headlines(runs))), owner, scores)

    def html(self) -> str:
        """The page."""
        views = [View.of(run, number) for number, run in enumerate(self.runs, start=1)]
        by_data = dict.fromkeys(run.data_set for run in self.runs)
        frontiers = [(name, charts.frontier([run for run in self.runs if run.data_set == name])) for name in by_data]
        return render(
            "report.html",
            title=self.title(),
            views=views,
            scores=self.scores,
            owner=self.owner,
            frontiers=[(name, drawn) for name, drawn in frontiers if drawn is not None],
            # As runs note it: the day after a selection's would tell that it was long.
            made=provenance.start(dated=all(run.trust == "local" for run in self.runs) and not self.scores),
            version=labeldp.__version__,
            titles=TITLES,
            how_stated=HOW,
            stated_in=stated_in,
        )

    def title(self) -> str:
        """What the page is called."""
        if not self.runs:
            return f"{self.scores[0].score.data_set}: models scored on secret labels"
        if len(self.runs) == 1:
            run = self.runs[0]
            return f"{run.data_set or run.name}: what is proven, what was measured"
        return f"{len(self.runs)} runs side by side"

    def save(self, path: Path) -> int:
        """Write the page in one step; an owner's page only its owner can read. Returned is its size in bytes."""
        content = self.html().encode()
        place_file(path, lambda file: file.write(content), private=self.owner)
        return len(content)

    def to_json(self) -> dict[str, Any]:
        """The numbers of the page."""
        scores = {"scores": [one.to_json() for one in self.scores]} if self.scores else {}
        return {"owner": self.owner, "runs": [_to_json(run) for run in self.runs], **scores}


def _to_json(run: Run) -> dict[str, Any]:
    cap = cap_of(run)
    lines = checklist(run, cap)
    return {
        **run.to_json(),
        "sign_off": SignOff.of(run, cap, lines).to_json(),
        "checklist": [line.to_json() for line in lines],
        "handed_over": [
            {"release": one.checksum, **stated_in(one.header).to_json()} for one in (*run.releases, *run.others)
        ],
    }


def _joined(runs: list[Run]) -> list[Run]:
    """An audit is shown with the model that it is of, where that is here too; one of a release alone, with the only run of that release.
    One that looked at a release which is not behind that model stays alone: that run's certificate is not of it.
    """
    models = [run for run in runs if run.kind != "audit"]
    alone = []
    for audit in (run for run in runs if run.kind == "audit"):
        exact = [
            i
            for i, run in enumerate(models)
            if audit.model is not None and run.model == audit.model and set(audit.made_from) <= run.subjects
        ]
        same = [i for i, run in enumerate(models) if set(audit.made_from) & set(run.made_from)]
        of_release = all(found.who == who_sees("release") for found in audit.measured)
        if not exact and not (of_release and len(same) == 1):
            alone.append(audit)
            continue
        of = (exact or same)[0]
        run = models[of]
        models[of] = replace(
            run, measured=(*run.measured, *audit.measured), violins=run.violins or audit.violins, starts=(*run.starts, *audit.starts),
            notes=(*run.notes, *audit.notes), canaries=run.canaries or audit.canaries, more_bounds=run.more_bounds + audit.more_bounds,
            folders=(*run.folders, *audit.folders),
        ).with_releases({release.checksum: release for release in audit.releases})  # fmt: skip
    return [*models, *alone]


def _with_headlines(runs: Sequence[Run]) -> list[Run]:
    """Each run's lower bounds share the doubt with all on the page that may be of the same ε."""
    families = [[runs[i] for i in _family(i, runs)] for i in range(len(runs))]
    known = [sum(len(one.bounds) + one.more_bounds for one in family) for family in families]
    return [run.with_headline(count - len(run.bounds)) for run, count in zip(runs, known, strict=True)]


def _family(of: int, runs: Sequence[Run]) -> set[int]:
    """Runs of the same model, of a release behind it, of another model from that release, and so on; with audits that do not say what
    they are of, for they may be of any.
    """
    unknown = {i for i, run in enumerate(runs) if run.says_not_of_what}
    if of in unknown:
        return set(range(len(runs)))
    family, subjects = {of}, runs[of].subjects
    while found := {i for i, run in enumerate(runs) if i not in family and subjects & run.subjects}:
        family |= found
        subjects = subjects.union(*(runs[i].subjects for i in found))
    return family | unknown


def _told_apart(runs: Sequence[Run]) -> list[Run]:
    """Names that differ, as the last parts of directories may not."""
    seen: dict[str, int] = {}
    named = []
    for run in runs:
        seen[run.name] = seen.get(run.name, 0) + 1
        named.append(run if seen[run.name] == 1 else replace(run, name=f"{run.name} ({seen[run.name]})"))
    return named
