"""Putting row_batches together without holding them twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._table_file import check_memory


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
