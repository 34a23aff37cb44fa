"""Errors that users of the Python interface meet name arguments, as Python writes them; none names a flag."""

import re
from dataclasses import replace

import numpy as np
import pytest

import labeldp
from labeldp import Laplace, Ledger, PrivateLabels, RandomizedResponse, Release, SeededEntropy, SubsetSelection
from labeldp.audit.canaries import Canaries
from labeldp.estimators import LabelDPClassifier
from labeldp.mechanisms import Gaussian
from labeldp.release.classes import Classes
from labeldp.runs.job import Job
from labeldp.training.recipe import Recipe
from tests.commands.releasing import release_file

LABELS = np.arange(60) % 3
RECIPE = Recipe(epochs=1, batch_size=8, learning_rate=0.1)
COIN = RandomizedResponse.calibrated(epsilon=1.0, num_classes=3)
MORE = SubsetSelection.calibrated(epsilon=1.0, num_classes=3)


@pytest.fixture
def ledger(tmp_path):
    opened = Ledger(tmp_path / "l")
    COIN.release(LABELS, data_set="d", ids=np.arange(60), ledger=opened)
    return opened


def again(ledger, mechanism=COIN, labels=LABELS, **changes):
    return mechanism.release(labels, **{"data_set": "d", "ids": np.arange(60), "ledger": ledger} | changes)


def released(ledger, tmp_path, **changes):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"y": LABELS, "id": np.arange(100, 160)}), tmp_path / "y.parquet")
    options = {"label": "y", "classes": Classes(3), "ledger": ledger.path} | changes
    return release_file(tmp_path / "y.parquet", tmp_path / "r.parquet", options)


def job(ledger, **changes):
    return Job(again(ledger), np.zeros((60, 2), np.float32), "linear", RECIPE, **changes)


MISTAKES = {
    "`again='charge'`": lambda ledger, path: again(ledger, MORE),
    "`budget=2, raise_budget=True`": lambda ledger, path: again(ledger, MORE, again="charge"),
    r"`budget_gaussian=\(.*, 1e-05\), raise_budget=True`": lambda ledger, path: again(
        ledger, Gaussian.calibrated(epsilon=1.0, delta=1e-5, num_classes=3), again="charge"
    ),
    "`raise_budget=True`": lambda ledger, path: again(Ledger(ledger.path, budget=9.0)),
    "`budget` or `budget_gaussian`": lambda ledger, path: Ledger(path / "m", raise_budget=True),
    "`data_set='d'`": lambda ledger, path: again(ledger, data_set="other"),
    "`data_set` and `ledger`": lambda ledger, path: again(ledger, entropy=SeededEntropy(1)),
    "leave out `budget`": lambda ledger, path: again(Ledger(path / "m", budget=1.0), entropy=SeededEntropy(1)),
    "`label_names`": lambda ledger, path: PrivateLabels(np.array(["no", "yes"]), 2),
    "`epsilon` is missing": lambda ledger, path: released(ledger, path),
    "`mechanism='none', insecure_no_privacy=True`": lambda ledger, path: released(ledger, path, mechanism="none"),
    "`shuffle` needs `id_column`": lambda ledger, path: released(ledger, path, epsilon=1.0, shuffle=True),
    "`count` is from 1": lambda ledger, path: Canaries.draw(0, rows=9, num_classes=3, entropy=SeededEntropy(1)),
    "`holdout` is a share": lambda ledger, path: job(ledger, holdout=2.0),
    "`select` is last or best": lambda ledger, path: job(ledger, select="first"),
    "`prior='average'` needs": lambda ledger, path: replace(RECIPE, prior="average"),
    "epsilon must be": lambda ledger, path: Laplace.calibrated(epsilon=-1.0, num_classes=3),
    "there is no release file": lambda ledger, path: Release.load(path / "none.parquet"),
    "no release target": lambda ledger, path: LabelDPClassifier().fit(np.zeros((60, 2)), LABELS),
}


@pytest.mark.filterwarnings("ignore::labeldp.errors.RepeatedReleaseWarning")
@pytest.mark.parametrize("said", MISTAKES)
def test_errors_name_arguments(ledger, tmp_path, said):
    with pytest.raises(Exception) as caught:
        MISTAKES[said](ledger, tmp_path)
    assert re.search(said, str(caught.value)), caught.value
    assert "--" not in str(caught.value)
    assert isinstance(caught.value, (labeldp.LabelDPError, ValueError, TypeError))
