"""Tables in the Arrow format, a record batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from glws._messages import one_line
from glws._optional import needed
from glws.data.tables._arrow_cells import arrow_cells, check_types
from glws.data.tables._cells import RowBatch
from glws.data.tables._frames import with_plain_texts
from glws.data.tables._table_file import ROWS_AT_ONCE, AbstractTableFile, DecodedSize
from glws.errors import DataError


class ArrowFile(AbstractTableFile):
    """A file in the Arrow format (IPC file, Feather 2). Rows are numbered from 0."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrow = needed("pyarrow", "pyarrow", "reading Arrow files")
        with self._readable():
            self.schema, sizes = self._open([]).schema, []
            if len(self.schema):
                first = self._open([0])
                sizes = [first.get_batch(number).num_rows for number in range(first.num_record_batches)]
        self.edges = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.columns, self.num_rows = tuple(self.schema.names), int(self.edges[-1])
        if len(set(self.columns)) < len(self.columns):
            repeated = next(name for name in self.columns if self.columns.count(name) > 1)
            raise DataError(f"{path}: two columns are called {repeated!r}")

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """At most 65,536 rows at a time."""
        yield from self.part(names, 0, int(self.edges[-1]))

    def part(self, names: Sequence[str], first: int, last: int) -> Iterator[RowBatch]:
        """The same for the rows from `first` up to `last`; record batches without any of them are not read."""
        check_types(self.path, self.schema, names)
        decoded = DecodedSize(self.path)
        for number, start in enumerate(self.edges[:-1].tolist()):
            low, high = max(first - start, 0), min(last, int(self.edges[number + 1])) - start
            if high <= low:
                continue
            table = self._table(names, number, decoded)
            for place in range(low, high, ROWS_AT_ONCE):
                piece = table.slice(place, min(ROWS_AT_ONCE, high - place))
                yield self._row_batch(names, piece, start + place)

    def _row_batch(self, names: Sequence[str], piece: Any, start: int) -> RowBatch:
        rows = np.arange(start, start + piece.num_rows)
        cells = {name: arrow_cells(piece[name].combine_chunks()) for name in names}
        return RowBatch(str(self.path), "row", rows, cells)

    def _table(self, names: Sequence[str], number: int, decoded: DecodedSize) -> Any:
        """These columns of a record batch, checked."""
        places = sorted({self.columns.index(name) for name in names} or {0})
        with self._readable():
            batch = self._open(places).get_batch(number)
            batch.validate(full=True)
        decoded.add("its columns", batch.nbytes)
        return with_plain_texts(self.arrow, self.arrow.Table.from_batches([batch]))

    def _open(self, places: list[int]) -> Any:
        """A reader of the columns at these places; of all for none."""
        ipc = needed("pyarrow.ipc", "pyarrow", "reading Arrow files")
        options = ipc.IpcReadOptions(included_fields=places or None, use_threads=False)
        return ipc.open_file(self.arrow.memory_map(str(self.path)), options=options)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (self.arrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{self.path}: cannot be read as Arrow ({one_line(error)})") from error
