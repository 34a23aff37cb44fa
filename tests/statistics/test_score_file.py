"""Scores as files, perhaps another party's."""

import json

import numpy as np
import pytest

from labeldp.errors import FileFormatError, InputError
from labeldp.release.sealed import read_sealed, shapes, write_sealed
from labeldp.statistics import Score, score

ROWS = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, ROWS)
    p = 1 / (1 + np.exp(-draw.normal(2 * y - 1)))
    models = {"one": p, "two": np.sqrt(p)}
    return score(models, y, num_classes=2, epsilon=8.0, ids=np.arange(ROWS), data_set="d", ledger=folder / "l")


def forged(made, path, arrays=None, **said):
    arrays = {**made._arrays, **(arrays or {})}
    header = {**made.header, "statistic": {**made.header["statistic"], **said}, "arrays": shapes(arrays)}
    with path.open("wb") as file:
        write_sealed(file, header, arrays)
    return path


def test_saved_and_loaded(made, tmp_path):
    made.save(tmp_path / "s.parquet")
    again = Score.load(tmp_path / "s.parquet")
    assert again.checksum == made.checksum
    assert again.to_json() == made.to_json()
    json.dumps(made.to_json(), allow_nan=False)
    again.save(tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "s.parquet").read_bytes()


def test_counts_are_of_labels(made):
    """At ε = 8 for two models, hardly any noise: against the labels themselves."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, ROWS)
    assert abs(made.counts("one").counts.sum() - y.sum()) < 30
    right = np.mean((1 / (1 + np.exp(-draw.normal(2 * y - 1))) > 0.5) == y)
    assert made.accuracy("one").interval_95[0] <= right <= made.accuracy("one").interval_95[1]


def test_a_model_must_be_named(made):
    with pytest.raises(InputError, match="one, two"):
        made.counts()
    with pytest.raises(InputError, match="three"):
        made.counts("three")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_counts_that_cannot_be(made, tmp_path, value):
    counts = made._arrays["count"].copy()
    counts[3] = value
    with pytest.raises(FileFormatError, match="no score that labeldp makes"):
        Score.load(forged(made, tmp_path / "s", {"count": counts}))


def test_large_counts_are_numbers_all_the_same(made, tmp_path):
    for value in (1e15, -1e15, 0.25, -1e9):
        counts = np.full_like(made._arrays["count"], value)
        found = Score.load(forged(made, tmp_path / "s", {"count": counts}))
        json.dumps(found.to_json(), allow_nan=False)
        for model in found.models:
            json.dumps(found.curves(model).to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "names",
    [
        ["one"],
        ["one", "one"],
        ["one", "a\x1b[2J"],
        ["one", ""],
        ["one", 3],
        ["one", ["x"]],
        [],
        "one",
        None,
        ["one", "x" * 201],
    ],
)
def test_names_of_models(made, tmp_path, names):
    with pytest.raises(FileFormatError):
        Score.load(forged(made, tmp_path / "s", models=names))


def test_a_million_models_are_refused_at_once(made, tmp_path):
    count = 200_000
    names = [str(i) for i in range(count)]
    arrays = {name: np.resize(one, count) for name, one in made._arrays.items()} | {"model": np.arange(count)}
    path = forged(made, tmp_path / "s", arrays, models=names)
    with pytest.raises(FileFormatError, match="1 to 1,000 models"):
        Score.load(path)  # and not one after the other


@pytest.mark.parametrize(
    "noise",
    [
        {"name": "geometric", "stay": "0"}, {"name": "geometric", "stay": str(2**64)}, {"name": "geometric", "stay": 3.5},
        {"name": "geometric"},
        {"name": "gaussian", "sigma": 1e-300, "delta": 1e-5}, {"name": "gaussian", "sigma": "x", "delta": 1e-5},
        {"name": "gaussian", "sigma": 1e300, "delta": 1e-5}, {"name": "gaussian", "sigma": 3.0, "delta": 0.0},
        {"name": "gaussian", "sigma": True, "delta": 1e-5}, {"name": "none"}, {}, None, [],
    ],
)  # fmt: skip
def test_noise_that_cannot_be(made, tmp_path, noise):
    with pytest.raises(FileFormatError):
        Score.load(forged(made, tmp_path / "s", noise=noise))


def test_less_said_is_wider_and_the_other_way_round(made, tmp_path):
    """Certificate and intervals come of one number: whoever forges a smaller ε widens the intervals with it."""
    loose = Score.load(forged(made, tmp_path / "s", noise={"name": "geometric", "stay": str(2**64 - 2**58)}))
    assert loose.guarantee.epsilon < made.guarantee.epsilon
    for model in made.models:
        before, now = made.accuracy(model).interval_95, loose.accuracy(model).interval_95
        assert now[1] - now[0] > before[1] - before[0]


def test_the_certificate_in_the_file_is_not_believed(made, tmp_path):
    header = {**made.header, "certificate": {"epsilon": 1e-9, "delta": 0.0, "reason": None}, "trust": "local"}
    with (tmp_path / "s").open("wb") as file:
        write_sealed(file, header, made._arrays)
    found = Score.load(tmp_path / "s")
    assert found.guarantee.epsilon == made.guarantee.epsilon
    assert found.to_json()["trust"] == "central"


def test_another_statistic_is_none(made, tmp_path):
    with pytest.raises(
        FileFormatError, match="is a file of moments, which `labeldp train --moments` reads; it is no score"
    ):
        Score.load(forged(made, tmp_path / "s", name="moments"))
    assert read_sealed(tmp_path / "s").checksum != made.checksum
