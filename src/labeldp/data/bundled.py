"""Data sets for experiments: public features, private training labels, public test labels."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.data.download import PUBLISHED, data_folder
from labeldp.data.images import FORMATS, pillow
from labeldp.data.official import OFFICIAL, find_official, read_official
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.private import PrivateLabels


@dataclass(frozen=True)
class Bundled:
    """`features` and `test_features` are images (n, channels, height, width) as bytes, or rows of numbers."""

    name: str
    features: npt.NDArray[Any]
    labels: PrivateLabels
    test_features: npt.NDArray[Any]
    test_labels: npt.NDArray[np.int64]
    label_names: tuple[str, ...] | None = None


# ----------------------------------------------------------------
# CIFAR-10 and CIFAR-100: Hugging Face Parquet files, else the official Python batches.

_LABEL = {"cifar10": "label", "cifar100": "fine_label"}
_CLASSES = {"cifar10": 10, "cifar100": 100}


def load_cifar(name: str, folder: Path) -> Bundled:
    """`cifar10` or `cifar100`, from whichever files are there. Pixels and order are the same in all of them."""
    parquet = [folder / f"{name}-{split}.parquet" for split in ("train", "test")]
    official = find_official(name, folder)
    splits: Iterable[tuple[npt.NDArray[np.uint8], Any]]
    if official is not None and not all(path.exists() for path in parquet):
        splits = read_official(name, official)
    else:
        splits = [_images(name, path) for path in parquet]
    (x, y), (test_x, test_y) = splits
    return Bundled(name, x, PrivateLabels(y, _CLASSES[name]), test_x, np.asarray(test_y, dtype=np.int64))


def _missing(name: str, path: Path) -> InputError:
    batches, (archive,) = OFFICIAL[name], PUBLISHED[name].files
    return InputError(
        f"there is no {path}. Any of these will do in {path.parent}: the Hugging Face files {name}-train.parquet and {name}-test.parquet; "
        f"the folder {batches.folder} of official Python batches ({', '.join(batches.files)}); or {archive.name}, which "
        f"`labeldp download {name}` fetches. Another folder is named with `data`."
    )


def _images(name: str, path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Encoded images and labels of a Hugging Face Parquet file; decoded pixels are kept in the cache."""
    import pyarrow.parquet as pq

    label = _LABEL[name]
    if not path.exists():
        raise _missing(name, path)
    columns = pq.read_schema(path).names
    if "img" not in columns or label not in columns:
        raise InputError(f"{path} needs columns 'img' and {label!r}; it has {', '.join(columns)}.")
    labels = pq.read_table(path, columns=[label]).column(label).to_numpy()
    cached = _cache() / f"{path.stem}-{path.stat().st_size}-{path.stat().st_mtime_ns}.npy"
    if cached.exists():
        return np.load(cached, allow_pickle=False), labels
    pixels = _decoded(pq.read_table(path, columns=["img"]).column("img").to_pylist(), path)
    cached.parent.mkdir(parents=True, exist_ok=True)
    place_file(cached, lambda file: np.save(file, pixels))
    return pixels, labels


def _decoded(cells: list[dict[str, Any]], path: Path) -> npt.NDArray[np.uint8]:
    image = pillow()
    images = []
    for row, cell in enumerate(cells):
        try:
            images.append(np.asarray(image.open(io.BytesIO(cell["bytes"]), formats=FORMATS).convert("RGB")))
        except (OSError, TypeError):  # Pillow's UnidentifiedImageError is an OSError
            raise InputError(f"row {row} of {path} holds no image that can be decoded.") from None
    return np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2))


def _cache() -> Path:
    import platformdirs

    return Path(os.environ.get("LABELDP_CACHE") or platformdirs.user_cache_dir("labeldp", appauthor=False))


# ----------------------------------------------------------------
# Fashion-MNIST, from its four idx files.

_DEBIAN = ("/usr/share/dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist")


def load_fashion(name: str, folder: Path) -> Bundled:
    """From `folder`/fashion-mnist, `folder` (its names are MNIST's too: the folder of its own goes first), or Debian's package."""
    published = PUBLISHED[name]
    places = [folder / published.folder, folder, *map(Path, _DEBIAN)]
    place = next((p for p in places if (p / "train-images-idx3-ubyte.gz").exists()), None)
    if place is None:
        raise InputError(
            f"there is no Fashion-MNIST in {folder}. Its four files ({', '.join(file.name for file in published.files)}) are looked for in "
            f"{folder / published.folder}, in {folder}, and where Debian's package dataset-fashion-mnist puts them; "
            f"`labeldp download {name}` fetches them. Another folder is named with `data`."
        )
    x, test_x = (_idx(place / f"{s}-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28), name) for s in ("train", "t10k"))
    y, test_y = (_idx(place / f"{s}-labels-idx1-ubyte.gz", 8, (-1,), name) for s in ("train", "t10k"))
    return Bundled(name, x, PrivateLabels(y, 10), test_x, test_y.astype(np.int64))


def _idx(path: Path, header: int, shape: tuple[int, ...], name: str) -> npt.NDArray[np.uint8]:
    try:
        content = bytearray(
            gzip.decompress(path.read_bytes())
        )  # of which an array may be written to, as torch wants it
        return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    except (OSError, ValueError, EOFError, zlib.error):
        raise InputError(f"{path} is damaged or missing; `labeldp download {name}` fetches it.") from None


__all__ = ["NAMES", "Bundled", "data_folder", "load"]


def load(name: str, folder: Path | None = None) -> Bundled:
    """The named data set, from files in `folder`; digits come with scikit-learn."""
    if name not in _LOADERS:
        raise InputError(f"unknown data set {name!r}; choose one of {', '.join(_LOADERS)}.")
    return _LOADERS[name](name, data_folder(folder))


def digits_order(rows: int) -> list[int]:
    """A fixed public order of the digits: by the SHA-256 of "digit 0", "digit 1" …, the same everywhere and for ever.

    As stored they go by writer, and the last writers' are the hardest: a test on the last rows would be one on other people than
    those who were trained on, and would disagree, rightly, with an accuracy that is estimated from rows held out.
    """
    return sorted(range(rows), key=lambda row: sha256(f"digit {row}".encode()).digest())


def _digits(name: str, _: Path) -> Bundled:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the bundled digits come with scikit-learn: pip install scikit-learn") from None
    data = load_digits()
    order = digits_order(len(data.target))
    x, y = data.data[order].astype(np.float32), data.target[order]
    return Bundled(name, x[:-360], PrivateLabels(y[:-360], 10), x[-360:], y[-360:].astype(np.int64))


_LOADERS: dict[str, Callable[[str, Path], Bundled]] = {
    "digits": _digits,
    "fashion": load_fashion,
    "cifar10": load_cifar,
    "cifar100": load_cifar,
}
NAMES = tuple(_LOADERS)
