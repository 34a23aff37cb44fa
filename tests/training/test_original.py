"""The released code's operations, against Pillow and naive loops, image by image."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import nn

from labeldp.commands import TrainOptions
from labeldp.commands.train import recipe_of
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.pate.presets import recipe_for
from labeldp.training import augment, original
from labeldp.training.recipe import Recipe, cpu_fixmatch_recipe, fixmatch_recipe
from labeldp.training.trainer import Trainer

LEVELS = range(1, 10)
SIGNED = [level for level in range(-9, 10) if level]


@pytest.fixture
def images():
    """One for each strength, and both directions: 18."""
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (18, 8, 8, 3)).astype(np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC)) for image in smooth]
    dark = (np.stack(large) * rng.uniform(0.3, 1, (18, 1, 1, 1)) + 10).astype(np.uint8)
    return torch.from_numpy(dark.transpose(0, 3, 1, 2).copy())


def pillow(images, levels, function):
    """`function` of each image and its level, by Pillow."""
    pairs = zip(images, levels, strict=True)
    done = [np.asarray(function(Image.fromarray(one.permute(1, 2, 0).numpy()), v)) for one, v in pairs]
    return torch.from_numpy(np.stack(done).transpose(0, 3, 1, 2).copy()).float()


def ours(name, images, levels):
    return original.OPERATIONS[name][0](images.float(), torch.tensor(list(levels)) / 10)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("brightness", lambda image, v: ImageEnhance.Brightness(image).enhance(0.9 * v / 10 + 0.05)),
        ("color", lambda image, v: ImageEnhance.Color(image).enhance(0.9 * v / 10 + 0.05)),
        ("contrast", lambda image, v: ImageEnhance.Contrast(image).enhance(0.9 * v / 10 + 0.05)),
        ("sharpness", lambda image, v: ImageEnhance.Sharpness(image).enhance(0.9 * v / 10 + 0.05)),
        ("autocontrast", lambda image, v: ImageOps.autocontrast(image)),
        ("equalize", lambda image, v: ImageOps.equalize(image)),
    ],
)
def test_colours_are_pillows_to_a_unit(images, name, reference):
    result = ours(name, images[:9], LEVELS)
    assert torch.equal(result, result.round())
    assert (result - pillow(images[:9], LEVELS, reference)).abs().max() <= 1


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("identity", lambda image, v: image),
        ("posterize", lambda image, v: ImageOps.posterize(image, int(v * 4 / 10) + 4)),
        ("solarize", lambda image, v: ImageOps.solarize(image, 256 - int(v * 256 / 10))),
    ],
)
def test_these_are_pillows_exactly(images, name, reference):
    torch.testing.assert_close(ours(name, images[:9], LEVELS), pillow(images[:9], LEVELS, reference), atol=0, rtol=0)


def test_posterize_keeps_four_to_seven_bits():
    ramp = torch.arange(256.0).reshape(1, 1, 16, 16).repeat(9, 1, 1, 1)
    kept = [int(math.log2(len(image.unique()))) for image in ours("posterize", ramp, LEVELS)]
    assert kept == [4, 4, 5, 5, 6, 6, 6, 7, 7]


@pytest.mark.parametrize("size", [20, 28, 32])
@pytest.mark.parametrize("name", ["translate_x", "translate_y", "shear_x", "shear_y"])
def test_movements_equal_a_loop_over_pixels(images, name, size):
    """Of the code's AFFINE: a pixel's middle, mapped, falls into the pixel that it takes its value from."""
    images = images[:, :, :size, :size]
    moved = ours(name, images, SIGNED)
    for image, level, result in zip(images.numpy(), SIGNED, moved.numpy(), strict=True):
        amount = level * 0.3 / 10
        pixels = int(round(amount * size, 9))  # towards zero
        for y in range(size):
            for x in range(size):
                across, down = {
                    "translate_x": (x + pixels, y),
                    "translate_y": (x, y + pixels),
                    "shear_x": (math.floor(round(x + 0.5 + amount * (y + 0.5), 9)), y),
                    "shear_y": (x, math.floor(round(y + 0.5 + amount * (x + 0.5), 9))),
                }[name]
                inside = 0 <= across < size and 0 <= down < size
                expected = image[:, down, across] if inside else np.zeros(3)
                np.testing.assert_array_equal(result[:, y, x], expected)


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("shear_x", lambda v: (1, v * 0.3 / 10, 0, 0, 1, 0)),
        ("shear_y", lambda v: (1, 0, 0, v * 0.3 / 10, 1, 0)),
        ("translate_x", lambda v: (1, 0, int(v * 0.3 / 10 * 32), 0, 1, 0)),
        ("translate_y", lambda v: (1, 0, 0, 0, 1, int(v * 0.3 / 10 * 32))),
    ],
)
def test_movements_are_pillows(images, name, matrix):
    """But where a middle falls between two pixels, which Pillow's fixed-point numbers decide as they may."""
    expected = pillow(images, SIGNED, lambda image, v: image.transform(image.size, Image.Transform.AFFINE, matrix(v)))
    same = (ours(name, images, SIGNED) == expected).all(dim=1).float().mean()
    assert same == 1 if "translate" in name else same > 0.99


def test_rotations_are_pillows_in_whole_degrees(images):
    expected = pillow(images, SIGNED, lambda image, v: image.rotate(int(abs(v) * 30 / 10) * (1 if v > 0 else -1)))
    assert (ours("rotate", images, SIGNED) == expected).all(dim=1).float().mean() > 0.9  # nearest pixels, but for ties


def test_nine_strengths_equally_often():
    """Noted by an operation that returns them. 9,000 draws: each within six standard errors (a false alarm in 1e-8 of runs)."""
    images, noted = torch.zeros(18_000, 1, 2, 2), []

    def note(rows, strength):
        noted.append(strength)
        return rows

    augment.operated(images, 1, torch.Generator().manual_seed(0), {"note": (note, False)}, 9)
    levels, counts = torch.cat(noted).unique(return_counts=True)
    torch.testing.assert_close(levels, torch.arange(1, 10) / 10)
    share, total = 1 / 9, int(counts.sum())
    assert 8_500 < total < 9_500  # a coin decides whether it is applied
    assert ((counts / total - share).abs() < 6 * math.sqrt(share * (1 - share) / total)).all()


def drawn_by_pillow(across, down, size, length):
    """The code's own lines: a rectangle of Pillow's holds both of its ends."""
    left, top = int(max(0, across - size / 2)), int(max(0, down - size / 2))
    image = Image.new("L", (length, length), 10)
    ImageDraw.Draw(image).rectangle((left, top, int(min(length, left + size)), int(min(length, top + size))), 127)
    return np.asarray(image)


def test_cutout_draws_pillows_rectangle():
    images = torch.full((200, 3, 32, 32), 10.0)
    cut = original.cutout(images, 16, torch.Generator().manual_seed(0)).numpy()
    generator = torch.Generator().manual_seed(0)
    across, down = (32 * torch.rand(200, generator=generator) for _ in range(2))
    for image, x, y in zip(cut, across.tolist(), down.tolist(), strict=True):
        for channel in image:
            np.testing.assert_array_equal(channel, drawn_by_pillow(x, y, 16, 32))


def test_cutout_covers_a_quarter():
    """17 of 32 pixels, all of them unless at the right border: the mean over all places is 508/32 = 15.875."""
    widths = [min(17, 32 - int(max(0, place / 100 - 8))) for place in range(3200)]
    assert np.mean(widths) == 508 / 32
    cut = original.cutout(torch.zeros(4000, 1, 32, 32), 16, torch.Generator().manual_seed(1))
    covered = (cut == 127).float().mean(dim=(1, 2, 3))
    assert covered.max() == 17 * 17 / 1024
    assert covered.mean() == pytest.approx((508 / 1024) ** 2, abs=6 * float(covered.std()) / math.sqrt(4000))


# ── in training ──


def recipe(**changes):
    return replace(Recipe(1, 4, 0.1, shift=2, flip=True, mirror="coin", randaugment=2, cutout=16), **changes)


def trainer(recipe, model=None):
    made = Trainer(model or nn.Linear(1, 1), recipe, torch.device("cpu"), torch.float32)
    made.mean, made.scale = torch.full((3, 1, 1), 100.0), torch.full((3, 1, 1), 0.5)
    return made


def test_crop_and_mirror_come_first(images):
    """Step by step with the same draws: shift, mirror, RandAugment, cutout, and only then centred and scaled."""
    made = trainer(recipe(strong="original"))
    found = made._augmented(images, np.arange(18), torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    x = augment.shift(images.float(), 2, generator)
    x = augment.flip(x, torch.rand(18, generator=generator) < 0.5)
    x = original.cutout(original.randaugment(x, 2, generator), 16, generator)
    torch.testing.assert_close(found, (x - 100) * 0.5)
    assert (found == (127 - 100) * 0.5).flatten(1).any(dim=1).all()  # grey, in every image


def test_weak_views_are_the_same_either_way(images):
    views = [
        trainer(recipe(strong=strong))._augmented(
            images, np.arange(18), torch.Generator().manual_seed(3), strongly=False
        )
        for strong in ("ours", "original")
    ]
    torch.testing.assert_close(*views)


def test_our_way_is_as_it_was(images):
    """RandAugment, centred and scaled, shift, mirror, cutout: runs that began before there was another way go on alike."""
    found = trainer(recipe())._augmented(images, np.arange(18), torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    x = augment.shift((augment.randaugment(images, 2, generator) - 100) * 0.5, 2, generator)
    x = augment.flip(x, torch.rand(18, generator=generator) < 0.5)
    torch.testing.assert_close(found, augment.cutout(x, 16, generator))


@pytest.mark.parametrize("name", ["randaugment", "cutout"])
def test_only_images_of_bytes(images, name):
    other = {"randaugment": "cutout", "cutout": "randaugment"}[name]
    made = trainer(recipe(strong="original", **{other: 0}))
    with pytest.raises(InputError, match=f"`{name}` is for images of bytes"):
        made._augmented(images.float(), np.arange(18), torch.Generator())


@pytest.mark.parametrize("strong", ["ours", "original"])
def test_the_average_model_copies_buffers_or_averages_them(images, strong):
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
    made = trainer(Recipe(1, 6, 0.001, average=0.9, strong=strong), model)
    seen, plain = [], made._update

    def update():
        plain()
        seen.append((model[0].running_mean.clone(), model[2].weight.clone()))

    made._update = update
    list(made.fit(images, np.arange(18), lambda rows: np.zeros((len(rows), 2), np.float32)))
    assert len(seen) == 3
    (mean, weight) = seen[0]  # the first step is copied, whichever way; then 1/(1 + …) of itself is kept, up to 0.9
    for done, (now, weights) in enumerate(seen[1:], start=1):
        kept = min(0.9, (1 + done) / (10 + done))
        mean, weight = kept * mean + (1 - kept) * now, kept * weight + (1 - kept) * weights
    averaged = made.averaged.module
    torch.testing.assert_close(averaged[2].weight, weight)
    torch.testing.assert_close(averaged[0].running_mean, mean if strong == "ours" else seen[-1][0])
    assert not torch.allclose(mean, seen[-1][0])


# ── who trains which way ──


def test_published_recipes_are_original_and_ours_are_ours():
    images = np.zeros((4, 3, 32, 32), np.uint8)
    assert fixmatch_recipe("fast").strong == "original"
    assert recipe_of(TrainOptions(out="run", features="x.npy", fixmatch=True), "fast").strong == "original"
    assert recipe_for("wide-resnet-28-4", images, 10, 1, 0, paper=True).strong == "original"
    assert cpu_fixmatch_recipe("fast").strong == "ours"
    assert recipe_for("fast", images, 10, 1, 0).strong == "ours"
    assert recipe_of(TrainOptions(out="run", features="x.npy", randaugment=2), "fast").strong == "ours"
    assert fixmatch_recipe("mlp").strong == "ours"  # whose views are none of images
    with pytest.raises(InputError, match="`strong` is ours or original"):
        Recipe(1, 4, 0.1, strong="theirs")


def test_a_run_that_began_before_is_refused_or_goes_on_as_it_began(tmp_path):
    """Its configuration has no such field."""
    options = TrainOptions(out="run", features="x.npy", fixmatch=True)
    before = recipe_of(replace(options, strong="ours"), "fast").to_json()
    assert "strong" not in before
    run = RunFolder(tmp_path / "run")
    run.match({"recipe": before})
    with pytest.raises(InputError, match="another strong"):
        run.match({"recipe": recipe_of(options, "fast").to_json()})
    run.match({"recipe": before})
