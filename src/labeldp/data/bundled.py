"""Data sets for experiments: public features, private training labels, public test labels."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.release.place import place_file

_FASHION_PLACES = ("/usr/share/dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True)
class Bundled:
    """`features` and `test_features` are images (n, channels, height, width) as bytes, or rows of numbers."""

    name: str
    features: npt.NDArray[Any]
    labels: PrivateLabels
    test_features: npt.NDArray[Any]
    test_labels: npt.NDArray[np.int64]
    label_names: tuple[str, ...] | None = None


def data_folder(given: Path | None = None) -> Path:
    """Where data files are: as given, else `LABELDP_DATA`, else ./data."""
    return given or Path(os.environ.get("LABELDP_DATA", "data"))


def load(name: str, folder: Path | None = None) -> Bundled:
    """The named data set, from files in `folder`; digits come with scikit-learn."""
    if name not in _LOADERS:
        raise InputError(f"unknown data set {name!r}; choose one of {', '.join(_LOADERS)}.")
    return _LOADERS[name](data_folder(folder))


def _digits(folder: Path) -> Bundled:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the bundled digits come with scikit-learn: pip install scikit-learn") from None
    data = load_digits()
    x, y = data.data.astype(np.float32), data.target
    return Bundled("digits", x[:-360], PrivateLabels(y[:-360], 10), x[-360:], y[-360:].astype(np.int64))


def _cifar(classes: int, label: str) -> Callable[[Path], Bundled]:
    def load(folder: Path) -> Bundled:
        parts = {split: _images(folder / f"cifar{classes}-{split}.parquet", label) for split in ("train", "test")}
        (x, y), (test_x, test_y) = parts["train"], parts["test"]
        return Bundled(f"cifar{classes}", x, PrivateLabels(y, classes), test_x, test_y.astype(np.int64))

    return load


def _images(path: Path, label: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Encoded images and labels of a Hugging Face Parquet file; decoded pixels are kept beside it, or in the cache."""
    import pyarrow.parquet as pq

    if not path.exists():
        raise InputError(
            f"there is no {path}; put the Hugging Face Parquet file there, or name its folder with --data."
        )
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
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError('decoding images needs Pillow: pip install "labeldp[train]"') from None
    images = []
    for row, cell in enumerate(cells):
        try:
            images.append(np.asarray(Image.open(io.BytesIO(cell["bytes"])).convert("RGB")))
        except (UnidentifiedImageError, OSError, TypeError):
            raise InputError(f"row {row} of {path} holds no image that can be decoded.") from None
    return np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2))


def _cache() -> Path:
    import platformdirs

    return Path(os.environ.get("LABELDP_CACHE") or platformdirs.user_cache_dir("labeldp", appauthor=False))


def _fashion(folder: Path) -> Bundled:
    places = [folder, folder / "fashion-mnist", *map(Path, _FASHION_PLACES)]
    place = next((p for p in places if (p / "train-images-idx3-ubyte.gz").exists()), None)
    if place is None:
        raise InputError(
            f"Fashion-MNIST (train-images-idx3-ubyte.gz …) is not in {folder}; Debian's package dataset-fashion-mnist has it."
        )
    x, test_x = (_idx(place / f"{s}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28) for s in ("train", "t10k"))
    y, test_y = (_idx(place / f"{s}-labels-idx1-ubyte.gz", 8) for s in ("train", "t10k"))
    return Bundled("fashion", x, PrivateLabels(y, 10), test_x, test_y.astype(np.int64))


def _idx(path: Path, header: int) -> npt.NDArray[np.uint8]:
    try:
        return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)
    except (OSError, ValueError, EOFError):
        raise InputError(f"{path} is damaged or missing.") from None


_LOADERS: dict[str, Callable[[Path], Bundled]] = {
    "digits": _digits,
    "fashion": _fashion,
    "cifar10": _cifar(10, "label"),
    "cifar100": _cifar(100, "fine_label"),
}
NAMES = tuple(_LOADERS)
