"""Labels in memory."""

import numpy as np
import pytest

from labeldp import PrivateLabels
from labeldp.errors import InputError, RepeatedReleaseWarning
from labeldp.statistics import histogram, moments, score

X, Y = np.random.default_rng(0).random((80, 1)), np.arange(80) % 2


@pytest.mark.parametrize("call", [score, moments, histogram])
class TestBoth:
    def test_labels_may_be_wrapped_or_named(self, call, tmp_path):
        common = {"num_classes": 2, "epsilon": 1.0, "data_set": "d", "ids": np.arange(80)}
        assert call(X, PrivateLabels(Y, 2), ledger=tmp_path / "a", **common).class_names == ("0", "1")
        named = call(X, np.where(Y, "yes", "no"), ledger=tmp_path / "b", label_names=["no", "yes"], **common)
        assert named.class_names == ("no", "yes")

    def test_as_many_labels_as_rows(self, call, tmp_path):
        with pytest.raises(InputError, match="79 labels for 80 public rows"):
            call(X, Y[:-1], num_classes=2, epsilon=1.0, data_set="d", ids=np.arange(79), ledger=tmp_path / "l")

    def test_without_ids_the_name_is_all_there_is(self, call, tmp_path):
        with pytest.warns(UserWarning, match="by the name 'd' alone") as told:
            call(X, Y, num_classes=2, epsilon=1.0, data_set="d", ledger=tmp_path / "l")
        assert told[0].filename == __file__

    def test_a_repetition_is_said_to_whoever_asked(self, call, tmp_path):
        common = {"num_classes": 2, "epsilon": 1.0, "data_set": "d", "ids": np.arange(80), "ledger": tmp_path / "l"}
        first = call(X, Y, **common)
        with pytest.warns(RepeatedReleaseWarning, match="given then") as told:
            again = call(X, 1 - Y, **common)
        assert told[0].filename == __file__
        assert again.checksum == first.checksum

    def test_wrong_kinds(self, call, tmp_path):
        common = {"num_classes": 2, "epsilon": 1.0, "data_set": "d", "ids": np.arange(80)}
        with pytest.raises(InputError, match="ledger must be"):
            call(X, Y, ledger=3, **common)
        with pytest.raises(InputError, match="entropy must be"):
            call(X, Y, ledger=tmp_path / "l", entropy="seed", **common)
        with pytest.raises(InputError):
            call(X, Y, ledger=tmp_path / "l", **{**common, "data_set": "\ud800"})
