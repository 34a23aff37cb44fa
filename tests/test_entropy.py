import numpy as np
import pytest
from scipy import stats

from labeldp.entropy import SecureEntropy, SeededEntropy, below, uint64s
from labeldp.errors import InputError


class Fixed:
    secure = False

    def __init__(self, words):
        self.data = np.array(words, dtype="<u2").tobytes()

    def bytes(self, count):
        part, self.data = self.data[:count], self.data[count:]
        assert len(part) == count
        return part


def test_below_rejects_instead_of_folding():
    # Bound 10: 65,530 … 65,535 would make 0 … 5 too likely; they are drawn again.
    assert below(Fixed([7, 65_529, 65_530, 65_535, 23, 65_531, 12, 65_532, 65_529]), 10, 5).tolist() == [7, 9, 9, 2, 3]
    assert below(Fixed([65_530, 65_535, 4]), 10, 1).tolist() == [4]


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 99, 1000, 65_535, 65_536])
def test_below_is_uniform(bound):
    """Chi-squared over 16 bins of the range; false alarm 1e-7 each."""
    drawn = below(SecureEntropy(), bound, 200_000)
    assert drawn.max() < bound
    bins = min(bound, 16)
    edges = [-(-i * bound // bins) for i in range(bins + 1)]
    counts = np.histogram(drawn, bins=edges)[0] if bins > 1 else np.array([len(drawn)])
    if bins > 1:
        assert stats.chisquare(counts, np.diff(edges) / bound * len(drawn)).pvalue > 1e-7


@pytest.mark.parametrize("bound", [0, -1, 65_537])
def test_below_checks_its_bound(bound):
    with pytest.raises(ValueError, match="bound"):
        below(SecureEntropy(), bound, 1)


def test_seeded_entropy_repeats_and_says_so():
    assert SeededEntropy(3).bytes(100) == SeededEntropy(3).bytes(100)
    assert SeededEntropy(3).bytes(100) != SeededEntropy(4).bytes(100)
    assert SecureEntropy().secure
    assert not SeededEntropy(3).secure
    assert repr(SeededEntropy(3)) == "SeededEntropy(3)"


def test_seeded_stream_is_fixed_for_good():
    # Written down once: experiments of last year must be repeatable.
    assert uint64s(SeededEntropy(0), 2).tolist() == GOLDEN


def test_seeds_are_many():
    """An earlier code drew its seed from 256 values. The operating system's generator has no seed to guess."""
    assert len({SecureEntropy().bytes(8) for _ in range(2000)}) == 2000


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_bad_seed(seed):
    with pytest.raises(InputError, match="seed"):
        SeededEntropy(seed)


GOLDEN = [259491006799949737, 4754966410622352325]
