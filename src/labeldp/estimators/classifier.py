"""`LabelDPClassifier`: scikit-learn without a true label in sight."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.accounting.ledger import Ledger
from labeldp.data.features import refuse_label_column
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostingRecipe, fit_boosted
from labeldp.estimators.boosting import checked_weights
from labeldp.estimators.categories import Categories
from labeldp.estimators.inverted import Inverted
from labeldp.estimators.likelihood import start_of
from labeldp.estimators.linear import LinearRecipe, fit_linear, fit_linear_path
from labeldp.mechanisms import Mechanism, NoPrivacy
from labeldp.mechanisms.base import row_wise
from labeldp.mechanisms.plan import DEFAULT_DELTA, calibrate, recommend
from labeldp.private import PrivateLabels
from labeldp.release.release import Release
from labeldp.release.scorer import TRAINED_ON

if TYPE_CHECKING:
    from labeldp.evaluation.accuracy import AccuracyEstimate
    from labeldp.evaluation.metrics import MetricEstimate

_NO_LABELS = """y holds labels, or something else that is no release target. Labels are paid for once, before any fit; release them,
and let y point into the release:

    clf = LabelDPClassifier.from_labels(y, epsilon=1.0, num_classes=…, data_set="…", ids=…, ledger="labels.ledger")
    cross_val_score(clf, X, clf.release.target())"""


_FITTED = ("linear_", "boosted_", "booster_", "inverted_", "trainer_", "rows_trained_", "fitted_on_", "class_shares_")
_OF_LABELS = """scoring={!r} compares predictions with labels, and y holds none: it says which released rows X belongs to. Take the
release's own, from the same metric without a label: scoring=release.scorer("roc_auc"), or "log_likelihood" to choose by."""


class LabelDPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained on released labels.

    release        what the label owner handed over (or see `from_labels`)
    model          "linear" (logistic regression by L-BFGS, dense or sparse X; the default), "lightgbm" (boosted trees; missing values and
                   pandas' categories as they are), or a torch model: "mlp", "package.module:Class"
    estimator      instead of `model`: LGBMClassifier(…), whose parameters are then boosted by on evidence; or any classifier whose fit
                   takes sample_weight, which learns what was released and is led back to the labels
    C              linear: inverse strength of the ℓ2 penalty, as in scikit-learn's LogisticRegression; None: features are standardised
                   and the strength is chosen by the likelihood of rows that are held out of the training ones
    max_iter, tol  linear: when to stop
    epochs         torch models: passes over the rows; lightgbm: rounds at most. None takes the model's own
    batch_size     torch models; None takes the model's own
    learning_rate  torch models and lightgbm; None takes the model's own
    class_weight   {class: weight} or "balanced": probabilities are multiplied by these and normalised, which moves decisions, not training
    random_state   seeds training, never the noise

    `y` is `release.target()`: two whole numbers a row, [which release, which row]. It is sliced like any array, so Pipeline,
    cross_val_score and GridSearchCV work, and since it holds no label, tuning costs no privacy. Or leave y out and give `rows`. `score` is
    the accuracy, corrected for the noise, on rows that the classifier was not trained on; `scoring=release.scorer("log_likelihood")` is
    what to choose by.
    """

    def __init__(
        self,
        release: Release | None = None,
        *,
        model: str | None = None,
        estimator: Any = None,
        C: float | None = None,
        max_iter: int = 500,
        tol: float = 1e-6,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.release = release
        self.model = model
        self.estimator = estimator
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.random_state = random_state

    @property
    def _kind(self) -> str:
        """linear, lightgbm, booster (LightGBM by the user's parameters), inverted (any other classifier) or torch."""
        if self.estimator is not None:
            return "booster" if type(self.estimator).__name__ == "LGBMClassifier" else "inverted"
        model = "linear" if self.model is None else self.model
        return model if model in ("linear", "lightgbm") else "torch"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._kind in ("linear", "booster", "inverted")
        tags.input_tags.allow_nan = self._kind in ("lightgbm", "booster")
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

    def fit(self, X: Any, y: Any = None, *, rows: Any = None, sample_weight: Any = None) -> LabelDPClassifier:
        """X[i] belongs to the released row y[i], or to position rows[i]; without either, to row i of the whole release.

        `sample_weight` are public weights, one a row.
        """
        for name in _FITTED:  # whatever fails from here on, nothing answers for an old fit
            self.__dict__.pop(name, None)
        if self.model is not None and self.estimator is not None:
            raise InputError("`model` is a name and `estimator` an object: give one of the two.")
        release, positions = self._rows(y, rows)
        X = self._validated(X, reset=True)
        if len(positions) != X.shape[0]:
            raise InputError(f"X has {X.shape[0]:,} rows, and y names {len(positions):,} released ones.")
        refuse_label_column(
            release.label, [str(name) for name in getattr(self, "feature_names_in_", ())], release.class_names
        )
        weight = None if sample_weight is None else checked_weights(sample_weight, len(positions))
        return self._fit(X, release, np.asarray(positions), weight)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """As the model takes it. Trees take what is missing, and categories as codes."""
        if self._kind in ("lightgbm", "booster"):
            X = self._coded(X, reset=reset)
        trees = self._kind in ("lightgbm", "booster", "inverted")
        sparse = "csr" if self._kind in ("linear", "booster", "inverted") else False
        return validate_data(
            self, X, accept_sparse=sparse, dtype=(np.float64, np.float32), reset=reset,
            ensure_all_finite="allow-nan" if trees else True,
        )  # fmt: skip

    def _coded(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self.categories_ = Categories.of(X)
        return self.categories_.coded(X)

    def _fit(
        self, X: Any, release: Release, rows: npt.NDArray[np.int64], weight: npt.NDArray[np.float64] | None = None
    ) -> LabelDPClassifier:
        classes = release.mechanism.num_classes
        self.classes_ = np.array(release.label_names) if release.label_names else np.arange(classes)
        self.n_iter_ = 1
        fit = {
            "linear": self._fit_linear, "lightgbm": self._fit_boosted, "booster": self._fit_booster, "inverted": self._fit_inverted,
            "torch": self._fit_torch,
        }[self._kind]  # fmt: skip
        fit(X, release, rows, weight)
        self.class_shares_ = start_of(release.evidence, rows, classes).shares
        self.rows_trained_, self.fitted_on_ = np.unique(rows), release.checksum
        return self

    def _fit_linear(self, X: Any, release: Release, rows: Any, weight: Any) -> None:
        classes = release.mechanism.num_classes
        if self.C is not None and not self.C > 0:
            raise InputError(f"C must be positive; got {self.C}.")
        if self.C is None:
            recipe = LinearRecipe(seed=self._seed(), max_iter=self.max_iter, tolerance=self.tol)
            self.linear_ = fit_linear_path(X, rows, release.evidence, classes, recipe, weight=weight)
        else:
            self.linear_ = fit_linear(
                X,
                rows,
                release.evidence,
                classes,
                inverse=self.C,
                most=self.max_iter,
                tolerance=self.tol,
                weight=weight,
            )
        self.n_iter_ = self.linear_.iterations
        if not self.linear_.converged:
            warnings.warn(
                f"L-BFGS did not converge in {self.max_iter} steps; scale the features, or raise max_iter.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _fit_boosted(self, X: Any, release: Release, rows: Any, weight: Any) -> None:
        recipe = BoostingRecipe(seed=self._seed(), rounds=self.epochs, rate=self.learning_rate)
        self.boosted_ = fit_boosted(X, rows, release, recipe, categorical=self.categories_.columns, weight=weight)
        self.n_iter_ = max(1, self.boosted_.rounds)

    def _fit_booster(self, X: Any, release: Release, rows: Any, weight: Any) -> None:
        """The user's parameters, our objective."""
        from labeldp.estimators import boosting

        lightgbm = boosting.lightgbm()
        given = self.estimator.get_params()
        if given.get("objective") is not None or given.get("class_weight") is not None:
            raise InputError(
                "the objective is the likelihood of what was released: leave `objective` out of LGBMClassifier(…), and give `class_weight` "
                "to LabelDPClassifier."
            )
        rounds = given.pop("n_estimators")
        renamed = {"n_jobs": "num_threads", "random_state": "seed", "subsample_for_bin": "bin_construct_sample_cnt"}
        skipped = ("objective", "class_weight", "importance_type")
        params = {
            renamed.get(name, name): value for name, value in given.items() if value is not None and name not in skipped
        }
        if release.mechanism.num_classes > 2:
            params["num_class"] = release.mechanism.num_classes
        params = {"verbosity": -1, **params}
        columns = list(self.categories_.columns) or "auto"
        data = boosting.dataset(X, release, rows, weight=weight, categorical_feature=columns, params=params)
        self.booster_ = lightgbm.train({**params, "objective": boosting.objective(data)}, data, num_boost_round=rounds)
        self.n_iter_ = max(1, self.booster_.current_iteration())

    def _fit_inverted(self, X: Any, release: Release, rows: Any, weight: Any) -> None:
        self.inverted_ = Inverted.fit(clone(self.estimator), X, rows, release, weight)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(1 << 31))

    def _fit_torch(self, X: Any, release: Release, rows: Any, weight: Any) -> None:
        if weight is not None:
            raise InputError(
                "torch models take no `sample_weight` here; PosteriorLoss(reduction='none') does, in a loop of your own."
            )
        import torch

        from labeldp import models
        from labeldp.machine import Machine
        from labeldp.training.recipe import changed, default_recipe
        from labeldp.training.trainer import Trainer

        seed, name = self._seed(), str(self.model)
        given: dict[str, Any] = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
        recipe = changed(default_recipe(name, release.mechanism.num_classes), seed=seed, **given)
        torch.manual_seed(seed)
        model = models.build(name, X.shape[1:], release.mechanism.num_classes)
        trainer = Trainer(model, recipe, *Machine().chosen(images=False))
        features = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        trainer.prepare(features)
        for _ in trainer.fit(features, np.arange(len(rows)), lambda chosen: release.evidence(rows[chosen])):
            pass
        self.trainer_ = trainer

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities, in the order of `classes_`; shifted by `class_weight`, if there is one."""
        self._refuse_metrics_of_labels()
        check_is_fitted(self, "rows_trained_")
        found = self._probabilities(self._validated(X, reset=False))
        if self.class_weight is None:
            return found
        weighted = found * self._class_weights()
        return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))

    def _probabilities(self, X: Any) -> npt.NDArray[np.float64]:
        if hasattr(self, "linear_"):
            found: Any = self.linear_.probabilities(X)
        elif hasattr(self, "boosted_"):
            found = self.boosted_.probabilities(X)
        elif hasattr(self, "booster_"):
            from labeldp.estimators import boosting

            found = boosting.predict_proba(self.booster_, X)
        elif hasattr(self, "inverted_"):
            found = self.inverted_.probabilities(X)
        else:
            import torch

            found = self.trainer_.probabilities(torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)))
        return np.asarray(found, dtype=np.float64)

    def _class_weights(self) -> npt.NDArray[np.float64]:
        """One a class. "balanced" makes all classes equally common, by their shares as the release tells them."""
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise InputError(f"class_weight is 'balanced' or a dict; got {self.class_weight!r}.")
            return np.asarray(1 / (len(self.classes_) * self.class_shares_))
        unknown = [name for name in self.class_weight if name not in set(self.classes_.tolist())]
        if unknown:
            raise InputError(f"class_weight names {unknown[0]!r}, which is no class of the release.")
        weights = np.array([float(self.class_weight.get(name, 1.0)) for name in self.classes_.tolist()])
        if not np.isfinite(weights).all() or (weights <= 0).any():
            raise InputError("class weights are positive and finite.")
        return weights

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row."""
        self._refuse_metrics_of_labels()
        codes = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @property
    def coef_(self) -> npt.NDArray[np.float64]:
        """Of the linear model, for features as they are given; one row a class, of two classes one in all, as in LogisticRegression."""
        return self._plane()[0]

    @property
    def intercept_(self) -> npt.NDArray[np.float64]:
        """Of the linear model, likewise."""
        return self._plane()[1]

    def _plane(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if not hasattr(self, "linear_"):
            raise AttributeError("only the linear model has coefficients, once it is fitted.")
        found = self.linear_
        weights, bias = found.weights, found.bias
        if found.calibration is not None:
            weights, bias = found.calibration.slope * weights, np.asarray(found.calibration(bias), dtype=np.float64)
        if found.mean is not None and found.scale is not None:
            weights = found.scale[:, None] * weights
            bias = bias - found.mean @ weights
        if len(bias) == 2:
            weights, bias = weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1]
        return weights.T, bias

    def estimate_accuracy(self, X: Any, y: Any = None, *, rows: Any = None) -> AccuracyEstimate:
        """Accuracy on released rows that were not trained on, with its standard error and interval."""
        release, positions = self._held_out(y, rows)
        return release.estimate_accuracy(positions, self.predict_proba(X).argmax(axis=1))

    def estimate_metric(self, name: str, X: Any, y: Any = None, *, rows: Any = None, **asked: Any) -> MetricEstimate:
        """ROC AUC, log loss and others (`labeldp.evaluation.METRICS`) on released rows that were not trained on, with an interval."""
        from labeldp.evaluation.metrics import estimate_metric

        release, positions = self._held_out(y, rows)
        return estimate_metric(name, release.mechanism, release.observations[positions], self.predict_proba(X), **asked)

    def _held_out(self, y: Any, rows: Any) -> tuple[Release, npt.NDArray[np.int64]]:
        check_is_fitted(self, "rows_trained_")
        release, positions = self._rows(y, rows)
        if release.checksum != self.fitted_on_:
            raise InputError(
                "this classifier was fitted on another release, and whether these rows were trained on cannot be seen."
            )
        again = np.isin(positions, self.rows_trained_)
        if again.any():
            raise InputError(TRAINED_ON.format(int(again.sum()), "an accuracy"))
        if len(np.unique(positions)) != len(positions):
            raise InputError("a row can judge only once; some of these repeat.")
        return release, positions

    def score(self, X: Any, y: Any = None, sample_weight: None = None, *, rows: Any = None) -> float:
        """The noise-corrected accuracy on rows that were not trained on; unbiased, so it may exceed 1 where rows are few."""
        if sample_weight is not None:
            raise InputError("the noise-corrected accuracy takes no sample weights.")
        return self.estimate_accuracy(X, y, rows=rows).unbiased

    def _rows(self, y: Any, rows: Any = None) -> tuple[Release, npt.NDArray[np.int64]]:
        """The release and the positions that y or rows point to."""
        if not isinstance(self.release, Release):
            is_target = y is not None and np.ndim(y) == 2 and np.shape(y)[1] == 2
            missing = "there is no release: LabelDPClassifier(labeldp.Release.load(path)), or from_labels(…)."
            raise InputError(missing if y is None or is_target else _NO_LABELS)
        return self.release, self.release.positions_in(y, rows, _NO_LABELS)

    def _refuse_metrics_of_labels(self) -> None:
        """scikit-learn's own scorers would compare predictions with y as if it were labels, and say of it something about outputs.

        Its registry of scorers is closed, and a scorer asks for predictions before it looks at y: here is the only place to say so.
        """
        frame: Any = sys._getframe(2)
        for _ in range(8):
            if frame is None:
                return
            if frame.f_globals.get("__name__") == "sklearn.metrics._scorer" and "y_true" in frame.f_locals:
                y, scorer = frame.f_locals["y_true"], frame.f_locals.get("self")
                if np.ndim(y) == 2 and np.shape(y)[1] == 2 and not np.issubdtype(np.asarray(y).dtype, np.floating):
                    raise InputError(_OF_LABELS.format(getattr(getattr(scorer, "_score_func", None), "__name__", "…")))
                return
            frame = frame.f_back
