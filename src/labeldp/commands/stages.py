"""From the options of `labeldp pate` to the objects they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.commands.progress import Progress
from labeldp.commands.shared import ClassesGiven, declared_classes
from labeldp.errors import InputError
from labeldp.files.run import RunFolder, read_as, read_json
from labeldp.files.summary import TeachersConfig

if TYPE_CHECKING:
    from labeldp.accounting.ledger import Ledger
    from labeldp.commands.pate import AnswerOptions, MaterialOptions, StudentOptions, TeacherOptions
    from labeldp.entropy import Entropy
    from labeldp.mechanisms import PateAnswers
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.pate.students import StudentPlan
    from labeldp.pate.teachers import TeacherPlan
    from labeldp.pate.workers import Workers
    from labeldp.release.make import Made


def origin_of(options: MaterialOptions, *, canaries: int | None = None, candidates: int | None = None) -> Origin:
    """Where features and labels are; paths are made absolute, since later stages may start elsewhere."""
    from labeldp.accounting.ledger import default_ledger_path
    from labeldp.pate.material import Origin

    ledger = options.ledger
    if options.dataset is None and ledger is None:
        ledger = default_ledger_path()  # as it is now: later stages charge the same
    return Origin(
        options.dataset, _place(options.data), _place(options.features), _place(options.labels), options.label,
        _text(options.classes), options.id_column, options.image_size, options.data_set, _place(ledger), options.first, canaries,
        candidates, options.other_ids, options.ids_as_written,
    )  # fmt: skip


def _place(path: Path | None) -> str | None:
    return str(path.absolute()) if path is not None else None


def _text(classes: ClassesGiven | None) -> str | None:
    """As the command line has them, which is how a run keeps them."""
    if classes is None or isinstance(classes, str):
        return classes
    declared = declared_classes(classes)
    return ",".join(declared.names) if declared.names else str(declared.count)


def stages_of(out: Path, origin: Origin, holdout: float, contrastive: int, shown: Progress) -> Stages:
    """What a run starts from, read and checked; nothing is written yet."""
    from labeldp.pate.run import Stages

    if contrastive < 0:
        raise InputError(f"`contrastive` is a number of epochs, from 0; got {contrastive}.")

    def learned(epoch: int, loss: float) -> None:
        shown.line(f"contrastive epoch {epoch}: loss {loss:.4f}")
        shown.show("features", epoch, contrastive, "epochs")

    return Stages(out, origin.read(RunFolder(out).owner.path), holdout, contrastive, learned)


def begin(stages: Stages, origin: Origin) -> None:
    """The directory and its private part, once every option is understood."""
    from labeldp.pate.material import keep

    RunFolder(stages.owner).make(private=True)
    origin.save(stages.owner)
    keep(stages.owner, stages.material.canaries)


def voted_run(out: Path) -> tuple[Stages, Origin, dict[str, Any]]:
    """A run whose teachers have voted, if its labels are still those that they were trained on."""
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.pate.teachers import check_same_labels

    run = RunFolder(out)
    origin = Origin.load(run.owner.path)
    config = read_as(TeachersConfig, run.owner.config)
    material = origin.read(run.owner.path)
    check_same_labels(run.owner, material.digest)
    holdout = 1 - config.rows / len(material.labels)
    learned = run.features.config
    contrastive = read_json(learned).get("contrastive", 0) if learned.exists() else 0
    return Stages(out, material, holdout, contrastive), origin, config.teachers


def _given(options: Any, *names: str) -> list[Any]:
    """What these options say; each must say something."""
    for name in names:
        if getattr(options, name) is None:
            raise InputError(f"`{name}` is missing.")
    return [getattr(options, name) for name in names]


def mechanism_of(options: AnswerOptions, stages: Stages, teachers: int | None) -> PateAnswers:
    """The aggregator."""
    from labeldp.mechanisms import PateAnswers

    if teachers is None:
        raise InputError("`teachers` is missing.")
    sigma1, sigma2, threshold = _given(options, "sigma1", "sigma2", "threshold")
    answered, asked = _given(options, "max_answered", "max_asked")
    if asked > stages.rows:
        raise InputError(f"`max_asked` is at most the number of rows, {stages.rows:,}; got {asked:,}.")
    return PateAnswers(
        stages.material.labels.num_classes, teachers, sigma1, sigma2, threshold, asked, answered, options.delta, options.answer_accuracy,
        _sanitising(options.publish),
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
        raise InputError(f"`publish` takes ORDER,BETA,SIGMA[,MARGIN], as in 5,0.02,8; got {text!r}.") from None
    return Sanitising(*numbers)


def teacher_plan(options: TeacherOptions, stages: Stages) -> TeacherPlan:
    """How teachers are trained."""
    from labeldp.pate.presets import recipe_for
    from labeldp.pate.teachers import TeacherPlan

    teachers, asked = _given(options, "teachers", "max_asked")
    method = options.method or "frozen"
    if method == "frozen":
        if options.model is not None or options.epochs is not None:
            raise InputError(
                "`model` and `epochs` are for `method='fixmatch'`; frozen teachers are linear, and solved at once."
            )
        return TeacherPlan(teachers, asked, method, seed=options.seed)
    if method != "fixmatch":
        raise InputError(f"`method` is frozen or fixmatch; got {method!r}.")
    model, material = options.model or _usual_model(stages), stages.material
    recipe = recipe_for(
        model, material.features, material.labels.num_classes, options.epochs, options.seed, paper=options.paper
    )
    return TeacherPlan(teachers, asked, method, model, recipe, seed=options.seed)


def student_plan(options: StudentOptions, stages: Stages, method: str | None, model: str | None) -> StudentPlan:
    """How students are, of teachers of this method and model."""
    from labeldp.pate.presets import recipe_for, student_recipe
    from labeldp.pate.students import StudentPlan

    if options.student not in ("fixmatch", "evidence"):
        raise InputError(f"`student` is fixmatch or evidence; got {options.student!r}.")
    frozen = (method or "frozen") == "frozen"
    chosen = options.student_model or ("mlp" if frozen else model or _usual_model(stages))
    classes, epochs, seed = stages.material.labels.num_classes, options.student_epochs, options.seed
    if options.student == "evidence":
        recipe = student_recipe(chosen, classes, epochs, seed)
    else:
        recipe = recipe_for(chosen, stages.material.features, classes, epochs, seed, paper=options.paper)
    return StudentPlan(chosen, recipe, options.students, options.name)


def _usual_model(stages: Stages) -> str:
    shape = stages.material.features.shape[1:]
    return "fast" if len(shape) == 3 and min(shape[1:]) >= 17 else "mlp"


def workers_of(options: TeacherOptions) -> Workers:
    """Where teachers are."""
    from labeldp.pate.workers import LocalWorkers, RayWorkers

    if options.processes < 0:
        raise InputError(f"`processes` is not negative; got {options.processes}.")
    return RayWorkers(options.ray) if options.ray is not None else LocalWorkers(options.processes)


def warn(mechanism: PateAnswers, origin: Origin, progress: Progress) -> None:
    """Of what the paper advises against, and of an order that may tell."""
    from labeldp.pate.answers import doubts

    if origin.dataset is None:
        progress.warn(
            "answers are in the order of the label file, and `holdout` takes its last rows: both are public. If the file is sorted by "
            "its label, sort or shuffle it first."
        )
    for doubt in doubts(mechanism):
        progress.warn(doubt)


@dataclass(frozen=True)
class Papers:
    """What a release is charged to, and drawn from."""

    ledger: Ledger
    entropy: Entropy


def papers_of(options: AnswerOptions, stages: Stages, origin: Origin, mechanism: PateAnswers) -> Papers:
    """Ledger and entropy; whatever the ledger would refuse it refuses now, before teachers are trained for nothing."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import noise
    from labeldp.release.make import check_release
    from labeldp.release.order import Order

    material, entropy = stages.material, noise(options.insecure_seed)
    budget, gaussian = _caps(options, stages, origin, mechanism)
    ledger = Ledger(
        material.ledger,
        budget=budget,
        budget_gaussian=None if gaussian is None else (gaussian, mechanism.delta),
        raise_budget=options.raise_budget,
        other_ids=origin.other_ids,
    )
    order = Order(material.source, mechanism, material.data_set, selected=(0, stages.rows))
    check_release(order, ledger=ledger, entropy=entropy, again=options.again)
    return Papers(ledger, entropy)


def _caps(
    options: AnswerOptions, stages: Stages, origin: Origin, mechanism: PateAnswers
) -> tuple[float | None, float | None]:
    """Of pure and of Gaussian releases: as given; a bundled data set's ledger gets room for both where there are both."""
    from labeldp.accounting.cost import SLACK_SHARE
    from labeldp.accounting.ledger import Ledger

    epsilon = mechanism.guarantee().epsilon  # which a δ below the slack does not have
    known = stages.material.data_set in Ledger(stages.material.ledger).book().data_sets
    given = options.budget, options.budget_gaussian
    if options.holdout_epsilon is None:
        return given
    if stages.rows == len(stages.material.labels):
        raise InputError("`holdout_epsilon` releases rows that teachers do not see: name their share with `holdout`.")
    if options.insecure_seed is not None or known or None not in given:
        return given
    room = epsilon * (1 + 4 * SLACK_SHARE)
    if origin.dataset is None:
        raise InputError(
            "`holdout_epsilon` is a second kind of cost: give caps for both, `budget` (of at least its ε) and `budget_gaussian` "
            f"(at least {room:.4g})."
        )
    return max(options.holdout_epsilon, mechanism.certificate().pure), room


def release_all(options: AnswerOptions, stages: Stages, mechanism: PateAnswers, papers: Papers) -> Made:
    """The answers; and before them, under a charge of their own, the rows that are held out."""
    if options.holdout_epsilon is None:
        return stages.aggregate(mechanism, papers.ledger, papers.entropy, options.again)
    held_out = stages.hold_out(options.holdout_epsilon, papers.ledger, papers.entropy)
    with held_out.followed(stages.folder):
        return stages.aggregate(mechanism, papers.ledger, papers.entropy, options.again)


def answers_json(stages: Stages, made: Made) -> dict[str, Any]:
    """What was released, and what it cost."""
    from labeldp.mechanisms import PateAnswers
    from labeldp.release import Release
    from labeldp.release.release import certificate_json

    answers = Release.load(stages.run.answers)
    assert isinstance(answers.mechanism, PateAnswers)
    asked, answered = answers.mechanism.counts(answers.observations)
    return {
        "out": str(stages.run.answers), "asked": asked, "answered": answered, "basis": "caps", "trust": "central",
        "certificate": certificate_json(answers.mechanism, answers.insecure), "mechanism": answers.mechanism.to_json(),
        "charged": made.charged_now, "made": made.record.made, "insecure": answers.insecure,
    }  # fmt: skip
