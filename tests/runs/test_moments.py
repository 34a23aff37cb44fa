"""A model from moments, or from a histogram of labels, in a run directory."""

import json
from dataclasses import replace

import numpy as np
import pytest

from labeldp.data.features import Features
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.release.sealed import shapes, write_sealed
from labeldp.runs.moments import train_moments
from labeldp.statistics import histogram, moments
from labeldp.statistics.reading import load_fittable

ROWS = 300
DRAW = np.random.default_rng(0)
Y = DRAW.integers(0, 2, ROWS)
X = (DRAW.normal(size=(ROWS, 3)) + 2 * Y[:, None]).astype(np.float32)
FEATURES = Features(X, np.arange(ROWS), named=True)


@pytest.fixture(scope="module", params=[moments, histogram], ids=["moments", "histogram"])
def call(request):
    return request.param


@pytest.fixture(scope="module")
def made(call, tmp_path_factory):
    return call(
        X, Y, num_classes=2, epsilon=4.0, ids=np.arange(ROWS), data_set="d", ledger=tmp_path_factory.mktemp("m") / "l"
    )


def test_fitted_once_and_found_again(made, tmp_path):
    first = train_moments(made, FEATURES, tmp_path / "run")
    assert first["certificate"] == made.certificate()
    assert (first["trust"], first["insecure"], first["releases"]) == ("central", None, [made.checksum])
    again = train_moments(made, FEATURES, tmp_path / "run")
    assert again["seconds"] == first["seconds"]


def test_other_moments_or_features_are_another_run(call, made, tmp_path):
    train_moments(made, FEATURES, tmp_path / "run")
    other = call(X, Y, num_classes=2, epsilon=4.0, ids=np.arange(ROWS), data_set="d", ledger=tmp_path / "l")
    with pytest.raises(InputError):
        train_moments(other, FEATURES, tmp_path / "run")
    with pytest.raises(InputError):
        train_moments(made, replace(FEATURES, values=X + 1), tmp_path / "run")


@pytest.mark.parametrize("change", [{"epsilon": 0.1}, {"reason": "none"}, {"delta": 1e-9}])
def test_a_summary_that_promises_more_is_refused(made, tmp_path, change):
    run = RunFolder(tmp_path / "run")
    train_moments(made, FEATURES, run.path)
    summary = json.loads(run.summary.read_text())
    summary["training"]["certificate"].update(change) if "training" in summary else summary["certificate"].update(
        change
    )
    run.summary.write_text(json.dumps(summary))
    with pytest.raises(InputError):
        train_moments(made, FEATURES, run.path)


def test_other_features_begin_no_run(made, tmp_path):
    with pytest.raises(InputError, match="not the features"):
        train_moments(made, replace(FEATURES, values=X[:, ::-1]), tmp_path / "run")
    train_moments(made, FEATURES, tmp_path / "run")


def test_rows_that_do_not_fit_leave_no_summary(made, tmp_path):
    few = Features(X[:-1], np.arange(ROWS - 1), named=True)
    with pytest.raises(InputError, match=r"(summed|counted) over 300 rows"):
        train_moments(made, few, tmp_path / "run")
    assert not RunFolder(tmp_path / "run").summary.exists()


def test_a_run_of_insecure_moments_says_so(made, tmp_path):
    header = {**made.header, "insecure": "the noise comes from a known seed", "arrays": shapes(made._arrays)}
    with (tmp_path / "m.parquet").open("wb") as file:
        write_sealed(file, header, made._arrays)
    summary = train_moments(load_fittable(tmp_path / "m.parquet"), FEATURES, tmp_path / "run")
    assert summary["certificate"]["epsilon"] is None
    assert summary["insecure"]
    assert RunFolder(tmp_path / "run").promise()["certificate"]["epsilon"] is None
