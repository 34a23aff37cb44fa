"""A training that begins with a network which learned from images alone."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.commands import FeaturesOptions, TrainOptions, features, train
from labeldp.errors import InputError
from labeldp.features.encoder import Encoder
from labeldp.runs.pretrained import Pretrained
from labeldp.training.trainer import Trainer
from tests.commands.releasing import release_file

ROWS = 240


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images of two kinds of stripes, their released labels, and an encoder that never saw a label."""
    folder = tmp_path_factory.mktemp("start")
    rng = np.random.default_rng(0)
    down, right = np.mgrid[:20, :20]
    labels = rng.integers(0, 2, ROWS)
    waves = np.stack([np.sin(down), np.sin(right)])[labels][:, None] * 60
    np.save(folder / "x.npy", (128 + waves + rng.normal(0, 20, (ROWS, 3, 20, 20))).clip(0, 255).astype(np.uint8))
    pq.write_table(pa.table({"y": labels}), folder / "y.parquet")
    options = {"label": "y", "classes": 2, "epsilon": 4.0, "data_set": "stripes", "ledger": folder / "l.ledger"}
    release_file(folder / "y.parquet", folder / "r.parquet", options)
    features(
        FeaturesOptions(
            file=folder / "x.npy", out=folder / "f.parquet", learn="contrastive", epochs=1, encoder=folder / "encoder"
        )
    )
    return folder


def options(place, out, **changes):
    usual = TrainOptions(release=(place / "r.parquet",), features=place / "x.npy", out=out, epochs=1, batch_size=64)
    return replace(usual, **changes)


def test_it_begins_where_the_encoder_ended(place, tmp_path, monkeypatch):
    begun = []
    plain = Trainer.fit

    def watched(self, *given):
        begun.append({name: value.clone() for name, value in self.model.state_dict().items()})
        assert self.mean is not None
        return plain(self, *given)

    monkeypatch.setattr(Trainer, "fit", watched)
    summary = train(options(place, tmp_path / "run", start=place / "encoder"))
    encoder = Encoder.load(place / "encoder").contrast
    assert summary["start_flop"] == encoder.flop > 0
    assert summary["model"] == "fast"
    for name, value in encoder.network.state_dict().items():
        if not name.startswith("head"):
            assert (begun[0][name] == value).all(), name
    assert begun[0]["head.weight"].abs().sum() > 0
    # Asked again it is found, by another start it is another run.
    assert "given" in train(options(place, tmp_path / "run", start=place / "encoder"))
    with pytest.raises(InputError, match="another run"):
        train(options(place, tmp_path / "run"))


def test_what_cannot_start_is_said(place, tmp_path):
    with pytest.raises(InputError, match="no encoder to start from"):
        train(options(place, tmp_path / "run", start=tmp_path))
    with pytest.raises(InputError, match="'fast', and 'resnet18' is to be trained"):
        train(options(place, tmp_path / "run", start=place / "encoder", model="resnet18"))
    np.save(tmp_path / "larger.npy", np.zeros((ROWS, 3, 24, 24), np.uint8))
    with pytest.raises(InputError, match=r"images of shape \(3, 20, 20\); these have \(3, 24, 24\)"):
        train(options(place, tmp_path / "run", start=place / "encoder", features=tmp_path / "larger.npy"))
    with pytest.raises(InputError, match="no encoder"):
        Pretrained.of(place / "run")
    assert not (tmp_path / "run").exists()
