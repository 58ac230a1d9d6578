"""Tables as text: comma-separated values with a header line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._cells import Cells, RowBatch
from glws.data.tables._table_file import AbstractTableFile
from glws.errors import DataError

LONGEST_LINE = 1 << 24
ROWS_AT_ONCE = 1 << 12
LINE_END = re.compile("\r\n|\r|\n")
UNDECODED = re.compile("[\udc80-\udcff]")
"""What `surrogateescape` makes of bytes that are not in UTF-8."""
Rows = list[list[str]]


class CsvFile(AbstractTableFile):
    """A CSV file in UTF-8 whose first line names the columns. Rows are numbered by the line they begin on.

    Empty lines are passed over; a row with too many or too few cells is refused. All cells are text, and those with
    nothing but spaces are missing.
    """

    def __init__(self, path: Path, separator: str | None = None) -> None:
        self.path, self.num_rows = path, None
        self.separator = separator or ("\t" if path.suffix == ".tsv" else ",")
        with self._reader() as reader:
            header: list[str] = next((row for row in reader if row), [])
        self.columns = tuple(name.strip() for name in header)
        self._check_header()

    def _check_header(self) -> None:
        if not self.columns:
            raise DataError(f"{self.path}: empty: expected a line with the names of the columns")
        seen = set()
        for name in self.columns:
            if name in seen:
                raise DataError(f"{self.path}, line 1: two columns are called {name!r}")
            seen.add(name)

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """Stretches of text."""
        places = {name: self.columns.index(name) for name in names}
        with self._reader() as reader:
            next(row for row in reader if row)
            last = reader.line_num
            while rows := list(islice(reader, ROWS_AT_ONCE)):
                lines = _line_numbers(rows, last, reader.line_num)
                last = reader.line_num
                kept, lines = _without_empty(rows, lines)
                self._check_widths(kept, lines)
                columns = list(zip(*kept, strict=True))
                if columns:
                    cells = {name: _cells(columns[place]) for name, place in places.items()}
                    yield RowBatch(str(self.path), "line", lines, cells)

    def _check_widths(self, rows: Rows, lines: NDArray[np.int64]) -> None:
        if set(map(len, rows)) <= {len(self.columns)}:
            return
        wrong = next(place for place, row in enumerate(rows) if len(row) != len(self.columns))
        found = len(rows[wrong])
        raise DataError(f"{self.path}, line {lines[wrong]}: expected {len(self.columns)} cells, found {found}")

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """A reader of rows; what is wrong with the text becomes a `DataError`.

        Lines are asked for with a limit, so one without an end is met as several, which then have too many cells or
        too long ones.
        """
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                lines = iter(partial(file.readline, LONGEST_LINE), "")
                yield csv.reader(lines, delimiter=self.separator, strict=True)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}, line {self._line_of_bad_text()}: not text in UTF-8 ({error.reason})"
            ) from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror or error})") from error
        except csv.Error as error:
            raise DataError(f"{self.path}, line {self._line_of_error()}: {error}") from error

    def _line_of_bad_text(self) -> int:
        """The first line that is not in UTF-8: what was read ahead when that was noticed is no line."""
        with self.path.open(encoding="utf-8-sig", newline="", errors="surrogateescape") as file:
            lines = iter(partial(file.readline, LONGEST_LINE), "")
            return next((number for number, line in enumerate(lines, start=1) if UNDECODED.search(line)), 1)

    def _line_of_error(self) -> int:
        """The line on which the row begins that cannot be read: found by reading again, a row at a time."""
        with self.path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
            reader = csv.reader(iter(partial(file.readline, LONGEST_LINE), ""), delimiter=self.separator, strict=True)
            last = 0
            try:
                for _ in reader:
                    last = reader.line_num
            except csv.Error:
                pass
            return last + 1


def _line_numbers(rows: Rows, before: int, last: int) -> NDArray[np.int64]:
    """The line each row begins on; rows take one line each, unless there are line ends within their cells."""
    if last - before == len(rows):
        return np.arange(before + 1, last + 1)
    sizes = [1 + sum(len(LINE_END.findall(cell)) for cell in row) for row in rows]
    return before + 1 + np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)])


def _without_empty(rows: Rows, lines: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
    if all(rows):
        return rows, lines
    return [row for row in rows if row], lines[[bool(row) for row in rows]]


def _cells(column: tuple[str, ...]) -> Cells:
    values = np.empty(len(column), object)
    values[:] = column
    if all(map(str.strip, column)):
        return Cells(values, np.zeros(len(column), bool))
    return Cells(values, np.array([not cell.strip() for cell in column], bool))
