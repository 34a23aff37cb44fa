"""What PATE starts from, in the one trusted place: features and labels together, by name or from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.predictions import read_predictions, write_predictions
from labeldp.files.run import OwnerFolder, RunFolder
from labeldp.private import PrivateLabels
from labeldp.release.release import Release

if TYPE_CHECKING:
    from labeldp.machine import Machine
import hashlib
import json
from dataclasses import asdict, dataclass

import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.data.bundled import load
from labeldp.data.features import read_features
from labeldp.files.ids import AS_WRITTEN, CANONICAL, find
from labeldp.files.tables import open_table
from labeldp.release.classes import Classes
from labeldp.release.source import ArraySource, Source, TableSource, data_set_of, refuse_telling_ids

# ----------------------------------------------------------------
# Canaries for PATE's experiments on bundled data sets: planted in the material, looked for in the release and in the first student.


def draw_canaries(owner: Path, labels: PrivateLabels, dataset: str, count: int, candidates: int) -> Canaries:
    """The canaries of a run, as its private folder keeps them; a new run's are drawn, and kept once it begins."""
    secret = OwnerFolder(owner).canaries
    if not secret.exists():
        if OwnerFolder(owner).votes.exists():
            raise InputError(
                f"{owner.parent} holds a run without canaries, and its teachers have voted; choose another `out`."
            )
        drawn = Canaries.draw(
            count, rows=len(labels), num_classes=labels.num_classes, candidates=candidates, entropy=SecureEntropy()
        )
        return drawn.planted_in(dataset, len(labels))
    found = Canaries.load(secret)
    if found.candidates.shape != (count, candidates) or found.data_rows != len(labels):
        raise InputError(
            f"{owner.parent} holds a run with other canaries ({len(found):,} of {found.candidates.shape[1]} candidates); "
            "choose another `out`."
        )
    return found


def keep(owner: Path, canaries: Canaries | None) -> None:
    """Before any teacher sees their labels."""
    secret = OwnerFolder(owner).canaries
    if canaries is not None and not secret.exists():
        secret.parent.mkdir(exist_ok=True)
        canaries.save(secret)


def audit_answers(
    canaries: Canaries, answers: Release, student: Path, features: Any, machine: Machine | None, model: str
) -> dict[str, Any]:
    """Two attackers, who share the 5%: one sees a student's probabilities, one the answers. As `experiment --canaries` has it.

    Only few canaries' rows are asked about, and an answer is that of many teachers: little should be found.
    """
    from labeldp.runs.run import predict

    path = RunFolder(student).predictions
    if not path.exists():
        probabilities = predict(student, features, machine, model)
        write_predictions(path, np.arange(len(probabilities)), probabilities)
    found = audit(read_predictions(path).values, canaries, release=answers, from_release=True)
    return {attack: result.to_json() for attack, result in found.each().items()}


@dataclass(frozen=True)
class Material:
    """Features in the order of the source's rows, the labels, and a public test set where there is one."""

    source: Source
    labels: PrivateLabels
    features: npt.NDArray[Any]
    data_set: str
    ledger: Path | None
    ids: tuple[str, ...] | None = None
    test: tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None = None
    canaries: Canaries | None = None  # planted among the labels, for an audit

    def digest(self, key: bytes) -> str:
        """Whose labels, and which: votes belong to these and to no others."""
        names = hashlib.blake2b("\0".join(self.ids or ()).encode(), key=key, digest_size=16).hexdigest()
        return f"{len(self.labels)}-{self.labels.digest(key)}-{names}"


@dataclass(frozen=True)
class Origin:
    """Where the material is: a bundled data set, or the owner's files. Kept with the teachers, so that later stages need not be told."""

    dataset: str | None = None
    data: str | None = None
    features: str | None = None
    labels: str | None = None
    label: str | None = None
    classes: str | None = None
    id_column: str | None = None
    image_size: int | None = None
    data_set: str | None = None
    ledger: str | None = None
    first: int | None = None  # of a bundled data set, only the first so many rows
    canaries: int | None = None  # so many labels of a bundled data set are planted
    candidates: int | None = None
    other_ids: str | None = None
    ids_as_written: bool = False

    def read(self, owner: Path) -> Material:
        """Read and check everything. `owner` is the private folder: a bundled data set has its ledger there."""
        if self.dataset is not None:
            if any((self.features, self.labels, self.label, self.id_column, self.data_set, self.ledger)):
                raise InputError("`dataset` brings its own features and labels; leave out what names yours.")
            bundle = load(self.dataset, Path(self.data) if self.data is not None else None)
            rows = len(bundle.labels) if self.first is None else self.first
            if not 1 <= rows <= len(bundle.labels):
                raise InputError(
                    f"`first` is from 1 to the {len(bundle.labels):,} rows of {self.dataset}; got {rows:,}."
                )
            labels = bundle.labels.slice(0, rows)
            canaries = None
            if self.canaries is not None:
                canaries = draw_canaries(owner, labels, self.dataset, self.canaries, self.candidates or 2)
                labels = canaries.plant(labels)
            source = ArraySource(
                labels,
                Classes(labels.num_classes, bundle.label_names),
                planting=canaries.planting if canaries is not None else None,
            )
            test = (bundle.test_features, bundle.test_labels)
            return Material(
                source,
                labels,
                bundle.features[:rows],
                self.dataset,
                OwnerFolder(owner).ledger,
                test=test,
                canaries=canaries,
            )
        if self.first is not None:
            raise InputError("`first` is for a bundled data set; of your own, give the rows you mean.")
        if self.canaries is not None:
            raise InputError(
                "`canaries` is for `dataset`; in your own labels plant them first: `labeldp canaries plant`."
            )
        if self.features is None or self.labels is None or self.label is None or self.classes is None:
            raise InputError("name a `dataset`, or your own `features` with `labels`, `label` and `classes`.")
        table = open_table(Path(self.labels))
        classes = Classes.parse(self.classes)
        form = AS_WRITTEN if self.ids_as_written else CANONICAL
        own = TableSource(table, self.label, classes, self.id_column, form)
        refuse_telling_ids(table, self.id_column, classes)
        name, _ = data_set_of(table, self.data_set)
        values, labels, ids = self._joined(own)
        return Material(own, labels, values, name, Path(self.ledger) if self.ledger is not None else None, ids)

    def _joined(self, source: TableSource) -> tuple[npt.NDArray[Any], PrivateLabels, tuple[str, ...] | None]:
        """Features in the order of the labels: by id, or row by row. And the ids."""
        assert self.features is not None
        path = Path(self.features)
        features = read_features(path, None if path.is_dir() else self.id_column, self.image_size)
        if path.is_dir() and self.id_column is None:
            raise InputError("images are named by their paths: name the labels' column of such names with `id_column`.")
        features.refuse_label(self.label, source.classes.names or ())
        parts, ids = [], []
        for batch in source.batches():
            parts.append(batch.labels)
            if batch.ids is not None:
                ids += batch.ids.to_pylist()
        labels = PrivateLabels.gather(parts)
        if not features.named:
            if len(features.values) != len(labels):
                raise InputError(
                    f"there are {len(features.values):,} rows of features for {len(labels):,} labels; `id_column` joins them by id."
                )
            return features.values, labels, None
        rows = find(ids, features.ids, "the features", source.id_form, "of the labels")
        if len(rows) == 0 or (rows < 0).any():
            raise InputError(
                f"{int((rows < 0).sum()):,} of the {len(labels):,} labels have no features; is `id_column` the right column?"
            )
        return np.asarray(features.values[rows]), labels, tuple(str(name) for name in ids)

    def open_ledger(self, material: Material) -> Ledger:
        """The owner's."""
        return Ledger(material.ledger, other_ids=self.other_ids)

    def save(self, owner: Path) -> None:
        """For the stages that follow. A directory has one origin."""
        path = OwnerFolder(owner).material
        if path.exists() and Origin.load(owner) != self:
            raise InputError(f"{owner.parent} holds another run, of other data; choose another `out`.")
        content = json.dumps(asdict(self), indent=2).encode()
        place_file(path, lambda file: file.write(content), private=True)

    @classmethod
    def load(cls, owner: Path) -> Origin:
        """As saved."""
        try:
            return cls(**json.loads(OwnerFolder(owner).material.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise InputError(f"{owner.parent} is no run of `labeldp pate teachers`.") from None
