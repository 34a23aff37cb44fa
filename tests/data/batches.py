"""CIFAR's official files, as Python 2's cPickle wrote them: to the byte, which `test_official` shows by their md5."""

import hashlib
import io
import struct
import tarfile
from dataclasses import replace

import numpy as np

from labeldp.data.download import PUBLISHED
from labeldp.data.official import OFFICIAL


class _Python2:
    """Protocol 2. What was worth remembering to cPickle (strings in containers, lists, results) is numbered from 1."""

    def __init__(self):
        self.parts, self._numbered = [b"\x80\x02"], 0

    def add(self, *parts):
        self.parts += parts

    def number(self):
        self._numbered += 1
        n = self._numbered
        self.add(b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n))

    def text(self, value):
        self.add(b"U" + bytes([len(value)]) + value)
        self.number()

    def whole(self, value):
        small, middling = 0 <= value < 1 << 8, 0 <= value < 1 << 16
        self.add(
            b"K" + bytes([value]) if small else b"M" + struct.pack("<H", value) if middling else b"J" + struct.pack("<i", value)
        )  # fmt: skip

    def list(self, values, save):
        self.add(b"]")
        self.number()
        for start in range(0, len(values), 1000):
            self.add(b"(")
            for value in values[start : start + 1000]:
                save(value)
            self.add(b"e")

    def array(self, values, kind=b"u1"):
        for name in (b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n"):
            self.add(name)
            self.number()
        self.add(b"K\x00\x85U\x01b\x87R")
        self.number()
        self.add(b"(K\x01")
        for size in values.shape:
            self.whole(size)
        self.add(b"\x86", b"cnumpy\ndtype\n")
        self.number()
        self.add(b"U" + bytes([len(kind)]) + kind + b"K\x00K\x01\x87R")
        self.number()
        self.add(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
        raw = values.tobytes()
        self.add(b"U" + bytes([len(raw)]) if len(raw) < 256 else b"T" + struct.pack("<I", len(raw)), raw, b"tb")

    def dictionary(self, entries):
        self.add(b"}")
        self.number()
        self.add(b"(")
        for key, save in entries.items():
            self.text(key)
            save()
        self.add(b"u.")
        return b"".join(self.parts)


def batch10(pixels, labels, names, title):
    """A batch of CIFAR-10; pixels are (n, 3072)."""
    out = _Python2()
    return out.dictionary({
        b"batch_label": lambda: out.text(title),
        b"labels": lambda: out.list(labels, out.whole),
        b"data": lambda: out.array(pixels),
        b"filenames": lambda: out.list(names, out.text),
    })  # fmt: skip


def batch100(pixels, fine, coarse, names, title):
    """A file of CIFAR-100."""
    out = _Python2()
    return out.dictionary({
        b"filenames": lambda: out.list(names, out.text),
        b"batch_label": lambda: out.text(title),
        b"fine_labels": lambda: out.list(fine, out.whole),
        b"coarse_labels": lambda: out.list(coarse, out.whole),
        b"data": lambda: out.array(pixels),
    })  # fmt: skip


def small(name, rows=3):
    """The files of a data set with `rows` rows each, and all their pixels and labels in the files' order."""
    draw = np.random.default_rng(0)
    files, pixels, labels = {}, [], []
    for file in OFFICIAL[name].files:
        x = draw.integers(0, 256, (rows, 3072), dtype=np.uint8)
        y = draw.integers(0, 10 if name == "cifar10" else 100, rows).tolist()
        names = [b"image_%d.png" % i for i in range(rows)]
        files[file] = (
            batch10(x, y, names, b"a batch") if name == "cifar10" else batch100(x, y, [0] * rows, names, b"a batch")
        )
        pixels.append(x.reshape(rows, 3, 32, 32))
        labels.append(y)
    return files, pixels, labels


def packed(folder, files, more=()):
    """A .tar.gz of the files, last first (the official one is in no order either), with `more` members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member, content in [
            *more,
            *((tarfile.TarInfo(f"{folder}/{file}"), files[file]) for file in reversed(files)),
        ]:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def declare(monkeypatch, name, files, archive=None):
    """Let these files be the published ones: only their md5 changes."""
    official, published = OFFICIAL[name], PUBLISHED[name]
    md5 = {file: hashlib.md5(content).hexdigest() for file, content in files.items()}
    parts = {split: {file: md5.get(file, "") for file in getattr(official, split)} for split in ("train", "test")}
    monkeypatch.setitem(OFFICIAL, name, replace(official, **parts))
    if archive is not None:
        file = replace(published.files[0], md5=hashlib.md5(archive).hexdigest())
        monkeypatch.setitem(PUBLISHED, name, replace(published, files=(file,)))
