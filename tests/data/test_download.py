"""Over real sockets, from a server that misbehaves in one way at a time."""

import hashlib
import os
import resource
import socket
import ssl
from contextlib import contextmanager
from urllib.error import URLError

import numpy as np
import pytest
from filelock import FileLock

from labeldp.data import download as module
from labeldp.data.bundled import NAMES, load
from labeldp.data.download import PUBLISHED, Fetched, File, PublishedFiles, download
from labeldp.data.official import OFFICIAL
from labeldp.errors import InputError
from tests.data.batches import declare, packed, small
from tests.data.server import serving

CONTENT = np.random.default_rng(0).bytes(1_000_000)
NAME = "cifar-10-python.tar.gz"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        server.files[NAME] = CONTENT
        publish(monkeypatch, server.url + NAME)
        yield server


def publish(monkeypatch, *urls, content=CONTENT):
    files = tuple(File(url, hashlib.md5(content).hexdigest()) for url in urls)
    monkeypatch.setitem(PUBLISHED, "cifar10", PublishedFiles(files))


def expect_whole(folder):
    """The file and nothing else: no part, no lock."""
    assert (folder / NAME).read_bytes() == CONTENT
    assert os.listdir(folder) == [NAME]


def expect_stopped(folder, *words, kept=0):
    """One error with everything that a user needs."""
    with pytest.raises(InputError) as caught:
        download("cifar10", folder)
    url = PUBLISHED["cifar10"].files[0].url
    state = (
        (f"{kept:,} bytes of it are kept in {folder / NAME}.part", "goes on from there") if kept else ("tries again",)
    )
    for word in (*words, *state, "the same command", f"By hand: put {url} into {folder}."):
        assert word in str(caught.value), str(caught.value)
    assert not (folder / NAME).exists()
    part = folder / f"{NAME}.part"
    assert (part.read_bytes() if part.exists() else b"") == CONTENT[:kept]
    assert set(os.listdir(folder) if folder.is_dir() else []) <= {part.name}


def half(folder, content=CONTENT[:400_000]):
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.part").write_bytes(content)


def test_what_is_published_is_what_is_bundled():
    """Everything but what comes with scikit-learn, from its own publisher; md5s are those of torchvision's tables."""
    assert set(PUBLISHED) == set(NAMES) - {"digits"}
    files = [file for published in PUBLISHED.values() for file in published.files]
    assert len({file.md5 for file in files}) == len(files) == 6
    assert all(len(bytes.fromhex(file.md5)) == 16 for file in files)
    assert {file.url.split("/")[2] for file in files} == {
        "www.cs.toronto.edu",
        "fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    }


def test_downloaded_once(server, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert download("cifar10", folder) == [Fetched(folder / NAME, fresh=True)]
    expect_whole(folder)
    assert download("cifar10", folder) == [Fetched(folder / NAME, fresh=False)]
    assert server.asked == [(NAME, None)]
    assert (folder / NAME).stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_folder_is_the_one_that_loading_uses(server, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path / "usual"))
    download("cifar10")
    expect_whole(tmp_path / "usual")


def test_what_is_downloaded_can_be_loaded(server, tmp_path, monkeypatch):
    files, pixels, _ = small("cifar100")
    content = packed(OFFICIAL["cifar100"].folder, files)
    server.files["cifar-100-python.tar.gz"] = content
    declare(monkeypatch, "cifar100", files, content)
    (file,) = PUBLISHED["cifar100"].files
    monkeypatch.setitem(PUBLISHED, "cifar100", PublishedFiles((File(server.url + file.name, file.md5),)))
    download("cifar100", tmp_path)
    np.testing.assert_array_equal(load("cifar100", tmp_path).features, pixels[0])


def test_fashion_has_a_folder_of_its_own(server, tmp_path, monkeypatch):
    """MNIST's files have the same names."""
    mnist = tmp_path / "t10k-labels-idx1-ubyte.gz"
    mnist.write_bytes(b"MNIST")
    files = tuple(File(server.url + f.name, hashlib.md5(CONTENT).hexdigest()) for f in PUBLISHED["fashion"].files)
    server.files |= dict.fromkeys((file.name for file in files), CONTENT)
    monkeypatch.setitem(PUBLISHED, "fashion", PublishedFiles(files, PUBLISHED["fashion"].folder))
    fetched = download("fashion", tmp_path)
    assert [file.path for file in fetched] == [tmp_path / "fashion-mnist" / file.name for file in files]
    assert mnist.read_bytes() == b"MNIST"


def test_resumed_where_it_was_cut(server, tmp_path):
    server.cut_after = 300_000
    expect_stopped(tmp_path, "the connection was cut after 300,000 of 1,000,000 bytes", kept=300_000)
    expect_stopped(tmp_path, "the connection was cut after 600,000 of 1,000,000 bytes", kept=600_000)
    server.cut_after = None
    assert download("cifar10", tmp_path)[0].fresh
    expect_whole(tmp_path)
    assert [asked for _, asked in server.asked] == [None, "bytes=300000-", "bytes=600000-"]


def test_a_reset_is_a_cut(server, tmp_path):
    server.cut_after, server.reset = 0, True
    expect_stopped(tmp_path, "the connection")
    server.cut_after, server.reset = None, False
    download("cifar10", tmp_path)
    expect_whole(tmp_path)


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ({"ranges": False}, ["bytes=400000-"]),
        ({"shift": -5}, ["bytes=400000-", None]),
        ({"states_length": False}, ["bytes=400000-"]),
    ],
)
def test_servers_that_do_ranges_their_own_way(server, tmp_path, fault, asked):
    half(tmp_path)
    for name, value in fault.items():
        setattr(server, name, value)
    download("cifar10", tmp_path)
    expect_whole(tmp_path)
    assert [ranges for _, ranges in server.asked] == asked


def test_a_part_that_is_too_long_starts_over(server, tmp_path):
    """416: there is no such range."""
    half(tmp_path, CONTENT + b"more")
    download("cifar10", tmp_path)
    expect_whole(tmp_path)
    assert [asked for _, asked in server.asked] == ["bytes=1000004-", None]


def test_a_whole_part_is_only_renamed(server, tmp_path):
    """Killed between the last byte and the rename."""
    half(tmp_path, CONTENT)
    download("cifar10", tmp_path)
    expect_whole(tmp_path)
    assert server.asked == []


def test_wrong_content_is_removed(server, tmp_path):
    server.files[NAME] = b"<html>log in to this network</html>"
    for _ in range(2):
        with pytest.raises(InputError, match=r"not the published file .* was removed; the same command starts over"):
            download("cifar10", tmp_path)
        assert os.listdir(tmp_path) == []
    server.files[NAME] = CONTENT
    download("cifar10", tmp_path)
    expect_whole(tmp_path)


def test_a_wrong_part_is_found_out(server, tmp_path):
    half(tmp_path, bytes(400_000))
    with pytest.raises(InputError, match="not the published file"):
        download("cifar10", tmp_path)
    download("cifar10", tmp_path)
    expect_whole(tmp_path)


def test_a_wrong_file_stays_until_the_right_one_is_whole(server, tmp_path):
    (tmp_path / NAME).write_bytes(b"cut short")
    server.cut_after = 10
    with pytest.raises(InputError, match="the connection was cut"):
        download("cifar10", tmp_path)
    assert (tmp_path / NAME).read_bytes() == b"cut short"
    server.cut_after = None
    download("cifar10", tmp_path)
    expect_whole(tmp_path)


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "404 Not Found"), (500, "500 Internal Server Error"), (403, "403 Forbidden"), (799, "799")],
)
def test_http_errors(server, tmp_path, status, words):
    server.status = status
    expect_stopped(tmp_path, f"the server answered {words}.")
    half(tmp_path)
    expect_stopped(tmp_path, f"the server answered {words}.", kept=400_000)


def test_nobody_listens(server, tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        publish(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}/{NAME}")
        half(tmp_path)
        expect_stopped(tmp_path, "the connection failed (Connection refused)", kept=400_000)


def test_no_network(server, tmp_path, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    publish(monkeypatch, f"http://nowhere.invalid/{NAME}")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    expect_stopped(tmp_path, "the server's name cannot be looked up (is this machine on the network?)")


def test_a_server_that_is_not_who_it_says(server, tmp_path, monkeypatch):
    def stranger(*_, **__):
        raise URLError(ssl.SSLCertVerificationError(1, "certificate verify failed"))

    monkeypatch.setattr(module, "urlopen", stranger)
    expect_stopped(tmp_path, "no secure connection")


def test_a_silent_server(server, tmp_path, monkeypatch):
    server.silent = 0.5
    monkeypatch.setattr(module, "_TIMEOUT", 0.1)
    expect_stopped(tmp_path, "the server was silent for")


@contextmanager
def no_file_beyond(size):
    """The operating system itself refuses to let files grow; Python ignores the signal and sees the error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(server, tmp_path):
    with no_file_beyond(700_001):
        expect_stopped(tmp_path, f"not enough room on the disk for {tmp_path / NAME}.part", kept=700_001)
    download("cifar10", tmp_path)
    expect_whole(tmp_path)


def test_a_folder_that_is_none(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: (File exists|Not a directory)\. .*By hand"):
        download("cifar10", tmp_path / "file")
    (tmp_path / NAME).mkdir()
    with pytest.raises(InputError, match=r"cannot be written: Is a directory"):
        download("cifar10", tmp_path)


def test_one_at_a_time(server, tmp_path):
    with (
        FileLock(tmp_path / f".{NAME}.lock"),
        pytest.raises(InputError, match="another labeldp is downloading"),
    ):
        download("cifar10", tmp_path)
    assert server.asked == []
    download("cifar10", tmp_path)


def test_progress(server, tmp_path):
    half(tmp_path)
    told = []
    download("cifar10", tmp_path, lambda *news: told.append(news))
    assert told[0] == (NAME, 400_000, 1_000_000)
    assert told[-1] == (NAME, 1_000_000, 1_000_000)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_unknown_names():
    with pytest.raises(InputError, match="'moons' is not among what can be downloaded: cifar10, cifar100, fashion"):
        download("moons")
    with pytest.raises(InputError, match="digits comes with scikit-learn"):
        download("digits")
