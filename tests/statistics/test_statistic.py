"""Rows of a public file, orders for a statistic, and what every file of one tells."""

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Ledger
from labeldp.errors import FileFormatError, InputError
from labeldp.files.ids import AS_WRITTEN, CANONICAL
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.sealed import write_sealed
from labeldp.release.source import ArraySource
from labeldp.statistics import Score, score
from labeldp.statistics.scoring import both_classes, score_order
from labeldp.statistics.statistic import PublicRows


def of(labels, ids=None):
    return ArraySource(PrivateLabels(labels, 2), Classes(2), ids)


class TestPublicRows:
    @pytest.mark.parametrize(
        ("ids", "words"),
        [
            ([1, 2], "3 rows and 2 ids"), ([1.5, 2.5, 3.5], "whole numbers or text"), (["a", None, "b"], "row 1 .* has no id"),
            ([[1], [2], [3]], "whole numbers or text"), (["a", "b", "a"], "row 2 .* same id as row 0"),
            (["007", "8", "7"], "row 2 .* row 0"),
        ],
    )  # fmt: skip
    def test_ids_that_name_no_rows(self, ids, words):
        with pytest.raises(InputError, match=words):
            PublicRows.of(3, pa.array(ids)).selection(CANONICAL)

    def test_ids_as_they_are_written(self):
        rows = PublicRows.of(3, ["007", "8", "7"])
        selection = rows.selection(AS_WRITTEN).in_form(AS_WRITTEN)
        find = rows.places(AS_WRITTEN)
        ids = pa.array(["7", "x", "007", "8"])
        chosen = selection.among(ids, 0, 4)
        assert chosen.tolist() == [0, 2, 3]
        assert find(ids, 0, chosen).tolist() == [2, 0, 1]

    def test_places_in_another_order_and_another_form(self):
        rows = PublicRows.of(3, np.array([7, 8, 9]))
        ids = pa.array(["009", "x", "7.0", " 8"])
        chosen = rows.selection(CANONICAL).in_form(CANONICAL).among(ids, 0, 4)
        assert rows.places(CANONICAL)(ids, 0, chosen).tolist() == [2, 0, 1]

    def test_one_order_whatever_the_files(self):
        ids = np.array(["b", "c", "a"])
        order, rows = PublicRows.of(3, ids).in_one_order(CANONICAL)
        assert ids[order].tolist() == rows.ids.to_pylist() == ["a", "b", "c"]
        assert PublicRows.of(3, None).in_one_order(CANONICAL)[0].tolist() == [0, 1, 2]

    def test_rows_by_number_are_all_there(self, tmp_path):
        models = {"m": both_classes(np.linspace(0, 1, 10), 2)}
        for count in (9, 11):
            with pytest.raises(InputError, match=f"there are {count} labels for 10 public rows"):
                make(score_order(of(np.zeros(count, int)), "d", models, PublicRows.of(10, None), epsilon=1.0), tmp_path)


def make(order, folder):
    from labeldp import SecureEntropy
    from labeldp.release.make import make_release

    return make_release(order, ledger=Ledger(folder / "l"), entropy=SecureEntropy())


def test_rows_without_ids_fit_labels_that_have_some(tmp_path):
    """An array in the order of the labels: who has paid is known by id all the same."""
    models = {"m": both_classes(np.linspace(0, 1, 10), 2)}
    made = make(
        score_order(
            of(np.zeros(10, int), [f"u{i}" for i in range(10)]), "d", models, PublicRows.of(10, None), epsilon=1.0
        ),
        tmp_path,
    )
    assert made.data_set.fingerprint.by == "ids"
    assert len(made.record.rows) == 10


def test_rows_with_ids_need_labels_that_have_some(tmp_path):
    models = {"m": both_classes(np.linspace(0, 1, 10), 2)}
    with pytest.raises(InputError, match="`id_column`"):
        score_order(of(np.zeros(10, int)), "d", models, PublicRows.of(10, np.arange(10)), epsilon=1.0)


def test_what_its_reader_would_refuse_is_not_charged(tmp_path, monkeypatch):
    models = {"m": both_classes(np.linspace(0, 1, 10), 2)}
    order = score_order(of(np.zeros(10, int)), "d", models, PublicRows.of(10, None), epsilon=1.0)

    def refuse(cls, sealed):
        raise InputError("nobody reads this")

    monkeypatch.setattr(type(order.statistic), "read", classmethod(refuse))
    with pytest.raises(InputError, match="nobody reads this"):
        make(order, tmp_path)
    assert not Ledger(tmp_path / "l").book().releases


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("score")
    y = np.arange(300) % 2
    return score(
        np.linspace(0, 1, 300), y, num_classes=2, epsilon=1.0, ids=np.arange(300), data_set="d", ledger=folder / "l"
    )


def forged(made, path, **changes):
    with path.open("wb") as file:
        write_sealed(file, {**made.header, **changes}, made._arrays)
    return path


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], []])
def test_names_of_other_classes(made, tmp_path, names):
    with pytest.raises(FileFormatError, match="classes"):
        Score.load(forged(made, tmp_path / "s", label_names=names))


@pytest.mark.parametrize("which", ["publishable", "publishable_if_same"])
def test_a_promise_below_what_was_paid(made, tmp_path, which):
    budget = {**made.header["budget"], which: {"epsilon": 0.5, "delta": 0.0}}
    with pytest.raises(FileFormatError, match=r"promises less .* than it alone has cost"):
        Score.load(forged(made, tmp_path / "s", budget=budget))


def test_a_sentence_keeps_the_path_as_it_is(made, tmp_path):
    (tmp_path / "a").mkdir()
    path = forged(made, tmp_path / "s", label_names=["a"])
    with pytest.raises(FileFormatError) as caught:
        Score.load(tmp_path / "a" / ".." / "s")
    assert str(caught.value).endswith("it names 1 classes and is of 2.")
    assert f"{tmp_path}/a/../s" in str(caught.value)
    assert path.exists()


def test_what_no_file_can_show_is_said(made):
    assert "no file can show" in made.to_json()["given"]
    assert made.to_json()["trust"] == "central"
