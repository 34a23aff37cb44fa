"""Any file of a statistic."""

import numpy as np
import pytest

from labeldp import RandomizedResponse
from labeldp.errors import FileFormatError
from labeldp.release.sealed import write_sealed
from labeldp.statistics import LabelHistogram, Moments, Score, histogram, moments, score
from labeldp.statistics.reading import is_fittable, load_fittable, load_statistic

X, Y = np.random.default_rng(0).random((80, 1)), np.arange(80) % 2
COMMON = {"num_classes": 2, "epsilon": 1.0, "data_set": "d", "ids": np.arange(80)}


def test_by_what_it_says(tmp_path):
    for call, kind in ((score, Score), (moments, Moments), (histogram, LabelHistogram)):
        made = call(X, Y, ledger=tmp_path / call.__name__, **COMMON)
        made.save(tmp_path / "s")
        assert type(load_statistic(tmp_path / "s")) is kind
        assert is_fittable(tmp_path / "s") == (kind is not Score)
        if kind is Score:
            with pytest.raises(FileFormatError, match=r"is a score, which .* it is no file of moments"):
                load_fittable(tmp_path / "s")
        else:
            assert type(load_fittable(tmp_path / "s")) is kind
        with (tmp_path / "s").open("wb") as file:
            write_sealed(file, {**made.header, "statistic": {"name": "tomorrow"}}, made._arrays)
        with pytest.raises(FileFormatError, match="no statistic that this labeldp knows"):
            load_statistic(tmp_path / "s")


def test_a_release_is_none(tmp_path):
    released = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2).release(
        Y, data_set="d", ids=np.arange(80), ledger=tmp_path / "l"
    )
    released.save(tmp_path / "r.parquet")
    for path in (tmp_path / "r.parquet", tmp_path / "none"):
        with pytest.raises(FileFormatError, match="holds no statistic"):
            load_statistic(path)
