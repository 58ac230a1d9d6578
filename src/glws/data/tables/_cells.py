"""A row_batch of rows as a reader gives it, and the values of its columns as numbers, classes or text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames, shown
from glws.errors import DataError
from glws.kinds import FIRST_CLASS

TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
MISSING_WORDS = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
"""What an empty cell of a feature column may be written as."""


def _flag_or_class(value: str, classes: ClassNames) -> int:
    """1, 0, `FIRST_CLASS` plus the number of a class, or -1."""
    if value.lower() in TRUTH:
        return int(TRUTH[value.lower()])
    return FIRST_CLASS + classes.names.index(value) if value in classes.names else -1


class Cells:
    """A column of a row batch: numbers `[rows]` or `[rows, width]`, or objects (text, lists); and the missing ones."""

    def __init__(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> None:
        self._values, self._missing = values, missing

    @property
    def values(self) -> NDArray[Any]:
        """What stands in the cells."""
        return self._values

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are empty."""
        return self._missing

    def rows(self, chosen: slice) -> Cells:
        """Some consecutive rows."""
        return Cells(self.values[chosen], self.missing[chosen])

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers already."""
        return self.values.dtype.kind in "biuf"

    def floats(self) -> NDArray[np.float64]:
        """The values as numbers, NaN where a cell is empty; `ValueError` or `TypeError` for what is neither."""
        values = self.values
        if not self.is_numeric:
            values = _floats(np.where(self.missing, "nan", values) if self.missing.any() else values)
        found = np.array(values, np.float64)
        found[self.missing] = np.nan
        return found

    def words(self) -> tuple[NDArray[np.int64], list[str]]:
        """The distinct texts, and for each cell the place of its own; -1 where it is empty (`MISSING_WORDS`)."""
        return _coded(self.text())

    def text(self) -> Any:
        """The cells as a text column of pyarrow without spaces around them; null where one is empty."""
        import pyarrow

        values = self.values
        if self.is_numeric:
            distinct, places = np.unique(values, return_inverse=True)
            words = np.array([_number_text(value) for value in distinct.tolist()], object)
            values = words[places]
        texts = [None if gap else str(value) for value, gap in zip(values.tolist(), self.missing.tolist(), strict=True)]
        return _without_marks(pyarrow.array(texts, pyarrow.string()))

    def numbers(self) -> NDArray[np.floating[Any]] | None:
        """The cells as numbers, NaN where one is empty; None if some are neither. float32 if their type fits in it."""
        if self.is_numeric:
            is_narrow = np.can_cast(self.values.dtype, np.float32)
            found: NDArray[np.floating[Any]] = self.values.astype(np.float32 if is_narrow else np.float64)
            found[self.missing] = np.nan
            return found
        return numbers_of(self.text())


class TextCells(Cells):
    """A column of text as pyarrow holds it; Python objects are made of it only where somebody needs them.

    `decimal` is the decimal sign of its numbers.
    """

    def __init__(self, column: Any, decimal: str = ".") -> None:
        self.column = column if decimal == "." else _with_points(column, decimal)

    @cached_property
    def _numbers(self) -> NDArray[np.float64] | None:
        """All cells as numbers; None if one is empty, or is a number only to Python, such as "+3" or "1_000"."""
        return _cast(self.column)

    @cached_property
    def values(self) -> NDArray[Any]:
        """The texts."""
        return np.asarray(self.column.to_numpy(zero_copy_only=False), object)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """The cells with nothing but spaces; none where all are numbers."""
        if self._numbers is not None or all(map(str.strip, self.values)):
            return np.zeros(len(self.column), bool)
        return np.array([not cell.strip() for cell in self.values], bool)

    def rows(self, chosen: slice) -> TextCells:
        """Some consecutive rows; texts that are numbers have a point already."""
        start, stop, _ = chosen.indices(len(self.column))
        return TextCells(self.column.slice(start, stop - start))

    @property
    def is_numeric(self) -> bool:
        """Text is not numeric, whatever it says."""
        return False

    def floats(self) -> NDArray[np.float64]:
        """The texts as numbers."""
        return super().floats() if self._numbers is None else self._numbers

    def text(self) -> Any:
        """The column itself, trimmed, and null where a cell is empty."""
        return self._trimmed

    @cached_property
    def _trimmed(self) -> Any:
        return _without_marks(self.column)


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Consecutive rows: their numbers as a person sees them, and the columns that were asked for.

    `places` are their places in the file, the first row being 0, where rows were rearranged (None: they follow on).
    """

    file: str
    unit: str
    rows: NDArray[np.int64]
    cells: dict[str, Cells]
    places: NDArray[np.int64] | None = None

    def part(self, first: int, last: int) -> RowBatch:
        """The rows from `first` up to `last`."""
        chosen = slice(first, last)
        cells = {name: column.rows(chosen) for name, column in self.cells.items()}
        places = None if self.places is None else self.places[chosen]
        return RowBatch(self.file, self.unit, self.rows[chosen], cells, places)

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
        cells = self.cells[column]
        try:
            return cells.floats()
        except (ValueError, TypeError):
            values = cells.values
            wrong = [not gap and not _is_number(value) for value, gap in zip(values, cells.missing, strict=True)]
            self.refuse(np.array(wrong), lambda row: f"column {column} must be a number, found {shown(values[row])}")
            raise

    def whole(self, column: str, least: int = 0) -> NDArray[np.int64]:
        """The column as whole numbers from `least` on; `least - 1` where a cell is empty."""
        found = self.numbers(column)
        gaps = np.isnan(found)
        wrong = ~gaps & ((found != np.round(found)) | (found < least) | (np.abs(found) >= 2**53))
        hint = "; of counts with noise the kind is noisy_proportions, as in options: {mechanism: laplace, epsilon: 1}"
        self._refuse_value(column, wrong, f"must be a whole number from {least} on", hint)
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

    def _refuse_value(self, column: str, wrong: NDArray[np.bool_], expectation: str, hint: str = "") -> None:
        cells = self.cells[column]
        self.refuse(
            rows_with_any(wrong), lambda row: f"column {column} {expectation}, found {shown(cells.values[row])}{hint}"
        )

    def flags(self, column: str) -> NDArray[np.int64]:
        """The column as 1 (1, true, yes) and 0 (0, false, no); -1 where a cell is empty."""
        cells = self.cells[column]
        values, missing = cells.values, cells.missing
        if cells.is_numeric:
            known = (values == 0) | (values == 1)
            read = np.where(known, values, 0).astype(np.int64)
        else:
            words = [TRUTH.get(str(value).strip().lower()) for value in values]
            known, read = np.array([word is not None for word in words], bool), np.array([bool(word) for word in words])
        self._refuse_value(column, ~known & ~missing, "must be 1 or 0, true or false, yes or no")
        return np.where(missing, -1, read).astype(np.int64)

    def flags_or_classes(self, column: str, classes: ClassNames) -> NDArray[np.int64]:
        """The column as 1, 0 and -1 like `flags`, or by names of classes, each as `FIRST_CLASS` plus its number."""
        cells = self.cells[column]
        if cells.is_numeric:
            return self.flags(column)
        values = [str(value).strip() for value in cells.values]
        known = {value: _flag_or_class(value, classes) for value in set(values)}
        read = np.fromiter((known[value] for value in values), np.int64, len(values))
        words = f"1 or 0, yes or no, or a class ({', '.join(classes.names[:5])})"
        self._refuse_value(column, (read < 0) & ~cells.missing, f"must be {words}")
        return np.where(cells.missing, -1, read)

    def class_numbers(self, column: str, classes: ClassNames) -> NDArray[np.int64]:
        """The column as class numbers, from names or numbers; -1 where a cell is empty."""
        values, missing = self.cells[column].values, self.cells[column].missing
        if values.ndim != 1 or any(isinstance(value, list) for value in values[:1]):
            raise DataError(f"{self.file}: column {column} holds lists where each row has one class")
        cells = values.tolist()
        known = {cell: classes.number(cell) for cell in set(cells)}
        read = np.fromiter((known[cell] for cell in cells), np.int64, len(cells))
        self.refuse((read < 0) & ~missing, lambda row: f"column {column}: {classes.complaint(values[row])}")
        return np.where(missing, -1, read)

    def class_masks(self, column: str, classes: ClassNames) -> NDArray[np.bool_]:
        """The column as sets of classes `[rows, classes]`: lists, or text such as "cat|dog"; none where it is empty."""
        values, missing = self.cells[column].values, self.cells[column].missing
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
        values, missing = self.cells[column].values, self.cells[column].missing
        read = np.empty(len(values), object)
        read[:] = ["" if gap else str(value).strip() for value, gap in zip(values, missing, strict=True)]
        return read


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        return [item for item in value.split("|") if item.strip()]
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value]


def _floats(texts: NDArray[Any]) -> NDArray[np.float64]:
    """Texts as numbers: by pyarrow where all are such as it knows, three times as fast, and by Python otherwise."""
    import pyarrow

    try:
        found = _cast(pyarrow.array(texts, pyarrow.string()))
    except (TypeError, ValueError):  # lists among the texts, or half a surrogate pair
        found = None
    return np.fromiter(map(float, texts.tolist()), np.float64, len(texts)) if found is None else found


def _cast(column: Any) -> NDArray[np.float64] | None:
    """A column of text as numbers; None if pyarrow does not take all of it for numbers."""
    import pyarrow

    try:
        return np.asarray(column.cast(pyarrow.float64()))
    except pyarrow.ArrowInvalid:
        return None


def numbers_of(texts: Any) -> NDArray[np.float64] | None:
    """A text column with nulls as numbers, NaN where it is null; None if one of them is neither."""
    import pyarrow

    try:
        return np.asarray(texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pyarrow.ArrowInvalid:
        pass
    try:
        return np.array([np.nan if text is None else float(text) for text in texts.to_pylist()], np.float64)
    except ValueError:
        return None


def _without_marks(column: Any) -> Any:
    """The text column without spaces around it, null where it is one of `MISSING_WORDS`."""
    import pyarrow
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(trimmed, pyarrow.array(MISSING_WORDS, trimmed.type))
    return compute.if_else(is_missing, pyarrow.scalar(None, trimmed.type), trimmed)


def _with_points(column: Any, decimal: str) -> Any:
    """The text column with a point as the decimal sign of its numbers; other texts unchanged."""
    from pyarrow import compute

    pattern = rf"^(\s*[+-]?\d*){re.escape(decimal)}(\d+\s*)$"
    return compute.replace_substring_regex(column, pattern, r"\1.\2")


def _coded(texts: Any) -> tuple[NDArray[np.int64], list[str]]:
    """The places of the words of a text column among the distinct ones, -1 for null; and these."""
    encoded = texts.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), np.int64), encoded.dictionary.to_pylist()


def _number_text(value: Any) -> str:
    """A number as the word of a category: 3 and 3.0 are the same one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


def rows_with_any(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows have a mark, in one column or several."""
    return marks if marks.ndim == 1 else np.logical_or.reduce(marks, axis=1)
