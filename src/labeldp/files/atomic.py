"""Files that are there whole or not at all: written privately, made durable, then renamed into place."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
        _remove(path)
        raise explain(called or path, error) from None


def fill_and_place(
    temporary: Path, path: Path, write: Callable[[IO[bytes]], Any], *, replace: bool = False, private: bool = False
) -> None:
    """Fill a reserved file, make it durable, and move it to `path` with the usual permissions, or for its owner only."""
    fill(temporary, path, write)
    place(temporary, path, replace=replace, private=private)


def fill(temporary: Path, path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Fill a reserved file that is to become `path`, and make it durable."""
    try:
        with temporary.open("r+b") as file:
            write(file)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise explain(path, error) from None


def place(temporary: Path, path: Path, *, replace: bool = False, private: bool = False) -> None:
    """Move a filled file to `path`. Unless it may `replace` a file, one that appeared there meanwhile is left alone, and said."""
    try:
        os.chmod(temporary, 0o600 if private else 0o644 & ~_umask())
        if replace or not _link(temporary, path):
            os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise explain(path, error) from None


def place_file(path: Path, write: Callable[[IO[bytes]], Any], *, replace: bool = True, private: bool = False) -> None:
    """Write `path` as a whole: it appears complete or not at all. A `private` file only its owner can read."""
    with unfinished(path) as temporary:
        fill_and_place(temporary, path, write, replace=replace, private=private)


_UNFINISHED, _PART = ".labeldp-", ".part"


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A private file beside `path`, to be filled and placed; what writers of `path` left there who were killed is removed.

    Its writer holds a lock on it, which the operating system lifts when the writer dies: so the living are told from the dead.
    """
    if path.is_dir() or not path.name:  # "." has no name that an unfinished file could be called by
        raise InputError(f"{path} is a directory; name a file.")
    remove_unfinished(path)
    temporary, held = _begin(path)
    try:
        yield temporary
    finally:
        _remove(temporary)
        os.close(held)


def _remove(temporary: Path) -> None:
    """If it can be: the next writer of the same path tries again."""
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def remove_unfinished(path: Path) -> None:
    """Remove what a writer of `path` left beside it when it was killed."""
    _remove_dead(path.parent, _prefix(path))


def sweep(folder: Path) -> None:
    """Remove what any writer left in this folder when it was killed: for files that nobody may write again."""
    _remove_dead(folder, _UNFINISHED)


def _remove_dead(folder: Path, prefix: str) -> None:
    for left in folder.glob(f"{prefix}*{_PART}"):
        with suppress(OSError):
            handle = os.open(left, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            if _lock(handle):
                left.unlink(missing_ok=True)
            os.close(handle)


def is_unfinished(path: Path) -> bool:
    """Whether this is a file that was never placed: no part of what a folder holds."""
    return path.name.startswith(_UNFINISHED) and path.suffix == _PART


def _prefix(path: Path) -> str:
    """What names of unfinished files begin with: short, whatever the file is called."""
    return f"{_UNFINISHED}{hashlib.sha256(path.name.encode(errors='surrogateescape')).hexdigest()[:8]}-"


def _begin(path: Path) -> tuple[Path, int]:
    """An empty private file beside `path`, and the handle that holds its lock."""
    while True:
        temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_PART}")
        reserve(temporary, 0, called=path)
        try:
            handle = os.open(temporary, os.O_RDWR)
        except FileNotFoundError:
            # Before it is locked, another writer of the same path may take it for a dead one's: then there is another.
            continue
        except OSError as error:
            _remove(temporary)
            raise explain(path, error) from None
        if _lock(handle) is not False and os.fstat(handle).st_nlink:
            return temporary, handle
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Whether the lock is ours; None where files cannot be locked, and so nobody's is removed."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


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


def sync_folder(folder: Path) -> None:
    """Make a new name in this folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
