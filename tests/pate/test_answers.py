"""Shards and questions are drawn without a label; one teacher has one vote."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.pate.answers import Ballots, draw_queries, draw_shards


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 99))
def test_shards_are_disjoint_and_equal(rows, teachers, seed):
    if teachers > rows:
        with pytest.raises(InputError, match="a row each"):
            draw_shards(np.arange(rows), teachers, seed)
        return
    shards = draw_shards(np.arange(rows), teachers, seed)
    assert shards.shape == (teachers, rows // teachers)
    assert len(np.unique(shards)) == shards.size
    assert (draw_shards(np.arange(rows), teachers, seed) == shards).all()


def test_questions_are_about_different_rows_of_all():
    asked = draw_queries(np.arange(1000), 400, 3)
    assert len(set(asked.tolist())) == 400
    assert asked.max() > 900
    assert (np.diff(asked) < 0).any()  # in no order
    with pytest.raises(InputError, match="`max_asked`"):
        draw_queries(np.arange(10), 11, 0)


def test_votes_are_counted(tmp_path):
    said = np.array([[0, 2], [0, 1], [1, 2]])
    ballots = Ballots.count(np.array([7, 3]), said, 4)
    assert ballots.votes.tolist() == [[2, 1, 0, 0], [0, 1, 2, 0]]
    ballots.save(tmp_path / "votes.npz")
    assert (tmp_path / "votes.npz").stat().st_mode & 0o077 == 0
    again = Ballots.load(tmp_path / "votes.npz")
    assert (again.votes == ballots.votes).all()
    assert (again.rows == [7, 3]).all()
    assert "hidden" in repr(ballots)
    assert "[" not in repr(ballots)


def test_files_that_hold_no_votes(tmp_path):
    with pytest.raises(InputError, match="have not voted"):
        Ballots.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("votes")
    with pytest.raises(InputError, match="no votes"):
        Ballots.load(tmp_path / "text.npz")
