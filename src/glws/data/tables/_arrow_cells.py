"""Columns of pyarrow as the cells of a row batch: of parquet, Arrow files and DataFrames alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._cells import Cells
from glws.errors import DataError

Count = Callable[[int], None]
"""Called with the bytes that a column is about to take."""


def _uncounted(size: int) -> None:
    """For columns that are in memory already."""


def check_types(path: Path, schema: Any, names: Sequence[str]) -> None:
    """Refuses what no column can be, before any of it is decoded."""
    from pyarrow import types

    for name in names:
        kind = schema.field(name).type
        inner = kind.value_type if _is_list(types, kind) else kind
        if not _is_plain(types, inner.value_type if types.is_dictionary(inner) else inner):
            raise DataError(f"{path}: column {name} holds {kind}, not numbers, text or lists")


def is_numeric_type(kind: Any) -> bool:
    """Whether cells of this type are numbers, truth values or lists."""
    from pyarrow import types

    return not (types.is_dictionary(kind) or types.is_temporal(kind) or types.is_null(kind) or _is_text(types, kind))


def arrow_cells(column: Any, count: Count = _uncounted) -> Cells:
    """The cells of a column: numbers, truth values, text, categories, dates, or lists."""
    import pyarrow
    from pyarrow import types

    missing = np.asarray(column.is_null())
    if types.is_null(column.type):
        return Cells(np.full(len(column), "", object), missing)
    if types.is_dictionary(column.type) and not _is_text(types, column.type.value_type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
        return _numeric(column, missing)
    if _is_list(types, column.type):
        values = column.flatten()
        if types.is_dictionary(values.type):
            count(_size_of_text(values))
        is_numeric = types.is_integer(values.type) or types.is_floating(values.type)
        return Cells(_vectors(column, values if is_numeric else None, missing), missing)
    if types.is_temporal(column.type):
        column = column.cast(pyarrow.string())
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    count(_size_of_text(column))
    return _text(column, missing)


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_plain(types: Any, kind: Any) -> bool:
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_number or types.is_temporal(kind) or types.is_null(kind) or _is_text(types, kind))


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
    from pyarrow import compute

    lengths = compute.binary_length(column.dictionary)
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
