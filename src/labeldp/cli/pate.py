"""`labeldp pate`: teachers vote, an aggregator answers, a student learns. All of it in one trusted place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import DeviceOption, JsonOption
from labeldp.cli.output import guarantee_text, number, print_facts, print_json
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.mechanisms import PateAnswers
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.pate.students import StudentPlan
    from labeldp.pate.teachers import TeacherPlan
    from labeldp.pate.workers import Workers

app = typer.Typer(
    help="PATE: an ensemble of teachers answers a few questions privately, and a student learns from the answers. Trust model: central. Whoever "
    "runs `teachers` and `aggregate` sees features and labels; what leaves is answers.parquet and what is made of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_DATA, _TEACHERS, _ANSWERS, _STUDENT, _MACHINE = "Data", "Teachers", "Answers", "Students", "Machine"

DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="digits, fashion, cifar10 or cifar100.", rich_help_panel=_DATA)
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Where the data set's files are. Default: $LABELDP_DATA.", readable=False, rich_help_panel=_DATA
    ),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option("--features", help="Your own public features: as for train.", readable=False, rich_help_panel=_DATA),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="A Parquet or CSV file with the private labels, in the features' order or with an id.",
        readable=False,
        rich_help_panel=_DATA,
    ),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", help="The column that holds the label.", rich_help_panel=_DATA)
]
ClassesOption = Annotated[
    str | None,
    typer.Option("--classes", help="How many classes, or their names: as for release.", rich_help_panel=_DATA),
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The id column of labels and features.", rich_help_panel=_DATA)
]
ImageSizeOption = Annotated[
    int | None, typer.Option("--image-size", help="For a folder of images.", rich_help_panel=_DATA)
]
DataSetOption = Annotated[
    str | None,
    typer.Option(
        "--data-set",
        help="What the ledger knows these labels by. Default: the label file's stem.",
        rich_help_panel=_DATA,
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The ledger file, for your own labels; a bundled data set has one in the run.",
        readable=False,
        rich_help_panel=_DATA,
    ),
]
HoldoutOption = Annotated[
    float,
    typer.Option(
        "--holdout",
        help="The share of rows, the last ones, that is kept from the teachers: to judge the student where there is no public test set.",
        rich_help_panel=_DATA,
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="A row of the paper's PATE table: pate-cifar10-high …; options given beside it win."),
]
TeachersOption = Annotated[
    int | None,
    typer.Option("--teachers", help="How many; each sees its own shard of the labels.", rich_help_panel=_TEACHERS),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="frozen: linear teachers on fixed features (of images: learned from the images alone), seconds for all. fixmatch: a model each (PATE-FM). Default: frozen; with a preset fixmatch.",
        rich_help_panel=_TEACHERS,
    ),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="With --method fixmatch: as for train.", rich_help_panel=_TEACHERS)
]
EpochsOption = Annotated[
    int | None,
    typer.Option(
        "--epochs", help="With --method fixmatch: passes over all features, each teacher.", rich_help_panel=_TEACHERS
    ),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", help="Of shards, questions and trainings; never of the noise.", rich_help_panel=_TEACHERS),
]
AskedOption = Annotated[
    int | None,
    typer.Option(
        "--max-asked",
        help="Ask about at most so many rows: a cap, charged whether reached or not.",
        rich_help_panel=_ANSWERS,
    ),
]
AnsweredOption = Annotated[
    int | None,
    typer.Option(
        "--max-answered",
        help="Answer at most so many: a cap, charged whether reached or not.",
        rich_help_panel=_ANSWERS,
    ),
]
Sigma1Option = Annotated[
    float | None, typer.Option("--sigma1", help="Noise of the threshold, in votes.", rich_help_panel=_ANSWERS)
]
Sigma2Option = Annotated[
    float | None, typer.Option("--sigma2", help="Noise of each class's votes.", rich_help_panel=_ANSWERS)
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        help="Answer only where about so many teachers agree: 10% to 75% of them.",
        rich_help_panel=_ANSWERS,
    ),
]
DeltaOption = Annotated[float, typer.Option("--delta", help="δ at which ε is stated.", rich_help_panel=_ANSWERS)]
AccuracyOption = Annotated[
    float,
    typer.Option(
        "--answer-accuracy",
        help="A public belief of how often answers are right, for the student's evidence; 1 takes them at their word. Do not measure it.",
        rich_help_panel=_ANSWERS,
    ),
]
HoldoutEpsilonOption = Annotated[
    float | None,
    typer.Option(
        "--holdout-epsilon",
        help="Release the rows kept by --holdout under k-subset at this ε: a separate charge.",
        rich_help_panel=_ANSWERS,
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option("--budget", help="A cap on the pure ε of every row, for your own labels.", rich_help_panel=_ANSWERS),
]
BudgetGaussianOption = Annotated[
    float | None,
    typer.Option(
        "--budget-gaussian",
        help="A cap on the Gaussian part's ε at --delta, for your own labels.",
        rich_help_panel=_ANSWERS,
    ),
]
AgainOption = Annotated[
    str | None,
    typer.Option("--again", help="'charge' releases rows a second time, at a second cost.", rich_help_panel=_ANSWERS),
]
InsecureSeedOption = Annotated[
    int | None, typer.Option("--insecure-seed", help="Repeatable noise, for experiments.", rich_help_panel=_ANSWERS)
]
PublishOption = Annotated[
    str | None,
    typer.Option(
        "--publish-data-dependent",
        help="Also publish a data-dependent ε, sanitised: ORDER,BETA,SIGMA[,MARGIN] of its noise (20,0.01,8). It costs extra, which is charged, and seldom pays.",
        rich_help_panel=_ANSWERS,
    ),
]
StudentsOption = Annotated[
    int, typer.Option("--students", help="Train so many; the summary has mean ± std.", rich_help_panel=_STUDENT)
]
StudentOption = Annotated[
    str,
    typer.Option(
        "--student",
        help="fixmatch (answers, and all features unlabelled) or evidence (answers alone).",
        rich_help_panel=_STUDENT,
    ),
]
StudentModelOption = Annotated[
    str | None,
    typer.Option(
        "--student-model",
        help="As for train. Default: the teachers' model; linear with frozen ones.",
        rich_help_panel=_STUDENT,
    ),
]
StudentEpochsOption = Annotated[
    int | None, typer.Option("--student-epochs", help="Passes over all features.", rich_help_panel=_STUDENT)
]
ProcessesOption = Annotated[
    int, typer.Option("--processes", help="Teachers at a time, one thread each; 0 trains them in this process.", rich_help_panel=_MACHINE)
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Train teachers on an existing Ray cluster: auto, ray://host:10001, or local. It receives shards of true labels, so it must lie inside the label owner's trust boundary.",
        rich_help_panel=_MACHINE,
    ),
]
OutOption = Annotated[
    Path, typer.Option("--out", help="The run directory; interrupted, the same command goes on.", readable=False)
]
RunArgument = Annotated[Path, typer.Argument(help="The run directory.", show_default=False, readable=False)]


@app.command("run")
def run(
    out: OutOption = Path("pate-run"),
    preset: PresetOption = None,
    dataset: DatasetOption = None,
    data: DataOption = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    data_set: DataSetOption = None,
    ledger: LedgerOption = None,
    holdout: HoldoutOption = 0.0,
    teachers: TeachersOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    epochs: EpochsOption = None,
    seed: SeedOption = 0,
    max_asked: AskedOption = None,
    max_answered: AnsweredOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    threshold: ThresholdOption = None,
    delta: DeltaOption = 1e-5,
    answer_accuracy: AccuracyOption = 1.0,
    publish: PublishOption = None,
    holdout_epsilon: HoldoutEpsilonOption = None,
    budget: BudgetOption = None,
    budget_gaussian: BudgetGaussianOption = None,
    again: AgainOption = None,
    insecure_seed: InsecureSeedOption = None,
    students: StudentsOption = 1,
    student: StudentOption = "fixmatch",
    student_model: StudentModelOption = None,
    student_epochs: StudentEpochsOption = None,
    device: DeviceOption = "auto",
    processes: ProcessesOption = 2,
    ray: RayOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Teachers, answers and students in one go. Trust model: central; the summary says what may be shown.

    Example: labeldp pate run --dataset fashion --teachers 200 --max-answered 500 --max-asked 2000 --sigma1 160 --sigma2 20 --threshold 100

    Your own: labeldp pate run --features x.npy --labels y.parquet --label y --classes 10 --teachers 1000 --sigma1 … --out run/
    """
    from labeldp.pate.presets import filled

    given = {
        "dataset": dataset, "teachers": teachers, "method": method, "model": model, "epochs": epochs, "max_asked": max_asked,
        "max_answered": max_answered, "sigma1": sigma1, "sigma2": sigma2, "threshold": threshold, "student_model": student_model,
        "student_epochs": student_epochs,
    }  # fmt: skip
    if preset is not None and any((features, labels)):
        raise InputError("a --preset brings its data set; leave out --features and --labels.")
    filled(given, preset)
    origin = _origin(given["dataset"], data, features, labels, label, classes, id_column, image_size, data_set, ledger)
    stages = _stages(out, origin, holdout)
    mechanism = _mechanism(stages, given, delta, answer_accuracy, publish)
    plan = _teacher_plan(given, stages, seed)
    learning = _student_plan(given, stages, student, students, seed)
    _warn(mechanism)
    stages.teachers(plan, _workers(processes, ray), _progress)
    _release(stages, origin, mechanism, holdout_epsilon, budget, budget_gaussian, again, insecure_seed)
    _finish(stages, learning, device, json)


@app.command("teachers")
def teachers(
    out: OutOption = Path("pate-run"),
    preset: PresetOption = None,
    dataset: DatasetOption = None,
    data: DataOption = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    data_set: DataSetOption = None,
    ledger: LedgerOption = None,
    holdout: HoldoutOption = 0.0,
    teachers: TeachersOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    epochs: EpochsOption = None,
    max_asked: AskedOption = None,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    ray: RayOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The first stage: train the teachers and count their votes on the rows that may be asked about. Nothing is released or charged."""
    from labeldp.pate.presets import filled

    given = {
        "dataset": dataset,
        "teachers": teachers,
        "method": method,
        "model": model,
        "epochs": epochs,
        "max_asked": max_asked,
    }
    filled(given, preset)
    origin = _origin(given["dataset"], data, features, labels, label, classes, id_column, image_size, data_set, ledger)
    stages = _stages(out, origin, holdout)
    voted = stages.teachers(_teacher_plan(given, stages, seed), _workers(processes, ray), _progress)
    facts = {
        "out": str(out),
        "teachers": given["teachers"],
        "queries": len(voted.ballots.rows),
        "teachers_flop": voted.flop,
        "seconds": voted.seconds,
    }
    if json:
        print_json(facts)
        return
    print_facts([
        ("teachers", f"{given['teachers']:,} have voted on {len(voted.ballots.rows):,} rows; {voted.flop:.3g} FLOP, {voted.seconds:.1f} s"),
        ("private", f"{stages.owner}: votes are made of true labels, and stay with you"),
        ("next", f"labeldp pate aggregate {out} --sigma1 … --sigma2 … --threshold … --max-answered …"),
    ])  # fmt: skip


@app.command("aggregate")
def aggregate(
    out: RunArgument,
    preset: PresetOption = None,
    max_asked: AskedOption = None,
    max_answered: AnsweredOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    threshold: ThresholdOption = None,
    delta: DeltaOption = 1e-5,
    answer_accuracy: AccuracyOption = 1.0,
    publish: PublishOption = None,
    holdout_epsilon: HoldoutEpsilonOption = None,
    budget: BudgetOption = None,
    budget_gaussian: BudgetGaussianOption = None,
    again: AgainOption = None,
    insecure_seed: InsecureSeedOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The second stage: charge the caps, ask, answer, release answers.parquet. --max-asked is at most what the teachers voted on (default: all)."""
    from labeldp.pate.presets import filled

    stages, origin, voted = _voted(out)
    given = {
        "max_asked": max_asked,
        "max_answered": max_answered,
        "sigma1": sigma1,
        "sigma2": sigma2,
        "threshold": threshold,
    }
    filled(given, preset)
    given["teachers"], given["max_asked"] = voted["teachers"], given["max_asked"] or voted["queries"]
    mechanism = _mechanism(stages, given, delta, answer_accuracy, publish)
    _warn(mechanism)
    made = _release(stages, origin, mechanism, holdout_epsilon, budget, budget_gaussian, again, insecure_seed)
    facts = _released(stages, made)
    if json:
        print_json(facts)
        return
    certificate = facts["certificate"]
    print_facts([
        ("released", f"{facts['out']}: {facts['answered']:,} answers to {facts['asked']:,} questions"),
        ("certificate", guarantee_text(certificate["epsilon"], certificate["delta"], certificate["reason"], "release")),
        ("basis", "the caps, whatever was asked and answered; this may be published"),
        ("cost", "charged now" if facts["charged"] else f"made on {facts['made']}, nothing charged"),
        ("trust", "central: you saw features and labels; nothing else of the teachers may leave"),
    ])  # fmt: skip


@app.command("student")
def student(
    out: RunArgument,
    preset: PresetOption = None,
    students: StudentsOption = 1,
    student: StudentOption = "fixmatch",
    student_model: StudentModelOption = None,
    student_epochs: StudentEpochsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The last stage: train students from answers.parquet and all features. Nothing private is left in it: `labeldp train` can do it too."""
    from labeldp.pate.presets import filled

    stages, _, voted = _voted(out)
    given = {
        "student_model": student_model,
        "student_epochs": student_epochs,
        "method": voted["method"],
        "model": voted["model"],
    }
    filled(given, preset)
    _finish(stages, _student_plan(given, stages, student, students, seed), device, json)


@app.command("account")
def account(
    votes: Annotated[Path, typer.Argument(help="An .npz file with votes (n, C) and answered (n).", show_default=False, readable=False)],
    sigma1: Annotated[float, typer.Option("--sigma1", help="Noise of the threshold.")],
    sigma2: Annotated[float, typer.Option("--sigma2", help="Noise of each class's votes.")],
    threshold: Annotated[float, typer.Option("--threshold", help="In votes.")],
    delta: Annotated[float, typer.Option("--delta", help="δ at which ε is stated.")] = 1e-5,
    max_asked: Annotated[int | None, typer.Option("--max-asked", help="The cap that was fixed beforehand.")] = None,
    max_answered: Annotated[int | None, typer.Option("--max-answered", help="The cap that was fixed beforehand.")] = None,
    orders: Annotated[str | None, typer.Option("--orders", help="Which Rényi orders to print: 2,4.5,8.")] = None,
    smooth: Annotated[bool, typer.Option("--smooth-sensitivity", help="Also the smooth sensitivity, at --order and --beta.")] = False,
    order: Annotated[float | None, typer.Option("--order", help="For --smooth-sensitivity.")] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="For --smooth-sensitivity.")] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """What votes cost: the ε that may be published, and beside it what only their owner may know."""
    from labeldp.pate.account import account as accounted
    from labeldp.pate.account import read_votes

    if smooth and (order is None or beta is None):
        raise InputError("--smooth-sensitivity needs --order and --beta (20 and 0.02, for instance).")
    if not smooth and (order is not None or beta is not None):
        raise InputError("--order and --beta go with --smooth-sensitivity.")
    chosen = None
    if orders is not None:
        try:
            chosen = [float(text) for text in orders.split(",")]
        except ValueError:
            raise InputError(f"--orders takes numbers with commas between (2,4.5,8); got {orders!r}.") from None
    table, answered = read_votes(votes)
    found = accounted(
        table, answered, threshold=threshold, sigma1=sigma1, sigma2=sigma2, delta=delta, max_asked=max_asked, max_answered=max_answered,
        orders=chosen, smooth=(order, beta) if smooth and order is not None and beta is not None else None,
    )  # fmt: skip
    if json:
        print_json(found.to_json())
        return
    basis = (
        "the caps: may be published"
        if found.basis == "caps"
        else "the file's own counts: a guarantee only if they were fixed beforehand (--max-asked, --max-answered)"
    )
    private = found.owner_only
    facts = [
        ("queries", f"{found.asked:,} asked, {found.answered:,} answered"),
        ("epsilon", f"{number(found.epsilon)} at δ = {found.delta:g}, from {basis}"),
        ("OWNER ONLY", f"data-dependent ε = {number(private['epsilon_data_dependent'])} at order {private['order']:g}: a function of the votes, never to be published"),
    ]  # fmt: skip
    if "smooth_sensitivity" in private:
        facts.append(("OWNER ONLY", f"smooth sensitivity {private['smooth_sensitivity']:.6g}"))
    print_facts(facts)


# ── from options to objects ──


def _origin(dataset: Any, data: Path | None, features: Path | None, labels: Path | None, *rest: Any) -> Origin:
    from labeldp.pate.material import Origin

    label, classes, id_column, image_size, data_set, ledger = rest

    def place(path: Path | None) -> str | None:
        return str(path.absolute()) if path is not None else None

    return Origin(
        dataset,
        place(data),
        place(features),
        place(labels),
        label,
        classes,
        id_column,
        image_size,
        data_set,
        place(ledger),
    )


def _stages(out: Path, origin: Origin, holdout: float) -> Stages:
    from labeldp.pate.run import Stages
    from labeldp.training.folder import RunFolder

    RunFolder(out / "owner").make(private=True)
    stages = Stages(out, origin.read(out / "owner"), holdout)
    origin.save(out / "owner")
    return stages


def _voted(out: Path) -> tuple[Stages, Origin, dict[str, Any]]:
    """A run whose teachers have voted."""
    from labeldp.pate.material import Origin
    from labeldp.pate.run import Stages
    from labeldp.training.folder import RunFolder

    owner = out / "owner"
    origin = Origin.load(owner)
    config = RunFolder(owner).config()
    material = origin.read(owner)
    holdout = 1 - config["rows"] / len(material.labels)
    return Stages(out, material, holdout), origin, config["teachers"]


def _needed(given: dict[str, Any], *names: str) -> None:
    for name in names:
        if given[name] is None:
            raise InputError(f"--{name.replace('_', '-')} is missing.")


def _mechanism(
    stages: Stages, given: dict[str, Any], delta: float, accuracy: float, publish: str | None
) -> PateAnswers:
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
            f"--publish-data-dependent takes ORDER,BETA,SIGMA[,MARGIN], as in 20,0.01,8; got {text!r}."
        ) from None
    return Sanitising(*numbers)


def _teacher_plan(given: dict[str, Any], stages: Stages, seed: int) -> TeacherPlan:
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
    recipe = recipe_for(model, stages.material.features, stages.material.labels.num_classes, given["epochs"], seed)
    return TeacherPlan(given["teachers"], given["max_asked"], method, model, recipe, seed=seed)


def _student_plan(given: dict[str, Any], stages: Stages, student: str, students: int, seed: int) -> StudentPlan:
    from labeldp.pate.presets import recipe_for, student_recipe
    from labeldp.pate.students import StudentPlan

    if student not in ("fixmatch", "evidence"):
        raise InputError(f"--student is fixmatch or evidence; got {student!r}.")
    frozen = (given["method"] or "frozen") == "frozen"
    model = given["student_model"] or ("linear" if frozen else given["model"] or _usual_model(stages))
    classes, epochs = stages.material.labels.num_classes, given["student_epochs"]
    if student == "evidence":
        return StudentPlan(model, student_recipe(model, classes, epochs, seed), students)
    return StudentPlan(model, recipe_for(model, stages.material.features, classes, epochs, seed), students)


def _usual_model(stages: Stages) -> str:
    shape = stages.material.features.shape[1:]
    return "fast" if len(shape) == 3 and min(shape[1:]) >= 17 else "mlp"


def _workers(processes: int, ray: str | None) -> Workers:
    from labeldp.pate.workers import LocalWorkers, RayWorkers

    if processes < 0:
        raise InputError(f"--processes is not negative; got {processes}.")
    return RayWorkers(ray) if ray is not None else LocalWorkers(processes)


def _warn(mechanism: PateAnswers) -> None:
    from labeldp.pate.answers import doubts

    for doubt in doubts(mechanism):
        typer.echo(f"warning: {doubt}", err=True)


def _progress(done: int, of: int) -> None:
    if of <= 20 or done % max(1, of // 20) == 0:
        typer.echo(f"{done:,} of {of:,} teachers", err=True)


# ── what is done with them ──


def _release(
    stages: Stages, origin: Origin, mechanism: PateAnswers, holdout_epsilon: float | None, budget: float | None,
    budget_gaussian: float | None, again: str | None, insecure_seed: int | None,
) -> Any:  # fmt: skip
    from labeldp.accounting.cost import SLACK_SHARE
    from labeldp.accounting.ledger import Ledger
    from labeldp.entropy import SecureEntropy, SeededEntropy

    if holdout_epsilon is not None and stages.rows == len(stages.material.labels):
        raise InputError("--holdout-epsilon releases rows that teachers do not see: name their share with --holdout.")
    if origin.dataset is not None and holdout_epsilon is not None:
        # Two releases, two kinds of cost: a bundled data set's ledger gets room for both.
        budget, budget_gaussian = holdout_epsilon, mechanism.guarantee().epsilon * (1 + 4 * SLACK_SHARE)
    caps = (budget_gaussian, mechanism.delta) if budget_gaussian is not None else None
    ledger = Ledger(stages.material.ledger, budget=budget, budget_gaussian=caps)
    entropy = SecureEntropy() if insecure_seed is None else SeededEntropy(insecure_seed)
    made = stages.aggregate(mechanism, ledger, entropy, again)
    for warning in made.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if holdout_epsilon is not None:
        stages.hold_out(holdout_epsilon, ledger, entropy)
    return made


def _released(stages: Stages, made: Any) -> dict[str, Any]:
    from labeldp.pate.run import ANSWERS
    from labeldp.release import Release
    from labeldp.release.core import certificate_json

    answers = Release.load(stages.folder / ANSWERS)
    asked, answered = answers.mechanism.counts(answers.observations)  # type: ignore[attr-defined]
    return {
        "out": str(stages.folder / ANSWERS), "asked": asked, "answered": answered, "basis": "caps", "trust": "central",
        "certificate": certificate_json(answers.mechanism, answers.insecure), "mechanism": answers.mechanism.to_json(),
        "charged": made.charged_now, "made": made.record.made, "insecure": answers.insecure,
    }  # fmt: skip


def _finish(stages: Stages, plan: StudentPlan, device: str, json: bool) -> None:
    from labeldp.cli.progress import TrainingProgress
    from labeldp.training.device import Machine

    with TrainingProgress(plan.recipe.epochs) as shown:
        summary = stages.students(plan, Machine(device), shown.epoch)
    if json:
        print_json(summary)
        return
    certificate, accuracy, estimated = summary["certificate"], summary["accuracy_test"], summary["accuracy_estimated"]
    facts = [
        ("run", str(stages.folder)),
        ("certificate", guarantee_text(certificate["epsilon"], certificate["delta"], certificate["reason"], "release")),
        ("trust", "central: teachers and aggregator saw features and labels; answers.parquet and the students may leave"),
        ("answers", f"{summary['answered']:,} to {summary['asked']:,} questions (caps {plan_caps(summary)}, which is what is charged)"),
    ]  # fmt: skip
    for what, found in (("public test labels", accuracy), ("held-out released labels", estimated)):
        if found["mean"] is not None:
            spread = f" ± {found['std']:.2%}" if found["std"] is not None else ""
            facts.append(("accuracy", f"{found['mean']:.2%}{spread} of {len(summary['students'])} students, on {what}"))
    facts.append(
        ("compute", f"teachers {summary['teachers_flop']:.3g} FLOP, students {summary['students_flop']:.3g} FLOP")
    )
    facts.append(
        ("OWNER ONLY", f"{stages.owner / 'summary.json'}: the ensemble's accuracy and agreement, the data-dependent ε")
    )
    print_facts(facts)


def plan_caps(summary: dict[str, Any]) -> str:
    """Both caps, in words."""
    parameters = summary["mechanism"]["parameters"]
    return f"{parameters['max_answered']:,} and {parameters['max_asked']:,}"
