"""Hugging Face's Trainer with a small BERT on made-up texts, trained on labels that stay private. Nothing is downloaded.

Compared with a usual script: "labels" holds each text's *row* in the release, so the Trainer's own collator, columns and evaluation
work as they are; `compute_loss_func` turns rows into evidence; `compute_metrics` corrects for the noise. Run it with --epochs 4
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, EvalPrediction, Trainer, TrainingArguments, set_seed
from transformers.modeling_outputs import SequenceClassifierOutput

import labeldp
from labeldp.entropy import Entropy
from labeldp.training import PosteriorLoss

TOPICS, WORDS = 5, 100
HELD_OUT, TEST = 600, 600  # released but not trained on; public labels, which nobody releases
SIZE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
SETTINGS = {"learning_rate": 3e-3, "use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}


def texts(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and topics: half of a text's words are of its topic, the others of any."""
    random = np.random.default_rng(0)
    topics, words = random.integers(0, TOPICS, count), random.integers(0, WORDS, (count, 16))
    return np.where(random.random(words.shape) < 0.5, words // TOPICS * TOPICS + topics[:, None], words), topics


# ── the label owner: has the labels, hands over one file ──
def release_labels(labels: np.ndarray, folder: Path, epsilon: float, entropy: Entropy | None) -> Path:
    ledger, ids = labeldp.Ledger(folder / "topics.ledger"), [f"text-{i:04d}" for i in range(len(labels))]
    mechanism = labeldp.recommend(epsilon, TOPICS)
    release = mechanism.release(labels, data_set="topics", ids=ids, ledger=ledger, entropy=entropy)
    release.save(folder / "released.parquet")
    return folder / "released.parquet"


# ── the feature owner: has the texts and that file, and no label ──
def train(tokens: np.ndarray, release: labeldp.Release, folder: Path, epochs: int) -> Trainer:
    def loss(outputs: SequenceClassifierOutput, rows: Tensor, num_items_in_batch: Tensor) -> Tensor:
        # A sum divided by all rows of the step: so accumulated batches count by their rows.
        return PosteriorLoss(reduction="sum")(outputs.logits, release.evidence(rows)) / num_items_in_batch

    def metrics(prediction: EvalPrediction) -> dict[str, float]:
        estimate = release.estimate_accuracy(prediction.label_ids, prediction.predictions.argmax(-1))
        return {"accuracy": estimate.accuracy, "standard_error": estimate.standard_error}

    rows = release.positions([f"text-{i:04d}" for i in range(len(tokens))])  # joined by id
    data = [{"input_ids": text, "labels": row} for text, row in zip(tokens, rows, strict=True)]
    trainer = Trainer(
        BertForSequenceClassification(BertConfig(vocab_size=WORDS, num_labels=TOPICS, **SIZE)),
        TrainingArguments(str(folder), num_train_epochs=epochs, per_device_train_batch_size=32, **SETTINGS),
        train_dataset=data[HELD_OUT:],
        eval_dataset=data[:HELD_OUT],  # a model fits the noise of rows that it trains on
        compute_loss_func=loss,  # new; was the model's own cross-entropy
        compute_metrics=metrics,  # changed; was (predicted == labels).mean()
    )
    trainer.train()
    return trainer


# ── both, in one process ──
def main(epochs: int = 4, epsilon: float = 4.0, entropy: Entropy | None = None) -> dict[str, float | None]:
    set_seed(0)  # the training only; the noise has its own entropy
    tokens, topics = texts(4000)
    with tempfile.TemporaryDirectory() as folder:
        release = labeldp.Release.load(release_labels(topics[:-TEST], Path(folder), epsilon, entropy))
        trainer = train(tokens[:-TEST], release, Path(folder), epochs)
    held_out = trainer.evaluate()
    predicted = trainer.predict([{"input_ids": text} for text in tokens[-TEST:]]).predictions.argmax(-1)
    results = {
        "accuracy_estimated": held_out["eval_accuracy"],
        "standard_error": held_out["eval_standard_error"],
        "accuracy_test": float((predicted == topics[-TEST:]).mean()),
        "epsilon": release.guarantee.epsilon if release.guarantee else None,  # None: seeded noise protects nobody
    }
    print(results)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    main(**vars(parser.parse_args()))
