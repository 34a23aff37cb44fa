import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp import PrivateLabels
from labeldp.errors import InputError

SECRET = 4242


def test_nothing_reads_them():
    labels = PrivateLabels([1, 2, 1], 5)
    assert "1" not in repr(labels).replace("3 rows", "").replace("5 classes", "")
    for attempt in (
        lambda: labels[0], lambda: list(labels), lambda: np.asarray(labels), lambda: np.array([labels, labels]),
        lambda: 1 in labels, lambda: pickle.dumps(labels), lambda: copy.copy(labels), lambda: copy.deepcopy(labels),
        lambda: labels == 1, lambda: labels != 1, lambda: {labels},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            attempt()
    assert not hasattr(labels, "__dict__")


def test_reveal_is_read_only_and_right():
    codes = PrivateLabels([1, 0, 4], 5).reveal()
    assert codes.tolist() == [1, 0, 4]
    with pytest.raises(ValueError, match="read-only"):
        codes[0] = 2
    assert PrivateLabels([1, 0, 4], 5).slice(1, 3).reveal().tolist() == [0, 4]


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 2], [0.0, 1.0, 2.0], np.array([0, 1, 2], np.uint64), np.array([0, 1, 2], object), (False, True, 2)],
)
def test_what_is_accepted(labels):
    assert PrivateLabels(labels, 3).reveal().tolist() == [0, 1, 2]


def test_small_types():
    assert PrivateLabels([255], 256).reveal().dtype == np.uint8
    assert PrivateLabels([256], 257).reveal().dtype == np.uint16


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, SECRET], "row 2 holds a label outside the 5 declared classes"),
        ([0, -SECRET], "row 1 holds a label outside"),
        ([0.0, np.nan], "row 1 has no label"),
        ([0.0, 1.5], "row 1 holds a label that is not a whole number"),
        ([0.0, np.inf], "row 1 holds a label outside"),
        ([0, None], "row 1 has no label"),
        (np.array([0, "SECRET"], object), "row 1 holds text"),
        (["no", "SECRET"], "declare the names"),
        ([], "no rows"),
        ([[0, 1]], "one-dimensional"),
        (3, "one-dimensional"),
        ([[0], [0, SECRET]], "one-dimensional"),
        (np.array(["2020-01-01"], "datetime64[D]"), "class numbers"),
    ],
)
def test_what_is_refused_names_the_row_and_not_the_label(labels, message):
    with pytest.raises(InputError, match=message) as caught:
        PrivateLabels(labels, 5)
    assert str(SECRET) not in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_rows_count_from_where_the_batch_starts():
    with pytest.raises(InputError, match="row 1007 "):
        PrivateLabels([0] * 7 + [9], 5, first_row=1000)


def test_wrap_checks_the_classes():
    wrapped = PrivateLabels([0, 1], 3)
    assert PrivateLabels.wrap(wrapped, 3) is wrapped
    with pytest.raises(InputError, match="3 classes"):
        PrivateLabels.wrap(wrapped, 4)


def test_pandas_missing_values():
    class NAType:  # like pandas.NA: neither equal nor unequal to anything, and without a truth value
        def __ne__(self, other):
            return self

        def __bool__(self):
            raise TypeError("ambiguous")

        __hash__ = None

    with pytest.raises(InputError, match="row 1 has no label"):
        PrivateLabels(np.array([0, NAType()], object), 3)


def test_only_mechanisms_and_canaries_look_inside():
    """Whoever calls `reveal` in another place must say so here."""
    source = Path(labeldp.__file__).parent
    callers = {str(p.relative_to(source)) for p in source.rglob("*.py") if ".reveal(" in p.read_text()}
    # plant.py asks how the list of all classes would be read, which is public.
    mechanisms = {"mechanisms/base.py", "mechanisms/prior.py", "mechanisms/selected.py"}
    statistics = {
        f"statistics/{name}.py" for name in ("score_file", "choice_file", "confusion_file", "moment_noise", "clusters")
    }
    assert callers == mechanisms | statistics | {"audit/canaries.py", "audit/plant.py"}


def test_only_pates_teachers_are_entrusted_with_labels():
    """The one way into another process; and `gather`, which stays wrapped."""
    source = Path(labeldp.__file__).parent
    callers = {str(p.relative_to(source)) for p in source.rglob("*.py") if ".entrust(" in p.read_text()}
    # A comparison on public tables has PATE's linear teachers too.
    assert callers == {"pate/teachers.py", "pate/run.py", "experiments/statistic.py"}
    labels = PrivateLabels([0, 2, 1, 1], 3)
    assert labels.entrust(np.array([1, 3])).tolist() == [2, 1]
    assert "hidden" in repr(PrivateLabels.gather([labels, labels]))
    assert len(PrivateLabels.gather([labels, labels])) == 8
