"""Who draws observations: labeldp, a loop over labels, the paper's loop, OpenDP."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.entropy import SecureEntropy
from labeldp.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse, SubsetSelection, UnaryEncoding
from labeldp.mechanisms.table import WHOLE
from labeldp.private import PrivateLabels, code_dtype

try:
    import opendp.prelude as dp
except ImportError:
    dp = None
try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

EPSILON, DELTA = 1.0, 1e-5

Work = Callable[[], object]  # draws the observations that it was prepared for
Prepare = Callable[[int], Work]  # for so many rows
Draw = Callable[[int], object]  # one label in, one observation out


def everybody(mechanism: Mechanism) -> dict[str, Prepare]:
    """All who can draw this mechanism's observations here; labeldp first."""
    return {
        "labeldp": ours(mechanism),
        "loop": looped(mechanism, one_at_a_time(mechanism)),
        **papers_loop(mechanism),
        **opendp_contenders(mechanism),
    }


def some_labels(rows: int, classes: int) -> npt.NDArray[Any]:
    """Uniform labels; how fast they are released does not depend on them."""
    return np.random.default_rng(0).integers(0, classes, rows, dtype=code_dtype(classes))


def ours(mechanism: Mechanism) -> Prepare:
    """`mechanism.observe`, with the operating system's entropy."""

    def prepare(rows: int) -> Work:
        labels = PrivateLabels(some_labels(rows, mechanism.num_classes), mechanism.num_classes)
        return lambda: mechanism.observe_uncharged(labels, SecureEntropy())

    return prepare


def looped(mechanism: Mechanism, draw: Draw) -> Prepare:
    """One label at a time. Labels are Python integers already: converting them is not counted."""

    def prepare(rows: int) -> Work:
        labels = some_labels(rows, mechanism.num_classes).tolist()
        return lambda: [draw(label) for label in labels]

    return prepare


def one_at_a_time(mechanism: Mechanism) -> Draw:
    """What somebody would write for one label."""
    rng, classes = np.random.default_rng(), mechanism.num_classes
    others = [[c for c in range(classes) if c != label] for label in range(classes)]

    def onehot(label: int) -> npt.NDArray[np.float64]:
        vector = np.zeros(classes)
        vector[label] = 1.0
        return vector

    if isinstance(mechanism, RandomizedResponse):
        keep = keep_probability(mechanism)
        return lambda label: label if random.random() < keep else random.choice(others[label])
    if isinstance(mechanism, SubsetSelection):
        holds, size = mechanism.holds / WHOLE, mechanism.size

        def subset(label: int) -> list[int]:
            if random.random() < holds:
                return [label, *random.sample(others[label], size - 1)]
            return random.sample(others[label], size)

        return subset
    if isinstance(mechanism, UnaryEncoding):
        flip = 1 - mechanism.keep / WHOLE
        return lambda label: (onehot(label) > 0) ^ (rng.random(classes) < flip)
    if isinstance(mechanism, Laplace):
        return lambda label: onehot(label) + rng.laplace(0.0, mechanism.scale, size=classes)
    if isinstance(mechanism, Gaussian):
        return lambda label: onehot(label) + rng.normal(0.0, mechanism.sigma, size=classes)
    raise TypeError(f"no loop is written for {mechanism.name}")


def papers_loop(mechanism: Mechanism) -> dict[str, Prepare]:
    """A tensor for each label, as the paper's code does it; Laplace noise is the difference of two exponentials."""
    if torch is None or not isinstance(mechanism, (Laplace, Gaussian)):
        return {}
    generator, classes = torch.Generator(), mechanism.num_classes

    def noise() -> Any:
        if isinstance(mechanism, Gaussian):
            return torch.empty(classes).normal_(0.0, mechanism.sigma, generator=generator)
        one, other = (torch.empty(classes).exponential_(1 / mechanism.scale, generator=generator) for _ in range(2))
        return one - other

    def draw(label: int) -> object:
        onehot = torch.zeros(classes)
        onehot[label] = 1.0
        return onehot + noise()

    return {"the paper's loop": looped(mechanism, draw)}


def keep_probability(mechanism: RandomizedResponse) -> float:
    return 1 - (mechanism.num_classes - 1) * mechanism.other / WHOLE


def opendp_contenders(mechanism: Mechanism) -> dict[str, Prepare]:
    """OpenDP has randomized response for one label, and Laplace noise for a whole vector (here: flattened one-hots)."""
    if dp is None:
        return {}
    dp.enable_features("contrib")
    if isinstance(mechanism, RandomizedResponse):
        return {"opendp": opendp_response(mechanism)}
    if isinstance(mechanism, Laplace):
        # By default its noise is a multiple of 2^-1074; a coarser grid is faster, and needs to know the vector's size.
        return {"opendp": opendp_laplace(mechanism), "opendp, grid 2^-60": opendp_laplace(mechanism, grid=-60)}
    return {}


def opendp_response(mechanism: RandomizedResponse) -> Prepare:
    """A call for each label; there is no other way."""
    classes = mechanism.num_classes
    respond = dp.m.make_randomized_response(list(range(classes)), keep_probability(mechanism))
    check_epsilon("OpenDP's randomized response", respond.map(1))

    def prepare(rows: int) -> Work:
        labels = some_labels(rows, classes).tolist()
        return lambda: [respond(label) for label in labels]

    return prepare


def opendp_laplace(mechanism: Laplace, grid: int | None = None) -> Prepare:
    """One call for all labels; one label replaced changes the vector by 2 in ℓ1."""

    def prepare(rows: int) -> Work:
        size = rows * mechanism.num_classes
        known = {} if grid is None else {"size": size}
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), **known)
        noise = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=2 / EPSILON, k=grid)
        check_epsilon("OpenDP's Laplace noise", noise.map(2.0))
        true_cells = np.arange(rows) * mechanism.num_classes + some_labels(rows, mechanism.num_classes)

        def work() -> object:
            onehots = np.zeros(size)
            onehots[true_cells] = 1.0
            return noise(onehots)

        return work

    return prepare


def check_epsilon(whose: str, epsilon: float) -> None:
    """A comparison at another ε would be none."""
    if not math.isclose(epsilon, EPSILON, rel_tol=1e-6):
        raise SystemExit(f"{whose} has ε = {epsilon}, not {EPSILON}.")
