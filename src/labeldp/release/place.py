"""Files that are there whole or not at all: written privately, made durable, then renamed into place."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from labeldp.errors import InputError


def explain(path: Path, error: OSError) -> InputError:
    """One sentence for what the operating system said."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return InputError(f"there is not enough room on the disk for {path}.")
    return InputError(f"{path} cannot be written: {error.strerror or error}.")


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_private(path: Path) -> IO[bytes]:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b")


def reserve(path: Path, size: int) -> None:
    """Make a private file and claim its room on the disk now, or say that there is none."""
    try:
        with open_private(path) as file:
            _allocate(file, size, path)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise explain(path, error) from None


def _allocate(file: IO[bytes], size: int, path: Path) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, max(size, 1))
    elif shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def place_file(path: Path, write: Callable[[IO[bytes]], Any], mode: int = 0o644) -> None:
    """Write `path` as a whole: the file appears complete, with the usual permissions, or not at all."""
    temporary = path.with_name(f".{path.name}.labeldp-tmp")  # one name, so that a killed process's is found again
    try:
        temporary.unlink(missing_ok=True)
        try:
            with open_private(temporary) as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode & ~_umask())
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise explain(path, error) from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
