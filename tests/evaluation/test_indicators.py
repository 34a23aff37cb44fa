import numpy as np
import pytest

from labeldp import NoPrivacy, PrivateLabels, RandomizedResponse, SecureEntropy
from labeldp.errors import InputError, NoJudgeError
from labeldp.evaluation.indicators import Indicators, check_class, check_probabilities, told_twice, with_canaries
from labeldp.mechanisms import StatisticLaw
from labeldp.mechanisms.plan import NAMES, calibrate


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 3])
def test_unbiased_with_the_variance_that_is_stated(name, classes):
    """Means and variances of 40,000 rows, each within 6 standard errors: false alarm below 1e-7."""
    mechanism = calibrate(name, epsilon=2.0, num_classes=classes)
    labels, rows = np.arange(40_000) % classes, 40_000
    found = Indicators.of(mechanism, mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy()))
    for number in range(classes):
        error = found.of_class(number) - (labels == number)
        second, third = found.noise(1 / classes)
        assert abs(error.mean()) < 6 * np.sqrt(second / rows)
        assert abs((error**2).mean() - second) < 6 * (error**2).std() / np.sqrt(rows)
        assert abs((error**3).mean() - third) < 6 * (error**3).std() / np.sqrt(rows)


@pytest.mark.parametrize("name", ["unary", "laplace", "gaussian"])
def test_two_classes_that_are_noised_apart_say_it_twice(name):
    mechanism = calibrate(name, epsilon=1.0, num_classes=2)
    law = told_twice(mechanism.law())
    one = mechanism.law()
    assert sum(law.true) == pytest.approx(1)
    assert law.gap == pytest.approx(one.gap)
    assert law.variance_true / law.gap**2 == pytest.approx((one.variance_true + one.variance_other) / 4 / one.gap**2)
    observations = mechanism.observe_uncharged(PrivateLabels(np.arange(500) % 2, 2), SecureEntropy())
    found = Indicators.of(mechanism, observations)
    assert found.of_class(0) == pytest.approx(1 - found.of_class(1))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_canaries_are_one_more_channel(share):
    """w becomes (w − s/C)/(1 − s)."""
    law, classes = StatisticLaw.coin(0.8, 0.3), 4
    planted = with_canaries(law, share, classes)
    for g in (0.0, 1.0):
        w = (g - law.mean_other) / law.gap
        assert (g - planted.mean_other) / planted.gap == pytest.approx((w - share / classes) / (1 - share))


def test_refused():
    with pytest.raises(InputError, match="say nothing"):
        Indicators.of(RandomizedResponse(2, 2**63), np.zeros(4, dtype=np.uint8))
    with pytest.raises(InputError, match="share of canaries"):
        Indicators.of(NoPrivacy(2), np.zeros(4, dtype=np.uint8), 1.0)
    from labeldp.mechanisms import Mechanism

    class Other(Mechanism):
        name, num_classes, observation_bytes = "other", 2, 1
        certificate = evidence = describe = parameters = None

    with pytest.raises(NoJudgeError):
        Indicators.of(Other(), np.zeros(4, dtype=np.uint8))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.full((4, 3), 1 / 3), "2 columns"),
        (np.zeros((4, 2), dtype=int), "decimal numbers"),
        (np.full(4, 0.5), "one a class"),
        (np.full((5, 2), 0.5), "5 rows of probabilities for 4"),
        (np.array([[0.5, 0.5]] * 3 + [[0.5, np.nan]]), "row 3 is not probabilities"),
        (np.array([[0.5, 0.5]] * 2 + [[2.0, 3.0]] * 2), "row 2 is not .* softmax"),
        (np.array([[1.5, -0.5]] * 4), "row 0"),
    ],
)
def test_probabilities_are_checked(wrong, message):
    with pytest.raises(InputError, match=message):
        check_probabilities(NoPrivacy(2), np.zeros(4, dtype=np.uint8), wrong)


def test_two_rows_at_least():
    with pytest.raises(InputError, match="two held-out"):
        check_probabilities(NoPrivacy(2), np.zeros(1, dtype=np.uint8), np.full((1, 2), 0.5))


def test_the_positive_class():
    assert (check_class(None, 2), check_class(None, 3), check_class(np.int64(2), 3)) == (1, None, 2)
    for wrong in (3, -1, True, "a"):
        with pytest.raises(InputError, match="0 to 2"):
            check_class(wrong, 3)
