"""Scores on a page: every model, its curves, and the certificate computed anew."""

import numpy as np
import pytest

from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.report.page import Report
from labeldp.statistics import score


def scored(folder, classes, name="score.parquet", **changes):
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.ones(classes), 1500)
    y = np.array([rng.choice(classes, p=one) for one in p])
    made = score(
        {"first": p, "second": p[:, ::-1]}, y, ids=[f"u{i}" for i in range(1500)], num_classes=classes, epsilon=1.0,
        data_set="visits", ledger=folder / f"{name}.ledger", **changes,
    )  # fmt: skip
    made.save(folder / name)
    return folder / name, made


@pytest.mark.parametrize("classes", [2, 4])
def test_every_model_and_what_it_cost(tmp_path, classes):
    path, made = scored(tmp_path, classes)
    report = Report.of([path])
    page = report.html()
    assert "models scored on secret labels" in page
    assert "δ = 0 for every label in it, computed from the noise that the file names" in page
    for model in ("first", "second"):
        assert f"<h3>{model}</h3>" in page
        assert str(made.accuracy(model)) in page
    assert ("ROC, lift and calibration" in page) == (classes == 2)
    told = report.to_json()["scores"][0]
    assert told["certificate"]["epsilon"] == made.guarantee.epsilon
    assert told["models"]["first"]["metrics"]["roc_auc"]["value"] == made.roc_auc("first").value


def test_a_known_seed_is_an_alarm(tmp_path):
    path, _ = scored(tmp_path, 2, entropy=SeededEntropy(0))
    assert "This score protects nobody" in Report.of([path]).html()


def test_a_score_alone_has_no_ledger_to_be_shown(tmp_path):
    path, _ = scored(tmp_path, 2)
    with pytest.raises(InputError, match="no run"):
        Report.of([path], ledger=tmp_path / "score.parquet.ledger")
