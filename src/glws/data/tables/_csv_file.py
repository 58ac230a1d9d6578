"""Tables as text: comma-separated values with a header line.

pyarrow parses the text, a piece of whole rows at a time, where it surely finds the same cells as the strict mode of
Python's `csv`. From the first piece on where it may not (an error, odd quotes, lone carriage returns), `csv` reads, ten
times slower, and says what is wrong on which line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._optional import needed
from glws.data.tables._cells import Cells, RowBatch, TextCells
from glws.data.tables._csv_dialect import found_dialect
from glws.data.tables._table_file import AbstractTableFile
from glws.errors import DataError

PIECE = 1 << 21
"""Bytes that are read at once, or twice as many while they hold no end of a row."""
LONGEST_LINE = 1 << 24
LONGEST_CELL = csv.field_size_limit()
ROWS_AT_ONCE = 1 << 12
LINE_END = re.compile("\r\n|\r|\n")
UNDECODED = re.compile("[\udc80-\udcff]")
"""What `surrogateescape` makes of bytes that are not in UTF-8."""
QUOTE, NEWLINE, RETURN, BYTE_ORDER_MARK = 34, 10, 13, b"\xef\xbb\xbf"
Rows = list[list[str]]
Integers = NDArray[np.int64]


class CsvFile(AbstractTableFile):
    """A CSV file in UTF-8 whose first line names the columns. Rows are numbered by the line they begin on.

    Empty lines are passed over; a row with too many or too few cells is refused. All cells are text, and those with
    nothing but spaces are missing. Separator and decimal sign are found in the first rows, unless they are given.
    """

    def __init__(self, path: Path, separator: str | None = None, decimal: str | None = None) -> None:
        self.path, self.num_rows = path, None
        self.separator, self.decimal = found_dialect(path, separator, decimal)
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
        """The rows of a piece of the file at a time."""
        position, line, header = 0, 1, 1
        for piece in self._pieces():
            found = self._parsed(piece if position else piece.removeprefix(BYTE_ORDER_MARK), names)
            if found is None:
                yield from self._read_by_csv(names, position, line, header)
                return
            lines, columns = found
            if len(lines) > header:
                rest = {name: column[header:] for name, column in columns.items()}
                yield self._row_batch(line + lines[header:], rest)
            header = 0 if len(lines) else header
            position, line = position + len(piece), line + piece.count(b"\n")

    def _row_batch(self, lines: Integers, columns: dict[str, Any]) -> RowBatch:
        cells: dict[str, Cells] = {name: TextCells(column, self.decimal) for name, column in columns.items()}
        return RowBatch(str(self.path), "line", lines, cells)

    def _pieces(self) -> Iterator[bytes]:
        """The file in pieces of whole rows; b"", at last, where a row does not end within the limit."""
        piece, is_end = b"", False
        with self._readable(), self.path.open("rb") as file:
            while not is_end:
                wanted = max(PIECE, len(piece))
                content = file.read(wanted)
                piece, is_end = piece + content, len(content) < wanted
                end = len(piece) if is_end else end_of_rows(piece)
                if end or len(piece) > LONGEST_LINE:
                    yield piece[:end]
                    piece, is_end = piece[end:], is_end or not end

    def _parsed(self, text: bytes, names: Sequence[str]) -> tuple[Integers, dict[str, Any]] | None:
        """The lines of the rows, and these columns as text; None where it takes `csv` to say what the text means."""
        lines = row_lines(text, self.separator) if text else None
        if lines is None:
            return None
        arrow, reader = (needed(module, "pyarrow", "reading CSV") for module in ("pyarrow", "pyarrow.csv"))
        try:
            table = reader.read_csv(
                arrow.BufferReader(text),
                reader.ReadOptions(column_names=self.columns, use_threads=False, block_size=len(text) + 1),
                reader.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                reader.ConvertOptions(
                    include_columns=names, column_types=dict.fromkeys(names, arrow.string()), strings_can_be_null=False
                ),
            )
        except arrow.ArrowInvalid:
            return None
        columns = {name: table[name].combine_chunks() for name in names}
        return (lines, columns) if len(lines) == table.num_rows else None

    def _read_by_csv(self, names: Sequence[str], position: int, line: int, header: int) -> Iterator[RowBatch]:
        """The rows from a position in the file on, which is a line of it, by Python; the header is passed over."""
        arrow = needed("pyarrow", "pyarrow", "reading CSV")
        places = {name: self.columns.index(name) for name in names}
        with self._reader(position) as reader:
            if header:
                next(row for row in reader if row)
            last = reader.line_num
            while rows := list(islice(reader, ROWS_AT_ONCE)):
                lines = line - 1 + _line_numbers(rows, last, reader.line_num)
                last = reader.line_num
                kept, lines = _without_empty(rows, lines)
                self._check_widths(kept, lines)
                columns = list(zip(*kept, strict=True))
                if columns:
                    yield self._row_batch(lines, {name: arrow.array(columns[place]) for name, place in places.items()})

    def _check_widths(self, rows: Rows, lines: Integers) -> None:
        if set(map(len, rows)) <= {len(self.columns)}:
            return
        wrong = next(place for place, row in enumerate(rows) if len(row) != len(self.columns))
        found = len(rows[wrong])
        raise DataError(f"{self.path}, line {lines[wrong]}: expected {len(self.columns)} cells, found {found}")

    @contextmanager
    def _reader(self, position: int = 0) -> Iterator[Any]:
        """A reader of the rows from a position on; what is wrong with the text becomes a `DataError`.

        Lines are asked for with a limit, so one without an end is met as several, which then have too many cells or
        too long ones.
        """
        try:
            with self._readable(), self.path.open("rb") as file:
                file.seek(position)
                text = TextIOWrapper(file, "utf-8" if position else "utf-8-sig", newline="")
                lines = iter(partial(text.readline, LONGEST_LINE), "")
                yield csv.reader(lines, delimiter=self.separator, strict=True)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}, line {self._line_of_bad_text()}: not text in UTF-8 ({error.reason})"
            ) from error
        except csv.Error as error:
            raise DataError(f"{self.path}, line {self._line_of_error()}: {error}") from error

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror or error})") from error

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


def end_of_rows(text: bytes) -> int:
    """Where the last row ends that is whole, if the text begins with a row; 0 where none is.

    >>> end_of_rows(b"1,2\\n3,4\\n5"), end_of_rows(b'1,2\\n"a\\nb'), end_of_rows(b"1,2")
    (8, 4, 0)
    """
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    ends = _outside_quotes(*_places(text))
    return int(ends[-1]) + 1 if len(ends) else 0


def row_lines(text: bytes, separator: str) -> Integers | None:
    """For each row the number of the line it begins on, from 0 on; empty lines are no rows.

    None where `csv` may split the text differently than pyarrow, or refuse it: bad UTF-8, carriage returns that end no
    line, quotes that neither surround a cell nor stand twice inside one, cells of too many bytes.

    >>> row_lines(b'1,2\\n\\n"a\\nb",4\\n5,6', ",")
    array([0, 2, 4])
    >>> row_lines(b'1,2"\\n', ",") is None
    True
    """
    has_returns = b"\r" in text and text.count(b"\r") != text.count(b"\r\n")
    if has_returns or not separator.isascii() or not _is_utf8(text):
        return None
    newlines, quotes = _places(text)
    data = np.frombuffer(text, np.uint8)
    if len(quotes) and not _are_plain(data, quotes, ord(separator)):
        return None
    ends = _outside_quotes(newlines, quotes)
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts
    if lengths.max(initial=0) > LONGEST_CELL and not _are_short(data, ord(separator), len(quotes) > 0):
        return None
    is_row = (lengths > 1) | ((lengths == 1) & (data[np.minimum(starts, len(data) - 1)] != RETURN))
    lines: Integers = np.searchsorted(newlines, starts[is_row])
    return lines


def _places(text: bytes) -> tuple[Integers, Integers]:
    """Where the line ends and the quotes of a text are."""
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == QUOTE) if b'"' in text else np.empty(0, np.int64)
    return np.flatnonzero(data == NEWLINE), quotes


def _outside_quotes(newlines: Integers, quotes: Integers) -> Integers:
    """The line ends with an even number of quotes before them."""
    return newlines[np.searchsorted(quotes, newlines) % 2 == 0] if len(quotes) else newlines


def _are_plain(data: NDArray[np.uint8], quotes: Integers, separator: int) -> bool:
    """Whether quotes open where cells begin and close where cells end; one that stands twice closes and opens again."""
    if len(quotes) % 2 or separator in (QUOTE, NEWLINE, RETURN):
        return False
    padded = np.concatenate([[NEWLINE], data, [NEWLINE]])
    before, after = padded[quotes[::2]], padded[quotes[1::2] + 2]
    opens_again = np.append(False, quotes[2::2] == quotes[1:-1:2] + 1)
    opens = opens_again | (before == separator) | (before == NEWLINE)
    closes = np.append(opens_again[1:], False) | (after == separator) | (after == NEWLINE) | (after == RETURN)
    return bool(opens.all() and closes.all())


def _are_short(data: NDArray[np.uint8], separator: int, has_quotes: bool) -> bool:
    """Whether no cell has more bytes than `csv` takes; not answered for quoted cells, which may hold separators."""
    ends = np.flatnonzero((data == separator) | (data == NEWLINE))
    return not has_quotes and bool(np.diff(ends, prepend=-1, append=len(data)).max() - 1 <= LONGEST_CELL)


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _line_numbers(rows: Rows, before: int, last: int) -> Integers:
    """The line each row begins on; rows take one line each, unless there are line ends within their cells."""
    if last - before == len(rows):
        return np.arange(before + 1, last + 1)
    sizes = [1 + sum(len(LINE_END.findall(cell)) for cell in row) for row in rows]
    return before + 1 + np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)])


def _without_empty(rows: Rows, lines: Integers) -> tuple[Rows, Integers]:
    if all(rows):
        return rows, lines
    return [row for row in rows if row], lines[[bool(row) for row in rows]]
