"""Images of three kinds of stripes, which a network learns to tell apart in a second."""

import numpy as np

KINDS = 3


def stripes(rows, seed=0):
    """Images (rows, 3, 17, 17) of bytes, and which kind each is of."""
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[:17, :17]
    labels = rng.integers(0, KINDS, rows)
    waves = np.stack([np.sin(down), np.sin(right), np.sin(down + right)])[labels][:, None] * 60
    return (128 + waves + rng.normal(0, 20, (rows, 3, 17, 17))).clip(0, 255).astype(np.uint8), labels
