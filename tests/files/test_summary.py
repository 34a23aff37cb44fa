"""What the files of a run say: of its kind, of an older version, or refused in a sentence that names the place."""

import json
from dataclasses import asdict

import pytest

from labeldp.errors import InputError
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import (
    Certificate,
    Config,
    GamesSummary,
    HeuristicSummary,
    PateSummary,
    StatedAudit,
    StatedConfusion,
    StatedCurves,
    TrainingSummary,
    kind_of,
    read_summary,
)

CERTIFICATE = {"epsilon": 2.0, "delta": 0.0, "reason": None}
MECHANISM = {"name": "subset", "num_classes": 3, "parameters": {"size": 1}}
TRAINING = {
    "certificate": CERTIFICATE, "trust": "local", "insecure": None, "release": "ab", "mechanism": MECHANISM, "model": "linear",
    "rows_trained": 90, "epochs": 2, "train_flop": 10**400 // 10**390, "seconds": 0.5, "dtype": "float32", "device": "cpu",
}  # fmt: skip
PATE = {
    "certificate": CERTIFICATE, "trust": "central", "insecure": None, "release": "ab", "mechanism": MECHANISM, "asked": 5, "answered": 3,
    "students": [{"accuracy_test": 0.5}], "accuracy_test": {"mean": 0.5, "std": None}, "teachers_flop": 1, "students_flop": 2,
}  # fmt: skip
AUDIT = {
    "epsilon_low": 0.5, "epsilon_high": None, "delta": 0.0, "confidence": 0.95, "method": "one-run", "assumption": "none", "guesses": 5,
    "correct": 4, "abstained": 5, "canaries": 10, "candidates": 2, "attack": "model",
}  # fmt: skip
LOOK = {"attack": "release", "epsilon_low": 0.25, "guesses": 2, "correct": 2, "abstained": 8}


@pytest.mark.parametrize(
    ("data", "cls", "kind"),
    [
        (TRAINING, TrainingSummary, "training"),
        (PATE, PateSummary, "pate"),
        (AUDIT, GamesSummary, "games"),
        ({"together": AUDIT, "apart": AUDIT}, HeuristicSummary, "heuristic"),
    ],
)
def test_every_kind_is_known_by_its_name_and_older_ones_by_what_they_have(data, cls, kind):
    assert kind_of(data) == kind
    assert isinstance(read_summary(data), cls)
    assert read_summary({"kind": kind, **data}) == read_summary(data)
    assert read_summary(json.loads(json.dumps(asdict(read_summary(data))))) == read_summary(data)
    other = "training" if kind != "training" else "pate"
    with pytest.raises(SchemaError):
        read_summary({"kind": other, **data})


def test_what_an_old_directory_lacks_has_a_default():
    summary = read_summary(TRAINING)
    assert (summary.accuracy_test, summary.audit, summary.folds, summary.processes) == (None, {}, None, 1)
    assert summary.behind == summary.trained_on == ("ab",)


def test_joined_releases_are_named_by_their_parts():
    parts = {"parts": [MECHANISM, {**MECHANISM, "name": "prior"}]}
    joint = {**TRAINING, "mechanism": {**MECHANISM, "name": "joint", "parameters": parts}, "releases": ["a", "b", "c"]}
    summary = read_summary(joint)
    assert summary.mechanism.words == "subset + prior"
    assert (summary.trained_on, summary.behind) == (("a", "b"), ("a", "b", "c"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"certificate": {"epsilon": -1.0, "delta": 0.0}}, "certificate cannot be"),
        ({"certificate": {"epsilon": 1.0, "delta": 1.0}}, "certificate cannot be"),
        ({"certificate": {"epsilon": 1.0}}, "certificate cannot be"),
        ({"certificate": {}}, "certificate.epsilon is missing"),
        ({"mechanism": {**MECHANISM, "num_classes": 10**9}}, "mechanism cannot be"),
        ({"accuracy_test": 1.5}, "from 0 to 1"),
        ({"rows_tested": 1 << 40}, "so many rows"),
        ({"accuracy_estimated": 0.5}, "has an interval"),
        ({"interval_95": [0.1]}, "interval_95 has 1 items"),
        ({"audit": {"model": {**AUDIT, "delta": 1.0}}}, "audit.model cannot be"),
        ({"audit": {"model": {**AUDIT, "canaries": 10**400}}}, "audit.model cannot be"),
        ({"kind": None}, "kind is none of"),
    ],
)
def test_what_no_run_writes_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        read_summary({**TRAINING, **change})


def test_a_certificate_is_written_as_a_release_states_it():
    assert Certificate(**CERTIFICATE).to_json() == CERTIFICATE
    assert Certificate(1.0, 0.0, None, "something").to_json()["given"] == "something"
    assert decode(Certificate, {"epsilon": None, "delta": None, "reason": "none"}).epsilon is None


def test_the_attacks_of_an_audit():
    whole = decode(StatedAudit, {**AUDIT, "looks": [{**LOOK, "attack": "model"}, LOOK]})
    assert [one.attack for one in whole.attacks] == ["model", "release"]
    assert [one.epsilon_low for one in whole.attacks] == [0.25, 0.25]
    assert {one.canaries for one in whole.attacks} == {10}
    alone = decode(StatedAudit, AUDIT)
    assert alone.attacks == (alone,)


CONFIG = {
    "release": "ab", "model": "linear", "num_classes": 2, "label": None, "label_names": ["no", "yes"], "feature_shape": [3],
    "holdout": 0.1, "select": "last", "recipe": {"epochs": 2, "seed": 7, "average": 0.0},
}  # fmt: skip


def test_a_config():
    config = decode(Config, CONFIG)
    assert (config.seed, config.class_names, config.columns) == (7, ("no", "yes"), ())
    assert decode(Config, {**CONFIG, "label_names": None}).class_names == ("0", "1")


@pytest.mark.parametrize(
    "change",
    [
        {"label_names": ["no"]}, {"num_classes": 1}, {"recipe": {}}, {"recipe": {"seed": True}}, {"feature_shape": [0]},
        {"feature_shape": []}, {"feature_shape": [10**400]}, {"feature_shape": [10**6, 10**6]},
        {"canary_share": 1.0}, {"columns": "a"}, {"holdout": None},
    ],
)  # fmt: skip
def test_a_config_that_is_none(change):
    with pytest.raises(InputError):
        decode(Config, {**CONFIG, **change})


@pytest.mark.parametrize(
    "data",
    [
        {"shares": [[1.0]], "standard_errors": [[0.1]], "called": [0.0]},
        {"shares": [[1.0]], "standard_errors": [[0.1]], "called": [-1.0, 2.0]},
        {"shares": [[1e6]], "standard_errors": [[0.1]], "called": [1.0]},
        {"shares": [[0.5, 0.5]], "standard_errors": [[0.1, 0.1]], "called": [0.5, 0.5]},
    ],
)
def test_a_confusion_that_is_none(data):
    with pytest.raises(SchemaError):
        decode(StatedConfusion, data)


METRIC = {
    "name": "roc_auc",
    "value": 0.8,
    "standard_error": 0.01,
    "interval_95": [0.7, 0.9],
    "rows": 100,
    "rows_needed": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"value": 1.5}, {"value": -0.1}, {"interval_95": [0.9, 0.7]}, {"interval_95": [-3, 0.9]}, {"interval_95": [0.7]}, {"rows": -1},
        {"rows_needed": 10**30}, {"value": "x"}, {"by_class": [{**METRIC, "value": 2.0}]}, {"by_class": [{**METRIC, "by_class": [METRIC]}]},
    ],
)  # fmt: skip
def test_a_metric_that_is_none(change):
    assert decode(TrainingSummary, {**TRAINING, "metrics": {"roc_auc": METRIC}}).metrics["roc_auc"].value == 0.8
    with pytest.raises(SchemaError):
        decode(TrainingSummary, {**TRAINING, "metrics": {"roc_auc": {**METRIC, **change}}})


def test_a_loss_has_no_upper_end():
    loss = {**METRIC, "name": "log_loss", "value": 3.0, "interval_95": [2.0, None]}
    assert decode(TrainingSummary, {**TRAINING, "metrics": {"log_loss": loss}}).metrics["log_loss"].value == 3.0
    with pytest.raises(SchemaError, match="log_loss is at least 0"):
        decode(TrainingSummary, {**TRAINING, "metrics": {"log_loss": {**loss, "value": -3.0}}})


POINT = {
    "threshold": 0.5, "called": 0.5, "true_positive_rate": 0.8, "true_positive_rate_95": [0.7, 0.9], "false_positive_rate": None,
    "false_positive_rate_95": [0.0, 1.0], "precision": 0.5, "precision_95": [0.4, 0.6], "lift": 1.6, "lift_95": [1.4, 1.8],
}  # fmt: skip
BIN = {"rows": 50, "predicted": 0.3, "observed": 0.2, "observed_95": [0.1, 0.4]}
CURVES = {"positive": 1, "rows": 100, "points": [POINT, {**POINT, "called": 1.0}], "calibration": [BIN]}


def test_curves():
    assert decode(StatedCurves, CURVES).points[0].false_positive_rate is None


@pytest.mark.parametrize(
    "change",
    [
        {"positive": -1}, {"rows": -1}, {"points": [POINT] * 1001}, {"calibration": [BIN] * 1001}, {"points": [{**POINT, "lift": -1.0}]},
        {"points": [{**POINT, "called": 1.0}, POINT]}, {"points": [{**POINT, "precision": 1.5}]}, {"points": [{}]}, {"points": None},
        {"points": [{**POINT, "precision_95": [0.6, 0.4]}]}, {"points": [{**POINT, "precision_95": [0.4, None]}]},
        {"calibration": [{**BIN, "predicted": 2.0}]}, {"calibration": [{**BIN, "rows": -5}]},
        {"calibration": [{**BIN, "observed_95": [-0.1, 0.4]}]},
    ],
)  # fmt: skip
def test_curves_that_are_none(change):
    with pytest.raises(SchemaError):
        decode(StatedCurves, {**CURVES, **change})
