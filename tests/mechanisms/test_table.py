"""The samplers against the integers: exactly at the boundaries, and by goodness of fit."""

import itertools

import numpy as np
import pytest
from scipy import stats

from labeldp import PrivateLabels, SecureEntropy
from labeldp.mechanisms.response import _offsets
from labeldp.mechanisms.table import Table

from .channels import calibrated, channel, weights

FALSE_ALARM = 1e-7  # of each goodness-of-fit test below; all of them together under 1e-5
ROWS = 200_000


class Words:
    """An entropy source that deals given bytes."""

    secure = False

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    def bytes(self, count: int) -> bytes:
        chunk = self.chunks.pop(0)
        assert len(chunk) == count
        return chunk


def outcome_of(table: Table, word: int) -> int:
    """What the sampler makes of one 64-bit word, dealt as its first bits and, if asked for, a word with the others."""
    bits = 8 * table._prefix.itemsize
    rest = (word & (2 ** (64 - bits) - 1)) << bits | 0xBE  # the last bits of the second word must not matter
    first = (word >> (64 - bits)).to_bytes(bits // 8, "little")
    return int(table.sample(1, Words(first, rest.to_bytes(8, "little")))[0])


@pytest.mark.parametrize(
    "w",
    [weights(calibrated(name, 1.0, 10)) for name in ("unary", "laplace", "gaussian")] + [_offsets(300, 2**54).weights],
)
def test_every_boundary_of_the_table_is_exact(w):
    table = Table(w)
    end = 0
    for cell, weight in enumerate(w):
        assert outcome_of(table, end) == cell
        end += weight
        assert outcome_of(table, end - 1) == cell
    assert end == 2**64


def test_tiny_cells():
    table = Table([1, 2, 2**63 - 3, 2**63 - 1, 1])
    words = (0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
    assert [outcome_of(table, w) for w in words] == [0, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("bad", [[2**64 - 1], [2**64 + 1, -1], [2**64, 0], [2**63]])
def test_a_table_adds_up_to_two_to_the_64(bad):
    with pytest.raises(ValueError, match="add up"):
        Table(bad)


def fits(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Chi-squared, with rare outcomes pooled."""
    expected = probabilities * counts.sum()
    rare = expected < 10
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1e-9:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["response", "subset", "unary"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_whole_observations_fit_the_channel(name, epsilon, num_classes):
    mechanism = calibrated(name, epsilon, num_classes)
    table = channel(mechanism)
    index = {key: i for i, key in enumerate(table)}
    for label in {0, num_classes // 2, num_classes - 1}:
        observations = mechanism.observe_uncharged(PrivateLabels(np.full(ROWS, label), num_classes), SecureEntropy())
        keys, counts = np.unique(observations.reshape(ROWS, -1), axis=0, return_counts=True)
        seen = np.zeros(len(index))
        for key, count in zip(keys, counts, strict=True):
            seen[index[key.tobytes()]] = count  # a KeyError here is an observation that cannot be
        assert fits(seen, np.array([float(p[label]) for p in table.values()]))


@pytest.mark.parametrize("name", ["subset", "unary", "laplace", "gaussian"])
@pytest.mark.parametrize("num_classes", [3, 100])
def test_each_class_and_pairs_of_classes_fit(name, num_classes):
    """Marginals at the true class and at others; and pairs of classes, which a poor generator would correlate."""
    mechanism = calibrated(name, 1.0, num_classes)
    label = num_classes // 2
    observations = mechanism.observe_uncharged(PrivateLabels(np.full(ROWS, label), num_classes), SecureEntropy())
    seen = np.stack([mechanism.statistic(observations, np.full(ROWS, c)) for c in (label, 0, num_classes - 1)])
    law = mechanism.law()
    for row, mean, variance in zip(seen, (law.mean_true, law.mean_other, law.mean_other),
                                   (law.variance_true, law.variance_other, law.variance_other), strict=True):  # fmt: skip
        assert abs(row.mean() - mean) < 5.5 * (variance / ROWS) ** 0.5
    correlation = np.corrcoef(seen)
    if name == "subset":  # without replacement, classes exclude each other; among the others all pairs are alike
        return
    for i, j in itertools.combinations(range(3), 2):
        assert abs(correlation[i, j]) < 5.5 / ROWS**0.5


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_cells_fit_the_table(name, epsilon):
    mechanism = calibrated(name, epsilon, 3)
    w = np.array([x / 2**64 for x in weights(mechanism)])
    observations = mechanism.observe_uncharged(PrivateLabels(np.ones(ROWS, dtype=int), 3), SecureEntropy())
    for column, probabilities in ((0, w), (1, w[::-1]), (2, w)):
        assert fits(np.bincount(observations[:, column], minlength=256).astype(float), probabilities)


def test_large_subsets_are_uniform():
    """Which of 100 classes are in: each other class equally often, whatever its distance to the true one."""
    mechanism = calibrated("subset", 1.0, 100)
    label = 37
    observations = mechanism.observe_uncharged(PrivateLabels(np.full(ROWS, label), 100), SecureEntropy())
    counts = np.delete(mechanism._members(observations).sum(axis=0, dtype=np.int64), label)
    mean = mechanism.law().mean_other
    # Counts of one draw exclude each other slightly; the statistic below is then a little smaller than chi-squared: safe.
    statistic = ((counts - ROWS * mean) ** 2 / (ROWS * mean * (1 - mean))).sum()
    assert stats.chi2.sf(statistic * (1 - 1 / 99), 99) > FALSE_ALARM
