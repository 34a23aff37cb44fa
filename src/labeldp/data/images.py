"""Images as features: a folder of them is one array of bytes, with the images' paths in the folder as ids."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.files.atomic import explain

# ----------------------------------------------------------------
# Pillow, which decodes images and comes with the `train` extra.

# Decoders of pictures only: Pillow would hand a PostScript file to Ghostscript, whatever it is called.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")


def pillow() -> Any:
    """The module `PIL.Image`, or a sentence on how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError('decoding images needs Pillow: pip install "labeldp[train]"') from None
    return Image


ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
_MAX_SIZE = 4096
_GREY = ("1", "L", "LA")
_DEEP = ("I", "F")  # I;16 and the like too: Pillow would clip them to a byte


def read_folder(folder: Path, image_size: int | None = None) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """Every image below `folder`, sorted by its path: (n, 3, h, w), or (n, 1, h, w) if all are grey; and the paths.

    `image_size` cuts the middle square out of each and scales it (with antialiasing) to that many pixels a side. Hidden
    files, and files that are not called like an image, are passed over; of an animation, the first picture counts.
    """
    if image_size is not None and not 1 <= image_size <= _MAX_SIZE:
        raise InputError(f"the image size must be from 1 to {_MAX_SIZE} pixels; got {image_size}.")
    names = tuple(sorted(_names(folder)))
    if not names:
        tables = (
            " Directories of Parquet files are not read yet: name one file." if any(folder.glob("*.parquet")) else ""
        )
        raise InputError(f"there are no images in {folder} ({', '.join(ENDINGS)}).{tables}")
    (width, height), grey = _common(folder, names, image_size)
    pixels = np.empty((len(names), 1 if grey else 3, height, width), np.uint8)
    for row, name in enumerate(names):
        pixels[row] = _decoded(folder / name, (width, height), "L" if grey else "RGB")
    return pixels, names


def folder_of_class(names: Sequence[str], label_names: Sequence[str]) -> str | None:
    """A sub-folder in these paths that is called like a class (`Cat`, `class_cat`); None if there is none.

    Numbers are no proof, since years and batches are numbers too: only where *every* image lies in a folder with the number of a class.
    """
    classes = {_plain(name) for name in label_names if not _plain(name).isdigit()}
    numbers = {str(number) for number in range(len(label_names))}
    parents = [PurePosixPath(name).parts[:-1] for name in names]
    named = min((part for parts in parents for part in parts if _plain(part) in classes), default=None)
    if named is not None:
        return named
    numbered = [next((part for part in parts if _plain(part) in numbers), None) for parts in parents]
    return min((part for part in numbered if part is not None), default=None) if all(numbered) else None


def _plain(name: str) -> str:
    """Without case, accents' encoding, `class_` in front, and zeros in front of a number."""
    text = unicodedata.normalize("NFKC", name).strip().casefold()
    text = re.sub(r"^(class|label)[ _-]*", "", text) or text
    return str(int(text)) if text.isdecimal() else text


def _names(folder: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise explain(Path(error.filename or folder), error, "read") from None

    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in files:
            if not file.startswith(".") and file.lower().endswith(ENDINGS):
                yield _id(folder, Path(place, file))


def _id(folder: Path, path: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the image {name!a} in {folder} has a name that is not UTF-8 text; rename it.") from None
    return name


def _common(folder: Path, names: tuple[str, ...], image_size: int | None) -> tuple[tuple[int, int], bool]:
    """The size (width, height) of the rows to come, and whether all images are grey; only their headers are read."""
    first, _ = _header(folder / names[0])
    grey = True
    for name in names:
        size, mode = _header(folder / name)
        grey = grey and mode in _GREY
        if image_size is None and size != first:
            raise InputError(
                f"{folder / name} is {size[0]} × {size[1]} pixels, {names[0]} is {first[0]} × {first[1]}: all must have one size. "
                "Name one (`image_size`) to have each scaled to it and its middle cut out."
            )
    return (first if image_size is None else (image_size, image_size)), grey


def _header(path: Path) -> tuple[tuple[int, int], str]:
    with _opened(path) as image:
        if image.mode.split(";")[0] in _DEEP:
            raise InputError(f"{path} has more than 8 bits for each pixel and channel; convert it to 8.")
        return image.size, image.mode


def _decoded(path: Path, size: tuple[int, int], mode: str) -> npt.NDArray[np.uint8]:
    from PIL import ImageOps

    with _opened(path) as image:
        opaque = image.convert("RGBA") if "transparency" in image.info else image
        fitting = opaque.convert(mode)
        if fitting.size != size:
            fitting = ImageOps.fit(fitting, size, pillow().Resampling.BILINEAR)
        pixels = np.asarray(fitting, dtype=np.uint8)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An image file; whatever its decoder stumbles over is an error that names the file."""
    try:
        with pillow().open(path, formats=FORMATS) as image:
            yield image
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a decoder raises anything
        if isinstance(error, OSError) and error.errno:
            raise explain(path, error, "read") from None
        raise InputError(
            f"{path} is called like an image, but cannot be decoded as one: damaged, or something else."
        ) from None
