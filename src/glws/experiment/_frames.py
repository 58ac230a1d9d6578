"""Answers as the kind of table that was asked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def frame_like(frame: Any, table: Any) -> Any:
    """A table of pyarrow as what `frame` is: of pandas, polars or pyarrow, or a mapping of arrays.

    >>> import pyarrow
    >>> answer = pyarrow.table({"row": [0, 1]})
    >>> frame_like({"x": [1.0]}, answer)
    {'row': array([0, 1])}
    >>> frame_like(pyarrow.table({"x": [1.0]}), answer) is answer
    True
    """
    if isinstance(frame, Mapping):
        return {name: table[name].to_numpy() for name in table.column_names}
    library = type(frame).__module__.split(".")[0]
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        import polars

        return polars.from_arrow(table)
    if type(frame).__name__ == "RecordBatch":
        return table.combine_chunks().to_batches()[0]
    return table
