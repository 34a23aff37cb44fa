"""An ordinary PyTorch loop on scikit-learn's digits, trained on labels that stay private.

Compared with a usual script: the data set yields (x, row) in place of (x, y), two lines of the loop change (marked), and accuracy
is estimated from held-out rows of the release. Run: python examples/plain_loop.py --epochs 20
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.utils import shuffle
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import labeldp
from labeldp.entropy import Entropy
from labeldp.training import PosteriorLoss

TEST = 360  # the last digits: their labels are public, and nobody releases them


# ── the label owner: has the labels, hands over one file ──


def release_labels(labels: np.ndarray, folder: Path, epsilon: float, entropy: Entropy | None) -> Path:
    ids = [f"digit-{i:04d}" for i in range(len(labels))]
    mechanism = labeldp.recommend(epsilon, 10)
    ledger = labeldp.Ledger(folder / "digits.ledger")
    release = mechanism.release(labels, data_set="digits", ids=ids, ledger=ledger, entropy=entropy)
    release.save(folder / "released.parquet")
    return folder / "released.parquet"


# ── the feature owner: has the pictures and that file, and no label ──


def train(features: Tensor, rows: Tensor, release: labeldp.Release, epochs: int) -> nn.Module:
    loader = DataLoader(TensorDataset(features, rows), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = PosteriorLoss()  # changed; was nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, row in loader:
            loss = criterion(model(x), release.evidence(row))  # changed; was criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


# ── both, in one process ──


def main(epochs: int = 20, epsilon: float = 4.0, entropy: Entropy | None = None) -> dict[str, float | None]:
    torch.manual_seed(0)  # the training only; the noise has its own entropy
    # As stored, digits go by writer, and the last writers' are the hardest: a fixed public order mixes them.
    images, digits = shuffle(*load_digits(return_X_y=True), random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        release = labeldp.Release.load(release_labels(digits[:-TEST], Path(folder), epsilon, entropy))

    pictures = torch.from_numpy(images).float() / 16
    ids = [f"digit-{i:04d}" for i in range(len(pictures) - TEST)]
    rows = torch.from_numpy(release.positions(ids))  # joined by id, whatever the order of either
    # A model fits the noise of rows that it trains on, so accuracy is estimated on others.
    held_out, trained = torch.randperm(len(rows)).split([300, len(rows) - 300])
    model = train(pictures[trained], rows[trained], release, epochs)
    with torch.no_grad():
        predicted = model(pictures).argmax(-1).numpy()
    estimate = release.estimate_accuracy(rows[held_out], predicted[held_out])
    results = {
        "accuracy_estimated": estimate.accuracy,
        "standard_error": estimate.standard_error,
        "accuracy_test": float((predicted[-TEST:] == digits[-TEST:]).mean()),
        "epsilon": release.guarantee.epsilon if release.guarantee else None,  # None: seeded noise protects nobody
    }
    print(results)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    main(**vars(parser.parse_args()))
