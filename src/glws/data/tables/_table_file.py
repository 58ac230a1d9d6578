"""What the readers share: a table in a file, read a row batch at a time, and arrays that grow from row batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._files import physical_memory
from glws.data.tables._cells import RowBatch
from glws.errors import DataError

ROWS_AT_ONCE = 1 << 16
SUSPICIOUS_BYTES, SUSPICIOUS_RATIO = 1 << 26, 200
"""What is read of a file may have this many bytes once decoded, or this many times the bytes of the file."""
LEAST_BYTES = 8
"""What a value counts for at least, however it is stored: its row has a number, and memory has words of 8 bytes."""


class AbstractTableFile(ABC):
    """A table in a file: the names of its columns, the number of its rows where that is known, and its row_batches."""

    path: Path
    columns: tuple[str, ...]
    num_rows: int | None

    @abstractmethod
    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """The rows in order, a row_batch at a time, with the columns named."""

    def part(self, names: Sequence[str], first: int, last: int) -> Iterator[RowBatch]:
        """The same for the rows from `first` up to `last`; the rows before them may be read and passed over."""
        start = 0
        for row_batch in self.row_batches(names):
            low, high = max(first - start, 0), min(last - start, len(row_batch.rows))
            if high > low:
                yield row_batch if high - low == len(row_batch.rows) else row_batch.part(low, high)
            start += len(row_batch.rows)
            if start >= last:
                return

    def holds_numbers(self, names: Sequence[str]) -> bool:
        """Whether these columns surely are numbers without empty cells, as the file declares them."""
        return False

    def close(self) -> None:
        """Lets go of the file."""
        return None

    def __enter__(self) -> AbstractTableFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class DecodedSize:
    """Running total of the bytes that one pass over a file decodes; the pass ends before they fill the memory.

    A few stored bytes can claim to be any number of values: zeros that were compressed, one text in a million rows, a
    size without content. More than 64 MiB and more than 200 times the size of the file is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.npz"
    >>> _ = path.write_bytes(bytes(100))
    >>> DecodedSize(path).add("column x", 1 << 40)
    Traceback (most recent call last):
    glws.errors.DataError: ...small.npz: with column x ... 1,099,511,627,776 bytes from a file of 100, ...
    """

    def __init__(self, path: Path) -> None:
        self.path, self.stored, self.total = path, path.stat().st_size, 0

    def add(self, what: str, size: int) -> None:
        """Counts bytes that are about to be decoded; raises `DataError` when they are too many."""
        self.total += max(size, 0)
        if self.total > SUSPICIOUS_BYTES and self.total > SUSPICIOUS_RATIO * self.stored:
            raise DataError(
                f"{self.path}: with {what} it would decode {self.total:,} bytes from a file of {self.stored:,}, as a "
                f"file made to fill the memory does; the limit is {SUSPICIOUS_BYTES >> 20} MiB, or {SUSPICIOUS_RATIO} "
                "times the file if that is more; if it is meant, write it without compression and dictionaries"
            )


def check_memory(path: Path, size: int) -> None:
    """Raises `DataError` when `size` bytes are more than this machine has, before anything tries to get them."""
    available = physical_memory()
    if available is not None and size > available:
        raise DataError(
            f"{path}: needs {size / 2**30:,.1f} GiB of memory, this machine has {available / 2**30:,.1f} GiB"
        )


class Stack:
    """Grows an array from pieces of rows: in place when the number of rows is known, piece by piece otherwise.

    Without a `dtype` it is that of the first piece.
    """

    def __init__(self, path: Path, num_rows: int | None, dtype: Any = None) -> None:
        self.path, self.num_rows, self.dtype = path, num_rows, None if dtype is None else np.dtype(dtype)
        self.pieces: list[NDArray[Any]] = []
        self.whole: NDArray[Any] | None = None
        self.filled = 0

    def add(self, piece: NDArray[Any]) -> None:
        """Appends rows."""
        if self.dtype is None:
            self.dtype = piece.dtype
        if self.num_rows is None:
            self.pieces.append(piece.astype(self.dtype, copy=False))
            return
        if self.whole is None:
            self.whole = self._empty(self.num_rows, piece.shape[1:])
        self.whole[self.filled : self.filled + len(piece)] = piece
        self.filled += len(piece)

    def result(self) -> NDArray[Any]:
        """All rows; pieces are let go as they are copied, so that the most needed at once is little more than this."""
        if self.whole is not None:
            return self.whole
        if not self.pieces:
            return np.empty(0, self.dtype)
        whole = self._empty(sum(map(len, self.pieces)), self.pieces[0].shape[1:])
        self.pieces.reverse()
        while self.pieces:
            piece = self.pieces.pop()
            whole[self.filled : self.filled + len(piece)] = piece
            self.filled += len(piece)
        self.whole = whole
        return whole

    def _empty(self, num_rows: int, shape: tuple[int, ...]) -> NDArray[Any]:
        dtype = np.dtype(self.dtype)
        check_memory(self.path, int(np.prod((num_rows, *shape), dtype=np.float64)) * dtype.itemsize)
        return np.empty((num_rows, *shape), dtype)
