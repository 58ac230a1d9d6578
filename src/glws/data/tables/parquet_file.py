"""Tables in parquet, streamed: only a stretch of rows is ever in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.sources.packages import needed
from glws.data.tables.cells import Cells, Stretch
from glws.data.tables.table_file import ROWS_AT_ONCE, AbstractTableFile
from glws.errors import DataError


class ParquetFile(AbstractTableFile):
    """A parquet file. Rows are numbered from 0, as they are in a data frame.

    Columns are numbers, truth values, text, categories, or lists: lists of equally many numbers are vectors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrow = needed("pyarrow", "pyarrow", "reading parquet")
        parquet = needed("pyarrow.parquet", "pyarrow", "reading parquet")
        try:
            self.file = parquet.ParquetFile(
                path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
            )
        except (self.arrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: cannot be read as parquet ({_first_line(error)})") from error
        self.columns, self.num_rows = tuple(self.file.schema_arrow.names), self.file.metadata.num_rows

    def stretches(self, names: Sequence[str]) -> Iterator[Stretch]:
        """Stretches of at most 65,536 rows."""
        yield from self.part(names, 0, self.file.metadata.num_rows)

    def part(self, names: Sequence[str], first: int, last: int) -> Iterator[Stretch]:
        """The same for the rows from `first` up to `last`; row groups without any of them are not read."""
        chosen, start, end = self._row_groups(first, last)
        try:
            for batch in self.file.iter_batches(ROWS_AT_ONCE, chosen, list(names), use_threads=False):
                low, high = max(first - start, 0), min(last - start, batch.num_rows)
                if high > low:
                    yield self._stretch(names, batch.slice(low, high - low), start + low)
                start += batch.num_rows
        except (self.arrow.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: damaged, or not read by this pyarrow ({_first_line(error)})") from error
        if start != end:
            raise DataError(f"{self.path}: damaged: it claims {end:,} rows and holds {start:,}")

    def _stretch(self, names: Sequence[str], batch: Any, start: int) -> Stretch:
        rows = np.arange(start, start + batch.num_rows)
        return Stretch(str(self.path), "row", rows, {name: self._cells(name, batch.column(name)) for name in names})

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

    def _cells(self, name: str, column: Any) -> Cells:
        types = self.arrow.types
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        missing = np.asarray(column.is_null())
        if types.is_decimal(column.type):
            column = column.cast(self.arrow.float64())
        if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
            return _numeric(column, missing)
        if _is_list(types, column.type):
            return Cells(_vectors(column, missing), missing)
        if types.is_temporal(column.type):
            column = column.cast(self.arrow.string())
        if types.is_string(column.type) or types.is_large_string(column.type):
            return _text(column, missing)
        raise DataError(f"{self.path}: column {name} holds {column.type}, not numbers, text or lists")


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _numeric(column: Any, missing: NDArray[np.bool_]) -> Cells:
    filled = column.fill_null(False if str(column.type) == "bool" else 0) if missing.any() else column
    values = filled.to_numpy(zero_copy_only=False)
    return Cells(values, missing | np.isnan(values) if values.dtype.kind == "f" else missing)


def _vectors(column: Any, missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Rows of numbers where every list is as long as the first; the lists themselves otherwise."""
    flat = column.flatten()
    numeric = str(flat.type) in ("float", "double", "halffloat") or "int" in str(flat.type)
    lengths = np.asarray(column.value_lengths()) if hasattr(column, "value_lengths") else None
    if lengths is None or missing.any():
        lengths = np.array([0 if item is None else len(item) for item in column.to_pylist()])
    if numeric and len(lengths) and not missing.any() and (lengths == lengths[0]).all() and lengths[0]:
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), -1)
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values


def _text(column: Any, missing: NDArray[np.bool_]) -> Cells:
    """Text as objects, equal ones shared; cells with nothing but spaces are missing too."""
    encoded = column.dictionary_encode()
    words = np.array([*encoded.dictionary.to_pylist(), ""], object)
    places = np.asarray(encoded.indices.fill_null(len(words) - 1))
    is_blank = np.array([not word.strip() for word in words])
    return Cells(words[places], missing | is_blank[places])


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
