"""The page of moments: its queue, and numbers that are computed by hand."""

import json

from labeldp.reproduce.moments import EPSILONS, METHODS, TABLES, WITHOUT
from labeldp.reproduce.names import plan
from labeldp.reproduce.page import collect


def fit(model, reading, auc, loss):
    same = {"model": model, "reading": reading, "average_precision": 0.5, "cpu_seconds": 3.0, "estimates": {}}
    return same | {"roc_auc": auc, "log_loss": loss}


def finished(place, cell, *fits):
    folder = place.folder(cell)
    folder.mkdir(parents=True)
    said = {
        "kind": "tables", "dataset": cell.dataset, "num_classes": 2, "epsilon": cell.epsilon, "seed": cell.seed, "rows_trained": 700,
        "rows_tested": 300, "certificates": {}, "fits": list(fits),
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(said))


def test_the_queue():
    """Four tables, seven ε, ten seeds: three cells each, and two without noise; trees come last."""
    queue = plan("moments", "cpu").cells()
    assert len(queue) == len(TABLES) * (3 * len(EPSILONS) + 2) * 10 == 920
    trees = [cell.method == "trees" for cell in queue]
    assert trees == sorted(trees)
    assert queue[0].shell("o") == (
        "labeldp compare --dataset adult --epsilon 0.05 --seed 0 --threads 1 --model moments --model clusters --out o"
    )
    clean = next(cell for cell in queue if cell.epsilon is None)
    assert clean.arguments[-4:] == ("--model", "linear", "--reading", "clean")
    assert {cell.dataset for cell in plan("moments", "smoke").cells()} == {"cancer"}


def test_means_over_seeds(place):
    """.90 and .92 are .91 ± .01."""
    made = plan("moments", "cpu", 2)
    chosen = [cell for cell in made.cells() if (cell.dataset, cell.epsilon, cell.method) == ("adult", 0.1, "statistic")]
    for cell, auc in zip(chosen, (0.90, 0.92), strict=True):
        finished(place, cell, fit("moments", "statistic", auc, 0.3), fit("clusters", "histogram", 0.8, 0.4))
    (without,) = (c for c in made.cells() if (c.dataset, c.epsilon, c.method, c.seed) == ("adult", None, "linear", 0))
    finished(place, without, fit("linear", "clean", 0.95, 0.2))
    found = collect(made, place, "x")
    lines = (place.out / "moments.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith("| moments"))
    assert row.split(" | ")[2] == "0.9100 ± 0.0100"
    assert row.endswith("| 3.0 | 2 |")
    assert next(line for line in lines if line.startswith("| no privacy, linear")).count("0.9500") == len(EPSILONS)
    scores = found.data["scores"] if "scores" in found.data else found.data["beside"]["scores"]
    assert {(one["model"], one["reading"]) for one in scores} <= {*METHODS, *WITHOUT}
    assert len(scores) == 3
