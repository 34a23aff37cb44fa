"""Fashion-MNIST, from its four idx files."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labeldp.data.dataset import Bundled
from labeldp.data.published import PUBLISHED
from labeldp.errors import InputError
from labeldp.private import PrivateLabels

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
