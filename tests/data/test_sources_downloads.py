"""Downloads: whole and checked, or nothing; and archives that mean harm."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
import tracemalloc
import urllib.error
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from glws.data import download
from glws.data.sources._archives import unpack
from glws.data.sources._downloads import _OnlyHttps, download_official, open_https
from glws.data.sources._official import CIFAR_100, MNIST, Download, OfficialFile
from glws.data.sources._official_formats import load_official
from glws.errors import DataError

RECORD = 2 + 3 * 4 * 4


class Server:
    """An http server on the loopback whose answers are a dictionary; keeps a list of what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def _handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                content = outer.files.get(self.path)
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *arguments):
                pass

        return Handler

    def open(self, url: str):
        path = url.removeprefix("https://example.org")
        return urllib.request.urlopen(f"http://127.0.0.1:{self.server.server_port}{path}", timeout=5)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def files_of(number):
    images = np.random.default_rng(number).integers(0, 256, (number, 3, 3), dtype=np.uint8)
    return idx(images), idx((np.arange(number) % 10).astype(np.uint8))


def digest(content, kind="sha256"):
    return f"{kind}:{hashlib.new(kind, content).hexdigest()}"


@pytest.fixture
def idx_set(server):
    contents = dict(zip(("a", "b", "c", "d"), (*files_of(5), *files_of(3)), strict=True))
    files = [OfficialFile(name, len(content), digest(content)) for name, content in contents.items()]
    downloads = []
    for name, content in contents.items():
        served = gzip.compress(content)
        server.files[f"/{name}.gz"] = served
        urls = (f"https://example.org/{name}.gz", f"https://example.org/mirror/{name}.gz")
        downloads.append(Download(f"{name}.gz", len(served), digest(served, "md5"), urls))
    parts = {"train": tuple(files[:2]), "test": tuple(files[2:])}
    return replace(MNIST, parts=parts, downloads=tuple(downloads), image_shape=(1, 3, 3))


def records(number):
    rows = np.random.default_rng(number).integers(0, 256, (number, RECORD), dtype=np.uint8)
    rows[:, 0], rows[:, 1] = 4, 0  # an apple among fruit and vegetables
    return rows.tobytes()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive_set(server, members=None, sizes=(6, 4)):
    contents = {"train.bin": records(sizes[0]), "test.bin": records(sizes[1])}
    packed = tarred(members or {f"cifar-100-binary/{name}": content for name, content in contents.items()})
    server.files["/c.tar.gz"] = packed
    item = Download(
        "c.tar.gz", len(packed), digest(packed, "md5"), ("https://example.org/c.tar.gz",), "cifar-100-binary"
    )
    parts = {part: (OfficialFile(f"{part}.bin", len(contents[f"{part}.bin"])),) for part in ("train", "test")}
    return replace(CIFAR_100, parts=parts, downloads=(item,), image_shape=(3, 4, 4))


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_fetched_checked_and_read(tmp_path, server, idx_set):
    home = download_official(idx_set, tmp_path / "new" / "folder", progress=False, opener=server.open)
    assert left(home) == ["a.gz", "b.gz", "c.gz", "d.gz"]
    assert load_official(idx_set, tmp_path / "new" / "folder").unverified == ()


def test_what_is_sound_is_not_fetched_again(tmp_path, server, idx_set):
    home = download_official(idx_set, tmp_path, progress=False, opener=server.open)
    server.asked.clear()
    download_official(idx_set, tmp_path, progress=False, opener=server.open)
    assert server.asked == []
    (home / "b.gz").write_bytes(b"damaged")
    download_official(idx_set, tmp_path, progress=False, opener=server.open)
    assert server.asked == ["/b.gz"]
    assert load_official(idx_set, tmp_path).unverified == ()


def test_a_mirror_is_asked_when_the_first_address_fails(tmp_path, server, idx_set):
    server.files["/mirror/a.gz"] = server.files.pop("/a.gz")
    download_official(idx_set, tmp_path, progress=False, opener=server.open)
    assert server.asked[:2] == ["/a.gz", "/mirror/a.gz"]
    assert load_official(idx_set, tmp_path).unverified == ()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-3], r"it gave \d+ of \d+ bytes"),
        (lambda content: content + b"more", "it gives more than the"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "its MD5 is"),
        (lambda content: None, "Not Found"),
    ],
)
def test_a_bad_answer_leaves_nothing_behind(tmp_path, server, idx_set, damage, message):
    content = damage(server.files["/c.gz"])
    server.files.pop("/c.gz")
    if content is not None:
        server.files["/c.gz"] = content
    with pytest.raises(DataError, match=rf"c\.gz could not be downloaded: https://example.org/c.gz: .*{message}"):
        download_official(idx_set, tmp_path, progress=False, opener=server.open)
    assert left(tmp_path) == ["mnist/a.gz", "mnist/b.gz"], "what came before is whole, the rest is not there"


def test_a_connection_that_breaks_is_one_line(tmp_path, idx_set):
    def refuse(url):
        raise urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))

    with pytest.raises(DataError, match=r"could not be downloaded: .*Connection refused") as caught:
        download_official(idx_set, tmp_path, progress=False, opener=refuse)
    assert "\n" not in str(caught.value)


def test_an_archive_is_unpacked_and_its_checksums_written(tmp_path, server):
    wanted = archive_set(server)
    home = download_official(wanted, tmp_path, progress=False, opener=server.open)
    assert left(tmp_path) == [f"cifar-100-binary/{name}" for name in ("glws-checksums.txt", "test.bin", "train.bin")]
    source = load_official(wanted, tmp_path)
    assert source.unverified == ()
    assert source.train.labels.tolist() == [0] * 6
    server.asked.clear()
    assert download_official(wanted, tmp_path, progress=False, opener=server.open) == home
    assert server.asked == []


def test_an_archive_that_is_there_is_used_and_kept(tmp_path, server):
    wanted = archive_set(server)
    (tmp_path / "c.tar.gz").write_bytes(server.files["/c.tar.gz"])
    download_official(wanted, tmp_path, progress=False, opener=server.open)
    assert server.asked == []
    assert "c.tar.gz" in left(tmp_path)
    assert load_official(wanted, tmp_path).unverified == ()


def test_unsound_files_step_aside(tmp_path, server):
    wanted = archive_set(server)
    home = download_official(wanted, tmp_path, progress=False, opener=server.open)
    (home / "train.bin").write_bytes(b"mine")
    download_official(wanted, tmp_path, progress=False, opener=server.open)
    assert load_official(wanted, tmp_path).unverified == ()
    assert sum(path.read_bytes() == b"mine" for path in tmp_path.rglob("train.bin")) == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"cifar-100-binary/train.bin": records(6)}, "cifar-100-binary/test.bin is not in the archive"),
        ({"other/train.bin": records(6), "other/test.bin": records(4)}, "train.bin is not in the archive"),
        (
            {"cifar-100-binary/train.bin": records(5), "cifar-100-binary/test.bin": records(4)},
            "train.bin: expected 300 bytes, found 250",
        ),
    ],
)
def test_an_archive_of_something_else_leaves_nothing_behind(tmp_path, server, members, message):
    with pytest.raises(DataError, match=message):
        download_official(archive_set(server, members), tmp_path, progress=False, opener=server.open)
    assert left(tmp_path) == []


def test_a_bar_shows_on_stderr_when_wanted(tmp_path, server, idx_set, capsys):
    download_official(idx_set, tmp_path, progress=True, opener=server.open)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "a.gz" in shown.err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, server, idx_set):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write to .*file"):
        download_official(idx_set, tmp_path / "file", progress=False, opener=server.open)


def test_a_full_disk_is_noticed_before_anything_is_fetched(tmp_path, server):
    wanted = archive_set(server)
    large = replace(wanted, downloads=(replace(wanted.downloads[0], size=1 << 60),))
    with pytest.raises(DataError, match=r"cifar100 needs \d+\.\d GB in .* are free"):
        download_official(large, tmp_path, progress=False, opener=server.open)
    assert server.asked == []


def test_only_https_is_used():
    with pytest.raises(DataError, match="only https is used"):
        open_https("http://example.org/file")
    with pytest.raises(DataError, match="only https is used"):
        open_https("file:///etc/passwd")


def test_a_redirection_away_from_https_is_not_followed():
    with pytest.raises(urllib.error.URLError, match="not https"):
        _OnlyHttps().redirect_request(None, None, 302, "Found", {}, "http://example.org/file")


def test_sets_that_are_not_downloaded_say_why():
    with pytest.raises(DataError, match="digits comes with scikit-learn"):
        download("digits")
    with pytest.raises(DataError, match="imagenet100 is made from ImageNet"):
        download("imagenet100")
    with pytest.raises(DataError, match="did you mean 'cifar10'"):
        download("cifar-10")


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def hostile(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def claiming(size: int) -> bytes:
    info = tarfile.TarInfo("large")
    info.size = size
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))


HOSTILE = {
    "parent": (hostile((tarfile.TarInfo("../canary"), b"x")), "canary"),
    "deep parent": (hostile((tarfile.TarInfo("a/../../canary"), b"x")), "canary"),
    "symlink": (hostile((special("link", tarfile.SYMTYPE, "/etc"), b"")), "'link' is a link or a device"),
    "hard link": (hostile((special("link", tarfile.LNKTYPE, "../x"), b"")), "'link' is a link or a device"),
    "through a symlink": (
        hostile((special("d", tarfile.SYMTYPE, ".."), b""), (tarfile.TarInfo("d/canary"), b"x")),
        "'d' is a link or a device",
    ),
    "fifo": (hostile((special("pipe", tarfile.FIFOTYPE), b"")), "'pipe' is a link or a device"),
    "device": (hostile((special("disk", tarfile.BLKTYPE), b"")), "'disk' is a link or a device"),
    "claims a terabyte": (claiming(1 << 40), "holds more than it should"),
    "bomb": (hostile((tarfile.TarInfo("zeros"), bytes(40 << 20))), "holds more than it should"),
    "bomb in a header": (
        hostile((special("long", tarfile.XHDTYPE), b"9 path=a\n" * (4 << 20))),
        "holds more than it should|not a valid",
    ),
    "many": (hostile(*((tarfile.TarInfo(f"f{number}"), b"") for number in range(1200))), "holds more than it should"),
    "no archive": (gzip.compress(b"hello" * 1000), "not a valid .tar.gz"),
    "no gzip": (b"hello", "not a valid .tar.gz"),
    "cut off": (hostile((tarfile.TarInfo("a"), os.urandom(5000)))[:2000], "not a valid .tar.gz"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_means_harm_does_none(tmp_path, name):
    content, message = HOSTILE[name]
    (tmp_path / "x.tar.gz").write_bytes(content)
    (tmp_path / "inner" / "into").mkdir(parents=True)
    tracemalloc.start()
    with pytest.raises(DataError, match=message) as caught:
        unpack(tmp_path / "x.tar.gz", tmp_path / "inner" / "into", max_bytes=1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("canary"))
    assert sum(path.stat().st_size for path in (tmp_path / "inner").rglob("*") if path.is_file()) < 4 << 20


def test_an_absolute_path_stays_inside(tmp_path):
    target = tmp_path / "outside" / "canary"
    (tmp_path / "x.tar.gz").write_bytes(hostile((tarfile.TarInfo(str(target)), b"x")))
    (tmp_path / "into").mkdir()
    unpack(tmp_path / "x.tar.gz", tmp_path / "into", max_bytes=1 << 20)
    assert not target.exists()
    assert (tmp_path / "into" / str(target).lstrip("/")).exists()
