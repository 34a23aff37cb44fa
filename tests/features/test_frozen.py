"""Frozen features: learned from images alone, the same whatever the batch, and worth having when labels are few."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from labeldp.errors import FileFormatError, InputError
from labeldp.features.frozen import Featurizer, learn_features
from labeldp.features.neighbours import learn_neighbours
from labeldp.features.patches import learn_patches

Images = npt.NDArray[np.uint8]
Labelled = tuple[Images, npt.NDArray[np.int64]]


@pytest.fixture(scope="module")
def digits() -> Labelled:
    """scikit-learn's digits at twice their size, 16×16, moved by up to 4 pixels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    large = (data.images * 15).astype(np.uint8).repeat(2, axis=1).repeat(2, axis=2)
    canvas = np.zeros((len(large), 1, 20, 20), np.uint8)
    for image, digit, (down, right) in zip(
        canvas, large, np.random.default_rng(0).integers(0, 5, (len(large), 2)), strict=True
    ):
        image[0, down : down + 16, right : right + 16] = digit
    return canvas, data.target.astype(np.int64)


@pytest.fixture(scope="module")
def learned(digits: Labelled) -> Featurizer:
    return learn_features(digits[0], filters=64, width=128)


def test_it_is_told_no_label() -> None:
    assert set(inspect.signature(learn_features).parameters) == {"images", "seed", "filters", "width", "bank"}
    assert set(inspect.signature(Featurizer.transform).parameters) == {"self", "images", "batch"}


def test_rows_are_finite_numbers_of_the_width_and_scale_promised(learned: Featurizer, digits: Labelled) -> None:
    features = learned.transform(digits[0])
    assert features.shape == (len(digits[0]), learned.width) == (1797, 128)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert np.square(features).mean() == pytest.approx(1, abs=0.2)


def test_the_same_images_and_seed_give_the_same_features_and_another_seed_others(digits: Labelled) -> None:
    images = digits[0][:400]
    first, again, other = (
        learn_features(images, filters=16, width=16, seed=seed).transform(images) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_row_depends_on_its_image_only(learned: Featurizer, digits: Labelled) -> None:
    images = digits[0][:300]
    whole = learned.transform(images)
    np.testing.assert_allclose(learned.transform(images, batch=77), whole, atol=0.02)
    backwards = learned.transform(np.ascontiguousarray(images[::-1]))[::-1]
    np.testing.assert_allclose(backwards, whole, atol=0.02)


def test_features_are_worth_more_than_pixels_when_labels_are_few(learned: Featurizer, digits: Labelled) -> None:
    from sklearn.linear_model import RidgeClassifier

    images, labels = digits
    pixels = images.reshape(len(images), -1) / 255
    few, rest = slice(0, 100), slice(100, None)

    def accuracy(x: npt.NDArray[np.floating]) -> float:
        return float(RidgeClassifier(alpha=1.0).fit(x[few], labels[few]).score(x[rest], labels[rest]))

    assert accuracy(learned.transform(images)) > accuracy(pixels) + 0.2


def test_a_saved_featurizer_is_the_same(learned: Featurizer, digits: Labelled, tmp_path: Path) -> None:
    learned.save(tmp_path / "f.safetensors")
    loaded = Featurizer.load(tmp_path / "f.safetensors")
    np.testing.assert_array_equal(loaded.transform(digits[0][:50]), learned.transform(digits[0][:50]))


@pytest.mark.parametrize("content", [b"", b"no features", None])
def test_a_file_that_is_none_is_said(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileFormatError, match="not a file of frozen features"):
        Featurizer.load(path)


def test_colour_images_work_too() -> None:
    images = np.random.default_rng(0).integers(0, 256, (64, 3, 12, 20), dtype=np.uint8)
    images[0] = 0  # a flat image has no patch worth the name
    features = learn_features(images, filters=8, width=16).transform(images)
    assert features.shape == (64, 16)
    assert np.isfinite(features).all()


def test_images_that_are_all_alike_are_no_error() -> None:
    images = np.full((40, 1, 10, 10), 7, np.uint8)
    assert np.isfinite(learn_features(images, filters=4, width=4).transform(images)).all()


def test_responses_are_those_of_the_definition() -> None:
    images = np.random.default_rng(1).integers(0, 256, (3, 2, 9, 9), dtype=np.uint8)
    patches = learn_patches(images, 5, 6, torch.Generator().manual_seed(0))
    x = torch.from_numpy(images).float() / 255
    # 4×4 places, in thirds of 2, 1 and 1
    sums, counts = torch.zeros(3, 3, 3, 5), torch.zeros(3, 3)
    for down in range(4):
        for right in range(4):
            patch = x[:, :, down : down + 6, right : right + 6].reshape(3, -1)
            patch = patch - patch.mean(dim=1, keepdim=True)
            patch = patch / torch.sqrt(patch.var(dim=1, keepdim=True) + 10 / 255**2)
            region = (down * 3 // 4, right * 3 // 4)
            sums[:, region[0], region[1]] += (patch @ patches.weights.T - patches.offset - 0.25).relu()
            counts[region] += 1
    naive = sums / counts[None, :, :, None]
    torch.testing.assert_close(patches.pooled(x, torch.float32), naive.reshape(3, -1), atol=1e-4, rtol=1e-4)


def test_neighbours_are_those_of_a_naive_search() -> None:
    features = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    bank = learn_neighbours(features[:30])
    x = features.astype(np.float64) - features[:30].mean(axis=0)
    x /= np.sqrt(np.square(x[:30]).sum(axis=1).mean())
    variances, vectors = np.linalg.eigh(x[:30].T @ x[:30] / 30)
    keys = x @ vectors * (variances + 1e-3 * variances.max()) ** -0.25
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)

    def average(key: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(values[np.argsort(-keys[:30] @ key)[:10]].mean(axis=0))

    once = np.stack([average(key, x[:30]) for key in keys[:30]])
    twice = np.stack([average(key, once) for key in keys])
    expected = np.concatenate((twice, 0.3 * x), axis=1) * float(bank.scale)
    np.testing.assert_allclose(bank.transform(features), expected, atol=1e-4)
    np.testing.assert_allclose(bank.transform(features, batch=7), expected, atol=1e-4)


def test_kinds_of_features_have_the_same_say_whatever_their_units() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(50, 3)), generator.normal(size=(50, 5))
    rows = learn_neighbours(first, second).transform(first, second)
    np.testing.assert_allclose(
        learn_neighbours(first * 1000, second - 9).transform(first * 1000, second - 9), rows, atol=1e-4
    )
    own = rows[:, 8:]
    assert np.square(own[:, :3]).sum() == pytest.approx(np.square(own[:, 3:]).sum(), rel=1e-4)


def test_a_bank_may_be_smaller_than_a_neighbourhood() -> None:
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    assert learn_neighbours(features, bank=4).transform(features).shape == (40, 6)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((5, 1, 8, 8), np.float32), "rows of numbers"),
        (np.zeros((5, 3), np.int64), "rows of numbers"),
        (np.zeros((1, 3), np.float32), "2 rows of features or more"),
        (np.array([[0.0], [np.inf], [1.0]]), "row 1 of the features"),
    ],
)
def test_rows_that_have_no_neighbours_are_said(features: npt.NDArray[np.float32], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn_neighbours(features)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match="learned from 3 features a row; got 4"):
        learn_neighbours(np.eye(3, dtype=np.float32)).transform(np.eye(4, dtype=np.float32))
    with pytest.raises(InputError, match="the same rows"):
        learn_neighbours(np.eye(3, dtype=np.float32), np.eye(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (np.zeros((50, 64), np.float32), {}, r"images are bytes .* got float32 of shape \(50, 64\)"),
        (np.zeros((50, 1, 16, 16), np.float64), {}, "got float64"),
        ([[1, 2]], {}, "got list"),
        (np.zeros((50, 1, 7, 16), np.uint8), {}, "8×8 pixels or more"),
        (np.zeros((50, 1, 16, 16), np.uint8), {}, "512 filters need as many images or more; got 50"),
        (np.zeros((50, 1, 16, 16), np.uint8), {"filters": 16, "bank": 8}, "got 8"),
        (np.zeros((50, 1, 16, 16), np.uint8), {"filters": 16, "width": 15}, "an even number"),
        (np.zeros((50, 1, 16, 16), np.uint8), {"filters": 16, "width": 512}, "at most 100 features; width is 512"),
    ],
)
def test_what_cannot_be_learned_from_is_said(images: object, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn_features(images, **options)  # type: ignore[arg-type]


def test_images_of_another_shape_are_refused(learned: Featurizer) -> None:
    with pytest.raises(InputError, match=r"learned from images of shape \(1, 20, 20\)"):
        learned.transform(np.zeros((2, 3, 16, 16), np.uint8))
