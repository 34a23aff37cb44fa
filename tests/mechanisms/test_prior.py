"""Prior-aware response against its channel, written out with exact fractions."""

import itertools
import json
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import PrivateLabels, SecureEntropy, SeededEntropy, SubsetSelection
from labeldp.errors import InputError, NoJudgeError
from labeldp.mechanisms import PriorAware, judge_of, mechanism_from_json
from labeldp.mechanisms.candidates import Channels, information, most_informative
from labeldp.mechanisms.plan import NAMES
from labeldp.mechanisms.prior import Shape

from .channels import WHOLE

mpmath.mp.dps = 60
FALSE_ALARM = 1e-7  # of each goodness-of-fit test; and their entropy is seeded


def channels_of(num_classes, *rows):
    """From pairs of a set of candidates and a size."""
    members = np.zeros((len(rows), num_classes + 1), dtype=bool)
    for i, (candidates, _) in enumerate(rows):
        members[i, list(candidates)] = True
    return Channels.of(members, np.array([size for _, size in rows]))


def written_out(num_classes, candidates, size, holds):
    """p(subset | label) for every subset and label."""
    m, everywhere = len(candidates), Fraction(1, comb(len(candidates), size))
    table = {}
    for subset in itertools.combinations(sorted(candidates), size):
        table[subset] = []
        for label in range(num_classes):
            symbol = label if label in candidates else num_classes
            if symbol not in candidates or m == 1:
                table[subset].append(everywhere)
            elif symbol in subset:
                table[subset].append(Fraction(holds, WHOLE) / comb(m - 1, size - 1))
            else:
                table[subset].append(Fraction(WHOLE - holds, WHOLE) / comb(m - 1, size))
    return table


def packed(num_classes, candidates, subset):
    bits = np.zeros((2, num_classes + 1), dtype=np.uint8)
    bits[0, list(candidates)] = 1
    bits[1, list(subset)] = 1
    return np.packbits(bits, axis=1, bitorder="little").reshape(1, -1)


def every_channel(num_classes):
    """All sets of candidates, with every size."""
    for m in range(1, num_classes + 1):
        for candidates in itertools.combinations(range(num_classes + 1), m):
            for size in range(1, max(2, m)):
                yield set(candidates), size


def log(ratio):
    return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


@pytest.mark.parametrize("num_classes", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_every_channel_enumerated(num_classes, epsilon):
    """Adds up to 1; the worst ratio is the row's certificate up to its rounding; evidence is the log-likelihood up to a constant."""
    rows = list(every_channel(num_classes))
    mechanism = PriorAware.calibrated(
        epsilon=epsilon, num_classes=num_classes, channels=channels_of(num_classes, *rows)
    )
    holds = {(s.candidates, s.size): s.holds for s in mechanism.shapes}
    seen = set()
    for candidates, size in rows:
        table = written_out(num_classes, candidates, size, holds[len(candidates), size])
        for label in range(num_classes):
            assert sum(p[label] for p in table.values()) == 1
        worst = max(log(max(p) / min(p)) for p in table.values())
        symbols = {label if label in candidates else num_classes for label in range(num_classes)}
        for subset, p in table.items():
            observation = packed(num_classes, candidates, subset)
            assert mechanism.valid(observation)
            certificate = mechanism.row_certificates(observation)[0]
            seen.add(certificate)
            assert worst <= certificate <= epsilon
            if len(symbols & candidates) > 1:  # some label is in and some is out
                assert certificate <= worst * (1 + mpmath.mpf(2) ** -45)
            evidence = mechanism.evidence(observation)[0]
            exact = np.array([float(log(q / min(p))) for q in p])
            np.testing.assert_allclose(evidence - evidence.min(), exact, atol=1e-6)
            assert mechanism.informative(observation)[0] == (len(candidates) > 1)
    assert mechanism.certificate().pure == max(seen)
    assert mechanism.guarantee().epsilon >= epsilon * 0.999


@given(st.floats(1e-5, 32), st.integers(2, 2000), st.data())
def test_the_certificate_of_any_shape(epsilon, candidates, data):
    size = data.draw(st.integers(1, candidates - 1))
    shape = Shape.calibrated(epsilon, candidates, size)
    m, k, p = candidates, size, shape.holds
    in_out = Fraction(p * (m - k), (WHOLE - p) * k)
    in_none, none_out = Fraction(p * m, WHOLE * k), Fraction(WHOLE * (m - k), (WHOLE - p) * m)
    assert in_none >= 1
    assert none_out >= 1
    assert in_none * none_out == in_out
    assert log(in_out) <= shape.certificate() <= epsilon
    assert shape.certificate() >= epsilon * 0.99
    assert shape.none() == pytest.approx(float(log(none_out)), rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_all_classes_as_candidates_is_subset_selection(size):
    plain = SubsetSelection.calibrated(epsilon=1.3, num_classes=10, size=size)
    channels = channels_of(10, *[(range(10), size)] * 500)
    mechanism = PriorAware.calibrated(epsilon=1.3, num_classes=10, channels=channels)
    assert mechanism.certificate() == plain.certificate()
    labels = PrivateLabels(np.arange(500) % 10, 10)
    observations = mechanism.observe_given(labels, channels, SeededEntropy(1))
    same = plain.observe_uncharged(labels, SeededEntropy(1))
    assert (observations[:, 2:] == same).all()
    assert (mechanism.evidence(observations) == plain.evidence(same)).all()


CASES = [  # of 6 classes, 6 is "any other": candidates, size, label
    ({1, 3, 4, 6}, 2, 3), ({1, 3, 4, 6}, 2, 0), ({1, 3, 4, 6}, 2, 5),
    ({0, 2, 5}, 1, 5), ({0, 2, 5}, 1, 4), ({0, 1, 2, 3, 5}, 3, 4), ({0, 1, 2, 3, 5}, 3, 0),
    ({0, 1, 2, 3, 4, 5}, 4, 2), ({2, 6}, 1, 2), ({2, 6}, 1, 1), ({4, 5}, 1, 0), ({3}, 1, 3), ({3}, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_whole_observations_fit_the_channel(epsilon):
    """Rows of all kinds mixed: labels that are candidates, that are "any other", that are none. Chi-squared, for each kind."""
    kinds = np.random.default_rng(0).integers(0, len(CASES), 20_000 * len(CASES))
    channels = channels_of(6, *[(c, k) for c, k, _ in CASES])[kinds]
    mechanism = PriorAware.calibrated(epsilon=epsilon, num_classes=6, channels=channels)
    labels = PrivateLabels(np.array([label for _, _, label in CASES])[kinds], 6)
    observations = mechanism.observe_given(labels, channels, SeededEntropy(3))
    assert mechanism.valid(observations)
    assert (observations[:, 0] == channels.candidates[:, 0]).all()
    holds = {(s.candidates, s.size): s.holds for s in mechanism.shapes}
    for kind, (candidates, size, label) in enumerate(CASES):
        table = written_out(6, candidates, size, holds[len(candidates), size])
        index = {int(packed(6, candidates, subset)[0, 1]): i for i, subset in enumerate(table)}
        seen = np.zeros(len(index))
        for byte, count in zip(*np.unique(observations[kinds == kind, 1], return_counts=True), strict=True):
            seen[index[int(byte)]] = count  # a KeyError here is an observation that cannot be
        expected = np.array([float(p[label]) for p in table.values()]) * seen.sum()
        if len(seen) > 1:
            assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM


def test_it_draws_chunk_by_chunk_and_for_many_classes():
    """300 classes, more rows than one chunk has: each channel's subset holds its label as often as it should, within 5 standard errors."""
    rows = 2 * (1 << 21) // 301
    y = np.arange(rows) % 300
    members = np.zeros((rows, 301), dtype=bool)
    for step in (0, 7, 100):
        members[np.arange(rows), (y + step) % 300] = True
    members[::2, 300] = True
    channels = Channels.of(members, np.where(np.arange(rows) % 2, 1, 2))
    mechanism = PriorAware.calibrated(epsilon=1.0, num_classes=300, channels=channels)
    observations = mechanism.observe_given(PrivateLabels(y, 300), channels, SeededEntropy(4))
    assert mechanism.valid(observations)
    subset = np.unpackbits(observations[:, 38:], axis=1, count=301, bitorder="little")
    held = subset[np.arange(rows), y]
    for shape in mechanism.shapes:
        p = shape.holds / WHOLE
        of_shape = held[channels.sizes == shape.size]
        assert abs(of_shape.mean() - p) < 5 * (p * (1 - p) / len(of_shape)) ** 0.5


def test_observations_carry_the_stated_information():
    """Mean of log posterior(truth) − log prior(truth), against the search's own number. False alarm: 6e-5."""
    rng = np.random.default_rng(2)
    priors = rng.dirichlet([0.3] * 10, 30_000)
    y = (priors.cumsum(axis=1) > rng.random((30_000, 1))).argmax(axis=1)
    channels = most_informative(priors, 2.0)
    mechanism = PriorAware.calibrated(epsilon=2.0, num_classes=10, channels=channels)
    observations = mechanism.observe_given(PrivateLabels(y, 10), channels, SeededEntropy(5))
    evidence = mechanism.evidence(observations).astype(np.float64)
    gained = evidence[np.arange(len(y)), y] - np.log((priors * np.exp(evidence)).sum(axis=1))
    assert abs(gained.mean() - information(priors, channels, 2.0).mean()) < 4 * gained.std() / len(y) ** 0.5


def test_same_seed_same_observations_other_seed_others():
    channels = channels_of(6, *[({0, 1, 2, 6}, 2)] * 500)
    mechanism = PriorAware.calibrated(epsilon=1.0, num_classes=6, channels=channels)
    labels = PrivateLabels(np.arange(500) % 6, 6)
    first, again, other, secure = (
        mechanism.observe_given(labels, channels, e)
        for e in (SeededEntropy(1), SeededEntropy(1), SeededEntropy(2), SecureEntropy())
    )
    assert (first == again).all()
    assert (first != other).any()
    assert (first != secure).any()
    assert first.shape == (500, mechanism.observation_bytes)
    assert first.dtype == np.uint8


def example():
    return PriorAware.calibrated(
        epsilon=1.0, num_classes=6, channels=channels_of(6, ({0, 1, 6}, 1), ({0, 1, 2, 3}, 2), ({5}, 1))
    )


@pytest.mark.parametrize(
    ("candidates", "subset"),
    [
        ({0, 1, 6}, {0, 1}), ({0, 1, 6}, {2}), ({0, 1, 6}, set()), (set(), set()), ({0, 1, 2}, {0, 1, 2}), ({4}, {3}),
        ({0, 1, 2, 3, 4, 5, 6}, {0}), ({0, 1}, {1}),
    ],
)  # fmt: skip
def test_observations_that_cannot_be(candidates, subset):
    assert not example().valid(packed(6, candidates, subset))


def test_padding_cannot_be():
    good = packed(6, {0, 1, 6}, {6})
    assert example().valid(good)
    for place in (0, 1):
        bad = good.copy()
        bad[0, place] ^= 0x80
        assert not example().valid(bad)
    assert not example().valid(good | 0x80)


def test_what_it_does_not_have():
    mechanism, observation = example(), packed(6, {0, 1, 6}, {6})
    assert "prior" not in NAMES
    with pytest.raises(NoJudgeError, match=r"alike.*k-subset"):
        judge_of(mechanism, observation)


def test_labels_and_channels_must_belong_together():
    mechanism, labels = example(), PrivateLabels([0, 1, 2], 6)
    for channels in (
        channels_of(6, *[({0, 1, 6}, 1)] * 2),
        channels_of(7, *[({0, 1, 6}, 1)] * 3),
    ):
        with pytest.raises(InputError, match="a channel a row"):
            mechanism.observe_given(labels, channels, SecureEntropy())
    with pytest.raises(InputError, match="other channels"):
        mechanism.observe_given(labels, channels_of(6, *[({0, 1, 2, 6}, 1)] * 3), SecureEntropy())
    with pytest.raises(InputError, match="7 classes"):
        PriorAware.calibrated(epsilon=1.0, num_classes=6, channels=channels_of(7, ({0, 1}, 1)))


@settings(deadline=None)
@given(st.integers(2, 40), st.floats(0.01, 16), st.integers(0, 2**32))
def test_description_round_trip(num_classes, epsilon, seed):
    priors = np.random.default_rng(seed).dirichlet([0.3] * num_classes, 50)
    channels = most_informative(priors, epsilon)
    mechanism = PriorAware.calibrated(epsilon=epsilon, num_classes=num_classes, channels=channels)
    again = mechanism_from_json(json.loads(json.dumps(mechanism.to_json())))
    assert again == mechanism
    assert again.certificate() == mechanism.certificate()
    assert mechanism.certificate().pure <= epsilon
    labels = PrivateLabels(np.arange(50) % num_classes, num_classes)
    assert again.valid(mechanism.observe_given(labels, channels, SeededEntropy(seed)))
    assert "candidates" in mechanism.describe()


def one(**change):
    return {"candidates": 3, "size": 1, "holds": str(2**63), **change}


@pytest.mark.parametrize(
    "shapes",
    [
        None, "all", {}, [], [None], [[3, 1, "5"]], [{}], [one(candidates=0)], [one(candidates=11)], [one(candidates=2.5)],
        [one(candidates=True)], [one(size=3)], [one(size=0)], [one(holds="7")], [one(holds=str(2**64))], [one(holds="seven")],
        [one(holds="9" * 5000)], [one(), one()], [one(), one(holds=str(2**63 + 1))], [one(candidates=4), one()], [one(candidates=1)],
        [one(candidates=1, holds=str(2**64), size=2)], [one()] * 20_000,
    ],
)  # fmt: skip
def test_descriptions_that_another_party_wrote(shapes):
    with pytest.raises(InputError):
        mechanism_from_json({"name": "prior", "num_classes": 10, "parameters": {"shapes": shapes}})


def test_hard_labels_are_what_was_observed():
    """As RRWithPrior is published: also where there is one candidate, which says nothing and is a pseudo-label."""
    flags = np.zeros((4, 4), dtype=bool)
    flags[0, 2] = True  # one candidate
    flags[1, [0, 1]] = True
    flags[2, [0, 3]] = True  # class 0, or any other
    flags[3, [0, 1, 2]] = True
    channels = Channels.of(flags, np.array([1, 1, 1, 2]))
    mechanism = PriorAware.calibrated(epsilon=30.0, num_classes=3, channels=channels)  # so that labels come through
    seen = mechanism.observe_given(PrivateLabels([0, 1, 2, 1], 3), channels, SeededEntropy(0))
    values = mechanism.values(seen)
    assert values[:3].tolist() == [[0, 0, 1], [0, 1, 0], [0, 0.5, 0.5]]
    assert values[3, 1] == 0.5
    np.testing.assert_allclose(values.sum(axis=1), 1)
    assert mechanism.valued(seen).all()
    assert mechanism.informative(seen).tolist() == [False, True, True, True]
