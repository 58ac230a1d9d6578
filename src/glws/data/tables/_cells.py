"""A row_batch of rows as a reader gives it, and the values of its columns as numbers, classes or text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames, shown
from glws._optional import needed
from glws.errors import DataError

TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Cells(NamedTuple):
    """One column of a row batch: numbers `[rows]` or `[rows, width]`, or objects (text, lists), and what is missing."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers already."""
        return self.values.dtype.kind in "biuf"


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Consecutive rows: their numbers as a person sees them, and the columns that were asked for."""

    file: str
    unit: str
    rows: NDArray[np.int64]
    cells: dict[str, Cells]

    def refuse(self, wrong: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Raises `DataError` about the first row that is wrong, naming up to four others."""
        if not wrong.any():
            return
        found = np.flatnonzero(wrong)
        raise DataError(
            f"{self.file}, {self.unit} {self.rows[found[0]]}: {message(int(found[0]))}{self._also(found[1:])}"
        )

    def _also(self, others: NDArray[np.int64]) -> str:
        if not len(others):
            return ""
        named = ", ".join(str(row) for row in self.rows[others[:4]])
        return f" (also {self.unit} {named}{', ...' if len(others) > 4 else ''})"

    def refuse_missing(self, column: str) -> None:
        """Raises `DataError` where a cell of the column is empty."""
        self.refuse(self.cells[column].missing, lambda row: f"column {column} is empty")

    def numbers(self, column: str) -> NDArray[np.float64]:
        """The column as numbers, NaN where a cell is empty; what is neither is refused."""
        values, missing = self.cells[column]
        if not self.cells[column].is_numeric:
            values = self._parsed(column)
        found = np.array(values, np.float64)
        found[missing] = np.nan
        return found

    def _parsed(self, column: str) -> NDArray[np.float64]:
        values, missing = self.cells[column]
        try:
            return _floats(np.where(missing, "nan", values) if missing.any() else values)
        except (ValueError, TypeError):
            wrong = np.array([not gap and not _is_number(value) for value, gap in zip(values, missing, strict=True)])
            self.refuse(wrong, lambda row: f"column {column} must be a number, found {shown(values[row])}")
            raise

    def whole(self, column: str, least: int = 0) -> NDArray[np.int64]:
        """The column as whole numbers from `least` on; `least - 1` where a cell is empty."""
        found = self.numbers(column)
        gaps = np.isnan(found)
        wrong = ~gaps & ((found != np.round(found)) | (found < least) | (np.abs(found) >= 2**53))
        self._refuse_value(column, wrong, f"must be a whole number from {least} on")
        return np.where(gaps, least - 1, found).astype(np.int64)

    def between(self, column: str, low: float, high: float) -> NDArray[np.float64]:
        """The column as numbers within a range, NaN where a cell is empty."""
        found = self.numbers(column)
        self._refuse_value(column, (found < low) | (found > high), f"must be within {low:g} and {high:g}")
        return found

    def one_of(self, column: str, allowed: tuple[int, int]) -> NDArray[np.int64]:
        """The column as one of two numbers; -1 where a cell is empty."""
        found = self.numbers(column)
        wrong = ~np.isnan(found) & ~np.isin(found, allowed)
        self._refuse_value(column, wrong, f"must be {allowed[0]} or {allowed[1]}")
        return np.where(np.isnan(found), -1, found).astype(np.int64)

    def _refuse_value(self, column: str, wrong: NDArray[np.bool_], expectation: str) -> None:
        values = self.cells[column].values
        is_wrong = rows_with_any(wrong)
        self.refuse(is_wrong, lambda row: f"column {column} {expectation}, found {shown(values[row])}")

    def flags(self, column: str) -> NDArray[np.int64]:
        """The column as 1 (1, true, yes) and 0 (0, false, no); -1 where a cell is empty."""
        values, missing = self.cells[column]
        if self.cells[column].is_numeric:
            known = (values == 0) | (values == 1)
            read = np.where(known, values, 0).astype(np.int64)
        else:
            words = [TRUTH.get(str(value).strip().lower()) for value in values]
            known, read = np.array([word is not None for word in words], bool), np.array([bool(word) for word in words])
        self._refuse_value(column, ~known & ~missing, "must be 1 or 0, true or false, yes or no")
        return np.where(missing, -1, read).astype(np.int64)

    def class_numbers(self, column: str, classes: ClassNames) -> NDArray[np.int64]:
        """The column as class numbers, from names or numbers; -1 where a cell is empty."""
        values, missing = self.cells[column]
        if values.ndim != 1 or any(isinstance(value, list) for value in values[:1]):
            raise DataError(f"{self.file}: column {column} holds lists where each row has one class")
        cells = values.tolist()
        known = {cell: classes.number(cell) for cell in set(cells)}
        read = np.fromiter((known[cell] for cell in cells), np.int64, len(cells))
        self.refuse((read < 0) & ~missing, lambda row: f"column {column}: {classes.complaint(values[row])}")
        return np.where(missing, -1, read)

    def class_masks(self, column: str, classes: ClassNames) -> NDArray[np.bool_]:
        """The column as sets of classes `[rows, classes]`: lists, or text such as "cat|dog"; none where it is empty."""
        values, missing = self.cells[column]
        masks = np.zeros((len(values), len(classes.names)), bool)
        if values.ndim == 2:  # one number for each class, in a vector
            self._refuse_width(column, len(classes.names))
            return self.between(column, 0, 1).astype(bool)
        for row in np.flatnonzero(~missing):
            for item in _items(values[row]):
                number = classes.number(item)
                if number < 0:
                    self._refuse_row(int(row), f"column {column}: {classes.complaint(item)}")
                masks[row, number] = True
        return masks

    def _refuse_row(self, row: int, message: str) -> None:
        raise DataError(f"{self.file}, {self.unit} {self.rows[row]}: {message}")

    def _refuse_width(self, column: str, width: int) -> None:
        found = self.cells[column].values.shape[1]
        if found != width:
            raise DataError(
                f"{self.file}: column {column} holds vectors of {found}, expected {width}, one for each class"
            )

    def texts(self, column: str) -> NDArray[np.object_]:
        """The column as text; empty text where a cell is empty."""
        values, missing = self.cells[column]
        read = np.empty(len(values), object)
        read[:] = ["" if gap else str(value).strip() for value, gap in zip(values, missing, strict=True)]
        return read


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        return [item for item in value.split("|") if item.strip()]
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value]


def _floats(texts: NDArray[Any]) -> NDArray[np.float64]:
    """Texts as numbers: by pyarrow where it is there and knows how, three times as fast, and by Python otherwise."""
    try:
        arrow = needed("pyarrow", "pyarrow", "reading numbers")
        return np.asarray(arrow.array(texts, arrow.string()).cast(arrow.float64()))
    except (ValueError, TypeError):  # DataError, when there is no pyarrow, is a ValueError too
        return np.fromiter(map(float, texts.tolist()), np.float64, len(texts))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


def rows_with_any(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows have a mark, in one column or several."""
    return marks if marks.ndim == 1 else np.logical_or.reduce(marks, axis=1)
