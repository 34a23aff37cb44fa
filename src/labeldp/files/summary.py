"""What the files of a run say, typed. Writers are checked by these types, and readers read nothing else.

A summary says its `kind`; those of earlier versions do not, and are told apart by what they have (`kind_of`). The rules of reading
are those of `schema`: what is missing in an old directory has a default here, or the file is refused in a sentence. Nothing here is
believed: that a certificate is one does not make it true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from labeldp.errors import InputError
from labeldp.files.schema import SchemaError, decode

Value: TypeAlias = bool | int | float | str | None
Ends: TypeAlias = tuple[float, float]
# A file does not make us count further, or take more memory.
_MOST_CLASSES, _MOST_FEATURES, _MOST_ROWS, _MOST = 10**6, 1 << 26, 1 << 30, 10**12
_MOST_POINTS = 1000  # of a curve
_MOST_TRIALS, _MOST_FLOP = 1000, 1e30
_ROUNDING = 1e-6
_RANGES = {
    "roc_auc": (0.0, 1.0),
    "average_precision": (0.0, 1.0),
    "log_loss": (0.0, math.inf),
    "brier": (0.0, math.inf),
}


@dataclass(frozen=True)
class Certificate:
    """(ε, δ); of no ε the reason. `given` is what it takes for granted, if anything."""

    epsilon: float | None
    delta: float | None = None
    reason: str | None = None
    given: str | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None and (self.epsilon < 0 or self.delta is None or not 0 <= self.delta < 1):
            raise InputError("ε is at least 0, and δ from 0 to below 1.")

    def to_json(self) -> dict[str, Any]:
        """As a release states it."""
        said = {"epsilon": self.epsilon, "delta": self.delta, "reason": self.reason}
        return said if self.given is None else {**said, "given": self.given}


@dataclass(frozen=True)
class StatedParameters:
    """Of a mechanism, those that are shown; the others are the release's to say."""

    parts: tuple[StatedMechanism, ...] = ()
    teachers: int | None = None
    sigma1: float | None = None
    sigma2: float | None = None
    threshold: float | None = None
    max_asked: int | None = None
    max_answered: int | None = None


@dataclass(frozen=True)
class StatedMechanism:
    """The mechanism of the labels that were trained on, as a summary names it."""

    name: str
    num_classes: int
    parameters: StatedParameters = StatedParameters()

    def __post_init__(self) -> None:
        _check_classes(self.num_classes)

    @property
    def words(self) -> str:
        """Its name; of joined releases, the parts'."""
        parts = self.parameters.parts if self.name == "joint" else ()
        return " + ".join(part.name for part in parts) or self.name


# ── audits ──


@dataclass(frozen=True)
class StatedLook:
    """One attack of an audit. `counts` is what it counted, look by look; earlier versions kept none."""

    attack: str
    epsilon_low: float | None
    guesses: int
    correct: int
    abstained: int
    alpha: float | None = None
    threshold: float | None = None
    counts: tuple[dict[str, bool | int | float | str], ...] | None = None


@dataclass(frozen=True)
class StatedAudit:
    """An audit's result as `AuditResult.to_json` has it. An end that is None is infinite, or there is none."""

    epsilon_low: float | None
    epsilon_high: float | None
    delta: float
    confidence: float
    method: str
    assumption: str
    guesses: int
    correct: int
    abstained: int
    canaries: int
    candidates: int
    attack: str
    threshold: float | None = None
    shared_by: int | None = None
    looks: tuple[StatedLook, ...] = ()
    certificate: float | None = None
    warnings: tuple[str, ...] = ()
    given: str | None = None

    def __post_init__(self) -> None:
        counted = (self.guesses, self.correct, self.abstained, self.canaries, self.candidates)
        if not 0 <= self.delta < 1 or not all(0 <= count <= _MOST for count in counted):
            raise InputError("δ is from 0 to below 1, and counts are not negative.")

    @property
    def attacks(self) -> tuple[StatedAudit, ...]:
        """Each alone, with what it counted as its one look; of an audit that kept no looks, itself."""
        same = ("epsilon_low", "guesses", "correct", "abstained", "attack")
        whole = {name: getattr(self, name) for name in self.__dataclass_fields__}
        each = [{**whole, **{name: getattr(look, name) for name in same}, "looks": (look,)} for look in self.looks]
        return tuple(
            StatedAudit(**{name: one[name] for name in StatedAudit.__dataclass_fields__}) for one in each or [whole]
        )


# ── summaries ──


@dataclass(frozen=True)
class Stage:
    """What one stage of several took."""

    rows_trained: int
    epochs: int
    train_flop: float
    seconds: float | None = None
    rows_dropped: int = 0


@dataclass(frozen=True)
class StatedMetric:
    """A metric from released labels, with its limits. No value: the rows were too few to tell."""

    value: float | None
    interval_95: tuple[float | None, float | None]
    rows: int
    standard_error: float | None = None
    rows_needed: int | None = None
    name: str = ""
    by_class: tuple[StatedMetric, ...] = ()

    def __post_init__(self) -> None:
        numbers = [one for one in (self.value, self.standard_error, *self.interval_95) if one is not None]
        if any(abs(one) >= _MOST for one in numbers):
            raise InputError("a metric is a number of ordinary size.")
        low, high = self.interval_95
        if low is not None and high is not None and low > high:
            raise InputError("the ends of an interval are in order.")
        if not 0 <= self.rows <= _MOST or not 0 <= (self.rows_needed or 0) <= _MOST**2:
            raise InputError("rows are counted.")
        if len(self.by_class) > _MOST_CLASSES or any(one.by_class for one in self.by_class):
            raise InputError("a metric is of classes, and not of classes of classes.")

    def within(self, low: float, high: float) -> bool:
        """Whether all that it says lies between these, but for rounding."""
        said = [one for one in (self.value, *self.interval_95) if one is not None]
        inside = all(low - _ROUNDING <= one <= high + _ROUNDING for one in said)
        return inside and all(one.within(low, high) for one in self.by_class)


@dataclass(frozen=True)
class StatedTrial:
    """One recipe that was tried, at one length. `behind` is how much less likely it makes a row than the best of its rung does, with
    the standard error of that difference; `kept` whether it was tried again for longer, or in the end chosen."""

    name: str
    model: str
    rung: int
    epochs: int
    flop: float
    log_likelihood: float
    standard_error: float
    behind: float
    behind_error: float
    kept: bool

    def __post_init__(self) -> None:
        if not 1 <= self.rung <= _MOST_TRIALS or not 1 <= self.epochs <= _MOST or not 1 <= self.flop < _MOST_FLOP:
            raise InputError("a trial is of some rung, of epochs, and of FLOP.")
        if max(map(abs, (self.log_likelihood, self.standard_error, self.behind, self.behind_error))) >= _MOST:
            raise InputError("a log-likelihood is a number of ordinary size.")
        if min(self.standard_error, self.behind, self.behind_error) < 0:
            raise InputError("an error is not negative, and nothing is behind itself.")


@dataclass(frozen=True)
class StatedSearch:
    """How a recipe was chosen within a budget of FLOP: by the released labels of `rows` that were held out for that, and report nothing."""

    budget: float
    rows: int
    trials: tuple[StatedTrial, ...]
    winner: str
    epochs: int  # of the winner's own training, afresh
    left_out: tuple[str, ...] = ()  # candidates that there was no budget for
    shortened: bool = False  # whether a longer trial was worse, so that not all of the budget was used
    encoder_flop: float = 0.0  # of learning, from images alone, what some candidates started with
    log_likelihood: float | None = None  # of the rows that choose, by the winner's own training
    standard_error: float | None = None
    better: str | None = None  # a trial that is clearly better than the winner's own training, if one is

    def __post_init__(self) -> None:
        if (
            not 0 < self.budget < _MOST_FLOP
            or not 0 <= self.encoder_flop < _MOST_FLOP
            or not 0 <= self.rows < _MOST_ROWS
            or not 1 <= self.epochs <= _MOST
        ):
            raise InputError("a search has a budget of FLOP, rows that choose, and epochs for its winner.")
        if abs(self.log_likelihood or 0.0) >= _MOST or not 0 <= (self.standard_error or 0.0) < _MOST:
            raise InputError("a log-likelihood is a number of ordinary size, and so is its error.")
        if max(len(self.trials), len(self.left_out)) > _MOST_TRIALS:
            raise InputError(f"a search tries at most {_MOST_TRIALS:,} times.")
        if self.trials and not any(one.name == self.winner and one.kept for one in self.trials):
            raise InputError("the winner of a search is one of those that it tried, and kept.")

    @property
    def flop(self) -> float:
        """Of all trials, and of the encoder."""
        return self.encoder_flop + sum(one.flop for one in self.trials)

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {**asdict(self), "trials": [asdict(one) for one in self.trials], "left_out": list(self.left_out)}


@dataclass(frozen=True)
class TrainingSummary:
    """Of a trained model: the certificate beside the accuracy. `seconds` is not noted under central trust."""

    certificate: Certificate
    trust: str
    insecure: str | None
    release: str
    mechanism: StatedMechanism
    model: str
    rows_trained: int
    epochs: int
    train_flop: float
    seconds: float | None
    dtype: str
    device: str
    releases: tuple[str, ...] | None = None
    judge: str | None = None
    accuracy_test: float | None = None
    accuracy_test_fitted: float | None = None  # of the model that a student learned from, on the same rows
    rows_tested: int | None = None
    accuracy_estimated: float | None = None
    accuracy_unbiased: float | None = None
    standard_error: float | None = None
    interval_95: Ends | None = None
    rows_judged: int = 0
    rows_held_out: int | None = None
    rows_dropped: int = 0  # of an earlier stage: what was released of them was unlikely
    epoch_selected: int | None = None
    commonest_class_estimated: float | None = None
    threads: int | None = None
    processes: int = 1
    start_flop: float = 0.0  # of learning, from images alone, the network that it began with
    search_flop: float = 0.0  # of the recipes that were tried before
    search: StatedSearch | None = None
    folds: int | None = None
    estimate_of_models_trained_on: float | None = None
    stages: tuple[Stage, ...] = ()
    metrics: dict[str, StatedMetric] = field(default_factory=dict)
    audit: dict[str, StatedAudit] = field(default_factory=dict)
    kind: Literal["training"] = "training"

    def __post_init__(self) -> None:
        if self.accuracy_estimated is not None and self.interval_95 is None:
            raise InputError("an estimated accuracy has an interval.")
        tested = (self.accuracy_test or 0.0, self.accuracy_test_fitted or 0.0)
        if not all(0 <= accuracy <= 1 for accuracy in tested) or not 0 <= (self.rows_tested or 0) < _MOST_ROWS:
            raise InputError("an accuracy on public test labels is from 0 to 1, of so many rows.")
        for name, (low, high) in _RANGES.items():
            if name in self.metrics and not self.metrics[name].within(low, high):
                raise InputError(
                    f"{name} is at least {low:g}" + ("." if high == math.inf else f", and at most {high:g}.")
                )

    @property
    def behind(self) -> tuple[str, ...]:
        """The releases that it was trained on, and those behind their public priors."""
        return self.releases or (self.release,)

    @property
    def trained_on(self) -> tuple[str, ...]:
        """The releases that it was trained on."""
        parts = len(self.mechanism.parameters.parts) if self.mechanism.name == "joint" else 1
        return self.behind[:parts]


@dataclass(frozen=True)
class StudentsMean:
    """Over students: of accuracies that are estimated also unbiased, and with limits, which earlier versions did not have."""

    mean: float | None
    std: float | None = None
    unbiased: float | None = None
    interval_95: Ends | None = None

    def __post_init__(self) -> None:
        if not 0 <= (self.mean or 0.0) <= 1:
            raise InputError("an accuracy is from 0 to 1.")


@dataclass(frozen=True)
class Student:
    """One of them. Earlier versions noted how long it took."""

    accuracy_test: float | None = None
    accuracy_estimated: float | None = None
    accuracy_unbiased: float | None = None
    standard_error: float | None = None
    interval_95: Ends | None = None
    metrics: dict[str, StatedMetric] | None = None
    train_flop: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that neither teachers nor students saw, and what they paid."""

    rows: int
    mechanism: str | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class DataDependent:
    """A sanitised data-dependent ε, which was paid for."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class PateSummary:
    """Of teachers that were asked, and students that learned from the answers."""

    certificate: Certificate
    trust: str
    insecure: str | None
    release: str
    mechanism: StatedMechanism
    asked: int
    answered: int
    students: tuple[Student, ...]
    accuracy_test: StudentsMean
    teachers_flop: float
    students_flop: float
    accuracy_estimated: StudentsMean = StudentsMean(None)
    held_out: HeldOutRows | None = None
    data_dependent: DataDependent | None = None
    basis: str = "caps"
    audit: dict[str, StatedAudit] = field(default_factory=dict)
    kind: Literal["pate"] = "pate"

    def __post_init__(self) -> None:
        if self.accuracy_estimated.mean is not None and self.held_out is None:
            raise InputError("who estimates an accuracy has held out rows.")


@dataclass(frozen=True)
class GamesSummary(StatedAudit):
    """Of `audit-repeat`: the same training, many times over."""

    kind: Literal["games"] = "games"


@dataclass(frozen=True)
class HeuristicSummary:
    """Of `audit-heuristic`: all canaries in one training, and a part of them in each of several."""

    together: StatedAudit
    apart: StatedAudit
    overlap: bool | None = None
    accuracy_together: float | None = None
    accuracy_apart: tuple[float, ...] = ()
    kind: Literal["heuristic"] = "heuristic"


@dataclass(frozen=True)
class StatedFit:
    """One model on a public table, from labels that were read in one way. Scores are those on true test labels.

    reading    naive (the observed class is the label), inverted (its probabilities led back through the channel), clean (there is no
               noise); or the mechanism whose release was read as evidence
    estimates  the same scores by released labels of the test rows
    """

    model: str
    reading: str
    roc_auc: float
    log_loss: float
    average_precision: float
    cpu_seconds: float
    estimates: dict[str, StatedMetric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (0 <= self.roc_auc <= 1 and 0 <= self.average_precision <= 1 and self.log_loss >= 0):
            raise InputError("an AUC and an average precision are from 0 to 1, and a log loss is not negative.")


@dataclass(frozen=True)
class TablesSummary:
    """Of `compare`: all models and all readings on one public table, at one ε (None: clean labels)."""

    dataset: str
    num_classes: int
    epsilon: float | None
    seed: int
    rows_trained: int
    rows_tested: int
    certificates: dict[str, Certificate]  # by mechanism
    fits: tuple[StatedFit, ...]
    kind: Literal["tables"] = "tables"

    def __post_init__(self) -> None:
        _check_classes(self.num_classes)

    def fit(self, model: str, reading: str) -> StatedFit | None:
        """The one, if it is there."""
        return next((one for one in self.fits if (one.model, one.reading) == (model, reading)), None)


Summary: TypeAlias = TrainingSummary | PateSummary | GamesSummary | HeuristicSummary | TablesSummary
_KINDS: dict[str, type[Summary]] = {
    "training": TrainingSummary,
    "pate": PateSummary,
    "games": GamesSummary,
    "heuristic": HeuristicSummary,
    "tables": TablesSummary,
}


def read_summary(data: Mapping[str, Any]) -> Summary:
    """Of its kind."""
    kind = kind_of(data)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"kind is none of {', '.join(map(repr, _KINDS))}.")
    return decode(_KINDS[kind], data)


def choosing(select: str) -> str:
    """Whether half of the rows held out chose something, an epoch or a recipe, as a public prior says it: "best" if so, else "last"."""
    return "last" if select == "last" else "best"


def kind_of(data: Mapping[str, Any]) -> Any:
    """What it says; of an earlier version, what it must be."""
    if "kind" in data:
        return data["kind"]
    if "teachers_flop" in data:
        return "pate"
    if "together" in data and "apart" in data:
        return "heuristic"
    return "games" if "epsilon_low" in data else "training"


@dataclass(frozen=True)
class OwnersSummary:
    """What PATE's votes and true labels say, and nobody has paid for; and how long work on them took."""

    epsilon_data_dependent: float | None = None
    order: float | None = None
    teacher_accuracy: float | None = None
    ensemble_accuracy: float | None = None
    answers_accuracy: float | None = None
    agreement: float | None = None
    teachers_seconds: float = 0.0
    students_seconds: float = 0.0


@dataclass(frozen=True)
class TeachersCost:
    """What teachers took, and how long students did, which the files of a run do not say."""

    flop: int | float
    seconds: float
    students_seconds: float = 0.0


@dataclass(frozen=True)
class LabelsDigest:
    """Which labels the teachers were trained on, under a key of the owner's."""

    key: str
    digest: str


@dataclass(frozen=True)
class TeachersConfig:
    """What makes teachers these: how they were made, and of how many rows."""

    teachers: dict[str, Any]
    rows: int


# ── beside summaries ──


@dataclass(frozen=True)
class Config:
    """What makes a training this one. The recipe is by name, as `Recipe` takes it."""

    release: str
    model: str
    num_classes: int
    label: str | None
    label_names: tuple[str, ...] | None
    feature_shape: tuple[int, ...]
    holdout: float
    select: str
    recipe: dict[str, Value]
    feature_type: str | None = None
    features: str | None = None
    data_set: str | None = None
    columns: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    codes: str = ""
    canary_share: float = 0.0
    patience: int | None = None
    fold: tuple[int, int] | None = None
    folds: int | None = None
    start: str | None = None
    left_out: str | None = None

    def __post_init__(self) -> None:
        _check_classes(self.num_classes)
        if self.label_names is not None and len(self.label_names) != self.num_classes:
            raise InputError("every class has one name.")
        if not 0 <= self.canary_share < 1:
            raise InputError("`canary_share` is a share of the rows.")
        if type(self.recipe.get("seed")) is not int:
            raise InputError("a recipe has a seed.")
        if min(self.feature_shape, default=0) < 1 or math.prod(self.feature_shape) > _MOST_FEATURES:
            raise InputError(f"features have a shape, of at most {_MOST_FEATURES:,} numbers a row.")

    @property
    def takes_holes(self) -> bool:
        """Whether its model is content with missing values."""
        return self.model in ("lightgbm", "moments", "histogram")

    @property
    def seed(self) -> int:
        """Of the recipe."""
        return int(self.recipe["seed"] or 0)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names, or numbers."""
        return self.label_names or tuple(map(str, range(self.num_classes)))


@dataclass(frozen=True)
class GamesConfig:
    """What `audit-repeat` plays, and how often."""

    game: dict[str, Value | tuple[int, ...]] = field(default_factory=dict)
    trainings: int | None = None


@dataclass(frozen=True)
class Metrics:
    """One epoch, or one step of another kind. What selects is there where something is chosen: a likelihood; earlier, an accuracy."""

    epoch: int
    loss: float | None = None
    seconds: float | None = None
    likelihood_selecting: float | None = None
    accuracy_selecting: float | None = None
    unbiased_selecting: float | None = None


@dataclass(frozen=True)
class StatedConfusion:
    """What each class is taken for: rows are true classes, columns are what the model says."""

    shares: tuple[tuple[float, ...], ...]
    standard_errors: tuple[tuple[float, ...], ...]
    called: tuple[float, ...]

    def __post_init__(self) -> None:
        classes = len(self.called)
        for table in (self.shares, self.standard_errors):
            if len(table) != classes or any(len(row) != classes or max(map(abs, row)) >= 1e3 for row in table):
                raise InputError("its tables have a row and a column for each class, of shares.")
        if any(not 0 <= share < _MOST for share in self.called) or not sum(self.called) > 0:
            raise InputError("the model says some class, and none less often than never.")


@dataclass(frozen=True)
class StatedPoint:
    """What calling rows positive from a threshold on comes to. What could not be told is None, and its limits say nothing."""

    threshold: float
    called: float
    true_positive_rate: float | None
    true_positive_rate_95: Ends
    false_positive_rate: float | None
    false_positive_rate_95: Ends
    precision: float | None
    precision_95: Ends
    lift: float | None
    lift_95: Ends

    def __post_init__(self) -> None:
        _check_share(self.threshold, (0.0, 1.0))
        _check_share(self.called, (0.0, 1.0))
        _check_share(self.true_positive_rate, self.true_positive_rate_95)
        _check_share(self.false_positive_rate, self.false_positive_rate_95)
        _check_share(self.precision, self.precision_95)
        _check_share(self.lift, self.lift_95, _MOST)


@dataclass(frozen=True)
class StatedBin:
    """Rows of similar probability: what the model says on average, and how many of them are positive."""

    rows: int
    predicted: float
    observed: float | None
    observed_95: Ends

    def __post_init__(self) -> None:
        _check_share(self.predicted, (0.0, 1.0))
        _check_share(self.observed, self.observed_95)
        if not 0 <= self.rows <= _MOST:
            raise InputError("rows are counted.")


@dataclass(frozen=True)
class StatedCurves:
    """ROC, lift and calibration of one class, point by point; each limit in 95 of 100 cases."""

    positive: int
    rows: int
    points: tuple[StatedPoint, ...]  # from the highest threshold to the lowest
    calibration: tuple[StatedBin, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.positive < _MOST_CLASSES or not 0 <= self.rows <= _MOST:
            raise InputError("it is of one class, and of so many rows.")
        if max(len(self.points), len(self.calibration)) > _MOST_POINTS:
            raise InputError(f"a curve has at most {_MOST_POINTS:,} points.")
        if any(one.called > other.called for one, other in pairwise(self.points)):
            raise InputError("points go from the highest threshold to the lowest.")


@dataclass(frozen=True)
class StatedSelection:
    """What `select` says of the winner: its options, and its score with the noise that was paid for."""

    candidate: int
    candidates: int
    options: dict[str, Value]
    score: float
    score_deviation: float
    scoring_rows: int


@dataclass(frozen=True)
class StatedMachine:
    """Where something was computed."""

    cpu: str | None = None
    cores: int | None = None
    system: str | None = None
    python: str | None = None
    torch: str | None = None
    numpy: str | None = None


@dataclass(frozen=True)
class Start:
    """A command that worked here; `releases` are where it found them, relative to the run, so that both may be moved together."""

    command: str | None
    day: str | None = None
    labeldp: str | None = None
    machine: StatedMachine | None = None
    releases: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


@dataclass(frozen=True)
class Starts:
    """All of them, oldest first."""

    starts: tuple[Start, ...] = ()


@dataclass(frozen=True)
class TrainedRows:
    """Of the rows that were trained on: how they are named, and what is behind them."""

    by_id: bool
    data_set: str
    behind: tuple[str, ...] = ()
    unknown_prior: bool = False


def _check_share(value: float | None, limits: Ends, most: float = 1.0) -> None:
    """From 0 to `most`, as its limits are, which are in order. (Probabilities add up to 1 but for a thousandth.)"""
    said = limits if value is None else (value, *limits)
    if not limits[0] <= limits[1] or any(not 0 <= one <= most * 1.001 for one in said):
        raise InputError("shares are from 0 to 1, and so are their limits, the lower one first.")


def _check_classes(count: int) -> None:
    if not 2 <= count <= _MOST_CLASSES:
        raise InputError(f"there are from 2 to {_MOST_CLASSES:,} classes.")
