"""Files that are there whole or not at all: written privately, made durable, then renamed into place."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from labeldp.errors import InputError


def explain(path: Path, error: OSError, doing: str = "written") -> InputError:
    """One sentence for what the operating system said."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return InputError(f"there is not enough room on the disk for {path}.")
    return InputError(f"{path} cannot be {doing}: {error.strerror or type(error).__name__}.")


def look_up(path: Path) -> os.stat_result | None:
    """What is at this path, None if nothing is; a path that cannot even be looked up is said."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise explain(path, error, "looked up") from None


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def temporary_beside(path: Path) -> Path:
    """A fresh name in the same folder, short whatever the file is called."""
    return path.with_name(f".labeldp-{secrets.token_hex(8)}.tmp")


def open_private(path: Path, append: bool = False) -> IO[bytes]:
    """A file for writing that only its owner can read."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, 0o600), "ab" if append else "wb")


def reserve(path: Path, size: int, called: Path | None = None) -> None:
    """Make a new private file and claim its room on the disk now, or say that there is none (for the file `called` so)."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, max(size, 1))
            elif shutil.disk_usage(path.parent).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise explain(called or path, error) from None


def fill_and_place(
    temporary: Path, path: Path, write: Callable[[IO[bytes]], Any], *, replace: bool = False, private: bool = False
) -> None:
    """Fill a reserved file, make it durable, and move it to `path` with the usual permissions, or for its owner only.

    Unless it may `replace` a file, one that appeared there meanwhile is left alone, and said.
    """
    try:
        with temporary.open("r+b") as file:
            write(file)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o600 if private else 0o644 & ~_umask())
        if replace or not _link(temporary, path):
            os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise explain(path, error) from None


def place_file(path: Path, write: Callable[[IO[bytes]], Any], *, private: bool = False) -> None:
    """Write `path` as a whole: it appears complete or not at all. A `private` file only its owner can read."""
    if path.is_dir() or not path.name:  # "." has no name that a temporary file could be called by
        raise InputError(f"{path} is a directory; name a file.")
    temporary = temporary_beside(path)
    try:
        reserve(temporary, 0, called=path)
        fill_and_place(temporary, path, write, replace=True, private=private)
    finally:
        temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> bool:
    """Give the file its name only if nobody has it (a link refuses, a rename would not). False where there are no links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        return False
    temporary.unlink()
    return True


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
