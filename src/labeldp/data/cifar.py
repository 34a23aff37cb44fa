"""CIFAR-10 and CIFAR-100: Hugging Face Parquet files, else the official Python batches."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.data.dataset import Bundled
from labeldp.data.images import FORMATS, pillow
from labeldp.data.official import OFFICIAL, find_official, read_official
from labeldp.data.published import PUBLISHED
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.release.place import place_file

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
