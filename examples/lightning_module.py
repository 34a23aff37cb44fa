"""Lightning on scikit-learn's digits, trained on labels that stay private.

Compared with a usual script: the data set yields (x, row) in place of (x, y), `EvidenceCollator` turns rows into evidence, which
Lightning moves to the device like any tensor, and the loss is `PosteriorLoss`. Run: python examples/lightning_module.py --epochs 20
"""

import argparse
import tempfile
from pathlib import Path

import lightning
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.utils import shuffle
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import labeldp
from labeldp.entropy import Entropy
from labeldp.training import EvidenceCollator, PosteriorLoss

TEST = 360  # the last digits: their labels are public, and nobody releases them
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


# ── the label owner: has the labels, hands over one file ──
def release_labels(labels: np.ndarray, folder: Path, epsilon: float, entropy: Entropy | None) -> Path:
    ledger, ids = labeldp.Ledger(folder / "digits.ledger"), [f"digit-{i:04d}" for i in range(len(labels))]
    release = labeldp.recommend(epsilon, 10).release(labels, data_set="digits", ids=ids, ledger=ledger, entropy=entropy)
    release.save(folder / "released.parquet")
    return folder / "released.parquet"


# ── the feature owner: has the pictures and that file, and no label ──
class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.criterion = PosteriorLoss()  # changed; was nn.CrossEntropyLoss()

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, evidence = batch
        return self.criterion(self(x), evidence)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


# ── both, in one process ──
def main(epochs: int = 20, epsilon: float = 4.0, entropy: Entropy | None = None) -> dict[str, float | None]:
    lightning.seed_everything(0, verbose=False)  # the training only; the noise has its own entropy
    # As stored, digits go by writer, and the last writers' are the hardest: a fixed public order mixes them.
    images, digits = shuffle(*load_digits(return_X_y=True), random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        release = labeldp.Release.load(release_labels(digits[:-TEST], Path(folder), epsilon, entropy))

    pictures = torch.from_numpy(images).float() / 16
    rows = torch.from_numpy(release.positions([f"digit-{i:04d}" for i in range(len(pictures) - TEST)]))  # joined by id
    # A model fits the noise of rows that it trains on, so accuracy is estimated on others.
    held_out, trained = torch.randperm(len(rows)).split([300, len(rows) - 300])
    data = TensorDataset(pictures[trained], rows[trained])
    model, trainer = Classifier(), lightning.Trainer(max_epochs=epochs, accelerator="cpu", **QUIET)
    trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True, collate_fn=EvidenceCollator(release)))
    predicted = torch.cat(trainer.predict(model, DataLoader(pictures, batch_size=512))).argmax(-1).numpy()
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
