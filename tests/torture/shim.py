"""What is done to a command's file calls, and two ways to do it: preload.c under every library, or wrappers of Python's own calls."""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import mmap
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COUNT, FAIL, KILL_BEFORE, KILL_AFTER, FULL = range(5)  # FULL: from this call on the disk is full


@dataclass(frozen=True)
class Blow:
    """What happens, and at which of the command's file calls (from 1)."""

    mode: int = COUNT
    at: int = 0
    error: int = errno.EIO

    def __str__(self) -> str:
        what = {
            COUNT: "nothing", FAIL: errno.errorcode[self.error], KILL_BEFORE: "killed before", KILL_AFTER: "killed after",
            FULL: "disk full from",
        }  # fmt: skip
        return f"{what[self.mode]} call {self.at}"


class Control(ctypes.Structure):
    """The shared memory of a command and whoever torments it; preload.c knows it too."""

    _fields_ = [
        *((name, ctypes.c_long) for name in ("mode", "at", "error", "count", "used")),
        ("folder", ctypes.c_char * 1024),
        ("log", ctypes.c_char * (1 << 18)),
    ]


def shared_control() -> Control:
    return Control.from_buffer(mmap.mmap(-1, ctypes.sizeof(Control)))


def set_control(control: Control, folder: Path, blow: Blow) -> None:
    control.mode, control.at, control.error, control.count, control.used = blow.mode, blow.at, blow.error, 0, 0
    control.folder = os.fsencode(folder)
    control.log = b""


def build_preload(folder: Path) -> Path | None:
    """preload.c, compiled; None where there is no compiler."""
    compiler, library = shutil.which("cc"), folder / "preload.so"
    if compiler is None or os.uname().sysname != "Linux":
        return None
    if not library.exists():
        source = Path(__file__).with_name("preload.c")
        # The C library declares that paths are never NULL; callers do not always know.
        command = [
            compiler,
            "-O1",
            "-shared",
            "-fPIC",
            "-fno-delete-null-pointer-checks",
            "-w",
            "-o",
            str(library),
            str(source),
            "-ldl",
        ]
        subprocess.run(command, check=True)
    return library


def arm_preload(control: Control) -> None:
    ctypes.CDLL(None).torture_arm(ctypes.byref(control))


# ---------------------------------------------------------------- Python's own calls

_GROWS = {"open", "write", "fallocate", "link", "mkdir"}


class PythonShim:
    """Wraps what labeldp itself calls. SQLite's and Arrow's own calls stay unseen."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._folder = os.fsdecode(control.folder)
        self._names: dict[int, str] = {}

    def arm(self) -> None:
        for name, called, place in (
            ("fsync", "fsync", 0), ("ftruncate", "truncate", 0), ("posix_fallocate", "fallocate", 0), ("write", "write", 0),
            ("rename", "rename", 1), ("replace", "rename", 1), ("link", "link", 1), ("unlink", "unlink", 0), ("remove", "unlink", 0),
            ("rmdir", "rmdir", 0), ("mkdir", "mkdir", 0), ("chmod", "chmod", 0), ("utime", "utime", 0),
        ):  # fmt: skip
            setattr(os, name, self._wrapped(getattr(os, name), called, place))
        os.open = self._open(os.open)  # type: ignore[assignment]
        builtins.open = io.open = self._open_file  # type: ignore[assignment]

    def point(self, call: str, where: Any) -> bool:
        """Count a call; True if its process dies after it."""
        path = self._names.get(where, "") if isinstance(where, int) else os.path.abspath(os.fsdecode(where))
        if not (path == self._folder or path.startswith(self._folder + "/")):
            return False
        control = self._control
        control.count += 1
        control.log += f"{call} {os.path.relpath(path, self._folder)}\n".encode()
        if control.mode == FULL and control.count >= control.at and call in _GROWS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if control.count != control.at:
            return False
        if control.mode == KILL_BEFORE:
            die()
        if control.mode == FAIL:
            raise OSError(control.error, os.strerror(control.error), path)
        return bool(control.mode == KILL_AFTER)

    def _wrapped(self, real: Callable[..., Any], called: str, place: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            dies = self.point(called, args[place])
            done = real(*args, **kwargs)
            if dies:
                die()
            return done

        return call

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            dies = bool(writes) and self.point("open", path)
            handle = real(path, flags, *args, **kwargs)
            if dies:
                die()
            self._names[handle] = os.path.abspath(os.fsdecode(path))
            return handle

        return call

    def _open_file(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """As `open`; a file for writing tells of each write."""
        if not set(mode) & set("wax+"):
            return _PLAIN_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        dies = not isinstance(file, int) and self.point("open", file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if dies:
            die()
        raw.shim = self
        if not isinstance(file, int):
            self._names[raw.fileno()] = os.path.abspath(os.fsdecode(file))
        if "b" in mode and buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


_PLAIN_OPEN = open


class _Raw(io.FileIO):
    shim: PythonShim | None = None

    def write(self, data: Any) -> int:
        return self._told("write", lambda: super(_Raw, self).write(data))

    def truncate(self, size: int | None = None) -> int:
        return self._told("truncate", lambda: super(_Raw, self).truncate(size))

    def _told(self, call: str, real: Callable[[], int]) -> int:
        dies = self.shim is not None and self.shim.point(call, self.fileno())
        done = real()
        if dies:
            die()
        return done


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
