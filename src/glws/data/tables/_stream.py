"""`TableStream`: a described table as pieces of whole groups, of which only one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._block_reading import with_sources
from glws.data.tables._cells import RowBatch
from glws.data.tables._description import Description
from glws.data.tables._frames import FrameFile, arrow_table
from glws.data.tables._grouped_file import GroupedFile
from glws.data.tables._grouping import group_names
from glws.data.tables._hashing import DataHash
from glws.data.tables._ids import are_whole
from glws.data.tables._reading import NotNumbers, Reading, feature_columns, id_columns, open_table, schema_columns
from glws.data.tables._schema import Schema
from glws.data.tables._table import Table
from glws.data.tables._table_file import AbstractTableFile
from glws.errors import DataError
from glws.kinds import find_kind

ROWS_IN_PIECE, NUMBERS_IN_PIECE = 1 << 18, 1 << 25
"""A piece has about so many rows, or fewer where each row has many numbers; a larger group is a piece by itself."""
TEXT_COSTS = 4
"""So many times the memory of numbers is that of the texts that they are read from."""
SMALL_BYTES = 1 << 23
"""A text file up to this size is one piece."""
MOST_NAMES = 1 << 25
"""Of a table with more groups than this, groups that come back are not searched for: their names must increase."""

Integers = NDArray[np.int64]


class Piece(NamedTuple):
    """The rows from `first` up to `last` of a file in which groups stand together."""

    first: int
    last: int


class FilePart(AbstractTableFile):
    """Some row batches of a file, read as a file of their own."""

    def __init__(self, file: AbstractTableFile, batches: Sequence[RowBatch]) -> None:
        self.path, self.columns, self.batches = file.path, file.columns, batches
        self.num_rows = sum(len(batch.rows) for batch in batches)

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """The batches."""
        yield from self.batches


@dataclass(frozen=True, eq=False)
class TableStream:
    """A table that is read a piece at a time, `pieces[n]` holding whole groups of every kind.

    `note` says what had to be done first, if anything. Rows have their numbers and places in the file.
    """

    about: Description
    pieces: tuple[Piece, ...]
    schema: Schema | None = None
    allow_code: bool = False
    whole_ids: Mapping[str, bool] = field(default_factory=dict)
    grouped: tuple[Path, str] | None = None
    note: str = ""

    @cached_property
    def file(self) -> AbstractTableFile:
        """The file, opened once in each process."""
        return open_table(self.about) if self.grouped is None else GroupedFile(self.about.data, *self.grouped)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "file"}

    @property
    def num_rows(self) -> int:
        """All rows."""
        return self.pieces[-1].last if self.pieces else 0

    def tables(self, numbers: Sequence[int]) -> Iterator[tuple[int, Table]]:
        """The pieces of these numbers, in order, in one pass over the file."""
        wanted = [self.pieces[number] for number in numbers]
        if not wanted:
            return
        batches = self.file.part(self._names, wanted[0].first, wanted[-1].last)
        start, kept = wanted[0].first, list[RowBatch]()
        for number, piece in zip(numbers, wanted, strict=True):
            while start < piece.last:
                batch = next(batches, None)
                if batch is None:
                    raise DataError(f"{self.file.path}: its rows have become fewer while it was read")
                kept.append(batch)
                start += len(batch.rows)
            own, kept = _split(kept, piece, start)
            yield number, self._table(own, piece)

    def table(self, number: int) -> Table:
        """One piece."""
        return next(self.tables([number]))[1]

    def _table(self, batches: list[RowBatch], piece: Piece) -> Table:
        part = FilePart(self.file, batches)
        table = _read(self.about, part, self.allow_code, self.schema, self.whole_ids)
        return table if table.own_places is not None else replace(table, own_places=piece.first + table.places)

    @property
    def _names(self) -> list[str]:
        return _column_names(self.about, self.file, self.schema)

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


def _split(batches: list[RowBatch], piece: Piece, end: int) -> tuple[list[RowBatch], list[RowBatch]]:
    """The batches that end at row `end`, cut to a piece; and what is left of the last one."""
    own, left = [], []
    start = end - sum(len(batch.rows) for batch in batches)
    for batch in batches:
        low, high = max(piece.first - start, 0), min(piece.last - start, len(batch.rows))
        if high > low:
            own.append(batch.part(low, high) if high - low < len(batch.rows) else batch)
        if high < len(batch.rows):
            left.append(batch.part(max(high, 0), len(batch.rows)))
        start += len(batch.rows)
    return own, left


def open_stream(
    about: Description,
    schema: Schema | None,
    scratch: Path,
    keeps_groups: bool = True,
    allow_code: bool = False,
    rows_in_piece: int | None = None,
) -> TableStream | None:
    """The table as a stream; None for a small one, and for one whose answers need all of its rows at once.

    Those are slides, kinds that learn from all their groups (`depends_on_all`), and groups of several kinds that are
    not nested and scattered over the file. Without `keeps_groups` rows are cut anywhere. Scattered groups are brought
    together in the folder `scratch`, which is then the caller's to remove.
    """
    if about.slides is not None or _depends_on_all(about, keeps_groups, allow_code):
        return None
    file = open_table(about)
    most = rows_in_piece or _rows_in_piece(about, file, schema)
    if rows_in_piece is None and _is_small(file, most):
        file.close()
        return None
    about = _resolved(about, file, schema, allow_code)
    keys = list(dict.fromkeys(block.group for block in about.blocks if block.group)) if keeps_groups else []
    found = _planned(file, keys, most, id_columns(about, schema, file))
    if not found.together and len(keys) > 1:
        file.close()
        return None
    stream = TableStream(about, found.pieces, schema, allow_code, found.whole_ids)
    with file:
        return stream if found.together else _grouped(stream, file, keys[0], scratch, most)


def _grouped(stream: TableStream, file: AbstractTableFile, key: str, scratch: Path, most: int) -> TableStream:
    """The stream over its rows brought together by group."""
    names = _column_names(stream.about, file, stream.schema)
    grouped = GroupedFile.of(file, names, key, scratch, stream.num_rows)
    note = f"{file.path}: the rows of a group do not stand together; they were brought together on disk first"
    return replace(stream, pieces=_planned(grouped, [key], most, ()).pieces, grouped=(scratch, key), note=note)


def file_hash(about: Description, schema: Schema | None, allow_code: bool = False) -> DataHash:
    """The hash of a described file, a batch of rows at a time; that of `Table.data_hash`."""
    with open_table(about) as file:
        blocks = tuple(with_sources(block, file, allow_code) for block in about.blocks)
        return Reading(replace(about, blocks=blocks), file, allow_code, schema).data_hash()


def read_frame(frame: Any, about: Description, schema: Schema | None, allow_code: bool = False) -> Table:
    """A table in memory, read as a description says; true labels, which answers do not need, may be missing."""
    file = FrameFile(arrow_table(frame))
    return _read(_resolved(about, file, schema, allow_code), file, allow_code, schema, {})


def _read(
    about: Description,
    file: AbstractTableFile,
    allow_code: bool,
    schema: Schema | None,
    whole_ids: Mapping[str, bool],
) -> Table:
    try:
        return Reading(about, file, allow_code, schema, is_part=True, whole_ids=whole_ids).table()
    except NotNumbers as error:
        raise DataError(f"{file.path}: {error}, where the network was trained on numbers only") from None


def _depends_on_all(about: Description, keeps_groups: bool, allow_code: bool) -> bool:
    return keeps_groups and any(
        find_kind(block.kind, allow_code).depends_on_all(block.options) for block in about.blocks
    )


def _is_small(file: AbstractTableFile, most: int) -> bool:
    if file.num_rows is not None:
        return file.num_rows <= most
    return file.path.stat().st_size <= SMALL_BYTES


def _rows_in_piece(about: Description, file: AbstractTableFile, schema: Schema | None) -> int:
    numbers = len(file.columns) + len(about.classes) + (0 if schema is None else schema.width)
    most = ROWS_IN_PIECE // TEXT_COSTS if file.num_rows is None else ROWS_IN_PIECE
    return min(max(NUMBERS_IN_PIECE // max(numbers, 1), 1024), most)


def _resolved(about: Description, file: AbstractTableFile, schema: Schema | None, allow_code: bool) -> Description:
    """The description without the true labels, which answers do not need, and with its patterns written out."""
    if about.label not in file.columns:
        about = replace(about, label=None)
    features = about.features if about.image or schema is not None else feature_columns(about, file)
    blocks = tuple(with_sources(block, file, allow_code) for block in about.blocks)
    return replace(about, features=features, blocks=blocks, label=None)


def _column_names(about: Description, file: AbstractTableFile, schema: Schema | None) -> list[str]:
    names = [*(schema_columns(schema, file) if schema is not None else about.features if not about.image else ())]
    names += [about.image] if about.image else []
    names += [name for block in about.blocks for name in block.columns]
    return list(dict.fromkeys([*names, *id_columns(about, schema, file)]))


# ------------------------------------------------------------ where to cut


class _Plan(NamedTuple):
    """Pieces, whether the rows of each group stand together, and which id columns are whole numbers."""

    pieces: tuple[Piece, ...]
    together: bool
    whole_ids: Mapping[str, bool]


def _planned(file: AbstractTableFile, keys: Sequence[str], most: int, ids: Sequence[str]) -> _Plan:
    """Pieces of about `most` rows that cut no group, from one pass over the columns of group names and of ids."""
    if not keys and not ids and file.num_rows is not None:
        edges = range(0, file.num_rows, most)
        return _Plan(tuple(Piece(first, min(first + most, file.num_rows)) for first in edges), True, {})
    runs, whole = {key: _Runs(key) for key in keys}, dict.fromkeys(ids, True)
    pieces, first, row = list[Piece](), 0, 0
    for batch in file.row_batches(list(dict.fromkeys([*keys, *ids])) or [file.columns[0]]):
        starts = [runs[key].starts(batch) for key in keys] or [np.ones(len(batch.rows), bool)]
        allowed = np.flatnonzero(np.logical_and.reduce(starts)) + row
        while len(later := allowed[np.searchsorted(allowed, first + most) :]):
            pieces.append(Piece(first, int(later[0])))
            first = int(later[0])
        whole = {name: so_far and are_whole(batch.cells[name]) for name, so_far in whole.items()}
        row += len(batch.rows)
    pieces += [Piece(first, row)] if row > first else []
    return _Plan(tuple(pieces), all(found.are_distinct() for found in runs.values()), whole)


class _Runs:
    """The runs of rows of one group in a column of group names."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.last: Any = None  # the group of the last row, None without one
        self.greatest: Any = None
        self.names: list[Integers] = []
        self.count, self.increases = 0, True

    def starts(self, batch: RowBatch) -> NDArray[np.bool_]:
        """Whether each row begins another run; a row without a group is one by itself."""
        missing, names = batch.cells[self.key].missing, group_names(batch, self.key)
        changes = np.ones(len(names), bool)
        changes[1:] = (names[1:] != names[:-1]) | missing[1:] | missing[:-1]
        if len(names):
            changes[0] = missing[0] or self.last is None or bool(names[0] != self.last)
            self.last = None if missing[-1] else names[-1]
        self._add(names[changes & ~missing])
        return changes

    def _add(self, names: NDArray[Any]) -> None:
        """Remembers 64 bits of each name; two that agree in them are taken for one, which costs a sort."""
        if not len(names):
            return
        if self.count < MOST_NAMES:
            is_text = names.dtype == object
            self.names.append(np.fromiter(map(hash, names.tolist()), np.int64, len(names)) if is_text else names)
        above = self.greatest is None or bool(self.greatest < names[0])
        self.increases = self.increases and above and bool((names[1:] > names[:-1]).all())
        self.greatest, self.count = names[-1], self.count + len(names)

    def are_distinct(self) -> bool:
        """Whether no group comes back after another one."""
        if self.increases:
            return True
        names = np.concatenate([*self.names, np.empty(0, np.int64)])
        return self.count <= MOST_NAMES and len(np.unique(names)) == len(names)
