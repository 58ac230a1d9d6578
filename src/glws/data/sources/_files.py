"""Reading of official files: allocations are limited by known sizes, and all content is checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from glws.data.sources._official import OfficialFile
from glws.errors import DataError

CHECKSUMS = "glws-checksums.txt"
"""Stored with files from a checked archive that have no published checksum of their own."""
CHUNK = 1 << 20


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of data sets: the argument, else `$GLWS_DATA`, else `~/.cache/glws/data`."""
    if folder is not None:
        return Path(folder)
    return Path(os.environ.get("GLWS_DATA") or Path.home() / ".cache" / "glws" / "data")


def read_content(path: Path, size: int) -> NDArray[np.uint8]:
    """The decompressed content of a file of exactly `size` bytes, gzipped (`.gz`) or not."""
    content = np.empty(size, np.uint8)
    try:
        with cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            filled = _fill(file, content.data)
            is_longer = bool(file.read(1))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: truncated or damaged: it cannot be decompressed ({error})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if filled < size or is_longer:
        found = "more" if is_longer else f"{filled:,}"
        raise DataError(
            f"{path}: expected {size:,} bytes, found {found}: it is not the official file, or not all of it"
        )
    return content


def _fill(file: BinaryIO, buffer: memoryview) -> int:
    filled = 0
    while filled < len(buffer):
        chunk = file.read(min(CHUNK, len(buffer) - filled))
        if not chunk:
            break
        buffer[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    return filled


def check_content(path: Path, content: NDArray[np.uint8], digest: str | None) -> None:
    """Raise `DataError` unless the content has this checksum ("md5:..." or "sha256:..."); None passes."""
    if digest is None:
        return
    found = hasher_of(digest)
    found.update(content.data)
    compare_digest(path, found.hexdigest(), digest)


def check_file(path: Path, size: int, digest: str | None) -> None:
    """Check size and checksum of a file without reading it into memory at once."""
    found_size = path.stat().st_size
    if found_size != size:
        raise DataError(
            f"{path}: expected {size:,} bytes, found {found_size:,}: it is not the official file, or not all of it"
        )
    if digest is not None:
        compare_digest(path, hash_of_file(path, digest), digest)


def hash_of_file(path: Path, digest: str) -> str:
    """The checksum of a file, by the algorithm of `digest`."""
    found = hasher_of(digest)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def hasher_of(digest: str) -> hashlib._Hash:
    """An empty hash of the algorithm of `digest`."""
    return hashlib.new(digest.partition(":")[0], usedforsecurity=False)


def compare_digest(path: Path | str, found: str, digest: str) -> None:
    """Raise `DataError` if a checksum is not the expected one."""
    algorithm, _, expected = digest.partition(":")
    if found != expected:
        raise DataError(
            f"{path}: damaged, or not the official file: its {algorithm.upper()} is {found}, expected {expected}"
        )


def known_digest(path: Path, file: OfficialFile) -> str | None:
    """The published checksum, or the one stored when the file was unpacked, or None."""
    return file.digest or read_checksums(path.parent).get(file.name)


def read_checksums(folder: Path) -> dict[str, str]:
    """The checksums stored by `write_checksums`, by file name; empty without such a file."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    try:
        lines = [line.split() for line in path.read_bytes()[:CHUNK].decode("ascii").splitlines()]
        return {name: f"sha256:{bytes.fromhex(digest).hex()}" for digest, name in lines}
    except ValueError as error:
        raise DataError(f"{path}: damaged: expected lines of a checksum and a file name") from error


def write_checksums(folder: Path, names: list[str]) -> None:
    """Store the SHA-256 of these files beside them."""
    lines = [f"{hash_of_file(folder / name, 'sha256:')}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="ascii")
