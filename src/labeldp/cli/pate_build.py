"""From the options of `labeldp pate` to the objects they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger
    from labeldp.cli.progress import Progress
    from labeldp.entropy import Entropy
    from labeldp.mechanisms import PateAnswers
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.pate.students import StudentPlan
    from labeldp.pate.teachers import TeacherPlan
    from labeldp.pate.workers import Workers


def origin_of(
    dataset: Any, data: Path | None, features: Path | None, labels: Path | None, *rest: Any, canaries: int | None = None,
    candidates: int | None = None, other_ids: str | None = None, ids_as_written: bool = False,
) -> Origin:  # fmt: skip
    """Where features and labels are; paths are made absolute, since later stages may start elsewhere."""
    from labeldp.accounting.ledger import default_ledger_path
    from labeldp.pate.material import Origin

    label, classes, id_column, image_size, data_set, ledger, first = rest

    def place(path: Path | None) -> str | None:
        return str(path.absolute()) if path is not None else None

    if dataset is None and ledger is None:
        ledger = default_ledger_path()  # as it is now: later stages charge the same

    return Origin(
        dataset, place(data), place(features), place(labels), label, classes, id_column, image_size, data_set, place(ledger), first,
        canaries, candidates, other_ids, ids_as_written,
    )  # fmt: skip


def stages_of(out: Path, origin: Origin, holdout: float, contrastive: int, shown: Progress) -> Stages:
    """What a run starts from, read and checked; nothing is written yet."""
    from labeldp.pate.run import Stages

    if contrastive < 0:
        raise InputError(f"--contrastive is a number of epochs, from 0; got {contrastive}.")

    def learned(epoch: int, loss: float) -> None:
        shown.line(f"contrastive epoch {epoch}: loss {loss:.4f}")
        shown.show("features", epoch, contrastive, "epochs")

    return Stages(out, origin.read(out / "owner"), holdout, contrastive, learned)


def begin(stages: Stages, origin: Origin) -> None:
    """The directory and its private part, once every option is understood."""
    from labeldp.pate.material import keep
    from labeldp.training.folder import RunFolder

    RunFolder(stages.owner).make(private=True)
    origin.save(stages.owner)
    keep(stages.owner, stages.material.canaries)


def voted_run(out: Path) -> tuple[Stages, Origin, dict[str, Any]]:
    """A run whose teachers have voted, if its labels are still those that they were trained on."""
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.pate.teachers import check_same_labels
    from labeldp.training.folder import RunFolder

    owner = out / "owner"
    origin = Origin.load(owner)
    config = RunFolder(owner).config()
    material = origin.read(owner)
    check_same_labels(RunFolder(owner), material.digest)
    holdout = 1 - config["rows"] / len(material.labels)
    learned = out / "features" / "config.json"
    contrastive = RunFolder(learned.parent).config().get("contrastive", 0) if learned.exists() else 0
    return Stages(out, material, holdout, contrastive), origin, config["teachers"]


def _needed(given: dict[str, Any], *names: str) -> None:
    for name in names:
        if given[name] is None:
            raise InputError(f"--{name.replace('_', '-')} is missing.")


def mechanism_of(
    stages: Stages, given: dict[str, Any], delta: float, accuracy: float, publish: str | None
) -> PateAnswers:
    """The aggregator."""
    from labeldp.mechanisms import PateAnswers

    _needed(given, "teachers", "sigma1", "sigma2", "threshold", "max_answered", "max_asked")
    if given["max_asked"] > stages.rows:
        raise InputError(f"--max-asked is at most the number of rows, {stages.rows:,}; got {given['max_asked']:,}.")
    return PateAnswers(
        stages.material.labels.num_classes, given["teachers"], given["sigma1"], given["sigma2"], given["threshold"], given["max_asked"],
        given["max_answered"], delta, accuracy, _sanitising(publish),
    )  # fmt: skip


def _sanitising(text: str | None) -> Any:
    from labeldp.accounting.sanitise import Sanitising

    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
        if not 3 <= len(numbers) <= 4:
            raise ValueError
    except ValueError:
        raise InputError(
            f"--publish-data-dependent takes ORDER,BETA,SIGMA[,MARGIN], as in 5,0.02,8; got {text!r}."
        ) from None
    return Sanitising(*numbers)


def teacher_plan(given: dict[str, Any], stages: Stages, seed: int) -> TeacherPlan:
    """How teachers are trained."""
    from labeldp.pate.presets import recipe_for
    from labeldp.pate.teachers import TeacherPlan

    _needed(given, "teachers", "max_asked")
    method = given["method"] or "frozen"
    if method == "frozen":
        if given["model"] is not None or given["epochs"] is not None:
            raise InputError(
                "--model and --epochs are for --method fixmatch; frozen teachers are linear, and solved at once."
            )
        return TeacherPlan(given["teachers"], given["max_asked"], method, seed=seed)
    if method != "fixmatch":
        raise InputError(f"--method is frozen or fixmatch; got {method!r}.")
    model = given["model"] or _usual_model(stages)
    recipe = recipe_for(
        model,
        stages.material.features,
        stages.material.labels.num_classes,
        given["epochs"],
        seed,
        paper=bool(given.get("paper")),
    )
    return TeacherPlan(given["teachers"], given["max_asked"], method, model, recipe, seed=seed)


def student_plan(
    given: dict[str, Any], stages: Stages, student: str, students: int, seed: int, name: str
) -> StudentPlan:
    """How students are."""
    from labeldp.pate.presets import recipe_for, student_recipe
    from labeldp.pate.students import StudentPlan

    if student not in ("fixmatch", "evidence"):
        raise InputError(f"--student is fixmatch or evidence; got {student!r}.")
    frozen = (given["method"] or "frozen") == "frozen"
    model = given["student_model"] or ("mlp" if frozen else given["model"] or _usual_model(stages))
    classes, epochs = stages.material.labels.num_classes, given["student_epochs"]
    if student == "evidence":
        return StudentPlan(model, student_recipe(model, classes, epochs, seed), students, name)
    return StudentPlan(
        model,
        recipe_for(model, stages.material.features, classes, epochs, seed, paper=bool(given.get("paper"))),
        students,
        name,
    )


def _usual_model(stages: Stages) -> str:
    shape = stages.material.features.shape[1:]
    return "fast" if len(shape) == 3 and min(shape[1:]) >= 17 else "mlp"


def workers_of(processes: int, ray: str | None) -> Workers:
    """Where teachers are."""
    from labeldp.pate.workers import LocalWorkers, RayWorkers

    if processes < 0:
        raise InputError(f"--processes is not negative; got {processes}.")
    return RayWorkers(ray) if ray is not None else LocalWorkers(processes)


def warn(mechanism: PateAnswers, origin: Origin) -> None:
    """Of what the paper advises against, and of an order that may tell."""
    from labeldp.pate.answers import doubts

    if origin.dataset is None:
        typer.echo(
            "warning: answers are in the order of the label file, and --holdout takes its last rows: both are public. If the file is sorted by "
            "its label, sort or shuffle it first.",
            err=True,
        )
    for doubt in doubts(mechanism):
        typer.echo(f"warning: {doubt}", err=True)


@dataclass(frozen=True)
class Papers:
    """What a release is charged to, and drawn from."""

    ledger: Ledger
    entropy: Entropy
    again: str | None


def papers_of(
    stages: Stages, origin: Origin, mechanism: PateAnswers, holdout_epsilon: float | None,
    budgets: tuple[float | None, float | None, bool], again: str | None, insecure_seed: int | None,
) -> Papers:  # fmt: skip
    """Ledger and entropy; whatever the ledger would refuse it refuses now, before teachers are trained for nothing."""
    from labeldp.accounting.cost import SLACK_SHARE
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import SecureEntropy, SeededEntropy
    from labeldp.release.make import check_release

    budget, budget_gaussian, raise_budget = budgets
    known = stages.material.data_set in Ledger(stages.material.ledger).book().data_sets
    certificate = mechanism.certificate()
    epsilon = mechanism.guarantee().epsilon  # which a δ below the slack does not have
    entropy: Entropy = SecureEntropy() if insecure_seed is None else SeededEntropy(insecure_seed)
    if holdout_epsilon is not None and stages.rows == len(stages.material.labels):
        raise InputError("--holdout-epsilon releases rows that teachers do not see: name their share with --holdout.")
    if (
        holdout_epsilon is not None
        and insecure_seed is None
        and not known
        and (budget is None or budget_gaussian is None)
    ):
        if origin.dataset is None:
            raise InputError(
                "--holdout-epsilon is a second kind of cost: give caps for both, --budget (of at least its ε) and --budget-gaussian "
                f"(at least {epsilon * (1 + 4 * SLACK_SHARE):.4g})."
            )
        # A bundled data set's ledger gets room for both.
        budget = max(holdout_epsilon, certificate.pure)
        budget_gaussian = epsilon * (1 + 4 * SLACK_SHARE)
    caps = (budget_gaussian, mechanism.delta) if budget_gaussian is not None else None
    ledger = Ledger(
        stages.material.ledger,
        budget=budget,
        budget_gaussian=caps,
        raise_budget=raise_budget,
        other_ids=origin.other_ids,
    )
    check_release(
        stages.material.source, mechanism, data_set=stages.material.data_set, ledger=ledger, entropy=entropy, again=again,
        selected=(0, stages.rows),
    )  # fmt: skip
    return Papers(ledger, entropy, again)
