"""What the shell offers for an option's value. It answers at once: nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Callable

import typer

# The registries of these names import torch or numpy; a test compares.
MECHANISMS = ("response", "subset", "unary", "laplace", "gaussian")
MODELS = ("fast", "linear", "mlp", "resnet18", "wide-resnet-28-4", "wide-resnet-28-8")
DATASETS = ("digits", "fashion", "cifar10", "cifar100")
DOWNLOADS = ("cifar10", "cifar100", "fashion")
REPRODUCED = (
    "table1", "table2", "table-agibi", "table-heuristic", "table-pate", "figure1", "study-answers", "study-threshold", "frontier",
)  # fmt: skip
SCALES = ("smoke", "cpu", "paper")
TRAIN_PRESETS = (
    "alibi-cifar10-high", "alibi-cifar10-medium", "alibi-cifar10-low", "alibi-cifar100-very-high", "alibi-cifar100-very-high-printed",
    "alibi-cifar100-high", "alibi-cifar100-high-printed", "alibi-cifar100-medium", "alibi-cifar100-low", "cpu-cifar10", "cpu-cifar100",
)  # fmt: skip
PATE_PRESETS = (
    "pate-cifar10-high", "pate-cifar10-medium", "pate-cifar10-low", "pate-cifar100-high", "pate-cifar100-medium", "pate-cifar100-low",
)  # fmt: skip
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16")
DENOISERS = ("bayes", "min-projection", "softmax", "argmax", "none")


def among(*names: str) -> Callable[[], list[str]]:
    """Offers these names; typer keeps those that begin with what was typed."""
    return lambda: list(names)


def data_sets(ctx: typer.Context) -> list[str]:
    """The names that the ledger knows, of --ledger or the user's own. Read only: no ledger is begun, and none that is damaged complains."""
    from pathlib import Path

    from labeldp.accounting import book
    from labeldp.accounting.journal import Journal
    from labeldp.accounting.ledger import default_ledger_path
    from labeldp.errors import LabelDPError

    path = Path(ctx.params.get("ledger") or default_ledger_path()).resolve()
    try:
        return sorted(book.read(Journal(path).entries(), path.with_name(path.name + ".releases")).data_sets)
    except (LabelDPError, OSError):
        return []
