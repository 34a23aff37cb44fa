"""What publishers of data sets hand out: addresses and md5 checksums (golden values: torchvision's tables), and where it lies here."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


@dataclass(frozen=True)
class File:
    """One published file."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """What it is called, there and here."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Published:
    """The files of a data set. Names that others use too (MNIST's are Fashion-MNIST's) get a folder of their own."""

    files: tuple[File, ...]
    folder: str = ""


PUBLISHED = {
    "cifar10": Published((File(_CIFAR + "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),)),
    "cifar100": Published((File(_CIFAR + "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),)),
    "fashion": Published(
        (
            File(_FASHION + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            File(_FASHION + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
            File(_FASHION + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
            File(_FASHION + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        "fashion-mnist",
    ),
}


def data_folder(given: Path | None = None) -> Path:
    """Where data files are: as given, else `LABELDP_DATA`, else ./data."""
    return given or Path(os.environ.get("LABELDP_DATA", "data"))


def md5_of(file: IO[bytes]) -> str:
    """The md5 of what is left to read. It finds damage, and nobody can yet forge a file to a given md5."""
    digest = hashlib.md5(usedforsecurity=False)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
