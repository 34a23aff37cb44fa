"""What an audit costs, and what share of a certificate it proves: `python benchmarks/audit.py [--releases 100]`.

Shares: 1,000 canaries, the attacker sees the release; mean and spread over so many releases of labels. Every class is a candidate for
randomized response; for the others two are, since of more than two the best are often equally likely, and one of them is guessed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import machine, own_peak, summary

from labeldp import PrivateLabels, Release, SecureEntropy
from labeldp.audit import Canaries, audit, audit_paper
from labeldp.mechanisms.plan import calibrate

GRID = [("response", 10, e) for e in (1, 2, 3, 4, 8)] + [("response", 100, e) for e in (3, 4, 8)]
GRID += [(name, 10, e) for name in ("subset", "unary", "laplace", "gaussian") for e in (1, 2, 4)]
WANTED = {("response", 10, e): share for e, share in ((1, 0.85), (2, 0.93), (3, 0.93), (4, 0.93), (8, 0.85))}
WANTED |= {("response", 100, e): 0.93 for e in (3, 4, 8)}


def share(name: str, classes: int, epsilon: float, releases: int, canaries: int = 1000) -> dict[str, Any]:
    candidates = classes if name == "response" else 2
    delta = 1e-5 if name == "gaussian" else 0.0
    mechanism = calibrate(name, epsilon=epsilon, num_classes=classes, delta=delta or None)
    header = {"ids": None, "first_row": 0, "data_set": "d", "label_names": None, "insecure": None, "label": None}
    shares, entropy = [], SecureEntropy()
    for _ in range(releases):
        planted = Canaries.draw(canaries, rows=canaries, num_classes=classes, candidates=candidates, entropy=entropy)
        labels = planted.plant(PrivateLabels(np.zeros(canaries, int), classes))
        release = Release(header, mechanism, None, mechanism.observe_uncharged(labels, entropy), "0")
        found = audit(None, planted, release=release, delta=delta)
        shares.append(found.epsilon_low / mechanism.guarantee().epsilon)
    return {"mechanism": name, "classes": classes, "epsilon": epsilon, "delta": delta, "candidates": candidates, "share": summary(shares),
            "above_certificate": int(np.sum(np.array(shares) > 1)), "wanted": WANTED.get((name, classes, epsilon))}  # fmt: skip


def timed(canaries: int, classes: int, method: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(classes), canaries).astype(np.float32)
    planted = Canaries.draw(canaries, rows=canaries, num_classes=classes, candidates=2, entropy=SecureEntropy())
    start = time.perf_counter()
    if method == "paper":
        audit_paper(table, (planted.planted + 1) % classes, planted.planted)
    else:
        audit(table, planted)
    return {
        "canaries": canaries,
        "classes": classes,
        "method": method,
        "seconds": time.perf_counter() - start,
        "peak_rss_bytes": own_peak(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/audit.json"))
    arguments = parser.parse_args()
    times = [timed(n, 100, method) for n in (1_000, 100_000) for method in ("one-run", "paper")]
    result = {
        "machine": machine("numpy", "labeldp"),
        "releases": arguments.releases,
        "times": times,
        "shares": [share(*cell, arguments.releases) for cell in GRID],
    }
    arguments.out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
