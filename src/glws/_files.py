"""Atomic writing, verified reading, and locking of folders."""

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
"""Ending of an unfinished file; a killed process may leave one behind."""
LOCK = ".lock"
CHUNK = 1 << 20
PATIENCE = 1.0
"""Seconds to wait until the holder of a lock has written its process number."""


# Writing


def write_bytes(path: Path, content: bytes, makes_folders: bool = True) -> None:
    """Write the file atomically; on an error nothing changes and nothing is left behind.

    The content goes to another file in the same folder, then to the disk, and only then gets its name: a reader, a full
    disk, a killed process or a power cut finds the old file or the new one. Errors of the system become a
    one-line `FileError`. Missing folders are created, unless `makes_folders` is false.

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
    """Create a folder and its parents; an existing one is left unchanged."""
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
    """Append to a file of `size` bytes; on an error it is cut back to them.

    The file must exist: one that vanished is not created again. The content is not forced to the disk, see `sync_file`.
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
    """Cut a file back to its first `size` bytes, on disk."""
    with _writing(path), path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on disk."""
    with _writing(path), path.open("rb") as file:
        os.fsync(file.fileno())


def remove_file(path: Path) -> None:
    """Remove a file, if it exists."""
    with _writing(path):
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove unfinished files of killed writers; for a folder in which nobody else is writing."""
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
    """Create missing folders, and remove them again if the body fails."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            sync_folder(each.parent)
        yield
    except OSError:
        for each in missing:
            with suppress(OSError):  # not created yet, or another process has put something into it
                each.rmdir()
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """An open file that takes the place of `path` when the body has written all of it; `write_bytes` of any length."""
    with _writing(path), _folders_made(path.parent), _replacing(path) as file:
        yield file


def _replace(path: Path, content: bytes) -> None:
    with _replacing(path) as file:
        file.write(content)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    partial = path.with_name(f".{path.name[:40]}-{secrets.token_hex(6)}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Reading


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a file of at most `limit` bytes; longer ones are not read."""
    with _reading(path) as (file, size):
        if size > limit:
            raise FileError(f"{path}: it has {size:,} bytes, where at most {limit:,} are reasonable; it is not read")
        return file.read(size)


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all of a shorter one."""
    with _reading(path) as (file, _):
        return file.read(count)


def read_verified(path: Path, size: int, sha256: str) -> bytes:
    """The content of a file of this size and SHA-256; else a `FileError` with the reason.

    The size is checked first: nothing is allocated for a file of another size.
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
    """The running SHA-256 of the next `size` bytes of an open file, or of all that remain."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(CHUNK, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest


@contextmanager
def _reading(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The open file and its size; pipes and devices, which might never end, are not opened."""
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
    """The right of one process to write in a folder; the system releases it when the process ends.

    Entering does not wait: if another process has the lock, it raises a `FileError` with folder and process. A
    killed process leaves no lock behind. Children created by `fork` (workers that load data) do
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
        """Acquire the lock, or raise at once."""
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
        """Raise if the lock is not held, or if the folder was removed or replaced."""
        try:
            is_held = self._handle is not None and os.path.samestat(os.fstat(self._handle), os.stat(self.folder / LOCK))
        except OSError:
            is_held = False
        if not is_held:
            raise FileError(f"cannot write {self.folder}: the folder was removed or replaced while it was in use")

    def release(self) -> None:
        """Release the lock; does nothing without one."""
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
    """In a forked child: close its copies of the handles, which would keep a lock alive after its holder."""
    for lock in list(_held):
        if lock._handle is not None:
            os.close(lock._handle)
        lock._handle = None
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _holder(handle: int) -> str:
    """The holder of the lock; unknown between locking and writing its number."""
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
