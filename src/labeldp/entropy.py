"""Where random bits come from: the operating system, unless an experiment says otherwise in so many words."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError


class Entropy(Protocol):
    """A source of uniformly random bytes."""

    @property
    def secure(self) -> bool:
        """Whether a release drawn from this source may be handed over."""

    def bytes(self, count: int) -> bytes:
        """`count` fresh uniformly random bytes."""


class SecureEntropy:
    """The operating system's generator."""

    secure = True

    def bytes(self, count: int) -> bytes:
        """`count` fresh bytes from the operating system."""
        return os.urandom(count)

    def __repr__(self) -> str:
        return "SecureEntropy()"


class SeededEntropy:
    """Repeatable noise for tests and experiments. Whoever knows the seed knows every label: releases are insecure."""

    secure = False

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise InputError(f"a seed must be a non-negative whole number; got {seed!r}.")
        self.seed = int(seed)
        # Philox's raw output is fixed by its definition; numpy promises nothing for Generator.bytes.
        self._words = np.random.Philox(key=np.random.SeedSequence(self.seed).generate_state(2, np.uint64))

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes of the seed's stream (a call always starts at a whole 64-bit word)."""
        words = self._words.random_raw((count + 7) // 8)
        return np.asarray(words, dtype="<u8").tobytes()[:count]

    def __repr__(self) -> str:
        return f"SeededEntropy({self.seed})"


def noise(seed: int | None) -> Entropy:
    """From the operating system; repeatable, and insecure, with a seed."""
    return SecureEntropy() if seed is None else SeededEntropy(seed)


def uint16s(entropy: Entropy, count: int) -> npt.NDArray[np.uint16]:
    """`count` uniform 16-bit integers."""
    return np.frombuffer(entropy.bytes(2 * count), dtype="<u2")


def uint64s(entropy: Entropy, count: int) -> npt.NDArray[np.uint64]:
    """`count` uniform 64-bit integers."""
    return np.frombuffer(entropy.bytes(8 * count), dtype="<u8")


def below(entropy: Entropy, bound: int, count: int) -> npt.NDArray[np.uint16]:
    """`count` integers that are exactly uniform on 0 … bound − 1, for 1 ≤ bound ≤ 2^16.

    Rejection: a word at or above the largest multiple of `bound` is thrown away, so that the
    remainder of the others has no bias at all.
    """
    if not 1 <= bound <= 1 << 16:
        raise ValueError(f"bound must be from 1 to 65536; got {bound}")
    limit = (1 << 16) // bound * bound
    words = uint16s(entropy, count)
    if limit < 1 << 16:
        rejected = np.flatnonzero(words >= limit)
        if rejected.size:
            words = words.copy()
            while rejected.size:
                words[rejected] = uint16s(entropy, rejected.size)
                rejected = rejected[words[rejected] >= limit]
    return words if bound == 1 << 16 else words % np.uint16(bound)
