"""What the readers share: a table in a file, read a stretch of rows at a time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from glws.data.tables.cells import Stretch
from glws.errors import DataError

ROWS_AT_ONCE = 1 << 16
SUSPICIOUS_BYTES, SUSPICIOUS_RATIO = 1 << 26, 200


class AbstractTableFile(ABC):
    """A table in a file: the names of its columns, the number of its rows where that is known, and its stretches."""

    path: Path
    columns: tuple[str, ...]
    num_rows: int | None

    @abstractmethod
    def stretches(self, names: Sequence[str]) -> Iterator[Stretch]:
        """The rows in order, a stretch at a time, with the columns named."""

    def close(self) -> None:
        """Lets go of the file."""
        return None

    def __enter__(self) -> AbstractTableFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_memory(path: Path, size: int) -> None:
    """Raises `DataError` when `size` bytes are more than this machine has, before anything tries to get them."""
    available = _physical_memory()
    if available is not None and size > available:
        raise DataError(
            f"{path}: needs {size / 2**30:,.1f} GiB of memory, this machine has {available / 2**30:,.1f} GiB"
        )


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_ratio(path: Path, name: str, size: int, stored: int) -> None:
    """Raises `DataError` for a few stored bytes that claim to be a great many."""
    if size > SUSPICIOUS_BYTES and size > SUSPICIOUS_RATIO * max(stored, 1):
        raise DataError(
            f"{path}: {name} claims {size:,} bytes but stores {stored:,}, as a file made to fill the memory does; "
            "store it without compression if it is meant"
        )
