"""CIFAR as its authors publish it: pickled batches, in a folder or in the .tar.gz. Verified by md5, then unpickled."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.data.download import PUBLISHED, md5_of
from labeldp.errors import InputError
from labeldp.files.atomic import explain

Split: TypeAlias = tuple[npt.NDArray[np.uint8], list[int]]


@dataclass(frozen=True)
class Batches:
    """File names with their published md5, in order; `label` is the key of the labels."""

    folder: str
    label: bytes
    train: Mapping[str, str]
    test: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """All of them."""
        return {**self.train, **self.test}


# Golden values: torchvision's tables.
OFFICIAL = {
    "cifar10": Batches(
        "cifar-10-batches-py",
        b"labels",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        },
        {"test_batch": "40351d587109b95175f43aff81a1287e"},
    ),
    "cifar100": Batches(
        "cifar-100-python",
        b"fine_labels",
        {"train": "16019d7e3df5f24257cddd939b257f8d"},
        {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    ),
}


def find_official(name: str, folder: Path) -> Path | None:
    """The folder of batches, else the archive, else a folder of batches that lacks some; None if there is nothing."""
    batches, (archive,) = OFFICIAL[name], PUBLISHED[name].files
    unpacked, packed = folder / batches.folder, folder / archive.name
    if all((unpacked / file).is_file() for file in batches.files):
        return unpacked
    return packed if packed.is_file() else unpacked if unpacked.is_dir() else None


def read_official(name: str, place: Path) -> tuple[Split, Split]:
    """Pixels and labels for training and for testing, from what `find_official` found."""
    batches = OFFICIAL[name]
    parts = {}
    for file, content in _unpacked(name, place) if place.is_dir() else _packed(name, place):
        _verify(io.BytesIO(content), batches.files[file], place / file, name)
        parts[file] = _pixels_and_labels(load_pickle(content, f"{place / file}"), batches.label, place / file)
    missing = [file for file in batches.files if file not in parts]
    if missing:
        raise InputError(
            f"{place} lacks {', '.join(missing)}; unpack it again; `labeldp download {name}` fetches the archive."
        )
    return _joined([parts[file] for file in batches.train]), _joined([parts[file] for file in batches.test])


def _unpacked(name: str, place: Path) -> Iterator[tuple[str, bytes]]:
    for file in OFFICIAL[name].files:
        path = place / file
        try:
            if path.is_file():
                yield file, path.read_bytes()
        except OSError as error:
            raise explain(path, error, "read") from None


def _packed(name: str, path: Path) -> Iterator[tuple[str, bytes]]:
    """Members are read into memory: nothing is written, whatever their paths are."""
    batches, (archive,) = OFFICIAL[name], PUBLISHED[name].files
    wanted = {f"{batches.folder}/{file}": file for file in batches.files}
    try:
        with path.open("rb") as file:
            _verify(file, archive.md5, path, name)
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:gz") as members:
                for member in members:
                    content = members.extractfile(member) if member.isfile() and member.name in wanted else None
                    if content is not None:
                        yield wanted[member.name], content.read()
    except (tarfile.TarError, zlib.error, EOFError):
        raise InputError(f"{path} is damaged; `labeldp download {name}` fetches it again.") from None
    except OSError as error:
        raise explain(path, error, "read") from None


def _verify(file: IO[bytes], md5: str, path: Path, name: str) -> None:
    if md5_of(file) != md5:
        raise InputError(
            f"{path} is not the published file (its md5 is another): damaged, cut short or altered. It was not opened. "
            f"Remove it; `labeldp download {name}` fetches the archive."
        )


def _pixels_and_labels(content: dict[bytes, Any], label: bytes, path: Path) -> Split:
    pixels, labels = content.get(b"data"), content.get(label)
    if not (isinstance(pixels, np.ndarray) and isinstance(labels, list) and pixels.shape == (len(labels), 3 * 32 * 32)):
        raise InputError(
            f"{path} does not hold 'data' of 32 × 32 colour images with one of {label.decode()!r} for each."
        )
    return pixels.reshape(-1, 3, 32, 32), labels


def _joined(parts: list[Split]) -> Split:
    return np.concatenate([pixels for pixels, _ in parts]), [label for _, labels in parts for label in labels]


# ----------------------------------------------------------------
# Pickles that may hold plain containers, numbers, text and arrays of bytes. Nothing they name is imported or called.


class _Kind:
    """Stands for `numpy.dtype`: only its name is kept."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Stands for an array that is being unpickled: (version, shape, kind, in Fortran's order?, bytes)."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def values(self) -> npt.NDArray[np.uint8]:
        _, shape, kind, fortran, data = self.state
        if not isinstance(kind, _Kind) or kind.name not in (b"u1", "u1"):
            raise ValueError
        return np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _UnexpectedError(Exception):
    """The pickle names something else."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise _UnexpectedError(f"{module}.{name}")
        return _STAND_INS[module, name]


def load_pickle(data: bytes, called: str) -> dict[bytes, Any]:
    """The dictionary in a pickle that Python 2 wrote; its arrays are read-only. `called` is what errors call the file."""
    problem = "it is damaged, or holds something else than a dictionary of arrays of bytes, lists and numbers"
    try:
        loaded = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        return {key: value.values() if isinstance(value, _Array) else value for key, value in loaded.items()}
    except _UnexpectedError as unexpected:
        problem = f"it names {str(unexpected)!r}, which pixels and labels do not need; nothing of it was run"
    except MemoryError:
        raise
    except Exception:  # broken opcodes raise anything, and the message may quote a label: raised outside, without it
        pass
    raise InputError(f"{called} is not read: {problem}.")
