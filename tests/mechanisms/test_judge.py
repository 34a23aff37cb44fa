"""Which mechanisms judge, by which rows; and what the law of a statistic says of itself."""

import numpy as np
import pytest

from labeldp import RandomizedResponse, SeededEntropy, SubsetSelection, mechanisms
from labeldp.errors import NoJudgeError
from labeldp.mechanisms import BY_NAME, Judge, NoPrivacy, PriorAware, StatisticLaw, judge_of, judging_rows
from labeldp.mechanisms.candidates import most_informative
from labeldp.mechanisms.joint import Joint
from labeldp.mechanisms.judge import Plain, judging_part
from labeldp.mechanisms.plan import NAMES
from labeldp.private import PrivateLabels

PLAIN = SubsetSelection.calibrated(epsilon=1.0, num_classes=10)
OTHER = RandomizedResponse.calibrated(epsilon=1.0, num_classes=10)
LABELS = PrivateLabels(np.arange(50) % 10, 10)


def test_plain_mechanisms_judge_and_no_others():
    assert {name for name, kind in BY_NAME.items() if issubclass(kind, Judge)} == {*NAMES, "none"}
    assert all(issubclass(BY_NAME[name], Plain) for name in NAMES)


def test_a_judge_judges_by_all_of_its_rows():
    seen = PLAIN.observe_uncharged(LABELS, SeededEntropy(0))
    assert judging_rows(PLAIN, seen).all()
    judge, observations = judge_of(PLAIN, seen)
    assert judge is PLAIN
    assert observations is seen


@pytest.fixture
def joined():
    """A prior-aware part, which judges nothing, and two that would: 50 rows each."""
    channels = most_informative(np.full((50, 10), 0.1), 1.0)
    aware = PriorAware.calibrated(epsilon=1.0, num_classes=10, channels=channels)
    joint = Joint(10, (aware, PLAIN, OTHER))
    seen = [
        aware.observe_given(LABELS, channels, SeededEntropy(0)),
        *(part.observe_uncharged(LABELS, SeededEntropy(0)) for part in (PLAIN, OTHER)),
    ]
    return joint, seen, np.concatenate([joint.packed(i, part) for i, part in enumerate(seen)])


def test_only_rows_of_the_first_part_that_can_judge_do(joined):
    joint, seen, together = joined
    assert judging_part(joint) == 1
    mask = judging_rows(joint, together)
    assert mask.tolist() == [False] * 50 + [True] * 50 + [False] * 50
    judge, observations = judge_of(joint, together[mask])
    assert judge == PLAIN
    np.testing.assert_array_equal(observations, seen[1])


def test_rows_of_several_parts_do_not_judge_together(joined):
    joint, _, together = joined
    for rows in (together[:50], together[40:60], together[90:110]):
        with pytest.raises(NoJudgeError, match="cannot judge together"):
            judge_of(joint, rows)


def test_where_no_part_can_no_row_does(joined):
    joint, _, together = joined
    alone = Joint(10, joint.parts[:1])
    assert judging_part(alone) is None
    assert not judging_rows(alone, together[:50]).any()


def test_means_and_variances_are_sums_over_the_values():
    law = StatisticLaw((0.1, 0.2, 0.7), (0.5, 0.25, 0.25))
    assert law.levels == 2
    assert (law.mean_true, law.mean_other) == pytest.approx((0.8, 0.375))
    assert law.gap == pytest.approx(0.425)
    assert law.variance_true == pytest.approx(0.1 * 0.64 + 0.2 * 0.09 + 0.7 * 0.04)
    assert law.variance_other == pytest.approx(0.25 * 0.25 + 0.25 - 0.375**2)


def test_a_coins_law():
    law = StatisticLaw.coin(0.9, 0.2)
    assert (law.mean_true, law.mean_other) == pytest.approx((0.9, 0.2))
    assert (law.variance_true, law.variance_other) == pytest.approx((0.09, 0.16))
    assert NoPrivacy(3).law() == StatisticLaw.coin(1.0, 0.0)


# ── what things were called ──


def test_old_names_of_a_judge_work_and_name_the_new_ones():
    seen, classes = PLAIN.observe_uncharged(LABELS, SeededEntropy(0)), np.arange(50) % 10
    with pytest.warns(DeprecationWarning, match="`Judge.score` is `statistic` now"):
        np.testing.assert_array_equal(PLAIN.score(seen, classes), PLAIN.statistic(seen, classes))
    with pytest.warns(DeprecationWarning, match="`Judge.score_law` is `law` now"):
        assert PLAIN.score_law() == PLAIN.law()
    with pytest.warns(DeprecationWarning, match="`Judge.moments` is `law` now"):
        assert PLAIN.moments().variance_other == PLAIN.law().variance_other
    with pytest.warns(DeprecationWarning, match="`StatisticLaw.moments` is `StatisticLaw` now"):
        assert PLAIN.law().moments() == PLAIN.law()


def test_old_names_of_functions_that_were_methods(joined):
    joint, _, together = joined
    with pytest.warns(DeprecationWarning, match="judge.judging_rows` now"):
        mask = joint.judges(together)
    np.testing.assert_array_equal(mask, judging_rows(joint, together))
    with pytest.warns(DeprecationWarning, match="judge.judge_of` now"):
        assert joint.judging(together[mask])[0] == PLAIN


@pytest.mark.parametrize("name", ["ScoreLaw", "Moments"])
def test_old_names_of_the_law(name):
    with pytest.warns(DeprecationWarning, match=f"`labeldp.mechanisms.{name}` is `StatisticLaw` now"):
        assert getattr(mechanisms, name) is StatisticLaw
