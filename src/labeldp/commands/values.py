"""Names that options take, for completion: it answers at once, so nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeldp.commands.presets import EXPERIMENTS, PATE

# The registries of these names import torch or numpy; a test compares.
MECHANISMS = ("response", "subset", "unary", "laplace", "gaussian")
MODELS = (
    "fast", "fast-medium", "fast-wide", "linear", "mlp", "resnet18", "wide-resnet-28-2", "wide-resnet-28-4", "wide-resnet-28-8",
)  # fmt: skip
ENCODERS = ("fast", "fast-medium", "fast-wide")
LEARNED = ("contrastive", "patches", "both")
TRAINED = (*MODELS, "lightgbm")
DATASETS = ("digits", "fashion", "cifar10", "cifar100")
TABLES = ("adult", "bank", "diabetes", "criteo", "diabetes3", "digits", "cancer")
COMPARED = ("linear", "mlp", "lightgbm")
STATISTICS = ("moments", "clusters", "pate", "dp-sgd")
READINGS = ("naive", "inverted", "response", "laplace", "subset", "clean")
DOWNLOADS = ("cifar10", "cifar100", "fashion")
REPRODUCED = (
    "table1", "table2", "table-agibi", "table-heuristic", "table-pate", "figure1", "study-answers", "study-threshold", "frontier",
    "equal-compute", "tabular", "moments",
)  # fmt: skip
SCALES = ("smoke", "cpu", "paper")
AT_THRESHOLD = ("precision", "recall")
EVALUATED = ("accuracy", "roc_auc", "average_precision", "log_loss", "brier", "log_likelihood", *AT_THRESHOLD)
CHOSEN_BY = ("accuracy", "brier", "log_loss")
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16")
DENOISERS = ("bayes", "min-projection", "min-max", "softmax", "argmax", "none")
EXPERIMENT_PRESETS, PATE_PRESETS = tuple(EXPERIMENTS), tuple(PATE)


def data_sets(given: Mapping[str, Any]) -> list[str]:
    """The names that the ledger knows, of --ledger or the user's own. Read only: no ledger is begun, and none that is damaged complains."""
    from labeldp.accounting import book
    from labeldp.accounting.journal import Journal
    from labeldp.accounting.ledger import default_ledger_path
    from labeldp.errors import LabelDPError

    path = Path(given.get("ledger") or default_ledger_path()).resolve()
    try:
        return sorted(book.read(Journal(path).entries(), path.with_name(path.name + ".releases")).data_sets)
    except (LabelDPError, OSError):
        return []
