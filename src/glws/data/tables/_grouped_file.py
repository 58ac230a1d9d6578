"""A table whose groups are scattered over its file, rearranged once on disk so that each stands together."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from glws._files import make_folder, read_bytes, write_text
from glws.data.tables._arrow_cells import arrow_cells
from glws.data.tables._cells import Cells, RowBatch, TextCells
from glws.data.tables._grouping import group_names
from glws.data.tables._table_file import ROWS_AT_ONCE, AbstractTableFile

ROWS_IN_BUCKET, MOST_BUCKETS = 1 << 18, 200
"""A bucket is sorted in memory; there are no more than files may be open."""
ROWS_WRITTEN = 1 << 18
"""Rows that are divided among the buckets together."""
LINE = "line"
"""What a row of a text file is called; its cells are texts."""
NUMBER, PLACE = "row number", "row place"
DONE, LONGEST = "grouped.json", 1 << 20
MIX = np.uint64(0x9E3779B97F4A7C15)

Integers = NDArray[np.int64]


class GroupedFile(AbstractTableFile):
    """The rows of another file, group by group: in buckets on disk, each of which fits in memory.

    A group is in the bucket that the hash of its name says. Within a bucket groups are in the order in which they first
    appear, and the rows of a group in the order of the file. Rows keep their numbers and their places.
    """

    def __init__(self, path: Path, folder: Path, key: str) -> None:
        facts = json.loads(read_bytes(folder / DONE, LONGEST))
        self.path, self.folder, self.key, self.unit = path, folder, key, str(facts["unit"])
        self.columns, self.sizes = tuple(facts["columns"]), list(facts["sizes"])
        self.num_rows = sum(self.sizes)

    @classmethod
    def of(cls, file: AbstractTableFile, names: Sequence[str], key: str, folder: Path, num_rows: int) -> GroupedFile:
        """Writes the buckets, unless an earlier call has written all of them."""
        if not (folder / DONE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            make_folder(folder)
            sizes, unit = _write_buckets(file, names, key, folder, num_rows)
            facts = {"columns": list(names), "sizes": sizes, "unit": unit}
            write_text(folder / DONE, json.dumps(facts))
        return cls(file.path, folder, key)

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """Bucket after bucket, at most 65,536 rows at a time."""
        yield from self.part(names, 0, self.num_rows or 0)

    def part(self, names: Sequence[str], first: int, last: int) -> Iterator[RowBatch]:
        """The same for the rows from `first` up to `last`; buckets without any of them are not read."""
        start = 0
        for number, size in enumerate(self.sizes):
            low, high = max(first - start, 0), min(last - start, size)
            if high > low:
                rows = self._bucket(number, names)
                for place in range(low, high, ROWS_AT_ONCE):
                    yield rows.part(place, min(place + ROWS_AT_ONCE, high))
            start += size

    def _bucket(self, number: int, names: Sequence[str]) -> RowBatch:
        """A bucket with its groups together."""
        import pyarrow

        with pyarrow.memory_map(str(_bucket_path(self.folder, number))) as source:
            wanted = list(dict.fromkeys([*names, self.key, NUMBER, PLACE]))
            table = pyarrow.ipc.open_file(source).read_all().select(wanted).combine_chunks()
        keys = self._row_batch(table, [self.key])
        order = _order(group_names(keys, self.key), keys.cells[self.key].missing)
        return self._row_batch(table.take(order).combine_chunks(), names)

    def _row_batch(self, table: Any, names: Sequence[str]) -> RowBatch:
        columns = {name: table[name].combine_chunks() for name in (*names, NUMBER, PLACE)}
        cells = {name: TextCells(columns[name]) if self.unit == LINE else arrow_cells(columns[name]) for name in names}
        numbers, places = (columns[name].to_numpy(zero_copy_only=False) for name in (NUMBER, PLACE))
        return RowBatch(str(self.path), self.unit, numbers, cells, places)


def _order(keys: NDArray[Any], missing: NDArray[np.bool_]) -> Integers:
    """The rows with groups in the order in which they first appear, those without a group last."""
    _, first, numbers = np.unique(keys.astype(str) if keys.dtype == object else keys, return_index=True,
                                  return_inverse=True)  # fmt: skip
    return np.argsort(np.where(missing, len(keys), first[numbers]), kind="stable")


def _write_buckets(
    file: AbstractTableFile, names: Sequence[str], key: str, folder: Path, num_rows: int
) -> tuple[list[int], str]:
    """The number of rows of each bucket, and what rows are called."""
    import pyarrow

    number = min(max(math.ceil(num_rows / ROWS_IN_BUCKET), 1), MOST_BUCKETS)
    sizes, unit = np.zeros(number, np.int64), "row"
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for table, buckets, name in _numbered_tables(file, names, key, number):
            order = np.argsort(buckets, kind="stable")
            arranged, ends = table.take(order), np.cumsum(np.bincount(buckets, minlength=number))
            for bucket, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                if bucket not in writers:
                    path = str(_bucket_path(folder, bucket))
                    writers[bucket] = stack.enter_context(pyarrow.ipc.new_file(path, table.schema))
                writers[bucket].write_table(arranged.slice(start, end - start))
            sizes, unit = sizes + np.bincount(buckets, minlength=number), name
    return sizes.tolist(), unit


def _numbered_tables(
    file: AbstractTableFile, names: Sequence[str], key: str, number: int
) -> Iterator[tuple[Any, Integers, str]]:
    """Many rows at a time as a table of Arrow, the bucket of each, and what a row is called."""
    import pyarrow

    tables, buckets, place = list[Any](), list[Integers](), 0
    for batch in file.row_batches(names):
        rows = len(batch.rows)
        columns = {name: _column(pyarrow, batch.cells[name]) for name in names}
        numbers = {NUMBER: batch.rows, PLACE: np.arange(place, place + rows)}
        tables.append(pyarrow.table({**columns, **numbers}))
        buckets.append(_bucket_of(group_names(batch, key), number))
        place += rows
        if sum(map(len, buckets)) >= ROWS_WRITTEN:
            yield pyarrow.concat_tables(tables).combine_chunks(), np.concatenate(buckets), batch.unit
            tables, buckets = [], []
    if tables:
        yield pyarrow.concat_tables(tables).combine_chunks(), np.concatenate(buckets), batch.unit


def _bucket_of(keys: NDArray[Any], number: int) -> Integers:
    """The bucket of each group name; the same in every process.

    >>> _bucket_of(np.array([7, 8, 7]), 4).tolist(), _bucket_of(np.array(["a", "b", "a"], object), 4).tolist()
    ([2, 3, 2], [3, 1, 3])
    """
    if keys.dtype == object:
        known = {name: crc32(name.encode("utf-8", "surrogatepass")) % number for name in set(keys.tolist())}
        return np.fromiter((known[name] for name in keys.tolist()), np.int64, len(keys))
    mixed = keys.astype(np.uint64) * MIX >> np.uint64(32)
    return (mixed % np.uint64(number)).astype(np.int64)


def _column(arrow: Any, cells: Cells) -> Any:
    """The cells as a column of Arrow from which the same cells are read."""
    if isinstance(cells, TextCells):
        return cells.column
    values, missing = cells.values, cells.missing
    if values.ndim == 2:
        flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
        return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if cells.is_numeric:
        return arrow.array(values, mask=missing if missing.any() else None)
    found = [None if gap else value for value, gap in zip(values.tolist(), missing.tolist(), strict=True)]
    holds_lists = any(isinstance(value, list | np.ndarray) for value in found)
    return arrow.array(found, None if holds_lists else arrow.string())


def _bucket_path(folder: Path, number: int) -> Path:
    return folder / f"bucket-{number:03}.arrow"
