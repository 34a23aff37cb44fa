"""Batches for any data loader: rows become evidence, once a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from labeldp.release import Release


class EvidenceCollator:
    """Turns samples (x, row) into a batch (x, evidence); `collate_fn=EvidenceCollator(release)` of a DataLoader.

    Rows are positions in the release. It can be pickled, for loaders with worker processes.
    """

    def __init__(self, release: Release) -> None:
        self.release = release

    def __call__(self, samples: Sequence[tuple[Any, int]]) -> tuple[Any, Tensor]:
        """A batch."""
        x = default_collate([sample[0] for sample in samples])
        return x, torch.from_numpy(self.release.evidence([int(sample[1]) for sample in samples]))
