"""TeacherOptions vote, an aggregator answers, a student learns, all of it in one trusted place: `labeldp pate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import ANSWERS, DATA, MACHINE, STUDENTS, TEACHERS, Argument, Option, Options
from labeldp.commands.presets import PATE, filled
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    CLASSES,
    DATASET,
    FEATURES,
    LABEL,
    LABELS,
    AccountOptions,
    BudgetGaussianOption,
    BudgetOptions,
    CanariesOption,
    CandidatesOption,
    ClassesGiven,
    DataOption,
    DeviceOption,
    IdOption,
    ImageSizeOption,
    ProcessesOption,
    RunArgument,
    SeedOption,
)
from labeldp.commands.values import MODELS, PATE_PRESETS
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.pate.account import Account as Accounted
    from labeldp.pate.run import Stages
    from labeldp.pate.students import StudentPlan


# fmt: off
MaxAskedOption = Annotated[int | None, Option("Ask about at most so many rows: a cap, charged whether reached or not.", panel=ANSWERS)]
MaxAnsweredOption = Annotated[int | None, Option("Answer at most so many: a cap, charged whether reached or not.", panel=ANSWERS)]
DELTA = Option("δ at which ε is stated.", panel=ANSWERS)
SIGMA1 = Option("Noise of the threshold, in votes.", panel=ANSWERS)
SIGMA2 = Option("Noise of each class's votes.", panel=ANSWERS)
THRESHOLD = Option("Answer only where about so many teachers agree: 10% to 75% of them.", panel=ANSWERS)
OUT = Option("The run directory; interrupted, the same command goes on.")


@dataclass(frozen=True, kw_only=True)
class Preset(Options):
    """A row of the paper's table."""

    preset: Annotated[str | None, Option("A row of the paper's PATE table: pate-cifar10-high …; options given beside it win.", values=PATE_PRESETS)] = None


@dataclass(frozen=True, kw_only=True)
class Learning(Preset):
    """By whose recipe, and from which seed, models learn."""

    paper: Annotated[bool, Option("FixMatch as published, not what serves short runs on a CPU better.", flag="--paper-recipe", panel=TEACHERS, hidden=True)] = False
    seed: SeedOption = 0


@dataclass(frozen=True, kw_only=True)
class MaterialOptions(AccountOptions):
    """Features and labels: a bundled data set, or your own files."""

    dataset: Annotated[str | None, DATASET] = None
    data: DataOption = None
    first: Annotated[int | None, Option("Of a bundled data set, only the first so many rows.", panel=DATA)] = None
    features: Annotated[Path | None, FEATURES] = None
    labels: Annotated[Path | None, LABELS] = None
    label: Annotated[str | None, LABEL.but(panel=DATA)] = None
    classes: Annotated[ClassesGiven | None, CLASSES.but(panel=DATA)] = None
    id_column: IdOption = None
    image_size: ImageSizeOption = None
    holdout: Annotated[float, Option("The share of rows, the last ones, that is kept from the teachers: to judge the student where there is no public test set.", panel=DATA)] = 0.0


@dataclass(frozen=True, kw_only=True)
class TeacherOptions(Learning):
    """How teachers are trained."""

    teachers: Annotated[int | None, Option("How many; each sees its own shard of the labels.", panel=TEACHERS)] = None
    method: Annotated[str | None, Option("frozen: linear teachers on fixed features (of images: learned from the images alone), seconds for all. fixmatch: a model each (PATE-FM). Default: frozen; with a preset fixmatch.", panel=TEACHERS, values=("frozen", "fixmatch"))] = None
    model: Annotated[str | None, Option("With --method fixmatch: as for train.", panel=TEACHERS, values=MODELS)] = None
    epochs: Annotated[int | None, Option("With --method fixmatch: passes over all features, each teacher.", panel=TEACHERS)] = None
    contrastive: Annotated[int, Option("For frozen features of images: also learn by contrast for so many epochs (6), from the images alone. Takes a while; helps photographs.", panel=TEACHERS)] = 0
    max_asked: MaxAskedOption = None
    processes: ProcessesOption = 2
    ray: Annotated[str | None, Option("Train teachers on an existing Ray cluster: auto, ray://host:10001, or local. It receives shards of true labels, so it must lie inside the label owner's trust boundary.", panel=MACHINE)] = None


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Preset, BudgetOptions):
    """What is asked and answered, and what that may cost."""

    max_asked: MaxAskedOption = None
    max_answered: MaxAnsweredOption = None
    sigma1: Annotated[float | None, SIGMA1] = None
    sigma2: Annotated[float | None, SIGMA2] = None
    threshold: Annotated[float | None, THRESHOLD] = None
    delta: Annotated[float, DELTA] = 1e-5
    answer_accuracy: Annotated[float, Option("A public belief of how often answers are right, for the student's evidence; 1 takes them at their word. Do not measure it.", panel=ANSWERS)] = 1.0
    publish: Annotated[str | None, Option("Also publish a data-dependent ε, sanitised: ORDER,BETA,SIGMA[,MARGIN] of its noise (5,0.02,8). It costs extra, which is charged, and seldom pays.", flag="--publish-data-dependent", panel=ANSWERS)] = None
    holdout_epsilon: Annotated[float | None, Option("Release the rows kept by --holdout under k-subset at this ε: a separate charge.", panel=ANSWERS)] = None
    budget_gaussian: BudgetGaussianOption = None


@dataclass(frozen=True, kw_only=True)
class StudentOptions(Learning):
    """How students are trained."""

    students: Annotated[int, Option("Train so many; the summary has mean ± std.", panel=STUDENTS)] = 1
    name: Annotated[str, Option("What the students' directories are called: NAME-1 …; another name for another try.", panel=STUDENTS)] = "student"
    student: Annotated[str, Option("fixmatch (answers, and all features unlabelled) or evidence (answers alone).", panel=STUDENTS, values=("fixmatch", "evidence"))] = "fixmatch"
    student_model: Annotated[str | None, Option("As for train. Default: the teachers' model; mlp with frozen ones, on their features.", panel=STUDENTS, values=MODELS)] = None
    student_epochs: Annotated[int | None, Option("Passes over all features.", panel=STUDENTS)] = None
    device: DeviceOption = "auto"


@dataclass(frozen=True, kw_only=True)
class PateRunOptions(MaterialOptions, TeacherOptions, AnswerOptions, StudentOptions):
    """What `labeldp pate run` is told; a preset is a value of these."""

    out: Annotated[Path, OUT] = Path("pate-run")
    canaries: CanariesOption = None
    candidates: CandidatesOption = None


@dataclass(frozen=True, kw_only=True)
class PateTeachersOptions(MaterialOptions, TeacherOptions):
    """What `labeldp pate teachers` is told."""

    out: Annotated[Path, OUT] = Path("pate-run")


@dataclass(frozen=True, kw_only=True)
class PateAggregateOptions(AnswerOptions):
    """What `labeldp pate aggregate` is told."""

    out: RunArgument


@dataclass(frozen=True, kw_only=True)
class PateStudentOptions(StudentOptions):
    """What `labeldp pate student` is told."""

    out: RunArgument


@dataclass(frozen=True, kw_only=True)
class PateFeaturesOptions(Options):
    """What `labeldp pate features` is told."""

    out: RunArgument
    images: Annotated[Path, Option("New images: .npy, .npz or a folder, like those of the run.", flag="--features")]
    to: Annotated[Path, Option("Their features (.npy), for `labeldp predict` with a student.", flag="--out")]
    image_size: ImageSizeOption = None


@dataclass(frozen=True, kw_only=True)
class PateAccountOptions(Options):
    """What `labeldp pate account` is told."""

    votes: Annotated[Path, Argument("An .npz file with votes (n, C) and answered (n).")]
    sigma1: Annotated[float, SIGMA1]
    sigma2: Annotated[float, SIGMA2]
    threshold: Annotated[float, THRESHOLD]
    delta: Annotated[float, DELTA] = 1e-5
    max_asked: MaxAskedOption = None
    max_answered: MaxAnsweredOption = None
    orders: Annotated[str | None, Option("Which Rényi orders to print: 2,4.5,8.")] = None
    smooth: Annotated[bool, Option("Also the smooth sensitivity, at --order and --beta.", flag="--smooth-sensitivity")] = False
    order: Annotated[float | None, Option("For --smooth-sensitivity.")] = None
    beta: Annotated[float | None, Option("For --smooth-sensitivity.")] = None
# fmt: on


@dataclass(frozen=True)
class Answered:
    """What was released of the teachers' votes, and what it was charged to."""

    facts: dict[str, Any]
    ledger: Path | None

    def to_json(self) -> dict[str, Any]:
        """What may be printed."""
        return self.facts


@dataclass(frozen=True)
class Taught:
    """A run whose students are trained: its summary, its ledger, its owner's part, and whether rows are held out that nobody judges by."""

    summary: dict[str, Any]
    ledger: Path | None
    owner: Path
    idle: bool

    def to_json(self) -> dict[str, Any]:
        """The summary, which may be shown."""
        return self.summary


def pate_run(options: PateRunOptions, progress: Progress = SILENT) -> Taught:
    """TeacherOptions, answers and students in one go. Trust model: central; the summary says what may be shown.

    Example: labeldp pate run --dataset fashion --teachers 200 --max-answered 500 --max-asked 2000 --sigma1 160 --sigma2 20 --threshold 100

    Your own: labeldp pate run --features x.parquet --labels y.parquet --label y --id uid --classes 10 --teachers 1000 --max-asked 2000 --max-answered 500 --sigma1 500 --sigma2 170 --threshold 400 --out run/
    """
    from labeldp.commands import stages as build

    if options.preset is not None and any((options.features, options.labels)):
        raise InputError("a `preset` brings its data set; leave out `features` and `labels`.")
    if options.candidates is not None and options.canaries is None:
        raise InputError(
            "`candidates` is the number of labels that each of the `canaries` is drawn from; say how many."
        )
    if options.canaries is not None and options.holdout:
        raise InputError("`canaries` and `holdout` do not go together: a canary's label must be among the teachers'.")
    options = filled(options, PATE, options.preset)
    origin = build.origin_of(options, canaries=options.canaries, candidates=options.candidates)
    shown = progress.doing("teachers")
    stages = build.stages_of(options.out, origin, options.holdout, options.contrastive, shown)
    mechanism = build.mechanism_of(options, stages, options.teachers)
    plan = build.teacher_plan(options, stages)
    learning = build.student_plan(options, stages, options.method, options.model)
    build.warn(mechanism, origin, progress)
    workers = build.workers_of(options)
    build.begin(stages, origin)
    papers = build.papers_of(options, stages, origin, mechanism)
    with shown:
        stages.teachers(plan, workers, lambda done, of: shown.show("teachers", done, of, "teachers", lines=20))
    made = build.release_all(options, stages, mechanism, papers)
    with made.followed(options.out):
        return _taught(stages, learning, options.device, progress)


def pate_teachers(options: PateTeachersOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """The first stage: train the teachers and count their votes on the rows that may be asked about. Nothing is released or charged."""
    from labeldp.commands import stages as build

    options = filled(options, PATE, options.preset)
    origin = build.origin_of(options)
    shown = progress.doing("teachers")
    stages = build.stages_of(options.out, origin, options.holdout, options.contrastive, shown)
    plan, workers = build.teacher_plan(options, stages), build.workers_of(options)
    build.begin(stages, origin)
    with shown:
        voted = stages.teachers(plan, workers, lambda done, of: shown.show("teachers", done, of, "teachers", lines=20))
    return {
        "out": str(options.out), "teachers": options.teachers, "queries": len(voted.ballots.rows), "teachers_flop": voted.flop,
    }  # fmt: skip


def pate_aggregate(options: PateAggregateOptions, progress: Progress = SILENT) -> Answered:
    """The second stage: charge the caps, ask, answer, release answers.parquet. --max-asked is at most what the teachers voted on (default: all)."""
    from dataclasses import replace

    from labeldp.commands import stages as build

    stages, origin, voted = build.voted_run(options.out)
    options = filled(options, PATE, options.preset)
    if options.max_asked is None:
        options = replace(options, max_asked=voted["queries"])
    mechanism = build.mechanism_of(options, stages, voted["teachers"])
    build.warn(mechanism, origin, progress)
    papers = build.papers_of(options, stages, origin, mechanism)
    made = build.release_all(options, stages, mechanism, papers)
    return Answered(build.answers_json(stages, made), stages.material.ledger)


def pate_student(options: PateStudentOptions, progress: Progress = SILENT) -> Taught:
    """The last stage: train students from answers.parquet and all features. Nothing private is left in it: `labeldp train` can do it too."""
    from labeldp.commands import stages as build

    stages, _, voted = build.voted_run(options.out)
    options = filled(options, PATE, options.preset)
    learning = build.student_plan(options, stages, voted["method"], voted["model"])
    return _taught(stages, learning, options.device, progress)


def _taught(stages: Stages, plan: StudentPlan, device: str, progress: Progress) -> Taught:
    from labeldp.machine import Machine

    with progress.doing("students") as shown:
        shown.begin(plan.recipe.epochs)
        summary = stages.students(plan, Machine(device), shown.epoch, shown.step)
    idle = summary["held_out"] is None and stages.rows < len(stages.material.labels)
    return Taught(summary, stages.material.ledger, stages.owner, idle)


def pate_features(options: PateFeaturesOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """The frozen features of new images, as a student on frozen features wants them."""
    import numpy as np

    from labeldp.data.features import read_features
    from labeldp.features.encoder import Encoder
    from labeldp.files.atomic import place_file

    with progress.doing("features"):
        read = read_features(options.images, None, options.image_size)
        found = Encoder.load(RunFolder(options.out).features.path).transform(read.values)
    place_file(options.to, lambda file: np.save(file, found))
    return {"out": str(options.to), "rows": len(found), "features": found.shape[1]}


def pate_account(options: PateAccountOptions, progress: Progress = SILENT) -> Accounted:
    """What votes cost: the ε that may be published, and beside it what only their owner may know."""
    from labeldp.pate.account import account, read_votes

    smooth = None
    if options.smooth:
        if options.order is None or options.beta is None:
            raise InputError("`smooth` needs `order` and `beta` (20 and 0.02, for instance).")
        smooth = options.order, options.beta
    elif options.order is not None or options.beta is not None:
        raise InputError("`order` and `beta` go with `smooth`.")
    try:
        orders = None if options.orders is None else [float(text) for text in options.orders.split(",")]
    except ValueError:
        raise InputError(f"`orders` takes numbers with commas between (2,4.5,8); got {options.orders!r}.") from None
    table, answered = read_votes(options.votes)
    return account(
        table, answered, threshold=options.threshold, sigma1=options.sigma1, sigma2=options.sigma2, delta=options.delta,
        max_asked=options.max_asked, max_answered=options.max_answered, orders=orders, smooth=smooth,
    )  # fmt: skip
