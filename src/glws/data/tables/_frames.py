"""DataFrames of pandas, polars and pyarrow, and mappings of arrays, as tables in memory: all by way of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glws._messages import one_line
from glws._optional import needed
from glws.data.tables._arrow_cells import arrow_cells, check_types
from glws.data.tables._cells import RowBatch
from glws.data.tables._table_file import ROWS_AT_ONCE, AbstractTableFile
from glws.errors import DataError

INDEX = "__index_level_"
"""What pandas calls an index without a name on the way to Arrow: it is no column."""


def is_frame(value: Any) -> bool:
    """Whether it is a table in memory: of pandas, polars, pyarrow or another library that speaks Arrow.

    >>> is_frame({"a": [1, 2]}), is_frame([[1, 2]])
    (True, False)
    """
    if isinstance(value, Mapping):
        return not hasattr(value, "shape")  # as sparse matrices have that are dictionaries of keys
    is_table = hasattr(value, "columns") or hasattr(value, "column_names")
    return is_table and (hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__"))


def column_names(frame: Any) -> list[str]:
    """The names of the columns of a table in memory."""
    if isinstance(frame, Mapping):
        return list(frame)
    return list(frame.schema.names if hasattr(frame, "num_rows") else frame.columns)  # pyarrow has columns of values


def arrow_table(frame: Any) -> Any:
    """The same table in pyarrow; columns that have no type there are a `DataError`."""
    arrow = needed("pyarrow", "pyarrow", "reading a DataFrame")
    try:
        if isinstance(frame, Mapping):
            found = of_columns(arrow, frame)
        elif hasattr(frame, "__arrow_c_stream__"):
            found = _of_frame(arrow, _with_text_names(frame))
        else:
            found = arrow.interchange.from_dataframe(frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the DataFrame is not read by Arrow: {one_line(error)}") from error
    names = [name for name in found.column_names if not name.startswith(INDEX)]
    return with_plain_texts(arrow, found.select(names))


def with_plain_texts(arrow: Any, table: Any) -> Any:
    """Texts in the one layout that all of Arrow's functions know."""
    views = {name for name, kind in zip(table.column_names, table.schema.types, strict=True) if "view" in str(kind)}
    for place, name in enumerate(table.column_names):
        if name in views:
            table = table.set_column(place, name, table[name].cast(arrow.large_string()))
    return table


def _of_frame(arrow: Any, frame: Any) -> Any:
    """By the frame itself, or column by column if it mixes types within one."""
    try:
        return arrow.table(frame)
    except (arrow.ArrowException, TypeError):
        return of_columns(arrow, {name: frame[name] for name in frame.columns})


def of_columns(arrow: Any, columns: Mapping[str, Any]) -> Any:
    """A table of columns; those that mix types become texts."""
    return arrow.table({str(name): _column(arrow, values) for name, values in columns.items()})


def _column(arrow: Any, values: Any) -> Any:
    """A column of Arrow: of a matrix the list of its rows; of mixed values, texts."""
    if getattr(values, "ndim", 1) == 2:
        values = list(values)
    try:
        return arrow.array(values, from_pandas=True)
    except (arrow.ArrowException, TypeError):
        texts = [None if value is None or value != value else str(value) for value in values]
        return arrow.array(texts, arrow.string())


def _with_text_names(frame: Any) -> Any:
    """Columns that pandas numbers are called by these numbers."""
    columns = getattr(frame, "columns", ())
    if all(isinstance(name, str) for name in columns) or not hasattr(frame, "rename"):
        return frame
    return frame.rename(columns={name: str(name) for name in columns})


class FrameFile(AbstractTableFile):
    """A table of pyarrow in memory, or of a file that was read. Rows are numbered from `first_row` on."""

    def __init__(self, table: Any, path: Path | str = "DataFrame", first_row: int = 0) -> None:
        self.path, self.table, self.first_row = Path(path), table, first_row
        self.columns, self.num_rows = tuple(table.column_names), table.num_rows
        if len(set(self.columns)) < len(self.columns):
            repeated = next(name for name in self.columns if self.columns.count(name) > 1)
            raise DataError(f"{path}: two columns are called {repeated!r}")

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """At most 65,536 rows at a time."""
        check_types(self.path, self.table.schema, names)
        if not names:  # each row is still a row
            yield RowBatch(str(self.path), "row", self.first_row + np.arange(self.table.num_rows), {})
            return
        start = self.first_row
        for batch in self.table.select(list(names)).to_batches(ROWS_AT_ONCE):
            cells = {name: arrow_cells(batch.column(name)) for name in names}
            yield RowBatch(str(self.path), "row", np.arange(start, start + batch.num_rows), cells)
            start += batch.num_rows
