"""Frozen features of a run: learned once, kept, and the same for new images."""

import numpy as np
import pytest

from labeldp.errors import FileFormatError, InputError
from labeldp.features.contrastive import ContrastiveFeaturizer
from labeldp.features.frozen import FrozenFeatures, frozen_features


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
    kept = FrozenFeatures.load(tmp_path / "features")
    assert (kept.contrast is not None) == bool(contrastive)
    np.testing.assert_allclose(kept.transform(images[:10]), first[:10], atol=0.05)
    np.testing.assert_allclose(test, first[:10], atol=0.05)
    with pytest.raises(InputError, match="another run"):
        frozen_features(images[:-1], images[:10], tmp_path / "features", contrastive)
    with pytest.raises(InputError, match="another run"):
        frozen_features(images, images[:10], tmp_path / "features", contrastive + 1)


def test_what_holds_no_features(tmp_path):
    with pytest.raises(InputError, match="learned no features"):
        FrozenFeatures.load(tmp_path / "features")
    with pytest.raises(InputError, match="images of bytes"):
        frozen_features(np.zeros((10, 4), np.float32), None, tmp_path / "features")
    (tmp_path / "bad").write_text("no tensors")
    with pytest.raises(FileFormatError):
        ContrastiveFeaturizer.load(tmp_path / "bad")
