"""Files that are whole or not there: the one place that writes them, checks them, and locks their folders."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from glws.errors import FileError

PARTIAL = ".partial"
"""Ending of a file that is still being written; a process that was killed may leave one behind."""
LOCK = ".lock"
CHUNK = 1 << 20
PATIENCE = 1.0
"""Seconds to wait until the holder of a lock has written down who it is."""


# Writing


def write_bytes(path: Path, content: bytes, makes_folders: bool = True) -> None:
    """Writes the file in one step; where that fails, nothing changes and nothing is left behind.

    The content goes to another file in the same folder, then to the disk, and only then gets its name: a reader, a full
    disk, a killed process or a power cut finds the old file or the new one. What the system has against it becomes a
    `FileError` of one line. Folders that are missing are created, unless the file belongs into one that must be there.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "file.bin"
    >>> write_bytes(path, b"content")
    >>> path.read_bytes(), [entry.name for entry in path.parent.iterdir()]
    (b'content', ['file.bin'])
    """
    with _writing(path), _folders_made(path.parent) if makes_folders else nullcontext():
        _replace(path, content)


def write_text(path: Path, content: str, makes_folders: bool = True) -> None:
    """`write_bytes` for a text, in UTF-8."""
    write_bytes(path, content.encode("utf-8"), makes_folders)


def make_folder(path: Path) -> None:
    """Creates a folder and those above it; one that is there already is left as it is."""
    with _writing(path), _folders_made(path):
        if not path.is_dir():
            raise NotADirectoryError(None, "it is a file")


def claim_folder(path: Path) -> bool:
    """Create a folder, and those above it; False if the name is taken.

    Of several processes that ask for the same name at once, one gets it.
    """
    make_folder(path.parent)
    with _writing(path):
        try:
            path.mkdir()
        except FileExistsError:
            return False
    return True


def append_bytes(path: Path, content: bytes, size: int) -> None:
    """Adds to the end of a file that has `size` bytes now; where that fails, it is cut back to them.

    The file must be there: one that vanished is not begun anew. The content is not forced to the disk, see `sync_file`.
    """
    with _writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.fstat(handle).st_size != size:
                raise OSError(None, f"it should have {size:,} bytes, and somebody else has changed it")
            _write_all(handle, content, size)
        finally:
            os.close(handle)


def _write_all(handle: int, content: bytes, size: int) -> None:
    try:
        if os.write(handle, content) != len(content):
            raise OSError(None, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(handle, size)
        raise


def truncate_file(path: Path, size: int) -> None:
    """Cuts a file back to its first `size` bytes, and sees to it that the disk knows."""
    with _writing(path), path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Returns when what was written to a file is on the disk."""
    with _writing(path), path.open("rb") as file:
        os.fsync(file.fileno())


def remove_file(path: Path) -> None:
    """Removes a file, if it is there."""
    with _writing(path):
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Removes what writers that were killed left behind; for a folder in which nobody else is writing."""
    for path in folder.glob(f".*{PARTIAL}"):
        remove_file(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _folders_made(folder: Path) -> Iterator[None]:
    """Creates what is missing, and takes it away again when what follows fails."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            sync_folder(each.parent)
        yield
    except OSError:
        for each in missing:
            with suppress(OSError):  # not made yet, or somebody else has put something into it
                each.rmdir()
        raise


def _replace(path: Path, content: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    partial = path.with_name(f".{path.name[:40]}-{secrets.token_hex(6)}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the disk remember the names in a folder, where the system has a way to ask for that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Reading


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a file that has at most `limit` bytes; nothing is read of one that is longer."""
    with _reading(path) as (file, size):
        if size > limit:
            raise FileError(f"{path}: it has {size:,} bytes, where at most {limit:,} are reasonable; it is not read")
        return file.read(size)


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all there are."""
    with _reading(path) as (file, _):
        return file.read(count)


def read_verified(path: Path, size: int, sha256: str) -> bytes:
    """The content of a file, if it has this size and this SHA-256; else a `FileError` that says what is wrong.

    The size comes first: nothing is allocated for a file that is not as long as it should be.
    """
    with _reading(path) as (file, found):
        _check_size(path, found, size)
        content = file.read(size)
    _check_hash(path, hashlib.sha256(content).hexdigest(), sha256)
    return content


def verify(path: Path, size: int, sha256: str) -> None:
    """`read_verified` without keeping the content in memory."""
    with _reading(path) as (file, found):
        _check_size(path, found, size)
        digest = hash_of_start(file, size).hexdigest()
    _check_hash(path, digest, sha256)


def hash_of_start(file: BinaryIO, size: int) -> hashlib._Hash:
    """The running SHA-256 of the next `size` bytes of an open file, or of all there are."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(CHUNK, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest


@contextmanager
def _reading(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The open file and its size; a pipe or a device, which might never end, is not opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{path}: expected a file, found a folder or a device")
        with path.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error


def _check_size(path: Path, found: int, size: int) -> None:
    if found != size:
        raise FileError(f"{path}: damaged: expected {size:,} bytes, found {found:,}")


def _check_hash(path: Path, found: str, sha256: str) -> None:
    if found != sha256:
        raise FileError(f"{path}: damaged: its SHA-256 is {found[:12]}..., expected {sha256[:12]}...")


def physical_memory() -> int | None:
    """Bytes of main memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


# Locking


class FolderLock:
    """The right to write in a folder, for one process at a time; the system takes it back when the process ends.

    Nothing is waited for: where another process has it, entering is a `FileError` that names folder and process. A
    process that is killed, in whatever way, leaves no lock behind. Children made by `fork` (workers that load data) do
    not keep it when their parent dies.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with FolderLock(folder) as lock:
    ...     lock.check()
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._handle: int | None = None

    def acquire(self) -> None:
        """Takes the lock, or raises at once."""
        import fcntl

        with _writing(self.folder / LOCK):
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            except BlockingIOError:
                holder = _holder(handle)
                os.close(handle)
                raise FileError(
                    f"{self.folder} is in use by {holder}; wait for its end, or use another folder"
                ) from None
            except OSError:
                os.close(handle)
                raise
        self._handle = handle
        _held.add(self)
        self.check()  # the file that was locked may have been removed by its last holder

    def check(self) -> None:
        """Raises when the lock is not held, or when the folder was taken away or exchanged meanwhile."""
        try:
            is_held = self._handle is not None and os.path.samestat(os.fstat(self._handle), os.stat(self.folder / LOCK))
        except OSError:
            is_held = False
        if not is_held:
            raise FileError(f"cannot write {self.folder}: the folder was removed or replaced while it was in use")

    def release(self) -> None:
        """Gives the lock back; without one, does nothing."""
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
        self._handle = None
        _held.discard(self)

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget_locks() -> None:
    """In a forked child: closes its copies of the handles, which would keep a lock alive after its holder."""
    for lock in list(_held):
        if lock._handle is not None:
            os.close(lock._handle)
        lock._handle = None
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _holder(handle: int) -> str:
    """Who has the lock, once it has said so: between locking and writing its number, a process is unknown."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        text = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
        if text.isdecimal() and _is_alive(int(text)):
            return f"process {text}"
        time.sleep(0.01)
    return "another process"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return process > 0
