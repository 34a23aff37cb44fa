"""How to make something again: the owner's commands as far as files tell them, and those that a run noted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePath

from labeldp.files.summary import Start
from labeldp.mechanisms import Gaussian, NoPrivacy, PateAnswers, PriorAware, Selected
from labeldp.provenance import machine_line
from labeldp.release.release import Release
from labeldp.report.handed_over import recipient_options, stated_in
from labeldp.report.runs import Run
from labeldp.wording import upward

_MOST_NAMES = 20  # classes that a command lists
# Their one command plants, releases and trains.
_WHOLE = {"experiment", "pate", "select", "audit-repeat", "audit-heuristic"}


@dataclass(frozen=True)
class Worked:
    """A command, where and when."""

    command: str | None
    day: str | None
    labeldp: str | None
    machine: str

    @classmethod
    def of(cls, said: Start) -> Worked:
        """With what may be missing in a file of another version."""
        known = said.machine is not None and said.machine.cpu is not None
        machine = machine_line(asdict(said.machine)) if known and said.machine is not None else "machine unknown"
        return cls(_shown(said.command), said.day, said.labeldp, machine)


@dataclass(frozen=True)
class Before:
    """A command of the label owner's, put together from what files say; words in capitals they do not."""

    what: str
    command: str


def owners_commands(run: Run) -> tuple[Before, ...]:
    """Planting and releasing, before the run; nothing where the run's own command did both."""
    if any(_subcommand(start) in _WHOLE for start in run.starts):
        return ()
    return tuple(_owners_commands(run))


def _owners_commands(run: Run) -> Iterator[Before]:
    known = [one for one in run.releases if not isinstance(one.mechanism, PateAnswers | Selected)]
    if known and is_planted(run):
        yield Before("Canaries were planted", plant_command(known[0], *_planted(run)))
    for release in known:
        file = release.paths[0].name if release.paths else "RELEASED"
        labels = "PLANTED.parquet" if is_planted(run) else "LABELS"
        yield Before(f"{file} was released on {release.header['made'][:10]}", release_command(release, labels, file))


def is_planted(run: Run) -> bool:
    """Whether canaries are in the releases: by a ledger, or as the run and its audits say."""
    return bool(run.canaries or run.canary_share) or planted_by_ledger(run)


def planted_by_ledger(run: Run) -> bool:
    """Whether the ledger noted, for every release that was trained on, that its labels hold canaries."""
    entries = run.ledger["data_sets"][0]["releases"] if run.ledger is not None else []
    noted = {entry["checksum"] for entry in entries if "planting" in entry["request"]}
    wanted = run.trained_on or run.made_from
    return bool(wanted) and noted.issuperset(wanted)


def _planted(run: Run) -> tuple[int | None, int | None]:
    """How many canaries, of how many candidates."""
    found = next((one.result for one in run.measured if one.result.method != "repeated"), None)
    return run.canaries, found.candidates if found is not None else None


def plant_command(release: Release, count: int | None = None, candidates: int | None = None) -> str:
    """What plants canaries in labels like these."""
    words = ["labeldp", "canaries", "plant", "LABELS", *columns(release)]
    words += ["--count", str(count)] if count else []
    words += ["--candidates", str(candidates)] if candidates and candidates > 2 else []
    return shlex.join([*words, "--out", "PLANTED.parquet", "--secret", "SECRET.npz"])


def release_command(release: Release, labels: str = "LABELS", out: str = "RELEASED.parquet") -> str:
    """What releases labels in the same way; ε is rounded up."""
    header, mechanism = release.header, release.mechanism
    words = ["labeldp", "release", labels, *columns(release), "--data-set", release.data_set]
    if isinstance(mechanism, NoPrivacy):
        words += ["--mechanism", mechanism.name, "--insecure-no-privacy"]
    else:
        promised = mechanism.guarantee()
        words += ["--epsilon", upward(promised.epsilon, 6)]
        words += ["--public-prior", "PRIOR"] if isinstance(mechanism, PriorAware) else ["--mechanism", mechanism.name]
        words += ["--delta", f"{promised.delta:g}"] if isinstance(mechanism, Gaussian) else []
        cap = header["budget"]["publishable"]
        if cap is not None and not cap["delta"] and cap["epsilon"] > promised.epsilon * (1 + 1e-6):
            words += ["--budget", upward(cap["epsilon"], 6)]
        words += ["--insecure-seed", "SEED"] if header["insecure"] else []
    if header.get("chosen_by_id"):
        words += ["--rows", "WHICH"]
    elif header["first_row"]:
        words += ["--rows", f"{header['first_row']}:{header['first_row'] + len(release)}"]
    words += ["--shuffle"] if header["shuffled"] else []
    return shlex.join([*words, *recipient_options(stated_in(header)), "--out", out])


def columns(release: Release) -> list[str]:
    """Label, classes and id, as the commands of the owner are told."""
    names = release.label_names
    listed = names is not None and len(names) <= _MOST_NAMES and not any("," in name for name in names)
    classes = ",".join(names or ()) if listed else str(release.mechanism.num_classes) if names is None else "CLASSES"
    ids = release.header["ids"]
    words = ["--label", release.label or "LABEL", "--classes", classes]
    return [*words, "--id", ids["column"]] if ids else words


def _subcommand(start: Start) -> str | None:
    words = (start.command or "").split()
    return words[1] if len(words) > 1 else None


def _shown(command: str | None) -> str | None:
    """A command as it was typed, but for the places of files on somebody's disk."""
    if command is None:
        return None
    try:
        words = shlex.split(str(command))
    except ValueError:
        return str(command)
    return " ".join("…/" + PurePath(word).name if word.startswith(("/", "~")) else shlex.quote(word) for word in words)
