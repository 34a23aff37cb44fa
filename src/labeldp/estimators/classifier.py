"""`LabelDPClassifier`: scikit-learn without a true label in sight."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.accounting.ledger import Ledger
from labeldp.data.features import refuse_label_column
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.estimators.linear import fit_linear
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.mechanisms.base import row_wise
from labeldp.mechanisms.plan import DEFAULT_DELTA, calibrate, recommend
from labeldp.private import PrivateLabels
from labeldp.release.release import Release

if TYPE_CHECKING:
    from labeldp.evaluation.accuracy import AccuracyEstimate

_NO_LABELS = """y holds labels, or something else that is no release target. Labels are paid for once, before any fit; release them,
and let y point into the release:

    clf = LabelDPClassifier.from_labels(y, epsilon=1.0, num_classes=…, data_set="…", ids=…, ledger="labels.ledger")
    cross_val_score(clf, X, clf.release.target())"""


_FITTED = ("linear_", "trainer_", "rows_trained_", "fitted_on_")


class LabelDPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained on released labels.

    release        what the label owner handed over (or see `from_labels`)
    model          "linear" (logistic regression by L-BFGS, dense or sparse X), or a torch model: "mlp", "package.module:Class"
    C              linear: inverse strength of the ℓ2 penalty, as in scikit-learn's LogisticRegression
    max_iter, tol  linear: when to stop
    epochs, batch_size, learning_rate   torch models: None takes the model's own
    random_state   torch models: seeds the training, never the noise

    `y` is `release.target()`: two whole numbers a row, [which release, which row]. It is sliced like any array, so Pipeline,
    cross_val_score and GridSearchCV work, and since it holds no label, tuning costs no privacy. `score` is the accuracy, corrected
    for the noise, on rows that the classifier was not trained on.
    """

    def __init__(
        self,
        release: Release | None = None,
        *,
        model: str = "linear",
        C: float = 1.0,
        max_iter: int = 500,
        tol: float = 1e-6,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.release = release
        self.model = model
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.model == "linear"
        return tags

    @classmethod
    def from_labels(
        cls,
        labels: PrivateLabels | npt.ArrayLike,
        *,
        epsilon: float,
        num_classes: int,
        data_set: str,
        ledger: Ledger | str | os.PathLike[str],
        ids: Sequence[Any] | npt.NDArray[Any] | None = None,
        delta: float | None = None,
        mechanism: str | Mechanism | None = None,
        label: str | None = None,
        label_names: Sequence[str] | None = None,
        entropy: Entropy | None = None,
        again: str | None = None,
        **parameters: Any,
    ) -> LabelDPClassifier:
        """Release these labels once, through the ledger, and return an unfitted classifier that holds the release.

        `mechanism` is a name, or one that is calibrated already; by default the one that tells most at this ε. Other arguments are
        those of `RowMechanism.release` and of the classifier.
        """
        if mechanism is None:
            mechanism = recommend(epsilon, num_classes, delta=delta)
        elif isinstance(mechanism, str):
            mechanism = calibrate(mechanism, epsilon=epsilon, num_classes=num_classes, delta=delta)
        if isinstance(mechanism, NoPrivacy):
            raise InputError("mechanism 'none' would hand out the true labels, whatever ε says.")
        spent = mechanism.guarantee()
        if (
            spent.epsilon > epsilon
            or spent.delta > (DEFAULT_DELTA if delta is None else delta)
            or mechanism.num_classes != num_classes
        ):
            raise InputError(
                f"this mechanism is for {mechanism.num_classes} classes, ε = {spent.epsilon:g} and δ = {spent.delta:g}, which is not, or "
                "more than, what was asked for."
            )
        release = row_wise(mechanism).release(
            labels, data_set=data_set, ledger=ledger if isinstance(ledger, Ledger) else Ledger(ledger), ids=ids, label=label,
            label_names=label_names, entropy=entropy, again=again,
        )  # fmt: skip
        return cls(release, **parameters)

    def fit(self, X: Any, y: Any = None) -> LabelDPClassifier:
        """X[i] belongs to the released row y[i]; without y, to row i of the whole release."""
        for name in _FITTED:  # whatever fails from here on, nothing answers for an old fit
            self.__dict__.pop(name, None)
        release, rows = self._rows(y)
        X = validate_data(
            self, X, accept_sparse="csr" if self.model == "linear" else False, dtype=(np.float64, np.float32)
        )
        if len(rows) != X.shape[0]:
            raise InputError(f"X has {X.shape[0]:,} rows, and y names {len(rows):,} released ones.")
        refuse_label_column(
            release.label, [str(name) for name in getattr(self, "feature_names_in_", ())], release.class_names
        )
        return self._fit(X, release, rows)

    def _fit(self, X: Any, release: Release, rows: npt.NDArray[np.int64]) -> LabelDPClassifier:
        classes = release.mechanism.num_classes
        self.classes_ = np.array(release.label_names) if release.label_names else np.arange(classes)
        if self.model == "linear":
            if not self.C > 0:
                raise InputError(f"C must be positive; got {self.C}.")
            self.linear_ = fit_linear(
                X, rows, release.evidence, classes, inverse=self.C, most=self.max_iter, tolerance=self.tol
            )
            self.n_iter_ = self.linear_.iterations
            if not self.linear_.converged:
                warnings.warn(
                    f"L-BFGS did not converge in {self.max_iter} steps; scale the features, or raise max_iter.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        else:
            self._fit_torch(X, release, rows)
        self.rows_trained_, self.fitted_on_ = np.unique(rows), release.checksum
        return self

    def _fit_torch(self, X: npt.NDArray[Any], release: Release, rows: npt.NDArray[np.int64]) -> None:
        from dataclasses import replace

        import torch

        from labeldp import models
        from labeldp.machine import Machine
        from labeldp.training.recipe import default_recipe
        from labeldp.training.trainer import Trainer

        seed = int(check_random_state(self.random_state).randint(1 << 31))
        given: dict[str, Any] = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
        recipe = replace(
            default_recipe(self.model, release.mechanism.num_classes),
            seed=seed,
            **{name: value for name, value in given.items() if value is not None},
        )
        torch.manual_seed(seed)
        model = models.build(self.model, X.shape[1:], release.mechanism.num_classes)
        trainer = Trainer(model, recipe, *Machine().chosen(images=False))
        features = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        trainer.prepare(features)
        for _ in trainer.fit(features, np.arange(len(rows)), lambda chosen: release.evidence(rows[chosen])):
            pass
        self.trainer_ = trainer

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities, in the order of `classes_`."""
        check_is_fitted(self, "rows_trained_")
        sparse = "csr" if hasattr(self, "linear_") else False
        X = validate_data(self, X, accept_sparse=sparse, dtype=(np.float64, np.float32), reset=False)
        if hasattr(self, "linear_"):
            return np.asarray(softmax(self.linear_.logits(X), axis=1))
        import torch

        rows = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        return self.trainer_.probabilities(rows).astype(np.float64)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row."""
        codes = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def estimate_accuracy(self, X: Any, y: Any = None) -> AccuracyEstimate:
        """Accuracy on released rows that were not trained on, with its standard error and interval."""
        check_is_fitted(self, "rows_trained_")
        release, rows = self._rows(y)
        if release.checksum != self.fitted_on_:
            raise InputError(
                "this classifier was fitted on another release, and whether these rows were trained on cannot be seen."
            )
        again = np.isin(rows, self.rows_trained_)
        if again.any():
            raise InputError(
                f"{again.sum():,} of these rows were trained on: an accuracy on them would be wrong. Score rows that were held out "
                "(train_test_split and cross_val_score do; leave out return_train_score)."
            )
        return release.estimate_accuracy(rows, self.predict_proba(X).argmax(axis=1))

    def score(self, X: Any, y: Any = None, sample_weight: None = None) -> float:
        """The noise-corrected accuracy on rows that were not trained on; unbiased, so it may exceed 1 where rows are few."""
        if sample_weight is not None:
            raise InputError("the noise-corrected accuracy takes no sample weights.")
        return self.estimate_accuracy(X, y).unbiased

    def _rows(self, y: Any) -> tuple[Release, npt.NDArray[np.int64]]:
        """The release and the positions that y points to."""
        if not isinstance(self.release, Release):
            is_target = y is not None and np.ndim(y) == 2 and np.shape(y)[1] == 2
            missing = "there is no release: LabelDPClassifier(labeldp.Release.load(path)), or from_labels(…)."
            raise InputError(missing if y is None or is_target else _NO_LABELS)
        if y is None:
            return self.release, np.arange(len(self.release))
        return self.release, self.release.positions_of(y, _NO_LABELS)
