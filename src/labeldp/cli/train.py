"""`labeldp train`: the feature owner's main command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.complete import DATASETS, DENOISERS, DTYPES, MECHANISMS, MODELS, TRAIN_PRESETS, among
from labeldp.cli.options import (
    DATA,
    JUDGING,
    MACHINE,
    MODEL,
    PRIVACY,
    CanaryShareOption,
    DeltaOption,
    DeviceOption,
    FeaturesOption,
    IdOption,
    ImageSizeOption,
    JsonOption,
)
from labeldp.cli.output import guarantee_text, print_facts, print_json, warn
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.experiments.experiment import Planting
    from labeldp.training.recipe import Recipe

_FOUND_BEFORE = "by its own account: it was finished before, and its accuracy is what its summary.json says"


def command(
    out: Annotated[Path, typer.Option("--out", help="The run directory; an interrupted run there is resumed.", readable=False)],
    releases: Annotated[list[Path] | None, typer.Option("--release", help="A release file, with --features. Several times: releases of different rows, the stages of a staged method for instance.", readable=False, rich_help_panel=DATA)] = None,
    features: FeaturesOption = None,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="digits, fashion, cifar10 or cifar100: releases and trains in one go.", rich_help_panel=DATA, autocompletion=among(*DATASETS))] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Where the data set's files are. Default: $LABELDP_DATA.", readable=False, rich_help_panel=DATA)] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="With --dataset: the ε to spend on each label.", rich_help_panel=PRIVACY)] = None,
    mechanism: Annotated[str | None, typer.Option("--mechanism", help="With --dataset: as for release, or none.", rich_help_panel=PRIVACY, autocompletion=among(*MECHANISMS, "none"))] = None,
    delta: DeltaOption = None,
    stages: Annotated[int, typer.Option("--stages", help="With --dataset: release the rows in so many parts, each with the earlier parts' model as its public prior (LP-MST).", rich_help_panel=PRIVACY)] = 1,
    stage_epochs: Annotated[int | None, typer.Option("--stage-epochs", help="With --stages: epochs of all models but the last. Default: --epochs.", rich_help_panel=PRIVACY)] = None,
    canaries: Annotated[int | None, typer.Option("--canaries", help="With --dataset: plant so many labels, and audit the model and the release for them.", rich_help_panel=PRIVACY)] = None,
    candidates: Annotated[int | None, typer.Option("--candidates", help="With --canaries: labels to choose each from. Default: 2.", rich_help_panel=PRIVACY)] = None,
    insecure_seed: Annotated[int | None, typer.Option("--insecure-seed", help="With --dataset: repeatable noise.", rich_help_panel=PRIVACY)] = None,
    model: Annotated[str | None, typer.Option("--model", help="fast (images), linear, mlp, resnet18, wide-resnet-28-4, wide-resnet-28-8, or package.module:Class. Default: fast for images, linear else.", rich_help_panel=MODEL, autocompletion=among(*MODELS))] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="A row of the paper's ALIBI table (alibi-cifar10-high …) or cpu-cifar10, cpu-cifar100.", rich_help_panel=MODEL, autocompletion=among(*TRAIN_PRESETS))] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the rows.", rich_help_panel=MODEL)] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="Rows a step, over all processes.", rich_help_panel=MODEL)] = None,
    accumulate: Annotated[int | None, typer.Option("--accumulate", help="Compute a step in so many parts, for less memory.", rich_help_panel=MODEL)] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="At its peak.", rich_help_panel=MODEL)] = None,
    weight_decay: Annotated[float | None, typer.Option("--weight-decay", help="How hard weights are pulled towards zero.", rich_help_panel=MODEL)] = None,
    average: Annotated[float | None, typer.Option("--average", help="Predict with a moving average of the weights that keeps this share a step (0.999).", rich_help_panel=MODEL)] = None,
    prior: Annotated[str | None, typer.Option("--prior", help="What evidence is combined with: the model's output (ALIBI), its average's, or none.", rich_help_panel=MODEL, autocompletion=among("model", "average", "none"))] = None,
    denoise: Annotated[str | None, typer.Option("--denoise", help="bayes: evidence, which knows how likely the noise is (default). For comparisons, uninformed post-processing of the noisy label: min-projection, softmax, argmax, none.", rich_help_panel=MODEL, autocompletion=among(*DENOISERS))] = None,
    fixmatch: Annotated[bool, typer.Option("--fixmatch", help="Learn from all rows' features too, by the model's confident guesses (FixMatch): for releases that say much about few rows, such as PATE's answers.", rich_help_panel=MODEL)] = False,
    randaugment: Annotated[int | None, typer.Option("--randaugment", help="Random operations on each image (2).", rich_help_panel=MODEL)] = None,
    cutout: Annotated[int | None, typer.Option("--cutout", help="Blank a square of so many pixels in each image (16).", rich_help_panel=MODEL)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the training; never of the noise.", rich_help_panel=MODEL)] = 0,
    holdout: Annotated[float | None, typer.Option("--holdout", help="The share of rows that is held out to estimate accuracy. Default: 0.1.", rich_help_panel=JUDGING)] = None,
    folds: Annotated[int | None, typer.Option("--folds", help="Estimate accuracy by cross-fitting so many models, and train on all rows.", rich_help_panel=JUDGING)] = None,
    select: Annotated[str, typer.Option("--select", help="last epoch, or the best by half of the rows held out; the other half reports.", rich_help_panel=JUDGING, autocompletion=among("last", "best"))] = "last",
    patience: Annotated[int | None, typer.Option("--patience", help="With --select best: stop after so many epochs without a better one.", rich_help_panel=JUDGING)] = None,
    other_rows: Annotated[bool, typer.Option("--other-rows", help="The public prior behind some release was made without any of these rows' released labels, though nothing shows it.", rich_help_panel=JUDGING)] = False,
    canary_share: CanaryShareOption = 0.0,
    test_features: Annotated[Path | None, typer.Option("--test-features", help="Rows with public labels.", readable=False, rich_help_panel=JUDGING)] = None,
    test_labels: Annotated[Path | None, typer.Option("--test-labels", help="Their labels: .npy, or a table.", readable=False, rich_help_panel=JUDGING)] = None,
    test_labels_are_public: Annotated[bool, typer.Option("--test-labels-are-public", help="Said by whoever answers for it: no promise covers the test labels.", rich_help_panel=JUDGING)] = False,
    device: DeviceOption = "auto",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, float32 or bfloat16.", rich_help_panel=MACHINE, autocompletion=among(*DTYPES))] = "auto",
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads.", rich_help_panel=MACHINE)] = None,
    compile_model: Annotated[bool, typer.Option("--compile", help="torch.compile the model: a minute at the start; for GPUs (on CPUs it was not faster).", rich_help_panel=MACHINE)] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write metrics for TensorBoard.", rich_help_panel=MACHINE)] = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Train a model from a release: features and evidence are all it sees.

    Two parties: labeldp train --release released.parquet --features x.parquet --id uid --model linear --out run/

    An experiment: labeldp train --dataset cifar10 --epsilon 2 --mechanism laplace --out run/

    Many processes or machines: torchrun --nproc-per-node 2 -m labeldp train … (one --out that all can read)
    """
    import torch

    from labeldp.cli.progress import Progress
    from labeldp.mechanisms import judging_rows
    from labeldp.training.crossfit import cross_fit
    from labeldp.training.job import Job
    from labeldp.training.machine import Machine, joined
    from labeldp.training.recipe import changed, default_recipe, fixmatch_recipe
    from labeldp.training.recipe import preset as by_name
    from labeldp.training.run import train

    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads is at least 1; got {threads}.")
        torch.set_num_threads(threads)
    if folds is not None and holdout is not None:
        raise InputError("--folds judges with every row in its turn; leave out --holdout.")
    share = 0.1 if holdout is None else holdout
    row = by_name(preset) if preset is not None else None
    if row is not None:
        dataset, model = dataset or row.dataset, model or row.model
        mechanism, epsilon = mechanism or row.mechanism, row.epsilon if epsilon is None else epsilon
    public = (test_features, test_labels) if test_labels_are_public else None
    if (test_features is not None or test_labels is not None) and (public is None or None in public or dataset):
        raise InputError(
            "clean test labels are --test-features with --test-labels, for your own data, and only if you can say "
            "--test-labels-are-public. Without any, accuracy is estimated from released labels."
        )
    if candidates is not None and canaries is None:
        raise InputError(
            "--candidates is the number of labels that each of the --canaries is drawn from; say how many."
        )
    if stage_epochs is not None and stages == 1:
        raise InputError("--stage-epochs is for the models of earlier stages; say how many --stages.")
    if canaries is not None and folds is not None:
        raise InputError("--canaries and --folds do not go together: a canary must be trained on.")
    if stages != 1 and (folds is not None or delta is not None or select != "last"):
        raise InputError("--stages does not go with --folds, --delta or --select best.")

    def make_recipe(name: str, classes: int = 10, size: int = 32, epochs: int | None = epochs) -> Recipe:
        usual = default_recipe(name, classes) if row is None else row.recipe
        return changed(
            fixmatch_recipe(name, classes, size=size) if fixmatch else usual, epochs=epochs, batch_size=batch_size, accumulate=accumulate,
            learning_rate=learning_rate, weight_decay=weight_decay, average=average, prior=prior, denoise=denoise, randaugment=randaugment,
            cutout=cutout, seed=seed,
        )  # fmt: skip

    def make_job(
        loaded: Any, values: Any, columns: tuple[str, ...] = (), epochs: int | None = epochs, share: float = share
    ) -> Job:
        if values.ndim != 4 and (randaugment or cutout):
            raise InputError("--randaugment and --cutout are for images; these features are none.")
        name = model or ("fast" if values.ndim == 4 and min(values.shape[2:]) >= 17 else "linear")
        size = values.shape[-1] if values.ndim == 4 else 32
        recipe = make_recipe(name, loaded.mechanism.num_classes, size, epochs)
        # A release that cannot judge keeps no row from training, unless it is told to.
        judged = holdout is not None or judging_rows(loaded.mechanism, loaded.observations).any()
        return Job(
            loaded, values, name, recipe, share if judged else 0.0, select, patience, columns=columns, canary_share=canary_share,
            machine=Machine(device, dtype, compile_model), prior_saw_none=other_rows,
        )  # fmt: skip

    for count in (epochs, stage_epochs):
        make_recipe(model or "fast", epochs=count)  # what cannot be is refused before anything is released or written
    found_before = (out / "summary.json").exists()
    with joined() as world, Progress("preparing", shown=world.first) as shown:
        note = _noting(out) if tensorboard and world.first else None

        def progress(metrics: dict[str, Any]) -> None:
            shown.epoch(metrics)
            if note is not None:
                note(metrics)

        if dataset is not None and (releases or features is not None):
            raise InputError("--dataset brings its own features and labels; leave out --release and --features.")
        if dataset is None:
            odd = _given(
                epsilon=epsilon, mechanism=mechanism, delta=delta, insecure_seed=insecure_seed, data=data,
                stages=None if stages == 1 else stages,
            )  # fmt: skip
            if odd is not None:
                raise InputError(
                    f"{odd} goes with --dataset; a release was made already, and says itself what it cost."
                )
            if canaries is not None:
                raise InputError(
                    "--canaries is for --dataset; in your own labels the owner plants them: labeldp canaries plant."
                )
            if not releases or features is None:
                raise InputError("name --release and --features, or a --dataset for an experiment.")
            loaded, values, columns, public_test = _own(
                releases, features, id_column, image_size, test_features, test_labels
            )
            job = make_job(loaded, values, columns)
        elif stages == 1:
            from labeldp.experiments.experiment import released
            from labeldp.training.job import holding_out

            planting = _planting(canaries, candidates, lambda rows: holding_out(rows, share, seed)[1])
            loaded, values, public_test = released(
                dataset, data, out, mechanism, epsilon, delta, insecure_seed, world, planting
            )
            job = make_job(loaded, values)
        else:
            from labeldp.experiments.staged import Dealing, Staged

            def stage(loaded: Any, values: Any, held_out: float, last: bool) -> Job:
                count = epochs if last or stage_epochs is None else stage_epochs
                job = make_job(loaded, values, epochs=count, share=held_out)
                shown.begin(job.recipe.epochs)
                return job

            dealing = Dealing(stages, share, seed)
            planting = _planting(canaries, candidates, dealing.trained_on)
            experiment = Staged(out, dataset, data, mechanism, epsilon, dealing, stage, insecure_seed, planting, world)
            job, summary = experiment.run(progress, shown.step)
        if stages == 1:
            shown.begin(job.recipe.epochs)
            if folds is None:
                summary = train(job, out, public_test=public_test, progress=progress, on_step=shown.step, world=world)
            else:
                summary = cross_fit(
                    job, out, folds, public_test=public_test, progress=progress, on_step=shown.step, world=world
                )
    if not world.first:
        return
    if canaries is not None:
        from labeldp.experiments.experiment import audit_run

        _warn_of_many(canaries / len(job.release))
        summary = audit_run(out, job)
        for warning in dict.fromkeys(w for found in summary["audit"].values() for w in found["warnings"]):
            warn(warning)
    if found_before:
        summary = {**summary, "given": _FOUND_BEFORE}
    if json:
        print_json(summary)
    else:
        print_facts(_facts(out, summary))


def _planting(canaries: int | None, candidates: int | None, trained_on: Any) -> Planting | None:
    from labeldp.experiments.experiment import Planting

    return None if canaries is None else Planting(canaries, 2 if candidates is None else candidates, trained_on)


def _warn_of_many(share: float) -> None:
    from labeldp.audit.plant import MOST_SHARE
    from labeldp.audit.result import percent

    if share > MOST_SHARE:
        typer.echo(
            f"warning: {share:.1%} of the rows are canaries; above {percent(MOST_SHARE)} the model itself suffers.",
            err=True,
        )


def _given(**options: Any) -> str | None:
    """The first of these options that was given."""
    return next((f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None), None)


def _noting(out: Path) -> Any:
    from labeldp.training.tensorboard import tensorboard

    return tensorboard(out)


def _own(
    releases: list[Path],
    features: Path,
    id_column: str | None,
    image_size: int | None,
    test: Path | None,
    labels: Path | None,
) -> tuple[Any, Any, tuple[str, ...], Any]:
    """A release, features in its order with their columns, and a public test set if there is one."""
    import pyarrow.compute as pc

    from labeldp.data.features import join, read_features, read_public_labels
    from labeldp.files.ids import comparable
    from labeldp.release import Release
    from labeldp.release.joint import join_releases

    loaded = join_releases([Release.load(path) for path in releases])
    given = read_features(features, id_column, image_size)
    values = join(loaded, given)
    if test is None or labels is None:
        return loaded, values, given.columns, None
    read = read_features(test, id_column, image_size)
    read.refuse_label(loaded.label, loaded.class_names)
    if read.values.shape[1:] != values.shape[1:]:
        raise InputError(f"the test features have shape {read.values.shape[1:]}; training's have {values.shape[1:]}.")
    if read.named and pc.any(pc.is_in(comparable(read.ids), value_set=comparable(loaded.ids))).as_py():
        raise InputError(
            "some test rows are in the release: their labels are not public, and the model may have trained on them."
        )
    return (
        loaded,
        values,
        given.columns,
        (read.ordered(given.columns), read_public_labels(labels, read, loaded, id_column)),
    )


def _of(summary: dict[str, Any]) -> str:
    """What the certificate is of."""
    if summary["mechanism"]["name"] != "joint":
        return "release"
    return f"these {len(summary['mechanism']['parameters']['parts'])} releases together (each label is in one of them)"


def _facts(out: Path, summary: dict[str, Any]) -> list[tuple[str, str]]:
    from labeldp.evaluation.accuracy import summary_text, test_text

    certificate = summary["certificate"]
    facts = [
        ("run", str(out)),
        ("certificate", guarantee_text(certificate, _of(summary))),
    ]
    if summary["accuracy_estimated"] is None:
        facts.append(
            ("accuracy", "not estimated: no row was held out whose release can judge (--holdout; see docs/training.md)")
        )
    else:
        how = "held-out"
        if "folds" in summary:
            how = f"cross-fitted (by models trained on {summary['estimate_of_models_trained_on']:.0%} of the rows)"
        facts.append(("accuracy", f"{summary_text(summary)}, from {summary['rows_judged']:,} {how} released labels"))
    if summary.get("commonest_class_estimated") is not None and summary["accuracy_estimated"] is not None:
        facts.append(
            (
                "for scale",
                f"always guessing the commonest class would be right {summary['commonest_class_estimated']:.2%} of the time (estimated)",
            )
        )
    if summary["epoch_selected"] is not None:
        facts.append(("selected", f"epoch {summary['epoch_selected']} of {summary['epochs']}"))
    if summary["accuracy_test"] is not None:
        facts.append(("test", test_text(summary)))
    where = f"{summary['dtype']} on {summary['device']}"
    if summary["processes"] > 1:
        where += f", {summary['processes']} processes"
    took = "" if summary["seconds"] is None else f" {summary['seconds']:.1f} s,"  # none under central trust
    facts.append(("compute", f"{summary['train_flop']:.3g} FLOP,{took} {where}"))
    if "audit" in summary:
        from labeldp.audit.result import one_line

        facts += [(f"audit: {who}", one_line(found)) for who, found in summary["audit"].items()]
    if "given" in summary:
        facts.append(("given", summary["given"]))
    if summary["insecure"]:
        facts.append(("INSECURE", summary["insecure"]))
    return facts
