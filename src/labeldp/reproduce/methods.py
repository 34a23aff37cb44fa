"""From a method's name to its cell, at each of the three scales.

smoke  bundled digits, an MLP: seconds a cell, to see everything work
cpu    the `fast` model, 8 epochs, 6e13 FLOP a cell: minutes to half an hour of one core
paper  the paper's models, epochs and hyper-parameters: for GPUs and clusters
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labeldp.errors import InputError
from labeldp.reproduce.cells import Cell, options

SCALES = ("smoke", "cpu", "paper")
DELTA = 1e-5

# What each is called in a table.
ALGORITHMS = {
    "alibi": "ALIBI",
    "agibi": "AGIBI",
    "subset": "k-subset",
    "response": "randomized response",
    "min-projection": "Laplace, min-projection",
    "lp-2st-hard": "LP-2ST",
    "lp-2st-evidence": "LP-2ST, evidence",
    "subset-2st": "k-subset in 2 stages",
    "none": "no privacy",
    "pate-frozen": "PATE, frozen features",
}
_MECHANISM = {
    "alibi": "laplace", "agibi": "gaussian", "subset": "subset", "response": "response", "min-projection": "laplace",
    "lp-2st-hard": "response", "lp-2st-evidence": "response", "subset-2st": "subset", "none": "none",
}  # fmt: skip
_DENOISE = {"min-projection": "min-projection", "lp-2st-hard": "none"}
_STAGED = ("lp-2st-hard", "lp-2st-evidence", "subset-2st")
SHORT = {"smoke": ("mlp", 24, 50), "cpu": ("fast", 8, 500)}  # model, epochs, canaries
PAPER_CANARIES = 1000
CLASSES = {"digits": 10, "fashion": 10, "cifar10": 10, "cifar100": 100}


def check_scale(scale: str) -> None:
    """One of three."""
    if scale not in SCALES:
        raise InputError(f"--scale is {', '.join(SCALES)}; got {scale!r}.")


def trained(
    scale: str, dataset: str, method: str, epsilon: float | None, seed: int, *, canaries: int | None = None,
    repetition: tuple[int, int] | None = None,
) -> Cell:  # fmt: skip
    """One training from released labels, at the scales of one short recipe.

    A method of two stages trains 3/4 of the epochs on half of the rows and 5/8 on all: as much compute as the others. A `repetition`
    (number, of how many) is one of several trainings alike, from seeds of their own.
    """
    model, epochs, usual = SHORT[scale]
    staged = method in _STAGED
    said = options(
        dataset=dataset, model=model, epochs=5 * epochs // 8 if staged else epochs, seed=_seed(seed, repetition), threads=1,
        canaries=usual if canaries is None else canaries, candidates=10, mechanism=_MECHANISM[method], epsilon=epsilon,
        stages=2 if staged else None, stage_epochs=3 * epochs // 4 if staged else None, denoise=_DENOISE.get(method),
    )  # fmt: skip
    budget = "" if epsilon is None else f"-eps{epsilon:g}"
    name = f"{dataset}-{method}{budget}{_part(repetition)}-seed{seed}"
    return Cell(name, dataset, method, epsilon, seed, ("experiment", *said))


def from_preset(
    preset: str, name: str, dataset: str, method: str, epsilon: float | None, seed: int, *, canaries: int = PAPER_CANARIES,
    repetition: tuple[int, int] | None = None, **changes: Any,
) -> Cell:  # fmt: skip
    """One training by a row of the paper's ALIBI table, with `changes`. On all rows, as the paper's."""
    given = {"mechanism": _MECHANISM[method], "epsilon": epsilon, "denoise": _DENOISE.get(method)} | changes
    said = options(
        preset=preset, seed=_seed(seed, repetition), holdout=0, canaries=canaries, candidates=CLASSES[dataset], **given
    )
    return Cell(
        f"paper-{dataset}-{name}{_part(repetition)}-seed{seed}", dataset, method, epsilon, seed, ("experiment", *said)
    )


def _seed(seed: int, repetition: tuple[int, int] | None) -> int:
    return seed if repetition is None else 100 * (repetition[0] + 1) + seed


def _part(repetition: tuple[int, int] | None) -> str:
    return "" if repetition is None else f"-apart{repetition[0] + 1}of{repetition[1]}"


@dataclass(frozen=True)
class Ensemble:
    """Linear teachers on frozen features. The noise follows from the ε that is to be published."""

    teachers: int
    threshold: int
    asked: int
    answered: int
    believed: float  # --answer-accuracy
    student_epochs: int
    contrastive: int | None = None

    def sigmas(self, epsilon: float) -> tuple[float, float]:
        """σ1 and σ2 = σ1/3, at which the caps' ε at δ = 1e-5 is this one, or a hair less.

        μ² = asked/σ1² + 2·answered/σ2² = (asked/9 + 2·answered)/σ2². Three significant digits, rounded up: more noise, and room for
        the certificate's slack.
        """
        from labeldp.accounting.gaussian import gaussian_mu

        sigma2 = math.sqrt(self.asked / 9 + 2 * self.answered) / gaussian_mu(epsilon, DELTA)
        unit = 10.0 ** (math.floor(math.log10(sigma2)) - 2)
        sigma2 = math.ceil(sigma2 / unit) * unit
        return round(3 * sigma2, 10), round(sigma2, 10)


ENSEMBLES = {
    "digits": Ensemble(200, 60, 100, 50, 0.7, 6),
    "fashion": Ensemble(500, 250, 1000, 500, 0.85, 4),
    "cifar10": Ensemble(1000, 500, 2000, 1000, 0.6, 4, contrastive=6),
}


def frozen(
    dataset: str, ensemble: Ensemble, epsilon: float | None, seed: int, *, canaries: int | None = None, name: str | None = None,
    sigmas: tuple[float, float] = (0.0, 0.0),
) -> Cell:  # fmt: skip
    """PATE with frozen teachers, at the ε that is to be published; or, without one, with these `sigmas` and under this `name`."""
    sigma1, sigma2 = sigmas if epsilon is None else ensemble.sigmas(epsilon)
    said = options(
        dataset=dataset, contrastive=ensemble.contrastive, teachers=ensemble.teachers, max_asked=ensemble.asked,
        max_answered=ensemble.answered, sigma1=sigma1, sigma2=sigma2, threshold=ensemble.threshold,
        answer_accuracy=ensemble.believed, students=1, student_epochs=ensemble.student_epochs, seed=seed, canaries=canaries,
        candidates=None if canaries is None else 10,
    )  # fmt: skip
    features = None if dataset == "digits" else f"{dataset}-contrastive{ensemble.contrastive or 0}"
    found = name or f"{dataset}-pate-frozen-eps{epsilon:g}"
    return Cell(f"{found}-seed{seed}", dataset, "pate-frozen", epsilon, seed, ("pate", "run", *said), features)


def pate_fm(
    dataset: str,
    level: str,
    epsilon: float | None,
    seed: int,
    *,
    canaries: int | None = None,
    name: str | None = None,
    **changes: Any,
) -> Cell:
    """PATE-FM by a row of the paper's table, with `changes`: three students of one ensemble, as the paper has them."""
    said = options(
        preset=f"pate-{dataset}-{level}", students=3, seed=seed, canaries=canaries,
        candidates=None if canaries is None else CLASSES[dataset], **changes,
    )  # fmt: skip
    return Cell(
        f"paper-{dataset}-pate-fm-{name or level}-seed{seed}", dataset, "pate-fm", epsilon, seed, ("pate", "run", *said)
    )
