"""What has been published, with its source, to stand beside ours. These numbers are quoted, never computed."""

from __future__ import annotations

from dataclasses import dataclass

MALEK = "Malek et al., Antipodes of Label Differential Privacy: PATE and ALIBI (NeurIPS 2021)"
PRO_PAPER = "the LabelDP-Pro paper (2024)"
GHAZI = "Ghazi et al., Deep Learning with Label Differential Privacy (NeurIPS 2021)"


@dataclass(frozen=True)
class Published:
    """A row as printed: test accuracy in percent, ε, and 95% intervals of ε_m. None where nothing was printed."""

    accuracy: float | None = None
    epsilon: float | None = None
    measured: tuple[float, float] | None = None
    apart: tuple[float, float] | None = None  # from ten trainings with a tenth of the canaries each


@dataclass(frozen=True)
class PateRow:
    """A row of the paper's table of PATE-FM's parameters; accuracies in percent."""

    teachers: int
    sigma1: float
    sigma2: float
    threshold: float
    answered: int
    ensemble: float
    student: float


NOTHING = Published()

# Table 1 of Malek et al. (`table:comparitive-results`). PATE-FM's ε are at δ = 1e-5 and depend on the votes.
TABLE1 = {
    ("cifar10", "high"): {"PATE-FM": Published(93.7, 1.6, (0.0, 0.9)), "ALIBI": Published(94.0, 8.0, (2.9, 4.0))},
    ("cifar10", "medium"): {"PATE-FM": Published(86.9, 0.29, (0.0, 0.6)), "ALIBI": Published(84.2, 2.1, (1.0, 2.2))},
    ("cifar10", "low"): {"PATE-FM": Published(73.4, 0.18, (0.0, 0.4)), "ALIBI": Published(71.0, 1.0, (0.0, 2.2))},
    ("cifar100", "very-high"): {"ALIBI": Published(75.3, 8.1, (3.5, 4.5))},
    ("cifar100", "high"): {"PATE-FM": Published(69.9, 715, (0.4, 1.0)), "ALIBI": Published(71.4, 6.3, (2.8, 3.5))},
    ("cifar100", "medium"): {"PATE-FM": Published(50.0, 16, (0.2, 0.7)), "ALIBI": Published(51.6, 3.0, (1.4, 2.4))},
    ("cifar100", "low"): {"PATE-FM": Published(30.5, 7.9, (0.2, 0.6)), "ALIBI": Published(31.4, 2.0, (0.6, 1.0))},
}

# Table 2 (`table:ghazi-vs-alibi`): CIFAR-100, ResNet-18. LP-2ST's are quoted there from Ghazi et al., Table 4.
TABLE2 = {
    "ALIBI": {3.0: 55.0, 4.0: 65.0, 5.0: 69.0, 6.0: 71.5, 8.0: 74.4},
    "LP-2ST": {3.0: 28.7, 4.0: 50.2, 5.0: 63.5, 6.0: 70.6, 8.0: 74.1},
}

# `table:agibi`: accuracy, ε at δ = 1e-5, ε_m. CIFAR-100's intervals are those printed; they equal ALIBI's of `table:heuristic`, and the
# confidences that were published with the code give 2.4–3.3, 1.8–3.3 and 0.3–1.3.
AGIBI = {
    ("cifar10", "high"): Published(93.5, 19, (2.1, 3.2)),
    ("cifar10", "medium"): Published(84.3, 7.7, (0.7, 1.4)),
    ("cifar10", "low"): Published(71.3, 3.7, (0.0, 2.0)),
    ("cifar100", "high"): Published(69.9, 17, (2.7, 3.4)),
    ("cifar100", "medium"): Published(50.8, 8.4, (1.3, 2.0)),
    ("cifar100", "low"): Published(28.7, 5.4, (0.6, 1.1)),
}

# `table:heuristic`, the column of 10 × 100 labels; that of 1,000 is Table 1's.
HEURISTIC = {
    ("cifar10", "high"): (2.7, 3.6),
    ("cifar10", "medium"): (0.2, 2.5),
    ("cifar10", "low"): (0.0, 1.6),
    ("cifar100", "high"): (2.7, 3.4),
    ("cifar100", "medium"): (1.3, 2.0),
    ("cifar100", "low"): (0.6, 1.1),
}

# `table:pate-hyperparameters`.
PATE = {
    ("cifar10", "high"): PateRow(200, 160, 20, 100, 500, 90.8, 93.7),
    ("cifar10", "medium"): PateRow(800, 800, 300, 400, 250, 60.8, 86.9),
    ("cifar10", "low"): PateRow(800, 800, 500, 400, 250, 36.4, 73.4),
    ("cifar100", "high"): PateRow(20, 7, 2, 2, 9400, 74.0, 69.9),
    ("cifar100", "medium"): PateRow(100, 45, 15, 10, 1000, 55.0, 50.0),
    ("cifar100", "low"): PateRow(100, 90, 30, 10, 1000, 28.8, 30.5),
}

# CIFAR-10 by ε. ALIBI: Table 1 of Malek et al. (2.1 beside our 2); LP-1ST and LP-2ST: Ghazi et al., Table 1.
FRONTIER = {
    1.0: {"alibi": "71.0", "response": "59.96 (LP-1ST)", "lp-2st-hard": "63.67"},
    2.0: {"alibi": "84.2 (ε = 2.1)", "response": "82.38 (LP-1ST)", "lp-2st-hard": "86.05"},
    4.0: {"response": "92.58 (LP-1ST)", "lp-2st-hard": "93.37"},
}
# CIFAR-100, ResNet-18.
FRONTIER100 = {4.0: {"alibi": "65.0", "response": "46.28 (LP-1ST)", "lp-2st-hard": "50.2"}}

# ----------------------------------------------------------------
# Curves of test accuracy in percent by ε, as published.


@dataclass(frozen=True)
class Curve:
    """By ε; the source says which paper's table."""

    name: str
    source: str
    accuracies: dict[float, float]


CURVES: dict[str, tuple[Curve, ...]] = {
    "cifar10": (
        Curve("ALIBI", MALEK, {1.0: 71.0, 2.1: 84.2, 8.0: 94.0}),
        Curve("PATE-FM (central, δ = 1e-5)", MALEK, {0.18: 73.4, 0.29: 86.9, 1.6: 93.7}),
        Curve("LP-1ST", GHAZI, {1.0: 59.96, 2.0: 82.38, 3.0: 89.89, 4.0: 92.58, 8.0: 94.70}),
        Curve("LP-2ST", GHAZI, {1.0: 63.67, 2.0: 86.05, 3.0: 92.19, 4.0: 93.37, 8.0: 94.52}),
        Curve("LabelDP-Pro, small CNN (central, δ = 1e-5)", PRO_PAPER, {0.05: 16.0, 0.1: 27.0, 0.2: 30.8, 0.5: 40.2, 1.0: 44.8}),
        Curve(
            "LabelDP-Pro, SimCLR features (central, δ = 1e-5)", PRO_PAPER,
            {0.01: 74.4, 0.02: 82.4, 0.05: 85.5, 0.18: 86.6, 0.29: 87.2, 0.5: 87.4, 1.6: 87.7},
        ),
    ),
    "cifar100": (
        Curve("ALIBI", MALEK, TABLE2["ALIBI"]),
        Curve("LP-1ST", GHAZI, {3.0: 20.96, 4.0: 46.28, 5.0: 61.38, 6.0: 68.34, 8.0: 73.59}),
        Curve("LP-2ST", GHAZI, TABLE2["LP-2ST"]),
    ),
}  # fmt: skip

# Symmetric noise on the labels of CIFAR-10, its rate over all ten classes, and the ε of that randomized response, log(1 + 10(1 − r)/r).
NOISY_RATES = ((0.2, 3.71), (0.5, 2.40), (0.8, 1.25), (0.9, 0.75))
_DIVIDEMIX = "Li et al., DivideMix (ICLR 2020), its table of CIFAR-10"
_S3 = "Feng et al., S3 / SSR (BMVC 2022, arXiv 2111.11288)"
_UNNAMED = "quoted in issue 25 of this repository, which does not name its paper"


def _noisy(name: str, source: str, *accuracies: float) -> Curve:
    return Curve(name, source, {epsilon: value for (_, epsilon), value in zip(NOISY_RATES, accuracies, strict=True)})


NOISY_LABELS = (
    _noisy("cross-entropy", _DIVIDEMIX, 86.8, 79.4, 62.9, 42.7),
    _noisy("mixup", _DIVIDEMIX, 95.6, 87.1, 71.6, 52.2),
    _noisy("noise correction and mixup", _UNNAMED, 95.6, 88.8, 78.5, 68.5),
    _noisy("frozen pre-trained encoder, correction, mixup", _UNNAMED, 88.1, 87.3, 85.6, 82.5),
    _noisy("DivideMix", _DIVIDEMIX, 96.1, 94.6, 93.2, 76.0),
    _noisy("S3 / SSR", _S3, 96.6, 96.3, 95.7, 94.9),
)

# ----------------------------------------------------------------
# Not a paper: issue 23 of this repository. Its column "forward LightGBM" is 21 lines around LightGBM (the objective −log Σ_c p(o|c) p_c(x)
# on `release.evidence`, randomized response), its "naive, inverted" LightGBM on observed labels, led back through the channel. On true
# test labels; means of three seeds, of Criteo and Diabetes-130 of one.


@dataclass(frozen=True)
class Forward:
    """At one ε of one table."""

    roc_auc: float
    log_loss: float
    inverted_log_loss: float


FORWARD: dict[tuple[str, float | None], Forward] = {
    ("adult", 0.5): Forward(0.899, 0.339, 0.340),
    ("adult", 1.0): Forward(0.912, 0.309, 0.312),
    ("adult", 2.0): Forward(0.920, 0.293, 0.297),
    ("adult", 4.0): Forward(0.925, 0.283, 0.284),
    ("bank", 0.5): Forward(0.875, 0.272, 0.254),
    ("bank", 1.0): Forward(0.918, 0.228, 0.223),
    ("bank", 2.0): Forward(0.930, 0.211, 0.207),
    ("bank", 4.0): Forward(0.936, 0.198, 0.197),
    ("criteo", 1.0): Forward(0.800, 0.271, 0.276),
    ("diabetes", 1.0): Forward(0.633, 0.337, 0.339),
}
# What the issue asks for where forward itself is too weak.
FORWARD_LEAST: dict[tuple[str, float | None], float] = {("bank", 0.5): 0.885}
