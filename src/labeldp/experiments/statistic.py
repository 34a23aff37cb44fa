"""One statistic instead of rows, and what else is trained where labels and features meet: moments, clusters, PATE, DP-SGD. For comparisons.

All of them take one public preprocessing of one public table, and see its training labels only through their mechanism.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.data.public import PublicTable
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.files.summary import Certificate
from labeldp.private import PrivateLabels
from labeldp.statistics.clusters import (
    cluster_sizes,
    exact_histogram,
    fit_clusters,
    moved_by_a_label,
    noisy_histogram,
    public_clusters,
)
from labeldp.statistics.fit import fit_moments
from labeldp.statistics.moment_noise import MomentNoise, exact_moments
from labeldp.statistics.noise import GaussianCountNoise, GeometricNoise
from labeldp.statistics.preprocessing_rule import choose_preprocessing
from labeldp.statistics.whitening import Preprocessing

# Which model, and what it is that its labels' owner releases.
STATISTICS = {"moments": "statistic", "clusters": "histogram", "pate": "answers", "dp-sgd": "gradients"}
DELTA = 1e-5
_ROWS_A_TEACHER = 100
_STEPS, _RATE, _MOMENTUM, _CLIPPING = 30, 32.0, 0.9, 0.5  # of DP-SGD

Probabilities = npt.NDArray[np.float64]


def fit_statistic(model: str, table: PublicTable, epsilon: float, seed: int) -> tuple[Probabilities, Certificate]:
    """What it says of the test rows, and what it costs; noise is the operating system's."""
    found, spent, delta = _FITS[model](table, epsilon, seed)
    return found, Certificate(spent, delta, None)


def _moments(table: PublicTable, epsilon: float, seed: int) -> tuple[Probabilities, float, float]:
    chosen = choose_preprocessing(table.plain, table.num_classes, epsilon=epsilon, delta=DELTA)
    features = chosen.apply(table.plain)
    noise = MomentNoise.calibrated(
        epsilon=epsilon, delta=DELTA, radius=chosen.radius, dimensions=chosen.dimensions, num_classes=table.num_classes
    )
    released = exact_moments(features, table.labels, noise) + noise.sample(SecureEntropy())
    model = fit_moments(features, released, noise, chosen.variances)
    said = noise.guarantee()
    return model.probabilities(chosen.apply(table.plain_test)), said.epsilon, said.delta


def _clusters(table: PublicTable, epsilon: float, seed: int) -> tuple[Probabilities, float, float]:
    classes = table.num_classes
    chosen, clusters = public_clusters(table.plain, classes, epsilon, seed=seed)
    where, weights = clusters.spread(chosen.apply(table.plain))
    moved = moved_by_a_label(clusters.parts, classes)
    noise = GeometricNoise.calibrated(epsilon=epsilon, moved=moved)
    exact = exact_histogram(where, weights, table.labels, clusters.count, clusters.parts)
    sizes = cluster_sizes(where, weights, clusters.count)
    model = fit_clusters(clusters, noisy_histogram(exact, noise, SecureEntropy()), sizes, noise, classes)
    return model.probabilities(chosen.apply(table.plain_test)), noise.guarantee(moved).epsilon, 0.0


def _units(chosen: Preprocessing, x: Any) -> npt.NDArray[np.float32]:
    return chosen.apply(x).astype(np.float32) / np.float32(chosen.radius)


def _pate(table: PublicTable, epsilon: float, seed: int) -> tuple[Probabilities, float, float]:
    """Linear teachers of 100 rows each vote on some public rows; the largest noisy count is the answer, and a linear student learns those.

    As many questions as keep the noise of a count at a quarter of the teachers, 20 to 2,000.
    """
    from sklearn.linear_model import LogisticRegression

    from labeldp.accounting.cost import Cost

    classes = table.num_classes
    chosen = Preprocessing.of(table.plain, power=0.5, dimensions=64)
    x, test = _units(chosen, table.plain), _units(chosen, table.plain_test)
    rng = np.random.default_rng([11, seed])
    teachers = max(10, len(x) // _ROWS_A_TEACHER)
    order = rng.permutation(len(x))[: teachers * (len(x) // teachers)].reshape(teachers, -1)
    mu = math.sqrt(Cost.gaussian_cap(epsilon, DELTA).gaussian)
    asked = int(min(2000, max(20, (teachers * mu / 4) ** 2 / 2), len(x)))
    questions = rng.permutation(len(x))[:asked]
    votes = _votes(x, order, _entrusted(table.labels, order), questions, classes)
    noise = GaussianCountNoise.calibrated(epsilon=epsilon, delta=DELTA, moved=2 * asked)
    noisy = votes + noise.sample(votes.size, SecureEntropy()).reshape(votes.shape)
    answers = noisy.argmax(axis=1)
    said = noise.guarantee(2 * asked)
    if len(np.unique(answers)) == 1:
        found = np.full((len(test), classes), 1e-3 / classes)
        found[:, answers[0]] += 1 - 1e-3
        return found, said.epsilon, said.delta
    student = LogisticRegression(C=10.0, max_iter=300).fit(x[questions], answers)
    found = np.full((len(test), classes), 1e-6)
    found[:, student.classes_] += student.predict_proba(test)
    return found / found.sum(axis=1, keepdims=True), said.epsilon, said.delta


def _votes(
    x: npt.NDArray[np.float32],
    shards: npt.NDArray[np.int64],
    codes: npt.NDArray[Any],
    asked: npt.NDArray[np.int64],
    classes: int,
) -> npt.NDArray[np.int64]:
    """Ridge regression on the one-hot labels of each shard; a teacher is moved by the labels of its own rows alone."""
    votes = np.zeros((len(asked), classes), dtype=np.int64)
    for rows, labels in zip(shards, codes, strict=True):
        own = x[rows]
        ridge = 0.01 * float((own**2).sum()) / own.shape[1] * np.eye(own.shape[1])
        weights = np.linalg.solve(own.T @ own + ridge, own.T @ np.eye(classes)[labels])
        votes[np.arange(len(asked)), (x[asked] @ weights).argmax(axis=1)] += 1
    return votes


def _entrusted(labels: PrivateLabels, shards: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return labels.entrust(shards.ravel()).reshape(shards.shape)


def _dp_sgd(table: PublicTable, epsilon: float, seed: int) -> tuple[Probabilities, float, float]:
    """Logistic regression by Opacus, whole batches: it protects a whole row, features too, against its being there or not.

    Thirty steps with noise of z clipping norms are μ = √30/z exactly, so that the ε needs no bound of Opacus's (at ε ≤ 0.1 it finds none).
    """
    try:
        from opacus import PrivacyEngine
    except ImportError:
        raise InputError('DP-SGD is Opacus\'s: pip install "labeldp[bench]"') from None
    import warnings

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from labeldp.accounting.cost import Cost

    classes = table.num_classes
    chosen = Preprocessing.of(table.plain, power=0.5, dimensions=64)
    x, test = _units(chosen, table.plain), _units(chosen, table.plain_test)
    y = _entrusted(table.labels, np.arange(len(x))).astype(np.int64)
    torch.manual_seed(seed)
    model: Any = torch.nn.Linear(x.shape[1], classes)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=_MOMENTUM)
    rows, labels = torch.from_numpy(x), torch.from_numpy(y)
    loader: Any = DataLoader(TensorDataset(rows, labels), batch_size=len(x))
    cap = Cost.gaussian_cap(epsilon, DELTA)
    multiplier = math.sqrt(_STEPS / cap.gaussian) * (1 + 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus's own, of its generator and its hooks
        # Opacus reads the loader's sizes; the batch itself is always the whole table, and collating it row by row would take all the time.
        model, optimizer, _ = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=multiplier, max_grad_norm=_CLIPPING,
            poisson_sampling=False,
        )  # fmt: skip
        average = torch.zeros(classes, x.shape[1]), torch.zeros(classes)
        for step in range(_STEPS):
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(model(rows), labels)
            loss.backward()
            optimizer.step()
            if step >= _STEPS // 2:  # the second half's mean
                for total, now in zip(average, model.parameters(), strict=True):
                    total += now.detach() / (_STEPS - _STEPS // 2)
    logits = torch.from_numpy(test) @ average[0].T + average[1]
    spent = Cost(0.0, _STEPS / multiplier**2).epsilon(DELTA)
    return np.asarray(torch.softmax(logits.double(), dim=1).numpy()), spent, DELTA


_FITS = {"moments": _moments, "clusters": _clusters, "pate": _pate, "dp-sgd": _dp_sgd}
