"""The hash of a table: SHA-256 of its description and of the columns that were read, whoever read which rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws.data._scaling import itself
from glws.data.tables._description import BlockDescription, Description

ROWS_IN_BLOCK = 4096
DIGEST_BYTES = 32
ITSELF = ("data", "slides", "votes_file")
"""Fields of a description that are not hashed: a file that was moved has the same content."""


class DataHash(NamedTuple):
    """What is remembered of a table: its number of rows, and the SHA-256 of its description and of its columns."""

    rows: int
    description: str
    columns: str

    @classmethod
    def read(cls, facts: Any) -> DataHash | None:
        """From what `as_dict` gave; None for anything else."""
        if not isinstance(facts, Mapping) or not set(cls._fields) <= set(facts) or type(facts["rows"]) is not int:
            return None
        return cls(facts["rows"], str(facts["description"]), str(facts["columns"]))

    @property
    def sha256(self) -> str:
        """One hash of all."""
        return hashlib.sha256(f"{self.rows} {self.description} {self.columns}".encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, with the hash of all."""
        return {"sha256": self.sha256, **self._asdict()}

    def changes(self, now: DataHash) -> str:
        """What is different now, in words; empty if nothing is.

        >>> DataHash(1200, "a", "b").changes(DataHash(1120, "a", "c"))
        '1,200 rows then, 1,120 now'
        """
        parts = []
        if self.description != now.description:
            parts.append("its description is another one")
        if self.rows != now.rows:
            parts.append(f"{self.rows:,} rows then, {now.rows:,} now")
        elif self.columns != now.columns and not parts:
            parts.append("its columns have other values")
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class TableHash:
    """The hash of a table of which one process may have read a part.

    `known` is the hash of all columns but the features. `blocks` [blocks, 32] has the hash of each block of features,
    and zeros for those that another process has read.
    """

    rows: int
    description: str
    known: str
    blocks: NDArray[np.uint8]

    def whole(self, summed: Callable[[Tensor], Tensor] = itself) -> DataHash:
        """The hash of all of it; `summed` adds up over the processes that have read a part each."""
        blocks = summed(torch.from_numpy(self.blocks).to(torch.int32)).numpy().astype(np.uint8)
        columns = hashlib.sha256(f"{self.rows} {self.known} ".encode())
        columns.update(blocks.data)
        return DataHash(self.rows, self.description, columns.hexdigest())


class ColumnHasher:
    """SHA-256 of columns by name; how the rows are cut into pieces does not matter.

    >>> whole, pieces = ColumnHasher(), ColumnHasher()
    >>> whole.add("count", np.array([1, 2, 3]))
    >>> pieces.add("count", np.array([1]))
    >>> pieces.add("count", np.array([2, 3]))
    >>> whole.digest() == pieces.digest()
    True
    """

    def __init__(self) -> None:
        self._hashes: dict[str, Any] = {}

    def add(self, name: str, values: NDArray[Any]) -> None:
        """More rows of a column: numbers, truth values, or text."""
        if values.dtype == object:
            texts = list(map(str, values.tolist()))
            self._update(f"{name} lengths", np.fromiter(map(len, texts), np.int64, len(texts)).data)
            self._update(name, "".join(texts).encode("utf-8", "surrogatepass"))
        else:
            self._update(f"{name} {values.dtype.str}", np.ascontiguousarray(values).data)

    def add_texts(self, name: str, column: Any) -> None:
        """More rows of a text column of pyarrow; null is not the empty text."""
        import pyarrow
        from pyarrow import compute

        lengths = compute.binary_length(column).fill_null(-1)
        whole = column.drop_null().cast(pyarrow.large_binary())
        self._update(f"{name} text lengths", np.asarray(lengths, np.int64).data)
        offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
        if len(whole) and whole.buffers()[2] is not None:
            self._update(f"{name} text", memoryview(whole.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

    def _update(self, name: str, content: Any) -> None:
        if name not in self._hashes:
            self._hashes[name] = hashlib.sha256()
        self._hashes[name].update(content)

    def digest(self) -> str:
        """One hash of all columns and their names."""
        found = {name: known.hexdigest() for name, known in self._hashes.items()}
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


class BlockHasher:
    """SHA-256 of every block of 4,096 rows of a matrix, of which one process may read a part.

    A block belongs to the process that has its first row; `block_end` says how far that process must read.
    """

    def __init__(self, num_rows: int | None, first: int = 0) -> None:
        self.num_rows, self.row = num_rows, first
        self._digests: dict[int, bytes] = {}
        self._current = hashlib.sha256() if first % ROWS_IN_BLOCK == 0 else None

    def add(self, rows: NDArray[Any]) -> None:
        """The next rows."""
        start = 0
        while start < len(rows):
            stop = min(start + ROWS_IN_BLOCK - self.row % ROWS_IN_BLOCK, len(rows))
            if self._current is not None:
                self._current.update(np.ascontiguousarray(rows[start:stop]).data)
            self.row += stop - start
            start = stop
            if self.row % ROWS_IN_BLOCK == 0 or self.row == self.num_rows:
                self._close()

    def _close(self) -> None:
        if self._current is not None:
            self._digests[(self.row - 1) // ROWS_IN_BLOCK] = self._current.digest()
        self._current = hashlib.sha256()

    def digests(self) -> NDArray[np.uint8]:
        """The hash of each block `[blocks, 32]`, zeros where another process has it."""
        if self.row % ROWS_IN_BLOCK and self.num_rows is None:
            self._close()
        found = np.zeros((-(-(self.num_rows or self.row) // ROWS_IN_BLOCK), DIGEST_BYTES), np.uint8)
        for number, digest in self._digests.items():
            found[number] = np.frombuffer(digest, np.uint8)
        return found


def block_end(row: int, num_rows: int) -> int:
    """Where the block ends that has the row before this one.

    >>> block_end(5000, 10_000), block_end(4096, 10_000), block_end(9000, 10_000)
    (8192, 4096, 10000)
    """
    return min(-(-row // ROWS_IN_BLOCK) * ROWS_IN_BLOCK, num_rows)


def description_hash(about: Description, names: Sequence[str]) -> str:
    """SHA-256 of a description: what it says and not how it is written, and the feature columns that it picks."""
    content = {"about": _said(about), "features": list(names)}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _said(about: Description | BlockDescription) -> dict[str, Any]:
    """What is not left at its default, so that a description keeps its hash when there is more to be said."""
    found = {}
    for item in fields(about):
        value = getattr(about, item.name)
        if item.name not in ITSELF and value != _default(item):
            is_blocks = item.name == "blocks"
            found[item.name] = [_said(block) for block in value] if is_blocks else value
    return found


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()
