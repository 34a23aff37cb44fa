"""All of PATE in one directory, stage by stage; each goes on where it stopped.

owner/            private: where the material is, votes, the ledger of a bundled data set, and what only the owner may know
features/         public: frozen features, where they were learned
answers.parquet   the release
held-out.parquet  a second release, of rows that teachers did not see, where one was asked for
data-dependent.json  a sanitised data-dependent ε, where one was asked and paid for
student-1/ …      runs like those of `labeldp train`
summary.json      what may be shown
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.votes import data_dependent_cost
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.features.encoder import frozen_features
from labeldp.files.atomic import place_file
from labeldp.files.run import RunFolder, read_as, read_json, write_json
from labeldp.files.summary import TeachersCost
from labeldp.machine import Machine
from labeldp.mechanisms import PateAnswers
from labeldp.mechanisms.plan import recommend
from labeldp.pate.answers import Ballots, release_answers, sanitised_path
from labeldp.pate.material import Material, audit_answers
from labeldp.pate.students import Progress as StudentProgress
from labeldp.pate.students import StudentPlan, estimated, spread, train_students
from labeldp.pate.teachers import Progress, TeacherPlan, Voted, check_same_labels, vote
from labeldp.pate.workers import Workers
from labeldp.private import unheard
from labeldp.provenance import today
from labeldp.release.make import Made, make_release
from labeldp.release.order import Order
from labeldp.release.release import Release, certificate_json
from labeldp.training.trainer import Steps


@dataclass(frozen=True)
class Stages:
    """One run directory, and what it starts from. The last `holdout` share of the rows is kept from teachers and questions."""

    folder: Path
    material: Material
    holdout: float = 0.0
    contrastive: int = 0  # epochs of contrastive learning, for frozen features of images
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None

    @property
    def run(self) -> RunFolder:
        """Its files."""
        return RunFolder(self.folder)

    @property
    def owner(self) -> Path:
        """The private part."""
        return self.run.owner.path

    @property
    def rows(self) -> int:
        """How many rows, the first ones, teachers see."""
        kept = len(self.material.labels) - round(self.holdout * len(self.material.labels))
        if not 0 <= self.holdout < 1 or kept < 1:
            raise InputError(f"`holdout` is a share of the rows, from 0 to below 1; got {self.holdout:g}.")
        return kept

    def features(self, model: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """For a linear model or teacher: frozen features of the images; for others the features as they are. And the test set's."""
        given, test = self.material.features, self.material.test
        plain = model not in (None, "linear", "mlp")
        if plain or given.ndim == 2:
            return given, test[0] if test is not None else None
        return frozen_features(
            given, test[0] if test is not None else None, self.run.features.path, self.contrastive, self.on_epoch
        )

    # ── stages ──

    def teachers(
        self, plan: TeacherPlan, workers: Workers | None = None, progress: Progress = lambda d, of: None
    ) -> Voted:
        """Train them, and count their votes."""
        model = None if plan.method == "frozen" else plan.model
        features, _ = self.features(model)
        with self.run.dated(today()):
            voted = vote(
                plan, features, self.material.labels, self.owner, data_set=self.material.data_set, digest=self.material.digest,
                rows=self.rows, workers=workers, progress=progress,
            )  # fmt: skip
            self.run.note_start(dated=False)
        return voted

    def aggregate(self, mechanism: PateAnswers, ledger: Any, entropy: Entropy, again: str | None = None) -> Made:
        """Charge the caps, ask, answer, release."""
        check_same_labels(self.run.owner, self.material.digest)
        self.run.note_start(dated=False)
        made = release_answers(
            mechanism, Ballots.load(self.run.owner.votes), self.material.source, data_set=self.material.data_set, ledger=ledger,
            out=self.run.answers, rows=self.rows, entropy=entropy, again=again, sanitised=self.owner,
        )  # fmt: skip
        with made.followed(self.folder), self.run.dated(made.record.made):
            answers = Release.load(made.path)
            if mechanism.sanitising is not None:
                write_json(self.run.sanitised, read_json(sanitised_path(self.owner, made.record)))
            write_json(self.run.owner.summary, self._owners(answers), private=True)
        return made

    def hold_out(self, epsilon: float, ledger: Any, entropy: Entropy) -> Made:
        """Release the rows that were kept from the teachers, under k-subset: they pay this ε, and nothing else.

        Before `aggregate`: a charge that follows work on votes would have a day that tells of it.
        """
        mechanism = recommend(epsilon, self.material.labels.num_classes)
        selected = (self.rows, len(self.material.labels))
        order = Order(self.material.source, mechanism, self.material.data_set, selected=selected)
        return make_release(order, ledger=ledger, entropy=entropy, out=self.run.held_out)

    def students(
        self,
        plan: StudentPlan,
        machine: Machine | None = None,
        progress: StudentProgress = lambda metrics: None,
        on_step: Steps = lambda step, of: None,
    ) -> dict[str, Any]:
        """Train them from the release, and sum up."""
        answers = self._answers()
        with self.run.dated(answers.header["made"]):
            return self._teach(answers, plan, machine, progress, on_step)

    def _answers(self) -> Release:
        answers = Release.load(self.run.answers) if self.run.answers.exists() else None
        if answers is None or not isinstance(answers.mechanism, PateAnswers):
            raise InputError(
                f"{self.folder} has no {self.run.answers.name}: the teachers have not been asked (`labeldp pate aggregate`)."
            )
        return answers

    def _teach(
        self, answers: Release, plan: StudentPlan, machine: Machine | None, progress: StudentProgress, on_step: Steps
    ) -> dict[str, Any]:
        assert isinstance(answers.mechanism, PateAnswers)
        self.run.note_start(answers.paths, dated=False)
        features, test_features = self.features(plan.model)
        test = self.material.test
        held_out = None
        if self.run.held_out.exists():
            held_out = (Release.load(self.run.held_out), features[self.rows :])
        spent = self.run.owner.cost
        teachers = read_as(TeachersCost, spent)

        def timed(metrics: dict[str, Any]) -> None:
            cost = read_as(TeachersCost, spent)
            longer = cost.students_seconds + metrics["seconds"]
            write_json(spent, asdict(replace(cost, students_seconds=longer)), private=True)
            progress(metrics)

        done = train_students(
            plan, answers, features[: self.rows], self.folder,
            test=(test_features, test[1]) if test is not None and test_features is not None else None,
            held_out=held_out, machine=machine, progress=timed, on_step=on_step,
        )  # fmt: skip
        asked, answered = answers.mechanism.counts(answers.observations)
        summary = {
            "certificate": certificate_json(answers.mechanism, answers.insecure),
            "basis": "caps",
            "trust": answers.mechanism.trust,
            "mechanism": answers.mechanism.to_json(),
            "asked": asked,
            "answered": answered,
            "insecure": answers.insecure,
            "students": [
                {
                    name: one.get(name)
                    for name in (
                        "accuracy_test",
                        "accuracy_estimated",
                        "accuracy_unbiased",
                        "standard_error",
                        "interval_95",
                        "metrics",
                        "train_flop",
                    )
                }
                for one in done
            ],
            "accuracy_test": spread([one["accuracy_test"] for one in done]),
            "accuracy_estimated": estimated(done),
            "teachers_flop": int(teachers.flop),
            "students_flop": sum(int(one["train_flop"]) for one in done),
            "release": answers.checksum,
            "held_out": None if held_out is None else _about(held_out[0]),
        }
        if self.material.canaries is not None:
            first = self.run.student(1, plan.name).path
            summary["audit"] = audit_answers(
                self.material.canaries, answers, first, features[: self.rows], machine, plan.model
            )
        if answers.mechanism.sanitising is not None:
            summary["data_dependent"] = read_json(self.run.sanitised)
        self.run.write_summary("pate", summary, self.run.summary_of(plan.name))
        return summary

    # ── what only the owner may know ──

    def _for_account(self, ballots: Ballots, said: npt.NDArray[Any], mechanism: PateAnswers) -> None:
        """The votes of the queries that were asked, as `labeldp pate account` takes them."""
        asked = said <= mechanism.num_classes
        votes, answered = ballots.votes[asked], mechanism.informative(said)[asked]
        place_file(
            self.run.owner.asked,
            lambda file: np.savez_compressed(file, votes=votes, answered=answered),
            private=True,
        )

    @unheard()
    def _owners(self, answers: Release) -> dict[str, Any]:
        """From raw votes and true labels: how good the ensemble is, how much it agrees, and the data-dependent ε."""
        mechanism = answers.mechanism
        assert isinstance(mechanism, PateAnswers)
        ballots = Ballots.load(self.run.owner.votes)
        true = self.material.labels.entrust(ballots.rows)
        most = ballots.votes.argmax(axis=1)
        said = answers.observations[ballots.rows]
        self._for_account(ballots, said, mechanism)
        asked, answered = said <= mechanism.num_classes, mechanism.informative(said)
        cost = data_dependent_cost(
            ballots.votes[asked],
            answered[asked],
            threshold=mechanism.threshold,
            sigma1=mechanism.sigma1,
            sigma2=mechanism.sigma2,
        )
        epsilon, order = cost.epsilon(mechanism.delta)
        spent = read_as(TeachersCost, self.run.owner.cost)
        teachers = mechanism.teachers
        return {
            "owner_only": "these numbers come from votes and true labels that nobody has paid for: do not publish them",
            "ensemble_accuracy": float((most == true).mean()),
            "teacher_accuracy": float(ballots.votes[np.arange(len(true)), true].mean() / teachers),
            "agreement": float(ballots.votes.max(axis=1).mean() / teachers),
            "answers_accuracy": float((said[answered] == true[answered]).mean()) if answered.any() else None,
            "epsilon_data_dependent": epsilon,
            "order": order,
            "teachers_seconds": spent.seconds,  # of a computation on private labels: no proof covers its duration
        }


def _about(release: Release) -> dict[str, Any]:
    """What the rows that were held out have paid."""
    certificate = certificate_json(release.mechanism, release.insecure)
    return {"rows": len(release), "mechanism": release.mechanism.name, "epsilon": certificate["epsilon"]}
