import os

import numpy as np
import pytest
from PIL import Image

from labeldp.data.features import read_features
from labeldp.errors import InputError
from labeldp.files.ids import find

DRAW = np.random.default_rng(0)


def colour(height=5, width=7):
    return DRAW.integers(0, 256, (height, width, 3), dtype=np.uint8)


def grey(height=5, width=7):
    return DRAW.integers(0, 256, (height, width), dtype=np.uint8)


def save(folder, name, pixels, **options):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(path, **options)


def test_every_image_by_its_path(tmp_path):
    """Sorted as text, whatever the case of the ending; hidden files and other files are passed over."""
    images = {name: colour() for name in ("b/2.PNG", "b.png", "a/x/1.bmp", "B/é ü.tiff", "10.png", "9.ppm")}
    for name, pixels in images.items():
        save(tmp_path, name, pixels)
    for name in (".hidden.png", ".cache/1.png", "a/.x/1.png"):
        save(tmp_path, name, colour(1, 1))
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "b" / "png").write_text("no image")
    read = read_features(tmp_path)
    assert read.ids.tolist() == ["10.png", "9.ppm", "B/é ü.tiff", "a/x/1.bmp", "b.png", "b/2.PNG"]
    assert (read.values.shape, read.values.dtype) == ((6, 3, 5, 7), np.uint8)
    for row, name in enumerate(read.ids):
        np.testing.assert_array_equal(read.values[row], images[name].transpose(2, 0, 1))
    assert read.values.flags.c_contiguous
    assert (read.named, read.folder, read.columns) == (True, tmp_path, ())
    assert find(["b.png"], read.ids, "the folder").tolist() == [4]


@pytest.mark.parametrize(("ending", "options"), [("webp", {"lossless": True}), ("gif", {}), ("jpg", {}), ("jpeg", {})])
def test_formats(tmp_path, ending, options):
    pixels = np.full((16, 16, 3), (200, 30, 90), np.uint8)
    save(tmp_path, f"1.{ending}", pixels, **options)
    assert np.abs(read_features(tmp_path).values[0].transpose(1, 2, 0).astype(int) - pixels).max() <= 8


def test_grey_if_all_are_grey(tmp_path):
    pixels = grey()
    save(tmp_path, "1.png", pixels)
    save(tmp_path, "2.png", Image.fromarray(pixels).convert("LA"))
    save(tmp_path, "3.png", Image.fromarray(pixels).convert("1"))
    values = read_features(tmp_path).values
    assert values.shape == (3, 1, 5, 7)
    np.testing.assert_array_equal(values[0, 0], pixels)
    np.testing.assert_array_equal(values[1, 0], pixels)
    assert set(np.unique(values[2])) <= {0, 255}
    save(tmp_path, "4.png", colour())
    values = read_features(tmp_path).values
    assert values.shape == (4, 3, 5, 7)
    np.testing.assert_array_equal(values[0], np.stack([pixels] * 3))


def test_transparent_images_lose_their_alpha(tmp_path):
    pixels = colour()
    alpha = np.concatenate([pixels, grey()[..., None]], axis=2)
    save(tmp_path, "1.png", alpha)
    with_palette = Image.fromarray(pixels).quantize(4)
    save(tmp_path, "2.png", with_palette, transparency=bytes([0, 128, 255, 255]))
    values = read_features(tmp_path).values
    np.testing.assert_array_equal(values[0], pixels.transpose(2, 0, 1))
    np.testing.assert_array_equal(values[1], np.asarray(with_palette.convert("RGB")).transpose(2, 0, 1))


def test_one_size(tmp_path):
    save(tmp_path, "1.png", colour(5, 7))
    save(tmp_path, "2.png", colour(5, 8))
    with pytest.raises(InputError, match=r"2.png is 8 × 5 pixels, 1.png is 7 × 5: .*`image_size`"):
        read_features(tmp_path)
    assert read_features(tmp_path, image_size=4).values.shape == (2, 3, 4, 4)


def test_the_middle_is_cut_out(tmp_path):
    """Left and right of a wide image, and above and below a tall one, are not seen."""
    wide = np.zeros((4, 12, 3), np.uint8)
    wide[:, 4:8] = 250
    save(tmp_path, "1.png", wide)
    save(tmp_path, "2.png", wide.transpose(1, 0, 2))
    assert (read_features(tmp_path, image_size=4).values == 250).all()
    assert read_features(tmp_path, image_size=9).values.shape == (2, 3, 9, 9)


@pytest.mark.parametrize(("height", "width", "size"), [(48, 72, 16), (88, 40, 20), (30, 30, 10), (10, 14, 20)])
def test_as_the_shorter_side_scaled_and_the_middle_cut_out(tmp_path, height, width, size):
    """The naive reference, with a whole number of pixels to cut off on either side."""
    image = Image.fromarray(colour(height, width))
    save(tmp_path, "1.png", image)
    scale = size / min(height, width)
    wide, high = round(width * scale), round(height * scale)
    left, top = (wide - size) // 2, (high - size) // 2
    expected = image.resize((wide, high), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    found = read_features(tmp_path, image_size=size).values[0].transpose(1, 2, 0)
    assert np.abs(found.astype(int) - np.asarray(expected)).max() <= 1


def test_the_right_size_is_left_alone(tmp_path):
    pixels = colour(6, 6)
    save(tmp_path, "1.png", pixels)
    np.testing.assert_array_equal(read_features(tmp_path, image_size=6).values[0], pixels.transpose(2, 0, 1))


def test_scaling_is_antialiased(tmp_path):
    """A fine chequerboard becomes an even grey; nearest neighbours would pick black or white."""
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    save(tmp_path, "1.png", board)
    assert np.abs(read_features(tmp_path, image_size=8).values.astype(int) - 127).max() <= 2


def broken(folder):
    save(folder, "1.png", colour(64, 64))
    save(folder, "2.png", colour(64, 64))
    return folder / "2.png"


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_named(tmp_path, content):
    broken(tmp_path).write_bytes(content)
    with pytest.raises(InputError, match=r"2.png is called like an image, but cannot be decoded"):
        read_features(tmp_path)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_cut_image_is_named(tmp_path, keep):
    path = broken(tmp_path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    with pytest.raises(InputError, match=r"2.png is called like an image, but cannot be decoded"):
        read_features(tmp_path)


def test_a_bomb_is_named(tmp_path, monkeypatch):
    broken(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match=r"1.png is called like an image, but cannot be decoded"):
        read_features(tmp_path)


def test_a_link_to_nowhere_is_named(tmp_path):
    save(tmp_path, "1.png", colour())
    (tmp_path / "2.png").symlink_to(tmp_path / "gone.png")
    with pytest.raises(InputError, match=r"2.png cannot be read: No such file"):
        read_features(tmp_path)


def test_more_than_a_byte_is_not_clipped(tmp_path):
    save(tmp_path, "1.png", np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(InputError, match=r"1.png has more than 8 bits"):
        read_features(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
def test_a_name_that_is_no_text(tmp_path):
    save(tmp_path, "1.png", colour())
    try:
        os.rename(tmp_path / "1.png", os.fsencode(tmp_path) + b"/\xff.png")
    except OSError:
        pytest.skip("this file system wants text")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_features(tmp_path)


def test_bad_requests(tmp_path):
    with pytest.raises(InputError, match="there are no images in"):
        read_features(tmp_path)
    save(tmp_path, "1.png", colour())
    with pytest.raises(InputError, match="leave out `id_column`"):
        read_features(tmp_path, "file")
    for size in (0, -1, 10_000):
        with pytest.raises(InputError, match="from 1 to 4096"):
            read_features(tmp_path, image_size=size)
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match="not a folder of images"):
        read_features(tmp_path / "x.npy", image_size=8)


def test_without_pillow(tmp_path, monkeypatch):
    save(tmp_path, "1.png", colour())
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(InputError, match="needs Pillow"):
        read_features(tmp_path)


@pytest.mark.parametrize("name", ["cat/1.png", "train/Cat/1.png", "CAT/more/1.png"])
def test_images_sorted_by_class_are_refused(tmp_path, name):
    """torchvision's ImageFolder: the path is the label."""
    save(tmp_path, name, colour())
    read = read_features(tmp_path)
    with pytest.raises(InputError, match=r"has a sub-folder '(cat|Cat|CAT)', .* protects nothing"):
        read.refuse_label("animal", ("dog", "cat"))
    read.refuse_label("animal")
    read.refuse_label("animal", ("dog", "catfish"))


def test_other_names_are_fine(tmp_path):
    """The folder's own name tells nothing about one image among others, nor is a file's name looked at."""
    save(tmp_path / "cat", "2024/cat.png", colour())
    read_features(tmp_path / "cat").refuse_label("animal", ("dog", "cat"))
