"""Tables in parquet, streamed: only a row_batch of rows is ever in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glws._messages import one_line
from glws._optional import needed
from glws.data.tables._arrow_cells import arrow_cells, check_types, is_numeric_type
from glws.data.tables._cells import Cells, RowBatch
from glws.data.tables._table_file import LEAST_BYTES, ROWS_AT_ONCE, SUSPICIOUS_BYTES, AbstractTableFile, DecodedSize
from glws.errors import DataError

OF_WORDS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
"""Encodings from which Arrow gives the words that a column uses and the place of each row's word."""
OF_PREFIXES = "DELTA_BYTE_ARRAY"
"""The encoding that stores how much of the previous text each text repeats."""


class ParquetFile(AbstractTableFile):
    """A parquet file. Rows are numbered from 0, as they are in a data frame.

    Columns are numbers, truth values, text, categories, or lists: lists of equally many numbers are vectors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrow = needed("pyarrow", "pyarrow", "reading parquet")
        parquet = needed("pyarrow.parquet", "pyarrow", "reading parquet")
        try:
            about = parquet.read_metadata(path)
            self.file = parquet.ParquetFile(
                path,
                metadata=about,
                read_dictionary=_text_columns(about),
                buffer_size=1 << 20,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            self.columns, self.num_rows = tuple(self.file.schema_arrow.names), about.num_rows
        except (self.arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read as parquet ({one_line(error)})") from error

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """Row batches of at most 65,536 rows."""
        yield from self.part(names, 0, self.file.metadata.num_rows)

    def part(self, names: Sequence[str], first: int, last: int) -> Iterator[RowBatch]:
        """The same for the rows from `first` up to `last`; row groups without any of them are not read."""
        chosen, start, end = self._row_groups(first, last)
        check_types(self.path, self.file.schema_arrow, names)
        decoded = DecodedSize(self.path)
        self._count_claims(names, chosen, decoded)
        try:
            for batch in self.file.iter_batches(self._rows_at_once(names), chosen, list(names), use_threads=False):
                low, high = max(first - start, 0), min(last - start, batch.num_rows)
                if high > low:
                    yield self._row_batch(names, batch.slice(low, high - low), start + low, decoded)
                start += batch.num_rows
        except (self.arrow.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: damaged, or not read by this pyarrow ({one_line(error)})") from error
        if start != end:
            raise DataError(f"{self.path}: damaged: it claims {end:,} rows and holds {start:,}")

    def _rows_at_once(self, names: Sequence[str]) -> int:
        """Fewer where each row may repeat all the text of its column, so that one row_batch cannot fill the memory."""
        about, longest = self.file.metadata, 1
        for place in self._stored(names):
            if OF_PREFIXES in _encodings(about, place):
                groups = range(about.num_row_groups)
                longest = max(
                    longest, *(about.row_group(number).column(place).total_uncompressed_size for number in groups)
                )
        return min(max(SUSPICIOUS_BYTES // 4 // longest, 64), ROWS_AT_ONCE)

    def _stored(self, names: Sequence[str]) -> list[int]:
        """The places of the stored columns that these are made of."""
        about = self.file.metadata
        return [place for place in range(about.num_columns) if _is_within(about.schema.column(place).path, names)]

    def _row_batch(self, names: Sequence[str], batch: Any, start: int, decoded: DecodedSize) -> RowBatch:
        rows = np.arange(start, start + batch.num_rows)
        cells = {name: self._readable_cells(name, batch.column(name), start, decoded) for name in names}
        return RowBatch(str(self.path), "row", rows, cells)

    def _readable_cells(self, name: str, column: Any, start: int, decoded: DecodedSize) -> Cells:
        try:
            return arrow_cells(column, lambda size: decoded.add(f"column {name}", size))
        except UnicodeDecodeError as error:
            row = start + _first_unreadable(column)
            raise DataError(f"{self.path}, row {row}: column {name} is not text in UTF-8 ({error.reason})") from error

    def _count_claims(self, names: Sequence[str], chosen: list[int], decoded: DecodedSize) -> None:
        """The number of values of the columns, and the bytes of their decompressed pages, by the file's metadata."""
        about, places = self.file.metadata, self._stored(names)
        for number in chosen:
            group = about.row_group(number)
            for place in places:
                chunk = group.column(place)
                values = LEAST_BYTES * max(chunk.num_values, group.num_rows)
                decoded.add(f"column {chunk.path_in_schema}", max(values, chunk.total_uncompressed_size))

    def _row_groups(self, first: int, last: int) -> tuple[list[int], int, int]:
        """The row groups that hold rows from `first` up to `last`, and the rows where they begin and end."""
        about = self.file.metadata
        sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        edges = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        if edges[-1] != about.num_rows:
            raise DataError(f"{self.path}: damaged: it claims {about.num_rows:,} rows and holds {edges[-1]:,}")
        chosen = [number for number in range(len(sizes)) if edges[number] < last and edges[number + 1] > first]
        return (chosen, int(edges[chosen[0]]), int(edges[chosen[-1] + 1])) if chosen else ([], 0, 0)

    def holds_numbers(self, names: Sequence[str]) -> bool:
        """By the types of the columns and the numbers of empty cells that the file states; lists count as numbers."""
        texts = {name for name in names if not is_numeric_type(self.file.schema_arrow.field(name).type)}
        groups = [self.file.metadata.row_group(number) for number in range(self.file.metadata.num_row_groups)]
        stated = [group.column(place).statistics for group in groups for place in self._stored(names)]
        return not texts and not any(found is not None and found.null_count for found in stated)

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


def _text_columns(about: Any) -> list[str]:
    """The columns of text that are read as the words they use and the place of each row's word, where that works.

    So a long word that a million rows share is in memory once.
    """
    places = [place for place in range(about.num_columns) if about.schema.column(place).logical_type.type == "STRING"]
    return [about.schema.column(place).path for place in places if _encodings(about, place) <= OF_WORDS]


def _encodings(about: Any, place: int) -> set[str]:
    groups = range(about.num_row_groups)
    return {name for number in groups for name in about.row_group(number).column(place).encodings}


def _is_within(path: str, names: Sequence[str]) -> bool:
    """Whether a stored column belongs to one of these: the values of a list have names of their own below it."""
    return path in names or any(path.startswith(f"{name}.") for name in names)


def _first_unreadable(column: Any) -> int:
    """The first row whose text is not in UTF-8."""
    for row in range(len(column)):
        try:
            column[row].as_py()
        except UnicodeDecodeError:
            return row
    return 0
