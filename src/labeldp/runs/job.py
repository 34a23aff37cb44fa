"""What to train, on which rows, and which rows judge it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from labeldp.data.features import features_digest
from labeldp.errors import InputError
from labeldp.files.summary import choosing
from labeldp.machine import Machine
from labeldp.mechanisms import Judge, judging_rows
from labeldp.mechanisms.joint import Joint
from labeldp.mechanisms.judge import judging_part
from labeldp.release import Release
from labeldp.release.prior import PriorOrigin

if TYPE_CHECKING:
    from labeldp.estimators.boosted import BoostingRecipe
    from labeldp.estimators.linear import LinearRecipe
    from labeldp.runs.pretrained import EarlierStage, Pretrained
    from labeldp.training.recipe import Recipe

Rows = npt.NDArray[np.int64]
Probabilities = Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]  # from rows of features to those of their classes


@dataclass(frozen=True)
class RowSplit:
    """Positions in the release: to train on, to choose an epoch or a recipe by, to report an accuracy from. No row is in two of them.

    Rows are `dropped` that would have been trained on, had the job not left them out. They judge no more than the others: an earlier
    stage was trained on them.
    """

    train: Rows
    select: Rows
    report: Rows
    dropped: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Learned:
    """A model that predicts, and what training it took."""

    probabilities: Probabilities
    epochs: int  # passes over the rows: rounds of boosting, iterations of a solver
    epoch_selected: int | None
    train_flop: int  # 0: of trees none are counted
    seconds: float
    dtype: str
    device: str
    threads: int


@dataclass(frozen=True)
class Watch:
    """Whom a training tells: `begin`, once the model is built (False: it is finished already), `note_start`, and of each epoch and step."""

    begin: Callable[[], bool]
    note_start: Callable[[], None]
    progress: Callable[[dict[str, Any]], None]
    on_step: Callable[[int, int], None]


def holding_out(rows: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """The rows that are held out, and the others."""
    order = np.random.default_rng(seed).permutation(rows)
    held_out, rest = np.split(order, [round(share * rows)])
    return held_out, rest


class Training(Protocol):
    """What gradient steps need to know of a training, wherever the evidence comes from: a release, or a model of one statistic."""

    @property
    def features(self) -> npt.NDArray[Any]:
        """One row each."""

    @property
    def model(self) -> str:
        """By name."""

    @property
    def num_classes(self) -> int:
        """Declared."""

    @property
    def recipe(self) -> Recipe | LinearRecipe | BoostingRecipe:
        """How."""

    @property
    def machine(self) -> Machine:
        """Where."""

    @property
    def start(self) -> Pretrained | EarlierStage | None:
        """None: at random."""

    @property
    def select(self) -> str:
        """The "last" epoch, or the "best"."""

    @property
    def patience(self) -> int | None:
        """Epochs without a better one."""

    @property
    def timed(self) -> bool:
        """Whether its files say how long it took."""

    def known(self, rows: Rows) -> npt.NDArray[np.float32]:
        """What is trained on."""

    def evidence(self, rows: Rows) -> npt.NDArray[np.float32]:
        """What an epoch is chosen by."""


@dataclass(frozen=True)
class Job:
    """A model to train from a release. `features[i]` belongs to position i of the release.

    holdout   the share of rows that is not trained on, for an honest accuracy; of several releases, of the first that can judge
    select    "last" epoch, or the "best" by half of the rows held out; the other half then reports. "search": the last epoch of a recipe
              that was chosen by that half
    trial     one of several recipes that are compared by that half: it reports nothing
    patience  stop after so many epochs without a better one
    fold      (number, of how many): these rows are held out instead
    folds     how many such parts judge this run, which is trained on all rows
    canary_share  the share of rows with planted labels, held-out rows among them, as the owner says
    left_out  positions that are not trained on; those of them that are held out judge nevertheless: what was released of a row must not
              decide whether it judges
    columns   what the features are called, if they have names; `predict` then goes by them
    categorical   those of them whose numbers are codes of categories; `codes` is a digest of what these stand for
    """

    release: Release
    features: npt.NDArray[Any]
    model: str
    recipe: Recipe | LinearRecipe | BoostingRecipe
    holdout: float = 0.1
    select: str = "last"
    patience: int | None = None
    trial: bool = False
    fold: tuple[int, int] | None = None
    folds: int | None = None
    columns: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    codes: str = ""
    canary_share: float = 0.0
    machine: Machine = field(default_factory=Machine)
    start: Pretrained | EarlierStage | None = None  # None: at random
    left_out: Rows | None = None
    prior_saw_none: bool = False  # said by whoever knows it: the public priors were made without any of these rows

    def __post_init__(self) -> None:
        if len(self.features) != len(self.release):
            raise InputError(
                f"there are {len(self.features):,} rows of features for {len(self.release):,} released rows."
            )
        if not 0 <= self.holdout < 1:
            raise InputError(f"`holdout` is a share of the rows, from 0 to below 1; got {self.holdout:g}.")
        if self.select not in ("last", "best", "search"):
            raise InputError(f"`select` is last or best; got {self.select!r}.")
        if self.patience is not None and (self.patience < 1 or self.select != "best"):
            raise InputError("`patience` is a number of epochs, from 1, and goes with `select='best'`.")
        if not 0 <= self.canary_share < 1:
            raise InputError(f"the share of canaries is from 0 to below 1; got {self.canary_share:g}.")
        if self.start is not None:
            self.start.check(self)
        for origin in self.release.origins:
            self._check_stage(origin)

    def judge(self) -> str | None:
        """The release whose rows are held out: of several, the first that can judge."""
        mechanism = self.release.mechanism
        if not isinstance(mechanism, Joint):
            return self.release.checksum if isinstance(mechanism, Judge) else None
        number = judging_part(mechanism)
        return None if number is None else self.release.checksums[number]

    def _check_stage(self, origin: PriorOrigin) -> None:
        """Rows that judge must not have been trained on by the model whose output chose the other rows' channels."""
        if not self.holdout or self.prior_saw_none:
            return
        if origin.judge is None:
            raise InputError(
                "some of these rows were released with a public prior, and nothing says which rows its model was trained on: if the rows "
                "that are held out here were among them, they would judge a model that they shaped. `holdout=0` trains on all rows and "
                "estimates no accuracy; `prior_saw_none=True` says that the prior was made without these releases."
            )
        if (origin.judge, origin.seed, origin.holdout, origin.select) != (
            self.judge(), self.recipe.seed, self.holdout, choosing(self.select),
        ):  # fmt: skip
            raise InputError(
                f"some of these rows were released with a prior from a run with `seed={origin.seed!r}`, `holdout={origin.holdout:g}` and "
                f"`select={origin.select!r}`: say the same here, and name first the release that it named first, so that the rows which it "
                "held out are held out again. Others would judge a model that they shaped. (`holdout=0` trains on all rows, and estimates "
                "no accuracy.)"
            )

    @property
    def timed(self) -> bool:
        """Whether its files say when, and how long. Not under central trust: it may follow work on private labels on the same machine,
        and when that was over, or what it left of the machine's speed, tells how long it took."""
        return self.release.mechanism.trust == "local"

    def split(self) -> RowSplit:
        """Drawn without looking at anything but the seed."""
        able = np.flatnonzero(judging_rows(self.release.mechanism, self.release.observations))
        others = np.setdiff1d(np.arange(len(self.release)), able, assume_unique=True)
        if len(able) == 0:  # nobody judges, but rows can still be left out
            able, others = others, able
        # Drawn within the first release alone, as a run on that release alone draws: the rows that an earlier stage held out are
        # held out again.
        if self.fold is None:
            held_out, kept = holding_out(len(able), self.holdout, self.recipe.seed)
        else:
            number, folds = self.fold
            parts = np.array_split(np.random.default_rng(self.recipe.seed).permutation(len(able)), folds)
            held_out, kept = parts[number], np.concatenate([p for i, p in enumerate(parts) if i != number])
        held_out, rest = able[held_out], np.concatenate((able[kept], others))
        if len(rest) < 2:
            raise InputError(f"`holdout={self.holdout:g}` leaves too few of the {len(able):,} rows to train on.")
        said = self._said()
        rest, held_out = rest[said[rest]], held_out[said[held_out]]
        left_out = np.isin(rest, [] if self.left_out is None else self.left_out)
        rest, dropped = rest[~left_out], rest[left_out]
        if len(rest) == 0:
            raise InputError("the release says nothing about any of the rows to train on, or all of them are left out.")
        half = len(held_out) // 2 if self.select != "last" else 0
        if self.select != "last" and half < 2:
            what = "`select='best'`" if self.select == "best" else "a search for a recipe (`flop`)"
            raise InputError(f"{what} needs at least four rows held out; raise `holdout`.")
        report = held_out[:0] if self.trial else held_out[half:]
        return RowSplit(np.sort(rest), np.sort(held_out[:half]), np.sort(report), np.sort(dropped))

    def config(self) -> dict[str, Any]:
        """What makes this run this run: resuming with anything else is refused."""
        return {
            "release": self.release.checksum,
            "data_set": self.release.data_set,
            "label": self.release.label,
            "model": self.model,
            "num_classes": self.release.mechanism.num_classes,
            "label_names": self.release.header["label_names"],
            "feature_shape": list(self.features.shape[1:]),
            "feature_type": str(self.features.dtype),
            "features": features_digest(self.features),
            "holdout": self.holdout,
            "fold": self.fold,
            "folds": self.folds,
            "columns": list(self.columns),
            "canary_share": self.canary_share,
            "select": self.select,
            "patience": self.patience,
            "recipe": self.recipe.to_json(),
            **({"trial": True} if self.trial else {}),
            **({} if self.start is None else {"start": self.start.digest}),
            **({} if self.left_out is None else {"left_out": features_digest(np.sort(self.left_out))}),
            **({"categorical": list(self.categorical), "codes": self.codes} if self.categorical else {}),
        }

    @property
    def num_classes(self) -> int:
        """As declared."""
        return self.release.mechanism.num_classes

    @property
    def by_steps(self) -> bool:
        """Whether it is trained by gradient steps, in torch; tables have exact solvers and trees."""
        return hasattr(self.recipe, "batch_size")

    @property
    def denoise(self) -> str:
        """How observations are read: as evidence ("bayes"), unless a recipe says otherwise."""
        return str(getattr(self.recipe, "denoise", "bayes"))

    def _said(self) -> npt.NDArray[np.bool_]:
        """The rows that have something to train on."""
        mechanism, observations = self.release.mechanism, self.release.observations
        return mechanism.informative(observations) if self.denoise == "bayes" else mechanism.valued(observations)

    def evidence(self, rows: Rows) -> npt.NDArray[np.float32]:
        """log p(observation | label = c), up to a constant."""
        return self.release.evidence(rows)

    def known(self, rows: Rows) -> npt.NDArray[np.float32]:
        """What is known of these rows' labels: evidence; by uninformed post-processing, soft labels."""
        if self.denoise == "bayes":
            return self.evidence(rows)
        return self.release.soft_labels(rows, self.denoise)
