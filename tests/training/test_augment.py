"""Each operation against Pillow, image by image."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from labeldp.training import augment as ops
from labeldp.training.augment import cutout, mixed_pairs


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (12, 8, 8, 3)).astype(np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC)) for image in smooth]
    dark = (np.stack(large) * rng.uniform(0.3, 1, (12, 1, 1, 1)) + 10).astype(np.uint8)
    return torch.from_numpy(dark.transpose(0, 3, 1, 2).copy())


def pillow(images, function):
    done = [np.asarray(function(Image.fromarray(image.permute(1, 2, 0).numpy()), i)) for i, image in enumerate(images)]
    return torch.from_numpy(np.stack(done).transpose(0, 3, 1, 2)).float()


STRENGTH = torch.linspace(0, 1, 12)
FACTOR = (0.05 + 0.9 * STRENGTH).tolist()


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("brightness", lambda image, i: ImageEnhance.Brightness(image).enhance(FACTOR[i])),
        ("color", lambda image, i: ImageEnhance.Color(image).enhance(FACTOR[i])),
        ("contrast", lambda image, i: ImageEnhance.Contrast(image).enhance(FACTOR[i])),
        ("sharpness", lambda image, i: ImageEnhance.Sharpness(image).enhance(FACTOR[i])),
        ("solarize", lambda image, i: ImageOps.solarize(image, math.ceil(256 * (1 - float(STRENGTH[i]))))),
        ("posterize", lambda image, i: ImageOps.posterize(image, 4 + round(float(4 * STRENGTH[i])))),
        ("autocontrast", lambda image, i: ImageOps.autocontrast(image)),
        ("equalize", lambda image, i: ImageOps.equalize(image)),
        ("identity", lambda image, i: image),
    ],
)
def test_colours_are_pillows(images, name, reference):
    ours = ops.OPERATIONS[name][0](images.float(), STRENGTH)
    assert (ours - pillow(images, reference)).abs().max() <= 1.5  # Pillow rounds in between


def test_movements(images):
    x = images.float()
    still = torch.zeros(12)
    for name in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y"):
        operation, mirrored = ops.OPERATIONS[name]
        assert mirrored
        torch.testing.assert_close(operation(x, still), x)
        assert (operation(x, torch.ones(12)) != operation(x, -torch.ones(12))).any()
    right = ops.translate_x(x, torch.full((12,), -1 / 4.8))  # a sixteenth of 32 pixels
    torch.testing.assert_close(right[:, :, :, 2:], x[:, :, :, :-2])
    assert (right[:, :, :, :2] == 0).all()
    down = ops.translate_y(x, torch.full((12,), -1 / 4.8))
    torch.testing.assert_close(down[:, :, 2:], x[:, :, :-2])
    turned = ops.rotate(x, torch.ones(12))
    expected = pillow(images, lambda image, i: image.rotate(30))
    assert ((turned - expected).abs().amax(dim=1) < 1).float().mean() > 0.9  # nearest pixels, but for ties


def test_each_image_draws_its_own(images):
    many = images[:1].repeat(400, 1, 1, 1)
    once = ops.randaugment(many, 1, torch.Generator().manual_seed(0))
    kinds = {image.numpy().tobytes() for image in once}
    assert len(kinds) > 100
    unchanged = (once == many).flatten(1).all(dim=1).float().mean()
    assert 0.45 < unchanged < 0.68  # a coin, and `identity` (and operations of no effect)
    torch.testing.assert_close(once, ops.randaugment(many, 1, torch.Generator().manual_seed(0)))
    assert ops.randaugment(many, 2, torch.Generator().manual_seed(0)).min() >= 0


def test_grey_images_too():
    grey = torch.randint(0, 256, (200, 1, 28, 28), dtype=torch.uint8)
    assert ops.randaugment(grey, 2, torch.Generator().manual_seed(0)).shape == grey.shape


def test_cutout_blanks_a_square():
    images = torch.ones(200, 2, 10, 10)
    cut = cutout(images, 4, torch.Generator().manual_seed(0))
    blank = (cut == 0).all(dim=1)
    assert ((cut == 0).any(dim=1) == blank).all()
    sizes = blank.sum(dim=(1, 2))
    assert sizes.max() == 16
    assert sizes.min() >= 4  # a corner
    for image in blank[:20]:
        rows, columns = image.any(dim=1).nonzero()[:, 0], image.any(dim=0).nonzero()[:, 0]
        assert image.sum() == len(rows) * len(columns)


def test_pairs_are_mixed_by_one_share_and_not_at_all_without():
    rows = torch.arange(12.0).reshape(6, 2)
    same, partners, share = mixed_pairs(rows, 0.0, torch.Generator().manual_seed(0))
    assert same is rows
    assert (share, partners.tolist()) == (1.0, list(range(6)))
    shares = []
    for seed in range(200):
        mixed, partners, share = mixed_pairs(rows, 0.5, torch.Generator().manual_seed(seed))
        torch.testing.assert_close(mixed, share * rows + (1 - share) * rows[partners])
        assert sorted(partners.tolist()) == list(range(6))
        shares.append(share)
    # Beta(½, ½): mean ½, variance ⅛; six standard errors.
    assert abs(np.mean(shares) - 0.5) < 6 * np.sqrt(1 / 8 / 200)
    assert abs(np.var(shares) - 1 / 8) < 0.04
