"""What a run of `labeldp train` or `select` says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import CROSS_FITTED, counted_interval
from labeldp.provenance import model_digest
from labeldp.report.files import find_releases, finite, number, read_json, read_lines, read_starts, text
from labeldp.report.owners import canary_facts, own_ledger, run_violins
from labeldp.report.runs import Accuracy, Run, each_measured, who_sees


def read_training(folder: Path, summary: dict[str, Any], owner: bool) -> Run:
    """A model and the releases that it was trained from; in stages, or at once."""
    config, starts = read_json(folder / "config.json") or {}, read_starts(folder)
    behind = tuple(map(str, summary.get("releases") or [summary["release"]]))
    parts = len(summary["mechanism"]["parameters"]["parts"]) if summary["mechanism"]["name"] == "joint" else 1
    audits = tuple(one for found in summary.get("audit", {}).values() for one in each_measured(found, who_sees))
    stages = sorted(folder.glob("stage-*"), key=lambda p: p.name)
    history = [(f"stage {i}", read_lines(p / "metrics.jsonl")) for i, p in enumerate(stages, start=1)]
    history.append((f"stage {len(stages) + 1}" if stages else "training", read_lines(folder / "metrics.jsonl")))
    violins, why = run_violins(folder, owner)
    classes = int(config.get("num_classes") or summary["mechanism"]["num_classes"])
    return Run(
        name=folder.resolve().name,
        kind="training",
        data_set=text(config.get("data_set")),
        certificate=summary["certificate"],
        trust=text(summary["trust"]),
        insecure=text(summary["insecure"]),
        mechanism=_mechanism(summary["mechanism"]),
        release=str(summary["release"]),
        trained_on=behind[:parts],
        made_from=behind,
        model=model_digest(folder),
        canaries=max((found.result["canaries"] for found in audits), default=None),
        canary_share=finite(config.get("canary_share")),
        class_names=tuple(config.get("label_names") or map(str, range(classes))),
        accuracies=_accuracies(summary),
        commonest=finite(summary.get("commonest_class_estimated")),
        history=tuple(entry for entry in history if entry[1]),
        measured=audits,
        violins=violins,
        confusion=read_confusion(folder, classes),
        facts=(*_chosen(folder), *_facts(summary, config)),
        starts=tuple(starts),
        releases=tuple(find_releases(folder, starts, behind)),
        own_ledger=own_ledger(folder / "labels.ledger"),
        owner_facts=canary_facts(folder / "canaries.npz") if owner else (),
        notes=(*why, *audit_notes(summary)),
        seed=config.get("recipe", {}).get("seed"),
    )


def _accuracies(summary: dict[str, Any]) -> tuple[Accuracy, ...]:
    found = []
    if summary.get("accuracy_test") is not None:
        found.append(tested(number(summary["accuracy_test"]), int(summary.get("rows_tested") or 0)))
    if summary.get("accuracy_estimated") is not None:
        low, high = summary["interval_95"]
        how = "rows held out"
        if "folds" in summary:
            how = f"rows, each judging a model that was trained without it ({summary['folds']} folds)"
        words = f"estimated from the released labels of {summary['rows_judged']:,} {how}, corrected for the noise"
        unbiased = number(summary.get("accuracy_unbiased", summary["accuracy_estimated"]))
        sure = CROSS_FITTED if "folds" in summary else "95%"
        found.append(Accuracy(unbiased, number(low), number(high), "estimated", words, sure))
    return tuple(found)


def tested(accuracy: float, rows: int) -> Accuracy:
    """On so many public test labels."""
    if not 0 <= accuracy <= 1 or not 0 <= rows < 1 << 30:
        raise ValueError
    if not rows:
        return Accuracy(accuracy, None, None, "test", "on public test labels (how many, the run did not record)")
    return Accuracy(
        accuracy, *counted_interval(round(accuracy * rows), rows), "test", f"on {rows:,} public test labels"
    )


def _facts(summary: dict[str, Any], config: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    facts = [
        ("Model", str(summary["model"])),
        ("Rows trained on", f"{summary['rows_trained']:,}"),
        ("Epochs", f"{summary['epochs']}" + _selected(summary)),
        (
            "Compute",
            f"{summary['train_flop']:.3g} FLOP{_seconds(summary)}, {summary['dtype']} on {summary['device']}",
        ),
    ]
    recipe = config.get("recipe")
    if isinstance(recipe, dict):
        said = ("batch_size", "learning_rate", "weight_decay", "schedule", "prior", "denoise", "seed")
        facts.append(
            ("Recipe", ", ".join(f"{name.replace('_', ' ')} {recipe[name]}" for name in said if name in recipe))
        )
    return tuple(facts)


def _seconds(summary: dict[str, Any]) -> str:
    """Not noted under central trust."""
    return "" if summary["seconds"] is None else f" in {summary['seconds']:,.0f} s"


def _chosen(folder: Path) -> tuple[tuple[str, str], ...]:
    """What `select` says of the winner: its options, and its score with the noise that was paid for."""
    said = read_json(folder / "selection.json")
    if said is None:
        return ()
    options = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in said["options"].items())
    score = f"{said['score']:.2%} ± {said['score_deviation']:.2%} on {said['scoring_rows']:,} rows: the best of several, so too high"
    return (
        ("Chosen", f"{options} (candidate {said['candidate']}, counted from 0, of {said['candidates']})"),
        ("Its noisy score", score),
    )


def _selected(summary: dict[str, Any]) -> str:
    chosen = summary.get("epoch_selected")
    return "" if chosen is None else f" (the model of epoch {chosen} was chosen, by released labels)"


def read_confusion(folder: Path, classes: int) -> dict[str, Any] | None:
    """What each class is taken for, where the run kept it."""
    found = read_json(folder / "confusion.json")
    if found is None:
        return None
    tables = [np.array(found[name], dtype=np.float64) for name in ("shares", "standard_errors")]
    if any(table.shape != (classes, classes) or not (np.abs(table) < 1e3).all() for table in tables):
        raise InputError(f"{folder / 'confusion.json'} is of another number of classes than the run.")
    called = np.array(found["called"], dtype=np.float64)
    if called.shape != (classes,) or not (called >= 0).all() or not 0 < called.sum() < math.inf:
        raise InputError(f"{folder / 'confusion.json'} is damaged.")
    return {
        "shares": tables[0].tolist(),
        "standard_errors": tables[1].tolist(),
        "called": (called / called.sum()).tolist(),
    }


def _mechanism(said: dict[str, Any]) -> str:
    parts = said["parameters"].get("parts") if said["name"] == "joint" else None
    return " + ".join(part["name"] for part in parts) if parts else str(said["name"])


def audit_notes(summary: dict[str, Any]) -> tuple[str, ...]:
    """What the run's audits warn of."""
    return tuple(dict.fromkeys(note for found in summary.get("audit", {}).values() for note in found["warnings"]))
