"""Writes are all or nothing, reads are checked, and a folder has one writer (R15, R16)."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from damage import everything

from glws import cli
from glws._files import (
    LOCK,
    FolderLock,
    append_bytes,
    make_folder,
    read_bytes,
    read_start,
    read_verified,
    remove_partial,
    truncate_file,
    verify,
    write_bytes,
    write_text,
)
from glws.errors import FileError

CONTENT = b"some content"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@contextmanager
def full_disk(after: int) -> Iterator[None]:
    """No file can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_written_whole_with_its_folders(tmp_path):
    write_bytes(tmp_path / "a" / "b" / "file", CONTENT)
    write_text(tmp_path / "text", "wörter\n")
    assert everything(tmp_path) == {"a/b/file": CONTENT, "text": "wörter\n".encode()}


def test_new_files_have_the_permissions_of_other_new_files(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_full_disk_is_one_line_and_changes_nothing(tmp_path):
    write_bytes(tmp_path / "old", b"old")
    with full_disk(1000):
        with pytest.raises(FileError, match=r"^cannot write .*old: File too large$"):
            write_bytes(tmp_path / "old", b"x" * 2000)
        with pytest.raises(FileError, match="cannot write"):
            write_bytes(tmp_path / "new" / "deep" / "file", b"x" * 2000)
    assert everything(tmp_path) == {"old": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_no_other(call, tmp_path, monkeypatch):
    write_bytes(tmp_path / "old", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(FileError, match=r"^cannot write .*: Input/output error$"):
        write_bytes(tmp_path / "old", b"new")
    monkeypatch.undo()
    assert everything(tmp_path) == {"old": b"old"}


def test_content_reaches_the_disk_before_its_name_and_the_name_after(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (calls.append(os.readlink(f"/proc/self/fd/{handle}")), sync(handle))
    )
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("replace"), replace(old, new)))
    write_bytes(tmp_path / "file", CONTENT)
    first, second, third = calls
    assert first.endswith(".partial")
    assert (second, third) == ("replace", str(tmp_path))


def test_places_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path, reason in [
        (tmp_path, "it is a folder"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path("/proc/nowhere/file"), "No such file or directory"),
    ]:
        with pytest.raises(FileError, match=f": {reason}$"):
            write_bytes(path, CONTENT)
    with pytest.raises(FileError, match="it is a file"):
        make_folder(tmp_path / "file")
    assert everything(tmp_path) == {"file": b""}


def test_a_command_that_cannot_write_ends_with_one_line_and_status_two(tmp_path, capsys):
    with full_disk(100):
        assert cli.run(["explain", "any(1)", "--out", str(tmp_path / "new" / "a.svg")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("glws: error: cannot write")
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_appending_that_fails_is_undone(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"12345")
    with full_disk(8), pytest.raises(FileError, match=r"cannot write .*log: (File too large|No space left)"):
        append_bytes(path, b"6789abc", 5)
    assert path.read_bytes() == b"12345"
    append_bytes(path, b"67", 5)
    assert path.read_bytes() == b"1234567"
    with pytest.raises(FileError, match="somebody else has changed it"):
        append_bytes(path, b"8", 5)
    assert path.read_bytes() == b"1234567"
    truncate_file(path, 2)
    assert path.read_bytes() == b"12"
    path.unlink()
    with pytest.raises(FileError, match="No such file"):
        append_bytes(path, b"1", 0)
    assert not path.exists()


def test_what_a_killed_writer_left_is_removed(tmp_path):
    write_bytes(tmp_path / "file", CONTENT)
    (tmp_path / ".file-0123.partial").write_bytes(b"half")
    remove_partial(tmp_path)
    assert everything(tmp_path) == {"file": CONTENT}


def test_a_verified_file_has_the_right_size_and_hash(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    assert read_verified(path, len(CONTENT), DIGEST) == CONTENT
    verify(path, len(CONTENT), DIGEST)
    assert read_start(path, 4) == b"some"
    for check in (read_verified, verify):
        with pytest.raises(FileError, match="damaged: expected 13 bytes, found 12"):
            check(path, 13, DIGEST)
        with pytest.raises(FileError, match="damaged: its SHA-256 is"):
            check(path, 12, DIGEST[::-1])
        with pytest.raises(FileError, match=r"cannot read .*: No such file"):
            check(tmp_path / "none", 12, DIGEST)
        with pytest.raises(FileError, match="found a folder"):
            check(tmp_path, 12, DIGEST)
        with pytest.raises(FileError, match="found a folder or a device"):
            check(Path("/dev/zero"), 12, DIGEST)


def test_nothing_is_read_of_a_file_that_is_too_long(tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="1,099,511,627,776 bytes"):
        read_bytes(path, 1000)


# Locks


def test_a_second_holder_is_told_who_has_the_folder(tmp_path):
    with FolderLock(tmp_path), pytest.raises(FileError, match=rf"^{tmp_path} is in use by process {os.getpid()}; "):
        FolderLock(tmp_path).acquire()
    with FolderLock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_bytes() == b""


def test_a_folder_that_vanishes_or_is_exchanged_is_noticed(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = FolderLock(folder)
    with pytest.raises(FileError, match="removed or replaced"):
        lock.check()
    lock.acquire()
    lock.check()
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="removed or replaced"):
        lock.check()
    folder.mkdir()
    with FolderLock(folder), pytest.raises(FileError, match="removed or replaced"):
        lock.check()
    lock.release()
    with pytest.raises(FileError, match=r"cannot write .*/none/.lock"):
        FolderLock(tmp_path / "none").acquire()


def test_the_name_of_a_dead_holder_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setattr("glws._files.PATIENCE", 0.05)
    with FolderLock(tmp_path):
        for text in (b"", b"999999999\n", b"nonsense", b"9" * 32):
            (tmp_path / LOCK).write_bytes(text)
            with pytest.raises(FileError, match="is in use by another process"):
                FolderLock(tmp_path).acquire()


HOLDER = """
import os, sys, time
from pathlib import Path
from glws._files import FolderLock

lock = FolderLock(Path(sys.argv[1]))
lock.acquire()
if os.fork() == 0:  # the child speaks: only then has it begun, and let go of what it inherited
    print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_killed_holder_leaves_no_lock_even_if_its_children_live(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(FileError, match=f"process {holder.pid};"):
                FolderLock(tmp_path).acquire()
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it lives
            with FolderLock(tmp_path):
                pass
        finally:
            os.kill(child, 9)
