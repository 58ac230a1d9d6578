"""Safe unpacking of an archive: plain files only, inside the folder, within the size limit."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path
from typing import IO, cast

from glws._messages import one_line
from glws.errors import DataError

MAX_MEMBERS = 1000
SLACK = 1 << 20
"""Allowance for headers and small extra files above the announced content."""


class _Capped:
    """A stream that refuses to yield more than `limit` bytes, whatever its headers claim."""

    def __init__(self, file: IO[bytes], limit: int, path: Path) -> None:
        self.file, self.left, self.path = file, limit, path

    def read(self, size: int) -> bytes:
        chunk = self.file.read(size)
        self.left -= len(chunk)
        if self.left < 0:
            raise DataError(f"{self.path}: holds more than it should: stopped unpacking")
        return chunk


def unpack(path: Path, folder: Path, max_bytes: int) -> None:
    """Unpack a .tar.gz into an existing folder.

    Links, devices, absolute paths and paths that lead outside are refused, and so is more than `max_bytes` in all,
    which is checked before writing. Files unpacked before an error stay: pass an empty folder, and remove it after
    an error.
    """
    if not hasattr(tarfile, "data_filter"):
        raise DataError("unpacking needs a Python with tarfile's data filter: 3.10.12, 3.11.4 or newer")
    try:
        with gzip.open(path) as plain:
            stream = _Capped(cast(IO[bytes], plain), max_bytes + SLACK, path)
            with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
                _unpack_members(archive, path, folder, max_bytes)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a valid .tar.gz archive ({one_line(error)})") from error


def _unpack_members(archive: tarfile.TarFile, path: Path, folder: Path, max_bytes: int) -> None:
    total = 0
    for number, member in enumerate(archive):
        if not (member.isreg() or member.isdir()):
            raise DataError(f"{path}: {member.name!r} is a link or a device, not a file: stopped unpacking")
        total += member.size
        if total > max_bytes + SLACK or number >= MAX_MEMBERS:
            raise DataError(f"{path}: holds more than it should, at {member.name!r}: stopped unpacking")
        archive.extract(member, folder, set_attrs=False, filter="data")
