"""Choices as files, perhaps another party's."""

import numpy as np
import pytest

from labeldp import Ledger, SecureEntropy
from labeldp.errors import FileFormatError, InputError
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.sealed import shapes, write_sealed
from labeldp.release.source import ArraySource
from labeldp.statistics import ModelChosen
from labeldp.statistics.scoring import both_classes, choice_order
from labeldp.statistics.statistic import PublicRows

ROWS = 200


def order(by="brier", epsilon=30.0, models=None):
    y = np.arange(ROWS) % 2
    given = models or {"good": 0.1 + 0.8 * y, "flat": np.full(ROWS, 0.5), "bad": 0.9 - 0.8 * y}
    tables = {name: both_classes(p, 2) for name, p in given.items()}
    source = ArraySource(PrivateLabels(y, 2), Classes(2), np.arange(ROWS))
    return choice_order(source, "d", tables, PublicRows.of(ROWS, np.arange(ROWS)), by=by, epsilon=epsilon)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choices")
    return ModelChosen.load(make_release(order(), ledger=Ledger(folder / "l"), entropy=SecureEntropy()).path)


def forged(made, path, chosen=None, **said):
    arrays = made._arrays if chosen is None else {"chosen": np.asarray(chosen)}
    header = {**made.header, "statistic": {**made.header["statistic"], **said}, "arrays": shapes(arrays)}
    with path.open("wb") as file:
        write_sealed(file, header, arrays)
    return path


@pytest.mark.parametrize("by", ["accuracy", "brier", "log_loss"])
def test_the_best_is_chosen_where_noise_is_small(tmp_path, by):
    made = ModelChosen.load(make_release(order(by), ledger=Ledger(tmp_path / "l"), entropy=SecureEntropy()).path)
    assert made.model == made.to_json()["chosen"] == "good"


def test_only_the_name_leaves(made):
    assert list(made._arrays) == ["chosen"]
    assert made._arrays["chosen"].shape == (1,)
    assert made.header["rows"] == ROWS


@pytest.mark.parametrize("chosen", [[3], [-1], [2**62], [0, 1], [[0]], [0.0], []])
def test_what_was_chosen_is_one_of_them(made, tmp_path, chosen):
    with pytest.raises(FileFormatError):
        ModelChosen.load(forged(made, tmp_path / "s", np.asarray(chosen) if chosen else np.zeros(0, int)))


@pytest.mark.parametrize(
    "said",
    [
        {"models": ["a"]}, {"models": ["a", "b"] * 2000}, {"models": ["a", "\x1b", "c"]}, {"models": None}, {"rate": "0"},
        {"rate": "1" * 40}, {"rate": 1.5}, {"spread": -1}, {"spread": True}, {"spread": "x"}, {"score": "roc_auc"}, {"score": None},
        {"num_classes": 1}, {"num_classes": "2"}, {"num_classes": 10**9},
    ],
)  # fmt: skip
def test_what_cannot_be(made, tmp_path, said):
    with pytest.raises(FileFormatError):
        ModelChosen.load(forged(made, tmp_path / "s", **said))


def test_never_by_a_ranking():
    for by in ("roc_auc", "average_precision", "precision", "recall"):
        with pytest.raises(InputError, match="private number of positives"):
            order(by)


def test_one_model_is_no_choice():
    with pytest.raises(InputError, match="between 2 and"):
        order(models={"only": np.full(ROWS, 0.5)})
