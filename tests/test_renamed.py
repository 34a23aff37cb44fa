"""Old names: they work, warn whoever uses them, and hide nothing that is missing."""

import warnings

import pytest

from labeldp import errors
from labeldp.renamed import NowFunction, NowItself, Renamed


class Word:
    new = 3
    old = Renamed("new")
    made = NowFunction("builtins.isinstance")
    said = NowItself("Word")


def test_members():
    word = Word()
    with pytest.warns(DeprecationWarning, match="`Word.old` is `new` now; the old name will go."):
        assert word.old == 3
    with pytest.warns(DeprecationWarning, match="`builtins.isinstance` now"):
        assert word.made(Word)
    with pytest.warns(DeprecationWarning, match="`Word.said` is `Word` now"):
        assert word.said() is word


def test_the_warning_points_at_whoever_wrote_the_old_name():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        _ = Word().old
        _ = errors.NoMomentsError
    assert [one.filename for one in seen] == [__file__, __file__]


def test_looking_at_the_class_warns_of_nothing():
    assert isinstance(Word.old, Renamed)


def test_names_of_a_module():
    with pytest.warns(DeprecationWarning, match="`labeldp.errors.NoMomentsError` is `NoJudgeError` now"):
        assert errors.NoMomentsError is errors.NoJudgeError
    with pytest.raises(AttributeError, match=r"module 'labeldp\.errors' has no attribute 'NoSuchError'"):
        _ = errors.NoSuchError
