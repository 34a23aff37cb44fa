"""What the feature owner's commands show."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.output import guarantee_text, print_facts, print_table
from labeldp.cli.show.scores import handed_over_facts, inspect_statistic
from labeldp.files.schema import decode
from labeldp.files.summary import StatedSearch, TrainingSummary
from labeldp.wording import upward

# What people call them; the others are for choosing.
METRIC_WORDS = {"roc_auc": "ROC AUC", "average_precision": "avg. prec.", "log_loss": "log loss", "brier": "Brier score"}

if TYPE_CHECKING:
    from labeldp.commands import EvaluateOptions, FeaturesOptions, InspectOptions, PredictOptions, ReportOptions
    from labeldp.commands.judge import Evaluated
    from labeldp.commands.report import Reported
    from labeldp.commands.train import TrainingOptions
    from labeldp.release.prior import PriorOrigin
    from labeldp.release.release import Description
    from labeldp.statistics.statistic import StatisticFile


def inspect(options: InspectOptions, loaded: Description | StatisticFile) -> None:
    """What the file says of itself, and what that means."""
    from labeldp.accounting.statement import promise_text
    from labeldp.statistics.statistic import StatisticFile

    if isinstance(loaded, StatisticFile):
        inspect_statistic(str(options.release), loaded)
        return
    summary = loaded.to_json()
    certificate, header = summary["certificate"], loaded.header
    named = f"column {header['ids']['column']!r}" if header["ids"] else "their row numbers in the source"
    order = "shuffled" if header["shuffled"] else "in the source's order"
    promise = promise_text(header["budget"]) if header["budget"]["publishable"] else "nothing"
    facts = [
        (
            "release",
            f"{options.release}: {len(loaded):,} rows of data set {loaded.data_set!r}, made on {summary['made']}",
        ),
        ("mechanism", f"{loaded.mechanism.name}: {loaded.mechanism.describe()}"),
        ("certificate", guarantee_text(certificate)),
        ("data set", f"what its owner promises of all releases together: {promise}"),
        *[("prior", _behind(origin)) for origin in loaded.origins],
        ("trust", _TRUST[loaded.mechanism.trust]),
        ("carries", _carries(loaded)),
        (
            "classes",
            ", ".join(loaded.label_names) if loaded.label_names else f"0 to {loaded.mechanism.num_classes - 1}",
        ),
        ("rows", f"named by {named}, {order}"),
        ("ledger", f"{summary['ledger']['id']}, entry {summary['ledger']['entry']}"),
        ("checksum", f"{loaded.checksum}"),
        *[("raised", f"the data set's budget was raised on {r['at']}") for r in header["budget"]["raised"]],
        *handed_over_facts(header),
        *([("INSECURE", loaded.insecure)] if loaded.insecure else []),
    ]
    print_facts(facts)
    typer.echo("The file is whole. That its owner ran this mechanism, and how the noise was drawn, no file can show.")


_TRUST = {
    "local": "local: each label was released on its own, by its owner",
    "central": "central: whoever made this saw features and labels, and must be trusted to release nothing else",
}


def _behind(origin: PriorOrigin) -> str:
    """Where a public prior comes from, and what that does to the certificate."""
    names = ", ".join(f"{one[:12]}…" for one in origin.releases)
    said = f"from a model of release {names}, as its file says" if origin.known else "of unknown origin"
    how = "perhaps of the same rows: added" if origin.same_rows else "of other rows: the larger counts"
    paid = f"ε = {upward(origin.epsilon, 6)}, δ = {origin.delta:g}"
    return f"{said}; what its owner had released of this data set's ids before: {paid} ({how})"


def _carries(release: Description) -> str:
    from labeldp.mechanisms import PateAnswers, RowMechanism, Selected

    mechanism, observations = release.mechanism, release.observations
    if isinstance(mechanism, RowMechanism):
        return f"{mechanism.information():.4f} nats a row under a uniform prior"
    if isinstance(mechanism, PateAnswers) and observations is not None:
        asked, answered = mechanism.counts(observations)
        return f"{answered:,} answers to {asked:,} questions"
    if isinstance(mechanism, Selected) and observations is not None:
        told = int(mechanism.informative(observations).sum())
        return f"{told:,} rows by candidate {mechanism.winner(observations)}; the others scored, and say nothing"
    return "what each row's public prior left open; the candidates of each row are in its observation"


def _of(summary: dict[str, Any]) -> str:
    """What the certificate is of."""
    if summary["mechanism"]["name"] != "joint":
        return "release"
    return f"these {len(summary['mechanism']['parameters']['parts'])} releases together (each label is in one of them)"


def metric_facts(metrics: dict[str, Any], of: str = "") -> list[tuple[str, str]]:
    """What people look for, in one line each."""
    from labeldp.evaluation.metrics import metric_text

    shown = {name: one for name, one in metrics.items() if name in METRIC_WORDS}
    return [
        (METRIC_WORDS[name], metric_text(one["value"], one["interval_95"], one["rows"], one["rows_needed"]) + of)
        for name, one in shown.items()
    ]


_NOBODY_JUDGES = (
    "accuracy",
    "one statistic judges nobody: the label owner's `labeldp score` measures it, best on rows that were held out",
)


# A run that was finished before may be of an earlier version, or somebody else's, and say less.
_UNSAID = {
    one.name: one.default
    for one in fields(TrainingSummary)
    if one.default is not MISSING and one.name not in ("folds", "audit")
}


def train(options: TrainingOptions, summary: dict[str, Any]) -> None:
    """What the run proves, and how good its model is."""
    from labeldp.evaluation.accuracy import summary_text, test_text

    summary = {**_UNSAID, **summary}
    certificate = summary["certificate"]
    facts = [
        ("run", str(options.out)),
        ("certificate", guarantee_text(certificate, _of(summary))),
    ]
    if summary["mechanism"]["name"] in ("moments", "histogram"):
        facts += [] if summary["accuracy_test"] is not None else [_NOBODY_JUDGES]
    elif summary["accuracy_estimated"] is None:
        facts.append(
            ("accuracy", "not estimated: no row was held out whose release can judge (--holdout; see docs/training.md)")
        )
    else:
        how = "held-out"
        if summary.get("folds") and summary["estimate_of_models_trained_on"] is not None:
            how = f"cross-fitted (by models trained on {summary['estimate_of_models_trained_on']:.0%} of the rows)"
        facts.append(("accuracy", f"{summary_text(summary)}, from {summary['rows_judged']:,} {how} released labels"))
    facts += metric_facts(summary.get("metrics", {}))
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
    if summary.get("accuracy_test_fitted") is not None:
        facts.append(
            (
                "before",
                f"{summary['accuracy_test_fitted']:.2%}: the model of the statistic alone, which the student learned from",
            )
        )
    where = f"{summary['dtype']} on {summary['device']}"
    if summary["processes"] > 1:
        where += f", {summary['processes']} processes"
    took = "" if summary["seconds"] is None else f" {summary['seconds']:.1f} s,"  # none under central trust
    flop = f"{summary['train_flop']:.3g} FLOP," if summary["train_flop"] else ""  # of trees none are counted
    if summary.get("start_flop") and not summary.get("search_flop"):  # of a search it is a part
        flop += f" after {summary['start_flop']:.3g} from images alone,"
    if summary.get("search_flop"):
        flop += f" after {summary['search_flop']:.3g} of search,"
    facts.append(("compute", f"{flop}{took} {where}".strip()))
    search = decode(StatedSearch, summary["search"]) if summary.get("search") else None
    if search is not None:
        facts += _search_facts(search)
    if summary.get("audit"):
        from labeldp.audit.result import one_line

        facts += [(f"audit: {who}", one_line(found)) for who, found in summary["audit"].items()]
    if "given" in summary:
        facts.append(("given", summary["given"]))
    if summary["insecure"]:
        facts.append(("INSECURE", summary["insecure"]))
    print_facts(facts)
    if search is not None and search.trials:
        _print_trials(search)


def _search_facts(found: StatedSearch) -> list[tuple[str, str]]:
    """Which recipe was chosen, by what, and what there was no budget for."""
    facts = [("recipe", f"{found.winner}: {found.epochs:,} epochs")]
    if found.trials:
        rows = f"{found.rows:,} held-out released labels"
        facts.append(("chosen by", f"the log-likelihood of {rows}, which report nothing; it costs no privacy"))
    if found.log_likelihood is not None:
        facts.append(("by them", f"its own training: {found.log_likelihood:.4f} ± {found.standard_error or 0.0:.4f}"))
    if found.better is not None:
        facts.append(
            (
                "but",
                f"a trial was clearly better ({found.better}): so long a training learns the noise; say --epochs, or a recipe, "
                "with --select best: the rows that chose then do not report",
            )
        )
    if found.shortened:
        facts.append(("length", "a longer trial was worse, so not all of the budget is used"))
    if found.left_out:
        facts.append(("not tried", f"for want of budget: {'; '.join(found.left_out)}"))
    return facts


def _print_trials(found: StatedSearch) -> None:
    """Rung by rung, the best first."""
    columns = (">rung", "recipe", ">epochs", ">FLOP", ">log-likelihood", ">behind the best", "then")
    rows = [
        (
            str(one.rung),
            one.name,
            f"{one.epochs:,}",
            f"{one.flop:.3g}",
            f"{one.log_likelihood:.4f} ± {one.standard_error:.4f}",
            f"{one.behind:.4f} ± {one.behind_error:.4f}" if one.behind else "",
            "kept" if one.kept else "dropped",
        )
        for one in sorted(found.trials, key=lambda one: (one.rung, -one.log_likelihood))
    ]
    print_table(columns, rows)


def predict(options: PredictOptions, done: dict[str, Any]) -> None:
    """Where they are, and in which order."""
    names = done["classes"]
    order = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    typer.echo(f"{done['out']}: probabilities of {done['rows']:,} rows, of the classes {order}, in this order")


def evaluate(options: EvaluateOptions, found: Evaluated) -> None:
    """The accuracy and its interval."""
    from labeldp.commands.judge import NOT_TRAINED_ON

    if found.judged.accuracy is not None and (not options.metric or "accuracy" in options.metric):
        typer.echo(f"accuracy {found.judged.accuracy}; {found.rows:,} rows; given {NOT_TRAINED_ON}")
    for name, one in found.judged.metrics.items():
        typer.echo(f"{METRIC_WORDS.get(name, name)} {one}; {one.rows:,} rows; given {NOT_TRAINED_ON}")
    if found.insecure:
        print_facts([("INSECURE", found.insecure)])


def features(options: FeaturesOptions, done: dict[str, Any]) -> None:
    """What became of each column; of images, what their encoder makes of them."""
    if "encoder" in done:
        learned = f" (learned by {done['flop']:.1e} FLOP, no label)" if done["flop"] else ""
        joined = "" if done["id"] is None else f"; the column {done['id']!r} names them"
        typer.echo(f"encoder {done['encoder']}{learned}")
        typer.echo(f"{done['out']}: {done['features']:,} features of {done['rows']:,} images{joined}")
        return
    encoding = done["encoding"]
    which = "added: the row's number in the file" if encoding.get("numbered") else "names the rows: kept as it is"
    apart = [] if encoding["id"] is None else [(encoding["id"], which)]
    apart += [(label, "the label: not read") for label in encoding["labels"]]
    print_table(("column", "what became of it"), [*apart, *done["became"].items()])
    typer.echo(f"{done['out']}: {done['rows']:,} rows, {len(done['columns']):,} columns of features")


def report(options: ReportOptions, done: Reported) -> None:
    """Where the page is."""
    counts = ((len(done.report.runs), "run"), (len(done.report.scores), "score"))
    what = " and ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count)
    typer.echo(f"{done.out}: {what}, {done.bytes / 1000:,.0f} kB; open it in a browser")
