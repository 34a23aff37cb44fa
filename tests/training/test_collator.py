"""Samples that hold a row become batches that hold evidence."""

import pickle
from collections import UserDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from labeldp.errors import InputError, LabelsAsRowsWarning
from labeldp.training import EvidenceCollator
from tests.release.test_release import made

RELEASE = made(500, 5)
ROWS = np.random.default_rng(0).permutation(500)[:12]
X, Z = torch.randn(12, 4), torch.arange(12.0)


class Sample(NamedTuple):
    x: Any
    row: Any
    z: Any


class Dicts(list):
    """A data set of dicts, as Hugging Face has them."""


def padded(samples):
    """A custom collator, at the top of a module so that it can be pickled; what it returns is no dict, as a tokenizer's is none."""
    longest = max(len(sample["ids"]) for sample in samples)
    return UserDict(ids=torch.tensor([sample["ids"] + [0] * (longest - len(sample["ids"])) for sample in samples]))


def told(evidence):
    np.testing.assert_array_equal(evidence.numpy(), RELEASE.evidence(ROWS))


def test_pairs_and_several_inputs():
    x, evidence = EvidenceCollator(RELEASE)(list(zip(X, ROWS, strict=True)))
    told(evidence)
    torch.testing.assert_close(x, X)
    x, z, evidence = EvidenceCollator(RELEASE)(list(zip(X, Z, torch.from_numpy(ROWS), strict=True)))
    told(evidence)
    torch.testing.assert_close((x, z), (X, Z))
    nested, evidence = EvidenceCollator(RELEASE)([((x, z), row) for x, z, row in zip(X, Z, ROWS.tolist(), strict=True)])
    told(evidence)
    torch.testing.assert_close(tuple(nested), (X, Z))


def test_named_tuples():
    batch = EvidenceCollator(RELEASE)([Sample(x, row, z) for x, row, z in zip(X, ROWS, Z, strict=True)])
    assert type(batch) is Sample
    told(batch.row)
    torch.testing.assert_close((batch.x, batch.z), (X, Z))


def test_dicts():
    batch = EvidenceCollator(RELEASE)([{"x": x, "row": row} for x, row in zip(X, ROWS, strict=True)])
    assert set(batch) == {"x", "evidence"}
    told(batch["evidence"])
    torch.testing.assert_close(batch["x"], X)


def test_dicts_with_names_and_a_collator_of_their_own():
    samples = Dicts({"ids": [1] * (1 + i % 3), "labels": int(row)} for i, row in enumerate(ROWS))
    collator = EvidenceCollator(RELEASE, row_key="labels", evidence_key="labels", collate_fn=padded)
    for one in (collator, pickle.loads(pickle.dumps(collator))):
        batch = one(samples)
        assert batch["ids"].shape == (12, 3)
        told(batch["labels"])


def test_worker_processes():
    data = TensorDataset(X, torch.from_numpy(ROWS))
    loader = DataLoader(
        data, batch_size=6, collate_fn=EvidenceCollator(RELEASE), num_workers=1, multiprocessing_context="spawn"
    )
    told(torch.cat([evidence for _, evidence in loader]))


def test_what_is_no_row():
    collator = EvidenceCollator(RELEASE)
    with pytest.raises(InputError, match=r"no 'row'.*'x', 'label'.*row_key"):
        collator([{"x": X[0], "label": 3}])
    with pytest.raises(InputError, match=r"\(x, row\)"):
        collator([X[0]])
    with pytest.raises(InputError, match="whole numbers"):
        collator([(X[0], 3.7)])
    with pytest.warns(LabelsAsRowsWarning):
        collator([(X[0], label) for label in [0, 1, 2, 3, 4] * 5])
