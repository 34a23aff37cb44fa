"""Every model and every reading of noisy labels, on one public table and at one ε.

Each mechanism releases the labels once, in a ledger of its own: the readings are alternatives, and nobody would release twice. Test rows
are released too, so that what an owner would be told of a model stands beside its scores on true labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp import models
from labeldp.accounting.ledger import Ledger
from labeldp.data.public import PublicTable, load_table
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.estimators import boosting
from labeldp.estimators.boosted import MANY, BoostingRecipe, fit_boosted
from labeldp.estimators.linear import LinearRecipe, fit_linear_path
from labeldp.evaluation.metrics import MetricEstimate, estimate_metrics
from labeldp.evaluation.proper import losses
from labeldp.evaluation.ranking import Ranked, average_precision
from labeldp.experiments.statistic import STATISTICS, fit_statistic
from labeldp.files.run import RunFolder
from labeldp.files.schema import decode
from labeldp.files.summary import Certificate, StatedFit, StatedMetric, TablesSummary
from labeldp.machine import Machine
from labeldp.mechanisms import Mechanism, NoPrivacy, StatisticLaw, judge_of
from labeldp.mechanisms.plan import calibrate
from labeldp.private import PrivateLabels
from labeldp.release import Release
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource
from labeldp.training.recipe import default_recipe
from labeldp.training.trainer import Trainer

MODELS = ("linear", "mlp", "lightgbm")  # of rows; `STATISTICS` release something else than rows
NAIVE, INVERTED, CLEAN = "naive", "inverted", "clean"
SCORES = ("roc_auc", "log_loss", "average_precision")
TREES, STOPPED = (
    "lightgbm",
    "lightgbm-stopped",
)  # the latter: plain LightGBM, stopped by the observed labels of rows held out
PLAIN_ROUNDS, PATIENCE, HELD_OUT = 200, 20, 0.1  # of LightGBM at its own defaults
_LEAST = 1e-6  # of a probability that was led back through the channel

Probabilities = npt.NDArray[np.float64]
Evidence = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]]
Told = Callable[[str, int, int], None]  # which fit, how many are done, of how many


def mechanisms_for(num_classes: int) -> tuple[str, ...]:
    """What is compared: of two classes, k-subset is randomized response."""
    return ("response", "laplace") if num_classes == 2 else ("response", "subset")


@dataclass(frozen=True)
class Comparing:
    """Which table, at which ε (None: clean labels), from which seed of split and training, with which models; in which `readings` of
    rows (none named: all)."""

    dataset: str
    epsilon: float | None
    seed: int = 0
    models: tuple[str, ...] = MODELS
    readings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = (*MODELS, *STATISTICS)
        unknown = [model for model in self.models if model not in known]
        if unknown or not self.models or len(set(self.models)) != len(self.models):
            raise InputError(
                f"`models` are some of {', '.join(known)}, each once; got {', '.join(self.models) or 'none'}."
            )
        if self.epsilon is None and set(self.models) & set(STATISTICS):
            raise InputError(f"{', '.join(STATISTICS)} need an ε.")

    def config(self) -> dict[str, Any]:
        """What makes a folder its own."""
        said = {"compare": self.dataset, "epsilon": self.epsilon, "seed": self.seed, "models": self.models}
        return said | ({"readings": self.readings} if self.readings else {})

    def mechanisms(self, num_classes: int) -> list[Mechanism]:
        """At its ε."""
        if self.epsilon is None:
            return [NoPrivacy(num_classes)]
        names = mechanisms_for(num_classes)
        return [calibrate(name, epsilon=self.epsilon, num_classes=num_classes) for name in names]


def compare_tables(
    wanted: Comparing, folder: Path, *, data: Path | None = None, threads: int | None = None, told: Told = lambda what, done, of: None
) -> TablesSummary:  # fmt: skip
    """All fits, summed up in the folder; what is finished there is read, and not repeated."""
    run = RunFolder(folder)
    with run.locked():
        config = wanted.config()
        if run.config.exists():
            run.match(config)
        found = run.read_summary()
        if isinstance(found, TablesSummary):
            return found
        table = load_table(wanted.dataset, wanted.seed, data)
        chosen = wanted.mechanisms(table.num_classes)
        run.match(config)  # nothing is written of what cannot be
        run.note_start()
        certificates, fits = _fitted(wanted, chosen, folder, table, threads, told)
        summary = TablesSummary(
            wanted.dataset, table.num_classes, wanted.epsilon, wanted.seed, len(table.labels), len(table.test_labels), certificates,
            tuple(fits),
        )  # fmt: skip
        run.write_summary("tables", asdict(summary))
    return summary


# ----------------------------------------------------------------
# What is released.


@dataclass(frozen=True)
class _Released:
    """By one mechanism: the rows to train on, and the test rows, as an owner would have them released to judge by."""

    train: Release
    test: Release

    @classmethod
    def of(cls, mechanism: Mechanism, table: PublicTable, folder: Path) -> _Released:
        own = RunFolder(folder / mechanism.name)
        own.make()
        ledger = Ledger(own.ledger)

        def made(labels: PrivateLabels, name: str) -> Release:
            order = Order(ArraySource(labels, Classes(labels.num_classes)), mechanism, name)
            return Release.load(make_release(order, ledger=ledger, entropy=SecureEntropy()).path)

        test = PrivateLabels(table.test_labels, table.num_classes)
        return cls(made(table.labels, table.name), made(test, f"{table.name}-test"))

    def judged(self, probabilities: Probabilities) -> dict[str, MetricEstimate]:
        """As an owner would be told; of two classes by the second."""
        return _scores(self.test.mechanism, self.test.observations, probabilities)


def _scores(
    mechanism: Mechanism, observations: npt.NDArray[Any], probabilities: Probabilities
) -> dict[str, MetricEstimate]:
    return estimate_metrics(mechanism, observations, probabilities, names=SCORES)


def _certificate(release: Release) -> Certificate:
    said = release.certificate()
    return Certificate(said["epsilon"], said["delta"], said["reason"])


# ----------------------------------------------------------------
# Every model in every reading.


def _fitted(
    wanted: Comparing, chosen: list[Mechanism], folder: Path, table: PublicTable, threads: int | None, told: Told
) -> tuple[dict[str, Certificate], list[StatedFit]]:
    of_rows = [model for model in wanted.models if model in MODELS]
    needed = [one for one in chosen if of_rows and (not wanted.readings or not _skipped(one, wanted.readings))]
    by_name = {one.name: _Released.of(one, table, folder) for one in needed}
    certificates = {name: _certificate(one.train) for name, one in by_name.items()}
    every = [one for model in of_rows for one in ((model, STOPPED) if model == TREES else (model,))]
    work = [part for model in every for part in _parts(_Model(model, table, wanted.seed, threads), by_name)]
    if wanted.readings:
        work = [part for part in work if part[0].split(", ")[1] in wanted.readings]
    fits: list[StatedFit] = []
    for model in wanted.models:
        if model in STATISTICS and wanted.epsilon is not None:
            told(model, 0, len(work) + 1)
            start = time.process_time()
            probabilities, certificates[model] = fit_statistic(model, table, wanted.epsilon, wanted.seed)
            one = _Model(model, table, wanted.seed, threads)
            fits.append(one.scored(STATISTICS[model], _whole(probabilities), time.process_time() - start, {}))
    for number, (name, part) in enumerate(work):
        told(name, number, len(work))
        fits += part()
    told("done", len(work), len(work))
    return certificates, fits


def _skipped(mechanism: Mechanism, readings: tuple[str, ...]) -> bool:
    """Whether no reading that is wanted needs its release; naive and inverted take the first mechanism's."""
    name = CLEAN if isinstance(mechanism, NoPrivacy) else mechanism.name
    return name not in readings and not (name in ("response", CLEAN) and {NAIVE, INVERTED} & set(readings))


_Part = tuple[str, Callable[[], list[StatedFit]]]


def _parts(model: _Model, by_name: dict[str, _Released]) -> Iterator[_Part]:
    """Naive (and led back), then each release as evidence. Without noise, naive is another model for trees alone."""
    first = next(iter(by_name.values()))
    clean = isinstance(first.train.mechanism, NoPrivacy)
    if not clean or model.trees:
        yield f"{model.name}, {NAIVE}", lambda: _naive(model, first, clean)
    for name, released in by_name.items() if model.name != STOPPED else ():
        reading = CLEAN if clean else name

        def fit(released: _Released = released, reading: str = reading) -> list[StatedFit]:
            probabilities, seconds = _timed(lambda: model.by_evidence(released.train))
            return [model.scored(reading, probabilities, seconds, {} if clean else released.judged(probabilities))]

        yield f"{model.name}, {reading}", fit


def _naive(model: _Model, released: _Released, clean: bool) -> list[StatedFit]:
    probabilities, seconds = _timed(lambda: model.at_its_word(released.train))
    if clean:
        return [model.scored(NAIVE, probabilities, seconds, {})]
    judge, _ = judge_of(released.train.mechanism, released.train.observations[:1])
    back = led_back(probabilities, judge.law())
    return [
        model.scored(name, said, seconds, released.judged(said))
        for name, said in ((NAIVE, probabilities), (INVERTED, back))
    ]


def led_back(observed: Probabilities, law: StatisticLaw) -> Probabilities:
    """From probabilities of what is observed to those of what is true: p_c = (m_c − E₀)/(E₁ − E₀), cut off and added up to 1."""
    found = np.clip((observed - law.mean_other) / law.gap, _LEAST, 1 - _LEAST)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _timed(fit: Callable[[], Probabilities]) -> tuple[Probabilities, float]:
    start = time.process_time()
    found = fit()
    return found, time.process_time() - start


@dataclass(frozen=True)
class _Model:
    """One of `MODELS` on a table; both ways of fitting it return what it says of the test rows."""

    name: str
    table: PublicTable
    seed: int
    threads: int | None

    @property
    def trees(self) -> bool:
        """LightGBM, ours or plain."""
        return self.name in (TREES, STOPPED)

    def by_evidence(self, release: Release) -> Probabilities:
        """With our defaults."""
        if not self.trees:
            return self._by(release.evidence)
        recipe, rows = BoostingRecipe(seed=self.seed), release.rows(slice(None))
        found = fit_boosted(
            self.table.coded, rows, release, recipe, categorical=self.table.categorical, threads=self.threads
        )
        return _whole(found.probabilities(self.table.coded_test, threads=self.threads))

    def at_its_word(self, release: Release) -> Probabilities:
        """The observed class is the label."""
        observed, classes = release.observations, self.table.num_classes
        if self.trees:
            return self._plain_trees(observed)
        return self._by(lambda rows: NoPrivacy(classes).evidence(observed[rows]))

    def _by(self, evidence: Evidence) -> Probabilities:
        x, test, classes = self.table.plain, self.table.plain_test, self.table.num_classes
        if self.name == "linear":
            found = fit_linear_path(x, np.arange(len(x)), evidence, classes, LinearRecipe(seed=self.seed))
            return _whole(found.probabilities(test))
        recipe = replace(default_recipe(self.name, classes), seed=self.seed)
        torch.manual_seed(self.seed)
        trainer = Trainer(models.build(self.name, x.shape[1:], classes), recipe, *Machine().chosen(images=False))
        features = torch.from_numpy(x)
        trainer.prepare(features)
        for _ in trainer.fit(features, np.arange(len(x)), evidence):
            pass
        return _whole(trainer.probabilities(torch.from_numpy(test)))

    def _plain_trees(self, observed: npt.NDArray[Any]) -> Probabilities:
        """LightGBM with its own defaults, as somebody has it who knows nothing of the noise; perhaps stopped by held-out rows."""
        lightgbm, classes = boosting.lightgbm(), self.table.num_classes
        options: dict[str, Any] = (
            {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
        )
        options |= {"seed": self.seed, "verbosity": -1} | (
            {} if self.threads is None else {"num_threads": self.threads}
        )
        x, y = self.table.coded, observed.astype(np.float32)
        order = np.random.default_rng(self.seed).permutation(len(x))
        held_out, learned = np.split(order, [round(HELD_OUT * len(x)) if self.name == STOPPED else 0])
        # Codes go by how common they are: of many, as a number, as ours are taken.
        few = [column for column in self.table.categorical if np.nanmax(x[:, column]) < MANY]
        data = lightgbm.Dataset(x[learned], y[learned], categorical_feature=few or "auto", params=options)
        watched: dict[str, Any] = {}
        if len(held_out):
            watched = {"valid_sets": [data.create_valid(x[held_out], y[held_out])]}
            watched["callbacks"] = [lightgbm.early_stopping(PATIENCE, verbose=False)]
        said = np.asarray(lightgbm.train(options, data, PLAIN_ROUNDS, **watched).predict(self.table.coded_test))
        return np.stack((1 - said, said), axis=1) if classes == 2 else said

    def scored(
        self, reading: str, probabilities: Probabilities, seconds: float, estimates: dict[str, MetricEstimate]
    ) -> StatedFit:
        """By true test labels."""
        stated = {name: _stated(estimate) for name, estimate in estimates.items()}
        return StatedFit(self.name, reading, *true_scores(self.table.test_labels, probabilities), seconds, stated)


def true_scores(labels: npt.NDArray[Any], probabilities: Probabilities) -> tuple[float, float, float]:
    """AUC, log loss and average precision on these very rows; of more than two classes the means of each against the rest."""
    loss = losses(probabilities, "log_loss")[np.arange(len(labels)), labels].mean()
    aucs, precisions = [], []
    for number in (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1]):
        ranked, one = Ranked.by(probabilities[:, number]), (labels == number).astype(np.float64)
        precision = average_precision(ranked, one)
        if precision is None or one.all():
            raise InputError(f"no test row, or every one, is of class {number}: a ranking cannot be scored.")
        w = one[ranked.order]
        aucs.append(float(w @ ranked.below(1 - w, 0.5)) / float(w.sum() * (1 - w).sum()))
        precisions.append(precision)
    return float(np.mean(aucs)), float(loss), float(np.mean(precisions))


def _whole(probabilities: Any) -> Probabilities:
    found = np.asarray(probabilities, dtype=np.float64)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _stated(estimate: MetricEstimate) -> StatedMetric:
    return decode(StatedMetric, {name: value for name, value in estimate.to_json().items() if name != "by_class"})
