"""A statistic, answers and gradients on a small table: what each says, and that none costs more than was asked."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from labeldp.data.public import load_table
from labeldp.errors import InputError
from labeldp.experiments import compare
from labeldp.experiments.compare import Comparing, compare_tables
from labeldp.experiments.statistic import STATISTICS, fit_statistic


@pytest.fixture(scope="module")
def table():
    return load_table("cancer", 0)


@pytest.mark.parametrize("model", STATISTICS)
def test_each_learns_and_keeps_to_its_epsilon(model, table):
    """At ε = 8: the table is small and easy."""
    if model == "dp-sgd":
        pytest.importorskip("opacus", reason='Opacus is an extra: pip install "labeldp[bench]"')
    p, certificate = fit_statistic(model, table, 8.0, 0)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    assert roc_auc_score(table.test_labels, p[:, 1]) > 0.8
    assert 0.9 * 8 < certificate.epsilon <= 8.0
    assert certificate.delta == (0.0 if model == "clusters" else 1e-5)


def test_one_folder_of_a_statistic_and_one_reading_of_rows(tmp_path, monkeypatch):
    wanted = Comparing("cancer", 2.0, 0, ("moments", "clusters", "linear"), ("response",))
    found = compare_tables(wanted, tmp_path / "run", threads=1)
    assert [(fit.model, fit.reading) for fit in found.fits] == [
        ("moments", "statistic"), ("clusters", "histogram"), ("linear", "response"),
    ]  # fmt: skip
    assert set(found.certificates) == {"moments", "clusters", "response"}
    assert all(0 < one.epsilon <= 2.0 for one in found.certificates.values())
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir()) == ["response"]
    monkeypatch.setattr(compare, "load_table", None)
    assert compare_tables(wanted, tmp_path / "run") == found


def test_a_statistic_needs_an_epsilon():
    with pytest.raises(InputError, match="need an ε"):
        Comparing("cancer", None, 0, ("moments",))
    with pytest.raises(InputError, match="dp-sgd"):
        Comparing("cancer", 1.0, 0, ("forest",))
