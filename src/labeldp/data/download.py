"""Fetch a data set's published files: resumed where it stopped, verified by md5, then renamed into place in one step."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from labeldp.accounting.journal import sync_folder
from labeldp.data.published import PUBLISHED, File, data_folder, md5_of
from labeldp.errors import InputError
from labeldp.release.place import explain

Progress: TypeAlias = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known

_TIMEOUT = 60.0
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Fetched:
    """A published file that is now here; `fresh` says whether it had to be downloaded."""

    path: Path
    fresh: bool


class _StoppedError(Exception):
    """A download ended before its end; the message says why."""


def download(name: str, folder: Path | None = None, progress: Progress | None = None) -> list[Fetched]:
    """Fetch the named data set into `folder`. A right file that is there stays; a wrong one is replaced once the right one is whole."""
    if name not in PUBLISHED:
        hint = "digits comes with scikit-learn; " if name == "digits" else ""
        raise InputError(f"{hint}{name!r} is not among what can be downloaded: {', '.join(PUBLISHED)}.")
    published = PUBLISHED[name]
    place = data_folder(folder) / published.folder
    return [_fetch(file, place, progress or (lambda *_: None)) for file in published.files]


def _fetch(file: File, folder: Path, progress: Progress) -> Fetched:
    path, part = folder / file.name, folder / f"{file.name}.part"
    try:
        if _is_right(path, file):
            return Fetched(path, fresh=False)
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            if not _is_right(part, file):
                _receive(file, part, progress)
                if not _is_right(part, file):
                    part.unlink()
                    raise InputError(
                        f"what {file.url} sent is not the published file (its md5 is another). It was removed; the same command "
                        f"starts over. If that does not help, put the right {file.name} into {folder} by hand."
                    )
            os.replace(part, path)
            sync_folder(folder)
    except (_StoppedError, OSError) as error:
        reason = str(explain(part, error) if isinstance(error, OSError) else error).rstrip(".")
        raise InputError(
            f"{file.name} is not downloaded: {reason}. {_so_far(part)} By hand: put {file.url} into {folder}."
        ) from None
    return Fetched(path, fresh=True)


def _so_far(part: Path) -> str:
    size = part.stat().st_size if part.is_file() else 0
    if not size:
        return "Nothing of it is here yet; the same command tries again."
    return f"{size:,} bytes of it are kept in {part}; the same command goes on from there."


def _is_right(path: Path, file: File) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return md5_of(content) == file.md5


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two downloads at once would write into one part."""
    from filelock import FileLock, Timeout

    name = path.with_name(f".{path.name}.lock")
    lock = FileLock(name, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(f"another labeldp is downloading {path} right now; wait for it.") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            name.unlink()
        lock.release()


_MOST_BYTES = 1 << 28


def _receive(file: File, part: Path, progress: Progress) -> None:
    """Append to `part` what the server still has of the file."""
    with _network():
        response, done = _request(file.url, part.stat().st_size if part.exists() else 0)
    length = response.headers.get("Content-Length", "")
    total = done + int(length) if length.isdecimal() else None
    with response, part.open("ab", buffering=0) as out:
        out.truncate(done)
        progress(file.name, done, total)
        while True:
            with _network():
                chunk = response.read(_CHUNK)
            if not chunk:
                break
            rest = memoryview(chunk)
            while rest:
                rest = rest[out.write(rest) :]
            done += len(chunk)
            if done > _MOST_BYTES:
                raise _StoppedError("the server sends more than any of these data sets holds")
            progress(file.name, done, total)
        os.fsync(out.fileno())
    if total is not None and done < total:
        raise _StoppedError(f"the connection was cut after {done:,} of {total:,} bytes")


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """What goes wrong in here is the network's fault, not the disk's."""
    try:
        yield
    except (http.client.HTTPException, OSError) as error:  # urllib's URLError is an OSError
        raise _StoppedError(_reason(error)) from None


def _request(url: str, start: int) -> tuple[Any, int]:
    """The answer, and the byte it starts with: `start` if the server can, 0 if it does not do ranges or has none there."""
    if start:
        try:
            response = urlopen(Request(url, headers={"Range": f"bytes={start}-"}), timeout=_TIMEOUT)
        except HTTPError as error:
            error.close()
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
        else:
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                return response, 0
            if response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                return response, start
            response.close()
    return urlopen(url, timeout=_TIMEOUT), 0


def _reason(error: Exception) -> str:
    """What went wrong on the way, without what the server wrote."""
    if isinstance(error, HTTPError):
        error.close()
        return f"the server answered {error.code} {http.client.responses.get(error.code, '')}".rstrip()
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, socket.gaierror):
        return "the server's name cannot be looked up (is this machine on the network?)"
    if isinstance(cause, ssl.SSLError):
        return "no secure connection to the server came about (its certificate cannot be verified, or something is in between)"
    if isinstance(cause, TimeoutError):
        return f"the server was silent for {_TIMEOUT:.0f} seconds"
    if isinstance(cause, OSError) and cause.strerror:
        return f"the connection failed ({cause.strerror})"
    return "the connection was cut"
