"""Tables in parquet, streamed: only a row_batch of rows is ever in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._messages import one_line
from glws._optional import needed
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
        self._check_types(names)
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
            return self._cells(name, column, decoded)
        except UnicodeDecodeError as error:
            row = start + _first_unreadable(column)
            raise DataError(f"{self.path}, row {row}: column {name} is not text in UTF-8 ({error.reason})") from error

    def _check_types(self, names: Sequence[str]) -> None:
        """Refuses what no column can be, before any of it is decoded."""
        types, schema = self.arrow.types, self.file.schema_arrow
        for name in names:
            kind = schema.field(name).type
            inner = kind.value_type if _is_list(types, kind) else kind
            if not _is_plain(types, inner.value_type if types.is_dictionary(inner) else inner):
                raise DataError(f"{self.path}: column {name} holds {kind}, not numbers, text or lists")

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

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def _cells(self, name: str, column: Any, decoded: DecodedSize) -> Cells:
        types = self.arrow.types
        missing = np.asarray(column.is_null())
        if types.is_dictionary(column.type) and not _is_text(types, column.type.value_type):
            column = column.dictionary_decode()
        if types.is_decimal(column.type):
            column = column.cast(self.arrow.float64())
        if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
            return _numeric(column, missing)
        if _is_list(types, column.type):
            values = column.flatten()
            if types.is_dictionary(values.type):
                decoded.add(f"column {name}", _size_of_text(values))
            is_numeric = types.is_integer(values.type) or types.is_floating(values.type)
            return Cells(_vectors(column, values if is_numeric else None, missing), missing)
        if types.is_temporal(column.type):
            column = column.cast(self.arrow.string())
        if not types.is_dictionary(column.type):
            column = column.dictionary_encode()
        decoded.add(f"column {name}", _size_of_text(column))
        return _text(column, missing)


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


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_plain(types: Any, kind: Any) -> bool:
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_number or types.is_temporal(kind) or _is_text(types, kind))


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _numeric(column: Any, missing: NDArray[np.bool_]) -> Cells:
    filled = column.fill_null(False if str(column.type) == "bool" else 0) if missing.any() else column
    values = filled.to_numpy(zero_copy_only=False)
    return Cells(values, missing | np.isnan(values) if values.dtype.kind == "f" else missing)


def _vectors(column: Any, numbers: Any, missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Rows of numbers where every list is as long as the first; the lists themselves otherwise."""
    lengths = np.asarray(column.value_lengths()) if hasattr(column, "value_lengths") else None
    if lengths is None or missing.any():
        lengths = np.array([0 if item is None else len(item) for item in column.to_pylist()])
    if numbers is not None and len(lengths) and not missing.any() and (lengths == lengths[0]).all() and lengths[0]:
        return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(len(lengths), -1)
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values


def _places(column: Any) -> NDArray[np.int64]:
    """For each row the place of its word; one place more for rows without any."""
    return np.asarray(column.indices.fill_null(len(column.dictionary)), np.int64)


def _size_of_text(column: Any) -> int:
    """How many bytes the words of all rows have when each row has its own; none is written out for that."""
    lengths = needed("pyarrow.compute", "pyarrow", "reading parquet").binary_length(column.dictionary)
    return int(np.append(np.asarray(lengths.fill_null(0), np.int64), 0)[_places(column)].sum())


def _text(column: Any, missing: NDArray[np.bool_]) -> Cells:
    """Text as objects without spaces around it, equal ones shared; cells with nothing but spaces are missing too."""
    places = _places(column)
    used = np.zeros(len(column.dictionary) + 1, bool)
    used[places] = True
    words = np.full(len(used), "", object)
    chosen = np.flatnonzero(used[:-1])
    words[chosen] = [(word or "").strip() for word in column.dictionary.take(chosen).to_pylist()]
    is_blank = words == ""
    return Cells(words[places], missing | is_blank[places])


def _first_unreadable(column: Any) -> int:
    """The first row whose text is not in UTF-8."""
    for row in range(len(column)):
        try:
            column[row].as_py()
        except UnicodeDecodeError:
            return row
    return 0
