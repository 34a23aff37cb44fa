"""`labeldp pate`: teachers vote, an aggregator answers, a student learns. All of it in one trusted place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import DeviceOption, IdsAsWrittenOption, JsonOption, OtherIdsOption
from labeldp.cli.output import guarantee_text, number, print_facts, print_json
from labeldp.cli.pate_build import (
    Papers,
    begin,
    mechanism_of,
    origin_of,
    papers_of,
    stages_of,
    student_plan,
    teacher_plan,
    voted_run,
    warn,
    workers_of,
)
from labeldp.cli.pate_options import (
    AccuracyOption,
    AgainOption,
    AnsweredOption,
    AskedOption,
    BudgetGaussianOption,
    BudgetOption,
    CanariesOption,
    CandidatesOption,
    ClassesOption,
    ContrastiveOption,
    DataOption,
    DataSetOption,
    DatasetOption,
    DeltaOption,
    EpochsOption,
    FeaturesOption,
    FirstOption,
    HoldoutEpsilonOption,
    HoldoutOption,
    IdOption,
    ImageSizeOption,
    InsecureSeedOption,
    LabelOption,
    LabelsOption,
    LedgerOption,
    MethodOption,
    ModelOption,
    NameOption,
    OutOption,
    PresetOption,
    ProcessesOption,
    PublishOption,
    RaiseOption,
    RayOption,
    RunArgument,
    SeedOption,
    Sigma1Option,
    Sigma2Option,
    StudentEpochsOption,
    StudentModelOption,
    StudentOption,
    StudentsOption,
    TeachersOption,
    ThresholdOption,
)
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.mechanisms import PateAnswers
    from labeldp.pate.run import Stages
    from labeldp.pate.students import StudentPlan

app = typer.Typer(
    help="PATE: an ensemble of teachers answers a few questions privately, and a student learns from the answers. Trust model: central. Whoever "
    "runs `teachers` and `aggregate` sees features and labels; what leaves is answers.parquet and what is made of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command("run")
def run(
    out: OutOption = Path("pate-run"),
    preset: PresetOption = None,
    dataset: DatasetOption = None,
    data: DataOption = None,
    first: FirstOption = None,
    canaries: CanariesOption = None,
    candidates: CandidatesOption = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    data_set: DataSetOption = None,
    ledger: LedgerOption = None,
    other_ids: OtherIdsOption = None,
    ids_as_written: IdsAsWrittenOption = False,
    holdout: HoldoutOption = 0.0,
    teachers: TeachersOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    epochs: EpochsOption = None,
    contrastive: ContrastiveOption = 0,
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
    raise_budget: RaiseOption = False,
    again: AgainOption = None,
    insecure_seed: InsecureSeedOption = None,
    students: StudentsOption = 1,
    name: NameOption = "student",
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

    Your own: labeldp pate run --features x.parquet --labels y.parquet --label y --id uid --classes 10 --teachers 1000 --max-asked 2000 --max-answered 500 --sigma1 500 --sigma2 170 --threshold 400 --out run/
    """
    from labeldp.cli.progress import Progress
    from labeldp.pate.presets import filled
    from labeldp.release.make import charged

    given = {
        "dataset": dataset, "teachers": teachers, "method": method, "model": model, "epochs": epochs, "max_asked": max_asked,
        "max_answered": max_answered, "sigma1": sigma1, "sigma2": sigma2, "threshold": threshold, "student_model": student_model,
        "student_epochs": student_epochs, "paper": None,
    }  # fmt: skip
    if preset is not None and any((features, labels)):
        raise InputError("a --preset brings its data set; leave out --features and --labels.")
    if candidates is not None and canaries is None:
        raise InputError(
            "--candidates is the number of labels that each of the --canaries is drawn from; say how many."
        )
    if canaries is not None and holdout:
        raise InputError("--canaries and --holdout do not go together: a canary's label must be among the teachers'.")
    filled(given, preset)
    origin = origin_of(
        given["dataset"], data, features, labels, label, classes, id_column, image_size, data_set, ledger, first,
        canaries=canaries, candidates=candidates, other_ids=other_ids, ids_as_written=ids_as_written,
    )  # fmt: skip
    shown = Progress("teachers")
    stages = stages_of(out, origin, holdout, contrastive, shown)
    mechanism = mechanism_of(stages, given, delta, answer_accuracy, publish)
    plan = teacher_plan(given, stages, seed)
    learning = student_plan(given, stages, student, students, seed, name)
    warn(mechanism, origin)
    workers = workers_of(processes, ray)
    begin(stages, origin)
    papers = papers_of(
        stages, origin, mechanism, holdout_epsilon, (budget, budget_gaussian, raise_budget), again, insecure_seed
    )
    with shown:
        stages.teachers(plan, workers, lambda done, of: shown.show("teachers", done, of, "teachers", lines=20))
    made = _release(stages, mechanism, holdout_epsilon, papers)
    with charged(made.record, out):
        _finish(stages, learning, device, json)


@app.command("teachers")
def teachers(
    out: OutOption = Path("pate-run"),
    preset: PresetOption = None,
    dataset: DatasetOption = None,
    data: DataOption = None,
    first: FirstOption = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    data_set: DataSetOption = None,
    ledger: LedgerOption = None,
    other_ids: OtherIdsOption = None,
    ids_as_written: IdsAsWrittenOption = False,
    holdout: HoldoutOption = 0.0,
    teachers: TeachersOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    epochs: EpochsOption = None,
    max_asked: AskedOption = None,
    contrastive: ContrastiveOption = 0,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    ray: RayOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The first stage: train the teachers and count their votes on the rows that may be asked about. Nothing is released or charged."""
    from labeldp.cli.progress import Progress
    from labeldp.pate.presets import filled

    given = {
        "dataset": dataset,
        "teachers": teachers,
        "method": method,
        "model": model,
        "epochs": epochs,
        "max_asked": max_asked,
        "paper": None,
    }
    filled(given, preset)
    origin = origin_of(
        given["dataset"], data, features, labels, label, classes, id_column, image_size, data_set, ledger, first,
        other_ids=other_ids, ids_as_written=ids_as_written,
    )  # fmt: skip
    shown = Progress("teachers")
    stages = stages_of(out, origin, holdout, contrastive, shown)
    plan, workers = teacher_plan(given, stages, seed), workers_of(processes, ray)
    begin(stages, origin)
    with shown:
        voted = stages.teachers(plan, workers, lambda done, of: shown.show("teachers", done, of, "teachers", lines=20))
    facts = {
        "out": str(out),
        "teachers": given["teachers"],
        "queries": len(voted.ballots.rows),
        "teachers_flop": voted.flop,
    }
    if json:
        print_json(facts)
        return
    print_facts([
        ("teachers", f"{given['teachers']:,} have voted on {len(voted.ballots.rows):,} rows; {voted.flop:.3g} FLOP"),
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
    raise_budget: RaiseOption = False,
    again: AgainOption = None,
    insecure_seed: InsecureSeedOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The second stage: charge the caps, ask, answer, release answers.parquet. --max-asked is at most what the teachers voted on (default: all)."""
    from labeldp.pate.presets import filled

    stages, origin, voted = voted_run(out)
    given = {
        "max_asked": max_asked,
        "max_answered": max_answered,
        "sigma1": sigma1,
        "sigma2": sigma2,
        "threshold": threshold,
    }
    filled(given, preset)
    given["teachers"], given["max_asked"] = (
        voted["teachers"],
        voted["queries"] if given["max_asked"] is None else given["max_asked"],
    )
    mechanism = mechanism_of(stages, given, delta, answer_accuracy, publish)
    warn(mechanism, origin)
    papers = papers_of(
        stages, origin, mechanism, holdout_epsilon, (budget, budget_gaussian, raise_budget), again, insecure_seed
    )
    made = _release(stages, mechanism, holdout_epsilon, papers)
    facts = _released(stages, made)
    if json:
        print_json(facts)
        return
    certificate = facts["certificate"]
    print_facts([
        ("released", f"{facts['out']}: {facts['answered']:,} answers to {facts['asked']:,} questions"),
        ("certificate", guarantee_text(certificate, "release")),
        ("basis", "the caps, whatever was asked and answered; this may be published"),
        ("cost", "charged now" if facts["charged"] else f"made on {facts['made']}, nothing charged"),
        ("ledger", str(stages.material.ledger)),
        ("trust", "central: you saw features and labels; nothing else of the teachers may leave"),
    ])  # fmt: skip


@app.command("student")
def student(
    out: RunArgument,
    preset: PresetOption = None,
    students: StudentsOption = 1,
    name: NameOption = "student",
    student: StudentOption = "fixmatch",
    student_model: StudentModelOption = None,
    student_epochs: StudentEpochsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The last stage: train students from answers.parquet and all features. Nothing private is left in it: `labeldp train` can do it too."""
    from labeldp.pate.presets import filled

    stages, _, voted = voted_run(out)
    given = {
        "student_model": student_model,
        "student_epochs": student_epochs,
        "method": voted["method"],
        "model": voted["model"],
        "paper": None,
    }
    filled(given, preset)
    _finish(stages, student_plan(given, stages, student, students, seed, name), device, json)


@app.command("features")
def features(
    out: RunArgument,
    images: Annotated[Path, typer.Option("--features", help="New images: .npy, .npz or a folder, like those of the run.", show_default=False, readable=False)],
    to: Annotated[Path, typer.Option("--out", help="Their features (.npy), for `labeldp predict` with a student.", show_default=False, readable=False)],
    image_size: ImageSizeOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """The frozen features of new images, as a student on frozen features wants them."""
    import numpy as np

    from labeldp.cli.progress import Progress
    from labeldp.data.features import read_features
    from labeldp.features.frozen import FrozenFeatures
    from labeldp.files.atomic import place_file

    with Progress("features"):
        found = FrozenFeatures.load(out / "features").transform(read_features(images, None, image_size).values)
    place_file(to, lambda file: np.save(file, found))
    if json:
        print_json({"out": str(to), "rows": len(found), "features": found.shape[1]})
        return
    typer.echo(f"{to}: {found.shape[1]:,} features of {len(found):,} images")


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


# ── what is done with them ──


def _release(stages: Stages, mechanism: PateAnswers, holdout_epsilon: float | None, papers: Papers) -> Any:
    from labeldp.release.make import charged

    if holdout_epsilon is None:
        return stages.aggregate(mechanism, papers.ledger, papers.entropy, papers.again)
    held_out = stages.hold_out(holdout_epsilon, papers.ledger, papers.entropy)
    with charged(held_out.record, stages.folder):
        return stages.aggregate(mechanism, papers.ledger, papers.entropy, papers.again)


def _released(stages: Stages, made: Any) -> dict[str, Any]:
    from labeldp.mechanisms import PateAnswers
    from labeldp.pate.run import ANSWERS
    from labeldp.release import Release
    from labeldp.release.core import certificate_json

    answers = Release.load(stages.folder / ANSWERS)
    assert isinstance(answers.mechanism, PateAnswers)
    asked, answered = answers.mechanism.counts(answers.observations)
    return {
        "out": str(stages.folder / ANSWERS), "asked": asked, "answered": answered, "basis": "caps", "trust": "central",
        "certificate": certificate_json(answers.mechanism, answers.insecure), "mechanism": answers.mechanism.to_json(),
        "charged": made.charged_now, "made": made.record.made, "insecure": answers.insecure,
    }  # fmt: skip


def _finish(stages: Stages, plan: StudentPlan, device: str, json: bool) -> None:
    from labeldp.cli.progress import Progress
    from labeldp.evaluation.accuracy import accuracy_text
    from labeldp.training.machine import Machine

    with Progress("students") as shown:
        shown.begin(plan.recipe.epochs)
        summary = stages.students(plan, Machine(device), shown.epoch, shown.step)
    if json:
        print_json(summary)
        return
    caps = summary["mechanism"]["parameters"]
    certificate, accuracy, estimated = summary["certificate"], summary["accuracy_test"], summary["accuracy_estimated"]
    facts = [
        ("run", str(stages.folder)),
        ("certificate", guarantee_text(certificate, "release")),
        ("trust", "central: teachers and aggregator saw features and labels; answers.parquet and the students may leave"),
        ("answers", f"{summary['answered']:,} to {summary['asked']:,} questions (caps {caps['max_answered']:,} and {caps['max_asked']:,}, which is what is charged)"),
    ]  # fmt: skip
    of = f"mean of {len(summary['students'])} student{'s' if len(summary['students']) > 1 else ''}"
    if accuracy["mean"] is not None:
        spread = f" ± {accuracy['std']:.2%}" if accuracy["std"] is not None else ""
        facts.append(("accuracy", f"{accuracy['mean']:.2%}{spread}, {of}, on public test labels"))
    if estimated["mean"] is not None:
        found = accuracy_text(estimated["unbiased"], estimated["interval_95"])
        facts.append(("accuracy", f"{found}, {of}, on held-out released labels"))
    if summary["held_out"] is not None:
        facts.append(
            (
                "held out",
                f"{summary['held_out']['rows']:,} rows, released apart at ε = {summary['held_out']['epsilon']:.6g}, which they pay and no others",
            )
        )
    elif stages.rows < len(stages.material.labels):
        facts.append(("held out", "rows that nobody judges by: --holdout-epsilon releases them"))
    if "audit" in summary:
        from labeldp.audit.result import one_line

        facts += [(f"audit: {who}", one_line(found)) for who, found in summary["audit"].items()]
    facts.append(("ledger", str(stages.material.ledger)))
    facts.append(
        ("compute", f"teachers {summary['teachers_flop']:.3g} FLOP, students {summary['students_flop']:.3g} FLOP")
    )
    facts.append(
        ("OWNER ONLY", f"{stages.owner / 'summary.json'}: the ensemble's accuracy and agreement, the data-dependent ε")
    )
    print_facts(facts)
