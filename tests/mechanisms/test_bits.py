"""Packed sets: what is packed is unpacked again, and nothing hides behind the last class."""

import numpy as np
import pytest

from labeldp.mechanisms.bits import no_padding, pack, packed_bytes, set_sizes, unpack


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 300])
def test_round_trip(count):
    members = np.random.default_rng(count).random((20, count)) < 0.5
    packed = pack(members)
    assert packed.shape == (20, packed_bytes(count))
    np.testing.assert_array_equal(unpack(packed, count), members)
    np.testing.assert_array_equal(set_sizes(packed), members.sum(axis=1))
    assert no_padding(packed, count)


def test_the_first_class_is_the_lowest_bit():
    assert pack(np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1]])).tolist() == [[1, 1]]


@pytest.mark.parametrize("count", [1, 7, 9, 300])
def test_any_bit_behind_the_last_class_is_seen(count):
    clean = pack(np.zeros((3, count), dtype=bool))
    for bit in range(count % 8, 8):
        bad = clean.copy()
        bad[1, -1] |= 1 << bit
        assert not no_padding(bad, count)
