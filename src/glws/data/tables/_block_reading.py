"""The weak labels of one kind, gathered while a file is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames, shown
from glws.data.tables._cells import Cells, RowBatch, rows_with_any
from glws.data.tables._description import BlockDescription, Columns, check_known
from glws.data.tables._grouping import group_names, members_of, numbered, with_single_rows
from glws.data.tables._joined_votes import joined_votes, with_votes_hash
from glws.data.tables._table import WeakBlock
from glws.data.tables._table_file import ROWS_AT_ONCE, AbstractTableFile, Stack
from glws.errors import DataError
from glws.kinds import READINGS, UNKNOWN, AbstractSupervision, find_kind, single_reading

Integers = NDArray[np.int64]
DTYPES = {"share": np.float64, "signed": np.float64, "number": np.float64, "text": object, "set": bool}
"""How values are kept; what is not here is a whole number."""


class BlockReader:
    """Gathers the groups and the weak values of a block, row by row, and makes them one to a group."""

    def __init__(
        self, about: BlockDescription, classes: ClassNames, file: AbstractTableFile, allow_code: bool = False
    ) -> None:
        self.about, self.classes, self.path = about, classes, str(file.path)
        self.kind = find_kind(about.kind, allow_code)
        self.reads = chosen_columns(self.kind, about)
        check_known(about.options, self.kind.options or ("none",), f"option of {about.kind}")
        self.values = {
            name: Stack(file.path, file.num_rows, DTYPES.get(single_reading(self.reads[name]), np.int64))
            for name in about.weak
        }
        self.is_missing = {name: Stack(file.path, file.num_rows, bool) for name in about.weak}
        self.is_grouped = Stack(file.path, file.num_rows, bool)
        self.names: Stack | None = None
        self.num_rows = file.num_rows
        self._numbers: tuple[Integers, NDArray[Any]] | None = None

    def add(self, row_batch: RowBatch) -> None:
        """Takes what this block needs from a row_batch of rows."""
        for name, source in self.about.weak.items():
            values, missing = read_values(row_batch, self.reads[name], name, source, self.classes)
            if not self.about.skips_missing and not self.reads[name].endswith(" or none"):
                what = f"{_described(name, source)} is empty"
                row_batch.refuse(missing, partial(_same_for_all, what))
            self.values[name].add(values)
            self.is_missing[name].add(missing)
        self._add_group(row_batch)

    def _add_group(self, row_batch: RowBatch) -> None:
        if self.about.group is None:
            self.is_grouped.add(np.ones(len(row_batch.rows), bool))
            return
        if not self.about.skips_missing and not self.kind.takes_single_rows:
            row_batch.refuse_missing(self.about.group)
        names = group_names(row_batch, self.about.group)
        if self.names is None:
            self.names = Stack(Path(self.path), self.num_rows, names.dtype)
        self.names.add(names)
        self.is_grouped.add(~row_batch.cells[self.about.group].missing)

    def numbers(self) -> Integers:
        """For each row of the file the number of its group, -1 where it is in none."""
        if self._numbers is None:
            is_member = self.is_grouped.result()
            if self.about.skips_missing:
                is_member = is_member & ~self._all_missing()
            names = np.arange(len(is_member)) if self.names is None else self.names.result()
            self.names = None
            self._numbers = numbered(names, is_member)
            if self.kind.takes_single_rows:
                self._numbers = with_single_rows(*self._numbers)
        return self._numbers[0]

    @property
    def is_empty(self) -> bool:
        """Whether no row has a group."""
        return not len(self.numbers()) or int(self.numbers().max()) < 0

    def _all_missing(self) -> NDArray[np.bool_]:
        masks = [stack.result() for stack in self.is_missing.values()]
        return np.logical_and.reduce(masks) if masks else np.zeros(1, bool)

    def result(self, order: Integers | None, rows: Integers, unit: str) -> WeakBlock:
        """The block for a table whose rows are in this order and have these numbers."""
        numbers, names = self.numbers(), self._numbers[1] if self._numbers else np.empty(0)
        if not len(names):
            raise DataError(f"{self.path}: no row has a group and a weak label of kind {self.about.kind}")
        offsets, members = members_of(numbers if order is None else numbers[order], len(names))
        weak: dict[str, Any] = {}
        for name, stack in self.values.items():
            stacked = (stack.result(), self.is_missing[name].result())
            values, missing = stacked if order is None else tuple(array[order] for array in stacked)
            self._check_missing(name, missing[members], rows[members], unit)
            weak[name] = self._one_to_a_group(name, values, offsets, members, (names, rows, unit))
        if self.about.votes_file is not None:
            column, given = str(self.about.weak["item"]), weak.pop("item")
            weak["votes"] = joined_votes(self.about.votes_file, column, given, self.classes.names, self.path)
        shown_names = names if self.about.group else rows[members]
        return WeakBlock(self.about.kind, self.kind, self.reads, shown_names, offsets, members, weak, self._options())

    def _options(self) -> Mapping[str, Any]:
        """The options of the description, and the names of the sources that have a column each."""
        columns = [self.about.weak[name] for name, how in self.reads.items() if how.endswith(" of each source")]
        return {**({"source_names": columns[0]} if columns else {}), **self.about.options}

    def _check_missing(self, name: str, missing: NDArray[np.bool_], rows: Integers, unit: str) -> None:
        """With `missing: skip` a row may be empty in all its weak values, not in some."""
        if self.about.skips_missing and missing.any():
            what = _described(name, self.about.weak[name])
            raise DataError(f"{self.path}, {unit} {rows[missing][0]}: {what} is empty where others are given")

    def _one_to_a_group(
        self, name: str, values: NDArray[Any], offsets: Integers, members: Integers, context: tuple[Any, Integers, str]
    ) -> NDArray[Any]:
        if len(members) == len(offsets) - 1:  # every group is one row
            return values[members]
        firsts = members[offsets[:-1]]
        owners = np.repeat(firsts, np.diff(offsets))
        place = _first_difference(values, members, owners)
        if place is not None:
            names, rows, unit = context
            here, first = members[place], owners[place]
            group = names[np.searchsorted(offsets, place, side="right") - 1]
            raise DataError(
                f"{self.path}: {_described(name, self.about.weak[name])} must be the same in all of group {group}: "
                f"{unit} {rows[first]} has {shown(values[first])}, {unit} {rows[here]} has {shown(values[here])}"
            )
        return values[firsts]


def _first_difference(values: NDArray[Any], members: Integers, owners: Integers) -> int | None:
    """Where a member first has another value than its owner; compared piece by piece, to need little memory."""
    for start in range(0, len(members), ROWS_AT_ONCE):
        piece = slice(start, start + ROWS_AT_ONCE)
        wrong = np.flatnonzero(_differs(values[members[piece]], values[owners[piece]]))
        if len(wrong):
            return start + int(wrong[0])
    return None


def _differs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    different = left != right
    if left.dtype.kind == "f":
        different &= ~(np.isnan(left) & np.isnan(right))
    return rows_with_any(different)


def with_sources(about: BlockDescription, file: AbstractTableFile, allow_code: bool) -> BlockDescription:
    """The block with the columns of its sources in place of a pattern such as "lf_*"."""
    about = with_votes_hash(about)
    weak, reads = dict(about.weak), chosen_columns(find_kind(about.kind, allow_code), about)
    for name, source in about.weak.items():
        if reads[name].endswith(" of each source") and isinstance(source, str):
            weak[name] = tuple(column for column in file.columns if fnmatchcase(column, source))
            if not weak[name]:
                raise DataError(
                    f"{file.path}: weak: no column matches {source!r}; there are {', '.join(file.columns[:20])}"
                )
    return replace(about, weak=weak)


def chosen_columns(kind: type[AbstractSupervision], about: BlockDescription) -> dict[str, str]:
    """How each weak value of a block is read: the one of the kind's sets of `columns` that the description gives."""
    if about.votes_file is not None:
        return {"item": "text"}
    if not kind.columns:
        raise DataError(f"the kind {about.kind} cannot be read from columns: it does not say its `columns`")
    for columns in kind.columns:
        if set(about.weak) == set(columns):
            check_known([single_reading(how) for how in columns.values()], READINGS, "reading")
            return columns
    known = tuple(dict.fromkeys(name for columns in kind.columns for name in columns))
    check_known(about.weak, known or ("none",), f"weak value of {about.kind}")
    wanted = " or ".join("{" + ", ".join(f"{name}: column" for name in columns) + "}" for columns in kind.columns)
    raise DataError(f"the kind {about.kind} needs weak: {wanted}")


def read_values(
    row_batch: RowBatch, how: str, name: str, source: Columns, classes: ClassNames
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values of a row batch and which are missing: from one column or several, or one number."""
    if how.endswith(" of each source"):
        return _of_each_source(row_batch, how, source, classes)
    if isinstance(source, float):
        return read_values(_with_constant(row_batch, name, source), how, name, name, classes)
    if isinstance(source, tuple):
        return _of_each_class(row_batch, how, name, source, classes)
    cells = row_batch.cells[source]
    if how.endswith(" of each class"):
        return _vectors(row_batch, how, name, source, classes)
    if cells.values.ndim == 2 and how != "set":
        raise DataError(f"{row_batch.file}: column {source} holds vectors where {name} is one value")
    return _read_column(row_batch, how, source, classes), cells.missing


def _read_column(row_batch: RowBatch, how: str, column: str, classes: ClassNames) -> NDArray[Any]:
    return COLUMN_READERS[how](row_batch, column, classes)


COLUMN_READERS: dict[str, Callable[[RowBatch, str, ClassNames], NDArray[Any]]] = {
    "class": lambda row_batch, column, classes: row_batch.class_numbers(column, classes),
    "class or none": lambda row_batch, column, classes: row_batch.class_numbers(column, classes),
    "set": lambda row_batch, column, classes: row_batch.class_masks(column, classes),
    "flag": lambda row_batch, column, _: row_batch.flags(column),
    "flag or class": lambda row_batch, column, classes: row_batch.flags_or_classes(column, classes),
    "flag or none": lambda row_batch, column, _: row_batch.flags(column),
    "count": lambda row_batch, column, _: row_batch.whole(column),
    "first or second": lambda row_batch, column, _: row_batch.one_of(column, (0, 1)),
    "second or third": lambda row_batch, column, _: row_batch.one_of(column, (1, 2)),
    "share": lambda row_batch, column, _: row_batch.between(column, 0, 1),
    "signed": lambda row_batch, column, _: row_batch.between(column, -1, 1),
    "number": lambda row_batch, column, _: row_batch.numbers(column),
    "text": lambda row_batch, column, _: row_batch.texts(column),
    "positive or none": lambda row_batch, column, classes: _marks(row_batch, column, classes),
}
"""Each of `READINGS`."""


def _marks(row_batch: RowBatch, column: str, classes: ClassNames) -> Integers:
    """1 for class 1, 0 for class 0, by name or number; -1 where a cell is empty, -2 where -1 is written."""
    cells = row_batch.cells[column]
    is_minus_one = np.array([str(cell).strip() in ("-1", "-1.0") for cell in cells.values.tolist()], bool)
    named = np.where(is_minus_one, classes.names[0], cells.values.astype(object))
    others = RowBatch(row_batch.file, row_batch.unit, row_batch.rows, {column: Cells(named, cells.missing)})
    return np.where(is_minus_one & ~cells.missing, -2, others.class_numbers(column, classes))


def _of_each_class(
    row_batch: RowBatch, how: str, name: str, columns: tuple[str, ...], classes: ClassNames
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if how != "set" and not how.endswith(" of each class"):
        raise DataError(f"{row_batch.file}: {name} is one column, found a list of {len(columns)}")
    if len(columns) != len(classes.names):
        raise DataError(
            f"{row_batch.file}: {name} needs {len(classes.names)} columns, one for each class, found {len(columns)}"
        )
    one = "flag" if how == "set" else single_reading(how)
    values = np.column_stack([_read_column(row_batch, one, column, classes) for column in columns])
    missing = rows_with_any(np.column_stack([row_batch.cells[column].missing for column in columns]))
    return values == 1 if how == "set" else values, missing


def _of_each_source(
    row_batch: RowBatch, how: str, source: Columns, classes: ClassNames
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column for each source, -1 where it abstains; a row without any vote is missing nothing."""
    columns = source if isinstance(source, tuple) else (str(source),)
    cells = {column: _with_abstentions(row_batch.cells[column]) for column in columns}
    found = replace(row_batch, cells=cells)
    values = [_read_column(found, single_reading(how), column, classes) for column in columns]
    return np.column_stack(values), np.zeros(len(row_batch.rows), bool)


def _with_abstentions(cells: Cells) -> Cells:
    """The same cells, those of -1 being empty too."""
    values = cells.values
    unknown = values == UNKNOWN if cells.is_numeric else np.isin(values.astype(str), ("-1", "-1.0"))
    return Cells(values, cells.missing | unknown)


def _vectors(
    row_batch: RowBatch, how: str, name: str, column: str, classes: ClassNames
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values, missing = row_batch.cells[column].values, row_batch.cells[column].missing
    if values.ndim != 2 or values.shape[1] != len(classes.names):
        raise DataError(
            f"{row_batch.file}: {name} needs a list of {len(classes.names)} columns, one for each class, or a column "
            f"of vectors of that length; {column} is neither"
        )
    return _read_column(row_batch, single_reading(how), column, classes), missing


def _with_constant(row_batch: RowBatch, name: str, value: float) -> RowBatch:
    cells = Cells(np.full(len(row_batch.rows), value), np.zeros(len(row_batch.rows), bool))
    return RowBatch(row_batch.file, row_batch.unit, row_batch.rows, {**row_batch.cells, name: cells})


def _same_for_all(message: str, _row: int) -> str:
    return message


def _described(name: str, source: Columns) -> str:
    return f"column {source}" if isinstance(source, str) else f"the weak value {name}"
