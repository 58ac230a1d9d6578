"""From the cells of a table to the coded matrix of its schema, a row batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import shown
from glws.data.tables._cells import TRUTH, RowBatch, rows_with_any
from glws.data.tables._dates import seconds_of
from glws.data.tables._schema import Coded, Column, Schema
from glws.data.tables._text_features import hashed_texts
from glws.errors import DataError

TRUE_OR_FALSE = "true or false, 1 or 0, yes or no"
LARGEST = np.finfo(np.float32).max
Array = NDArray[np.floating[Any]]


def coded_rows(schema: Schema, row_batch: RowBatch) -> Coded:
    """The rows of a batch as the schema codes them; a cell that it cannot code is named by its row."""
    columns = [np.empty((len(row_batch.rows), 0), np.float32)]
    texts = []
    for column in schema.features:
        if column.type == "text":
            texts.append(hashed_texts(row_batch.cells[column.name].text().to_pylist(), column.width))
        else:
            columns.append(_coded_column(column, row_batch))
    return Coded(np.column_stack(columns), stacked(texts, side_by_side=True))


def coded_table(schema: Schema, batches: Iterable[RowBatch]) -> Coded:
    """All rows of a table."""
    pieces = [coded_rows(schema, row_batch) for row_batch in batches]
    if not pieces:
        raise DataError("there are no rows")
    matrix = np.concatenate([piece.matrix for piece in pieces])
    return Coded(matrix, stacked([piece.texts for piece in pieces if piece.texts is not None]))


def stacked(parts: Sequence[Any], side_by_side: bool = False) -> Any:
    """Sparse matrices one below the other, or side by side; None of none."""
    from scipy import sparse

    if not parts:
        return None
    return (sparse.hstack if side_by_side else sparse.vstack)(parts, format="csr", dtype=np.float32)


def _coded_column(column: Column, row_batch: RowBatch) -> Array:
    if column.encoder is not None:
        return _encoded_by(column.encoder, row_batch, column)
    found = CODERS[column.type](column, row_batch)
    wide = found if found.ndim == 2 else found[:, None]
    if wide.shape[1] != column.width:
        raise DataError(f"{row_batch.file}: column {column.name} has {wide.shape[1]} values in a cell, "
                        f"expected {column.width}")  # fmt: skip
    return wide


def _encoded_by(encoder: Any, row_batch: RowBatch, column: Column) -> Array:
    texts = [text or "" for text in row_batch.cells[column.name].text().to_pylist()]
    return checked_vectors(encoder(texts), len(texts), column.name)


def checked_vectors(found: Any, rows: int, name: str) -> Array:
    """What an encoder of texts returned, as float32 `[rows, width]`; anything else is a `DataError`."""
    vectors = np.asarray(found, np.float32)
    if vectors.ndim != 2 or len(vectors) != rows or not np.isfinite(vectors).all():
        raise DataError(f"the encoder of column {name} must return finite vectors [{rows}, width], "
                        f"found shape {list(vectors.shape)}")  # fmt: skip
    return vectors


def _numbers(column: Column, row_batch: RowBatch) -> Array:
    """Numbers, NaN where a cell is empty; infinities and what float32 takes for infinite are refused."""
    cells = row_batch.cells[column.name]
    if cells.values.ndim == 2:
        is_narrow = np.can_cast(cells.values.dtype, np.float32)
        found: Array = cells.values.astype(np.float32 if is_narrow else np.float64)
        wrong = rows_with_any(~(np.abs(found) <= LARGEST))
    else:
        known = cells.numbers()
        found = row_batch.numbers(column.name) if known is None else known
        wrong = np.abs(found) > LARGEST
    row_batch.refuse(
        wrong, lambda row: f"column {column.name} must be a finite number, found {shown(cells.values[row])}"
    )
    return found


def _categories(column: Column, row_batch: RowBatch) -> Array:
    places, words = row_batch.cells[column.name].words()
    return np.append(column.code_of(words), np.nan)[places]


def _booleans(column: Column, row_batch: RowBatch) -> Array:
    places, words = row_batch.cells[column.name].words()
    known = [TRUTH.get(word.lower()) for word in words]
    wrong = np.append([value is None for value in known], False).astype(bool)[places]
    row_batch.refuse(
        wrong,
        lambda row: f"column {column.name} must be {TRUE_OR_FALSE}, found {words[places[row]]!r}",
    )
    return np.append([float(bool(value)) for value in known], np.nan)[places]


def _dates(column: Column, row_batch: RowBatch) -> Array:
    places, words = row_batch.cells[column.name].words()
    found = seconds_of(words, column.date_format)
    if found is None:
        wrong = [seconds_of([word], column.date_format) is None for word in words]
        row_batch.refuse(
            np.append(wrong, False)[places],
            lambda row: f"column {column.name} is no date, found {words[places[row]]!r}",
        )
        raise AssertionError("one of the words is no date")
    return np.append(found, np.nan)[places]


CODERS: dict[str, Callable[[Column, RowBatch], Array]] = {
    "number": _numbers,
    "category": _categories,
    "boolean": _booleans,
    "date": _dates,
}
