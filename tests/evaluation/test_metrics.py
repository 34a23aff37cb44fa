import json
import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, precision_score, recall_score, roc_auc_score

from labeldp import NoPrivacy, PrivateLabels, SecureEntropy
from labeldp.errors import InputError
from labeldp.evaluation.metrics import METRICS, MetricEstimate, estimate_metric, estimate_metrics
from labeldp.mechanisms.plan import calibrate

ALL = (*METRICS, "accuracy", "precision", "recall", "lift")


def population(classes, rows, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(rows, classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return (p.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1), p


def released(name, epsilon, labels, classes):
    mechanism = calibrate(name, epsilon=epsilon, num_classes=classes)
    return mechanism, mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())


@pytest.mark.parametrize("classes", [2, 4])
def test_scikit_learn_agrees_on_true_labels(classes):
    labels, p = population(classes, 400)
    found = estimate_metrics(NoPrivacy(classes), labels.astype(np.uint8), p, names=ALL)
    called = p.argmax(axis=1)
    if classes == 2:
        expected = {
            "roc_auc": roc_auc_score(labels, p[:, 1]),
            "average_precision": average_precision_score(labels, p[:, 1]),
            "precision": precision_score(labels, called),
            "recall": recall_score(labels, called),
        }
    else:
        expected = {
            "roc_auc": roc_auc_score(labels, p, multi_class="ovr"),
            "average_precision": average_precision_score(np.eye(classes)[labels], p),
            "precision": precision_score(labels, called, average="macro"),
            "recall": recall_score(labels, called, average="macro"),
        }
    expected["accuracy"] = accuracy_score(labels, called)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value)
        assert found[name].interval_95[0] < value < found[name].interval_95[1]
        assert len(found[name].by_class) == (classes if classes > 2 and name != "accuracy" else 0)


@pytest.mark.parametrize(("mechanism", "classes"), [("response", 2), ("laplace", 2), ("subset", 5)])
def test_close_to_what_true_labels_say(mechanism, classes):
    """Each within 5 of its standard errors: false alarm below 1e-6 a metric."""
    labels, p = population(classes, 30_000)
    found = estimate_metrics(*released(mechanism, 2.0, labels, classes), p, names=ALL)
    true = estimate_metrics(NoPrivacy(classes), labels.astype(np.uint8), p, names=ALL)
    for name in set(ALL) - {"log_likelihood"}:
        assert abs(found[name].value - true[name].value) < 5 * found[name].standard_error
        assert found[name].interval_95[0] <= found[name].value <= found[name].interval_95[1]


def test_the_noisy_auc_is_the_true_one_drawn_to_a_half():
    """AUC_noisy − ½ = (AUC − ½)·π(1−π)(p−q)/(π′(1−π′)), π′ = q + (p−q)π, on average; here as an identity of these very rows."""
    labels, p = population(2, 2000)
    mechanism, observed = released("response", 1.0, labels, 2)
    law = mechanism.law()
    share = (observed.mean() - law.mean_other) / law.gap
    noisy = roc_auc_score(observed, p[:, 1])
    seen = observed.mean()
    expected = 0.5 + (noisy - 0.5) * seen * (1 - seen) / (share * (1 - share) * law.gap)
    assert estimate_metric("roc_auc", mechanism, observed, p).value == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "log_loss", "brier", "recall"])
@pytest.mark.parametrize(("share", "epsilon"), [(0.05, 0.5), (0.1, 4.0)])
def test_the_limits_hold(name, share, epsilon):
    """Of 150 intervals at most 22 miss: false alarm below 1e-4 each if 5% do; benchmarks/metrics_coverage.py has more."""
    rng, missed, d = np.random.default_rng(11), 0, 1.2

    def draw(rows):
        labels = (rng.random(rows) < share).astype(np.int64)
        odds = d * (rng.normal(size=rows) + d * labels) - d * d / 2 + math.log(share / (1 - share))
        p = 1 / (1 + np.exp(-odds))
        return labels, np.stack((1 - p, p), axis=1)

    threshold = share if name == "recall" else None
    labels, p = draw(400_000)
    true = estimate_metric(name, NoPrivacy(2), labels.astype(np.uint8), p, threshold=threshold).value
    for _ in range(150):
        labels, p = draw(500)
        low, high = estimate_metric(name, *released("response", epsilon, labels, 2), p, threshold=threshold).interval_95
        missed += not low <= true <= high
    assert missed <= 22


def test_too_few_rows_say_how_many_it_would_take():
    """And so many rows are enough, nine times in ten or more (of 30, at most 9 are not: false alarm below 1e-3)."""
    rng = np.random.default_rng(3)

    def draw(rows):
        labels = (rng.random(rows) < 0.1).astype(np.int64)
        p = 1 / (1 + np.exp(2 - rng.normal(size=rows) - 1.5 * labels))
        return labels, np.stack((1 - p, p), axis=1)

    needed = []
    for _ in range(20):
        labels, p = draw(200)
        found = estimate_metric("roc_auc", *released("response", 0.5, labels, 2), p)
        if found.value is None:
            assert found.interval_95 == (0.0, 1.0)
            assert str(found) == f"cannot be told from 200 rows; about {found.rows_needed:,} would do"
            needed.append(found.rows_needed)
    assert len(needed) > 5
    untold = 0
    for _ in range(30):
        labels, p = draw(20_000)
        untold += estimate_metric("roc_auc", *released("response", 0.5, labels, 2), p).value is None
    assert untold <= 9
    assert 1000 < np.median(needed) < 1_000_000


def test_planted_labels_are_taken_out():
    """Of 40,000 rows a fifth has random labels; corrected, every metric is within 5 standard errors of that without them."""
    labels, p = population(2, 40_000)
    rng = np.random.default_rng(4)
    planted = np.where(rng.random(len(labels)) < 0.2, rng.integers(0, 2, len(labels)), labels)
    mechanism, observed = released("response", 2.0, planted, 2)
    names = [name for name in ALL if name != "log_likelihood"]
    found = estimate_metrics(mechanism, observed, p, canary_share=0.2, names=names)
    true = estimate_metrics(NoPrivacy(2), labels.astype(np.uint8), p, names=names)
    for name in names:
        assert abs(found[name].value - true[name].value) < 5 * found[name].standard_error


def test_class_by_class():
    labels, p = population(3, 5000)
    mechanism, observed = released("subset", 3.0, labels, 3)
    for name in ("roc_auc", "average_precision", "precision", "recall", "lift"):
        whole = estimate_metric(name, mechanism, observed, p)
        assert whole.value == pytest.approx(np.mean([one.value for one in whole.by_class]))
        assert whole.by_class[2] == estimate_metric(name, mechanism, observed, p, positive=2)
        narrowest = min(one.interval_95[1] - one.interval_95[0] for one in whole.by_class)
        assert whole.interval_95[1] - whole.interval_95[0] < narrowest * 1.05


def test_a_class_that_is_never_called():
    labels, p = population(3, 300)
    p = np.stack((p[:, 0] + p[:, 2] * 0.9, p[:, 1], p[:, 2] * 0.1), axis=1)
    found = estimate_metric("precision", NoPrivacy(3), labels.astype(np.uint8), p)
    if not (p.argmax(axis=1) == 2).any():
        assert found.value is None
        assert found.by_class[2].value is None
    lift = estimate_metric("lift", NoPrivacy(3), labels.astype(np.uint8), p, threshold=2.0)
    assert lift.value is None
    json.dumps(lift.to_json(), allow_nan=False)


def test_for_people_and_for_files():
    told = MetricEstimate("roc_auc", 0.9121, 0.004, (0.9043, 0.9195), 5000)
    assert str(told) == "0.912 (95%: 0.904 to 0.920)"
    untold = MetricEstimate("roc_auc", None, None, (0.0, 1.0), 300, 4000)
    assert str(untold) == "cannot be told from 300 rows; about 4,000 would do"
    assert str(MetricEstimate("precision", None, None, (0.0, 1.0), 300)) == "cannot be told from 300 rows"
    odd = MetricEstimate("lift", 2.0, math.inf, (0.0, math.inf), 10, by_class=(told,))
    written = json.loads(json.dumps(odd.to_json(), allow_nan=False))
    assert written["interval_95"] == [0.0, None]
    assert written["by_class"][0]["value"] == 0.9121


def test_bad_input():
    labels, p = population(2, 50)
    observed = labels.astype(np.uint8)
    for more, message in (
        ({"name": "auc"}, "unknown metric 'auc'; choose one of roc_auc"),
        ({"name": "roc_auc", "threshold": 0.5}, "roc_auc has none"),
        ({"name": "recall", "threshold": math.nan}, "a threshold is a probability"),
        ({"name": "recall", "positive": 2}, "0 to 1"),
        ({"name": "recall", "canary_share": 1.0}, "share of canaries"),
    ):
        with pytest.raises(InputError, match=message):
            estimate_metric(more.pop("name"), NoPrivacy(2), observed, p, **more)
    # A model that says the same of every row ranks none before another: no error, and no better than a coin.
    assert estimate_metric("roc_auc", NoPrivacy(2), observed, np.full((50, 2), 0.5)).value == 0.5
