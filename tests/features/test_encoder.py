"""Encoders: learned once, kept, and the same for new images."""

from dataclasses import replace

import numpy as np
import pytest

from labeldp.errors import FileFormatError, InputError
from labeldp.features.contrastive import ContrastiveFeaturizer
from labeldp.features.encoder import Encoder, EncoderRecipe, frozen_features, learned_encoder
from labeldp.files.run import FeaturesFolder


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 256, (4, 1, 20, 20))
    noisy = shapes[rng.integers(0, 4, 120)] + rng.normal(0, 30, (120, 1, 20, 20))
    return noisy.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("contrastive", [0, 1])
def test_learned_once_and_kept_for_new_images(tmp_path, images, contrastive):
    first, test = frozen_features(images, images[:10], tmp_path / "features", contrastive)
    written = (tmp_path / "features" / "features.npy").stat().st_mtime_ns
    again, _ = frozen_features(images, images[:10], tmp_path / "features", contrastive)
    np.testing.assert_array_equal(first, again)
    assert (tmp_path / "features" / "features.npy").stat().st_mtime_ns == written
    kept = Encoder.load(tmp_path / "features")
    assert (kept.contrast is not None) == bool(contrastive)
    np.testing.assert_allclose(kept.transform(images[:10]), first[:10], atol=0.05)
    np.testing.assert_allclose(test, first[:10], atol=0.05)
    with pytest.raises(InputError, match="another run"):
        frozen_features(images[:-1], images[:10], tmp_path / "features", contrastive)
    with pytest.raises(InputError, match="another run"):
        frozen_features(images, images[:10], tmp_path / "features", contrastive + 1)


def test_what_holds_no_features(tmp_path):
    with pytest.raises(InputError, match="holds no encoder"):
        Encoder.load(tmp_path / "features")
    with pytest.raises(InputError, match="images of bytes"):
        frozen_features(np.zeros((10, 4), np.float32), None, tmp_path / "features")
    (tmp_path / "bad").write_text("no tensors")
    with pytest.raises(FileFormatError):
        ContrastiveFeaturizer.load(tmp_path / "bad")


@pytest.mark.parametrize("way", ["patches", "contrastive", "both"])
def test_an_encoder_is_found_again_and_refuses_other_images(tmp_path, images, way):
    folder, learning = tmp_path / "encoder", EncoderRecipe(way, epochs=1)
    told = []
    first = learned_encoder(images, folder, learning, on_epoch=lambda epoch, loss: told.append(epoch))
    assert told == ([] if way == "patches" else [1])
    assert (first.flop > 0) == (way != "patches")
    again = learned_encoder(images, folder, learning, on_epoch=lambda epoch, loss: told.append(epoch))
    assert len(told) == (way != "patches")
    np.testing.assert_array_equal(again.transform(images[:9]), first.transform(images[:9]))
    np.testing.assert_allclose(Encoder.load(folder).transform(images[:3]), first.transform(images[:9])[:3], atol=0.05)
    with pytest.raises(InputError, match="another run"):
        learned_encoder(images[1:], folder, learning)
    with pytest.raises(InputError, match="another run"):
        learned_encoder(images, folder, EncoderRecipe(way, epochs=2))


def test_an_encoder_says_what_it_can_learn():
    with pytest.raises(InputError, match="patches, contrastive or both; got 'labels'"):
        EncoderRecipe("labels")


def test_an_encoder_that_somebody_damaged_or_forged_is_refused_in_a_sentence(tmp_path, images):
    folder = tmp_path / "encoder"
    learned_encoder(images, folder, EncoderRecipe("both", epochs=1))
    place = FeaturesFolder(folder)
    good = dict(np.load(place.neighbours))
    np.savez_compressed(place.neighbours, **good)  # a few bytes of it could unfold to any number
    with pytest.raises(InputError, match=r"neighbours\.npz is missing or damaged"):
        Encoder.load(folder)
    place.neighbours.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match=r"neighbours\.npz is missing or damaged"):
        Encoder.load(folder)
    for flop in (-1, 10**400):  # no summary could say it, once everything is paid for
        replace(ContrastiveFeaturizer.load(place.contrast), flop=flop).save(tmp_path / "forged")
        with pytest.raises(FileFormatError):
            ContrastiveFeaturizer.load(tmp_path / "forged")
