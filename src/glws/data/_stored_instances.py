"""Instances that stay in a parquet or HDF5 file: a few blocks of rows are in memory at a time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from glws._messages import one_line
from glws.data._scaling import Scaling, scaled
from glws.errors import DataError

MEMORY = 256 << 20
"""Bytes of blocks that are mixed with each other in training, by default."""
MOST_BLOCKS = 16
"""More blocks at a time mix no better."""
BLOCK_ROWS = 1 << 16
"""Rows of a block of an HDF5 file, about."""
EXTRA = 3
"""Blocks in memory beside those that are mixed: read ahead, or still used by a group."""

Rows = NDArray[np.floating[Any]]


class AbstractRowFile(ABC):
    """A file whose rows are read block by block."""

    path: Path
    width: int
    bounds: NDArray[np.int64]
    """Where the blocks begin, and the end."""

    @abstractmethod
    def read(self, block: int) -> Rows:
        """The rows of a block, [rows, width]."""


class ParquetRows(AbstractRowFile):
    """Columns of numbers of a parquet file; its row groups are the blocks."""

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        from pyarrow import parquet

        self.path = path
        self._file = parquet.ParquetFile(path)
        names = self._file.schema_arrow.names
        self.columns = list(names if columns is None else columns)
        for name in self.columns:
            if name not in names:
                raise DataError(f"{path}: there is no column {name}; there are {', '.join(names[:10])}")
        self.width = len(self.columns)
        about = self._file.metadata
        rows = [about.row_group(place).num_rows for place in range(about.num_row_groups)]
        self.bounds = np.cumsum([0, *rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetRows, (self.path, self.columns)

    def read(self, block: int) -> Rows:
        """A row group."""
        table = self._file.read_row_group(block, self.columns, use_threads=False)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count:
                raise DataError(f"{self.path}: column {name} has empty cells in rows "
                                f"{self.bounds[block]} to {self.bounds[block + 1] - 1}")  # fmt: skip
        columns = [column.to_numpy() for column in table.columns]
        return _floats(np.stack(columns, 1) if columns else np.empty((len(table), 0)), self.path, self.bounds[block])


class HDF5Rows(AbstractRowFile):
    """A data set [rows, features] of an HDF5 file; blocks are of whole chunks."""

    def __init__(self, path: Path, name: str) -> None:
        import h5py

        self.path, self.name = path, name
        file = h5py.File(path, "r")
        if name not in file:
            raise DataError(f"{path}: there is no data set {name}; there are {', '.join(list(file)[:10])}")
        self._rows = file[name]
        if self._rows.ndim != 2:
            raise DataError(f"{path}: {name} must be [rows, features], found shape {list(self._rows.shape)}")
        number, self.width = self._rows.shape
        chunk = self._rows.chunks[0] if self._rows.chunks else 1
        step = chunk * max(round(BLOCK_ROWS / chunk), 1)
        self.bounds = np.array([*range(0, number, step), number])

    def __reduce__(self) -> tuple[Any, ...]:
        return HDF5Rows, (self.path, self.name)

    def read(self, block: int) -> Rows:
        """The rows of a few chunks."""
        return _floats(self._rows[self.bounds[block] : self.bounds[block + 1]], self.path, self.bounds[block])


def _floats(rows: NDArray[Any], path: Path, first: int) -> Rows:
    if rows.dtype.kind not in "fiub":
        raise DataError(f"{path}: instances must be numbers, found {rows.dtype}")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise DataError(f"{path}: instances must be finite, found {rows[row, column]} in row {first + row}")
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


class StoredInstances:
    """Instances are the rows of a file, which are read when they are needed and forgotten after a while.

    In training the groups are in the order "blocks" of `TrainingConfig.order`, unless that says another: the blocks
    follow one another in random order, and the groups of `blocks_at_once` of them, about `memory` bytes, are mixed.
    While a step is computed the next blocks are read. With `training.order=random` the numbers are those of the same
    rows in memory bit for bit, but almost every instance costs a block.

    >>> import tempfile, pyarrow
    >>> from pyarrow import parquet
    >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
    >>> parquet.write_table(pyarrow.table({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}), path, row_group_size=2)
    >>> rows = StoredInstances.parquet(path, ["a", "b"])
    >>> len(rows), rows.take(torch.tensor([2, 0]))
    (3, tensor([[3., 6.],
            [1., 4.]], dtype=torch.float64))
    """

    def __init__(self, file: AbstractRowFile, memory: int = MEMORY, scaling: Scaling | None = None) -> None:
        self._file, self._memory, self.scaling = file, memory, scaling
        self.block_bounds = torch.from_numpy(file.bounds)
        largest = int(np.diff(file.bounds).max(initial=1)) * file.width * 8
        self.blocks_at_once = max(1, min(MOST_BLOCKS, memory // max(largest, 1)))
        self._blocks: OrderedDict[int, Future[Tensor]] = OrderedDict()
        self._lock, self._reader = threading.Lock(), ThreadPoolExecutor(1, thread_name_prefix="glws-rows")
        if not len(self):
            raise DataError(f"{file.path}: there are no rows")

    @classmethod
    def parquet(cls, path: Path | str, columns: Sequence[str] | None = None, memory: int = MEMORY) -> StoredInstances:
        """Columns of numbers of a parquet file, by default all."""
        return cls(_opened(path, lambda found: ParquetRows(found, columns)), memory)

    @classmethod
    def hdf5(cls, path: Path | str, name: str = "features", memory: int = MEMORY) -> StoredInstances:
        """A data set [rows, features] of an HDF5 file."""
        return cls(_opened(path, lambda found: HDF5Rows(found, name)), memory)

    def __reduce__(self) -> tuple[Any, ...]:  # another process opens the file again
        return StoredInstances, (self._file, self._memory, self.scaling)

    def __len__(self) -> int:
        return int(self._file.bounds[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), self._file.width

    def scaled(self, scaling: Scaling | None) -> StoredInstances:
        """The same, standardized on the way, in float32."""
        return StoredInstances(self._file, self._memory, scaling)

    def standardized(self) -> StoredInstances:
        """The same, standardized by the mean and the spread of all rows, from one pass over the file."""
        count, mean, squares = 0, np.zeros(self._file.width), np.zeros(self._file.width)
        for block in range(len(self._file.bounds) - 1):
            rows = self._file.read(block).astype(np.float64)
            own, number = rows.mean(0), len(rows)
            total = count + number
            squares += np.square(rows - own).sum(0) + np.square(own - mean) * count * number / total
            mean += (own - mean) * number / total
            count = total
        spread = np.sqrt(squares / count)
        found = {"mean": mean, "spread": np.where(spread > 0, spread, 1.0)}
        return self.scaled({name: torch.from_numpy(values) for name, values in found.items()})

    def take(self, numbers: Int[Tensor, "chosen"]) -> Float[Tensor, "chosen width"]:
        """The chosen instances."""
        place = torch.searchsorted(self.block_bounds[1:], numbers, right=True)
        used: list[int] = torch.unique(place).tolist()
        pieces = {block: self._block(block).result() for block in used}
        first = pieces[used[0]] if used else torch.empty(0, self._file.width)
        result = first.new_empty(len(numbers), self._file.width)
        for block, rows in pieces.items():
            here = place == block
            result[here] = rows[numbers[here] - self.block_bounds[block]]
        return result

    def expect(self, numbers: Int[Tensor, "chosen"]) -> None:
        """Begin to read the blocks of these instances, which will be taken soon; a few at most."""
        used = torch.unique(torch.searchsorted(self.block_bounds[1:], numbers, right=True)).tolist()
        for block in used[: self.blocks_at_once + EXTRA]:
            self._block(block)

    def _block(self, block: int) -> Future[Tensor]:
        """The rows of a block, read or being read; those that were not used for longest are forgotten."""
        with self._lock:
            if block not in self._blocks:
                self._blocks[block] = self._reader.submit(self._read, block)
            self._blocks.move_to_end(block)
            while len(self._blocks) > self.blocks_at_once + EXTRA:
                self._blocks.popitem(last=False)[1].cancel()
            return self._blocks[block]

    def _read(self, block: int) -> Tensor:
        rows = self._file.read(block)
        return torch.from_numpy(rows) if self.scaling is None else scaled(rows, self.scaling)


def _opened(path: Path | str, opening: Any) -> AbstractRowFile:
    try:
        file: AbstractRowFile = opening(Path(path))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {one_line(error)}") from None
    return file
