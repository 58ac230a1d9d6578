"""From a column of group names to groups: numbered as they first appear, rows in the order of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import shown
from glws.data.tables._cells import RowBatch

Integers = NDArray[np.int64]
LARGEST = 2**53


def group_names(row_batch: RowBatch, column: str) -> NDArray[Any]:
    """The group column of a row_batch: whole numbers as int64, everything else as text."""
    values, missing = row_batch.cells[column].values, row_batch.cells[column].missing
    if values.ndim != 1:
        row_batch.refuse(np.ones(len(values), bool), lambda row: f"column {column} must hold one value to group by")
    if values.dtype.kind == "f":
        wrong = ~missing & ((values != np.round(values)) | (np.abs(values) >= LARGEST))
        row_batch.refuse(
            wrong, lambda row: f"column {column}: groups are whole numbers or text, found {shown(values[row])}"
        )
        return np.where(missing, 0, values).astype(np.int64)
    return values.astype(np.int64) if values.dtype.kind in "biu" else row_batch.texts(column)


def numbered(names: NDArray[Any], is_member: NDArray[np.bool_]) -> tuple[Integers, NDArray[Any]]:
    """For each row the number of its group, -1 where it is in none, and the groups' names by number.

    Groups are numbered in the order in which they first appear. Rows of one group that stand together are looked up
    once, so a file that is already grouped costs next to nothing.

    >>> numbered(np.array([7, 7, 3, 7]), np.array([True, True, True, False]))
    (array([ 0,  0,  1, -1]), array([7, 3]))
    """
    if not len(names):
        return np.empty(0, np.int64), names
    changes = (names[1:] != names[:-1]) | (is_member[1:] != is_member[:-1])
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    sizes = np.diff(np.append(starts, len(names)))
    numbers = np.full(len(starts), -1, np.int64)
    inside = is_member[starts]
    numbers[inside], found = _by_appearance(names[starts[inside]])
    return np.repeat(numbers, sizes), found


def with_single_rows(numbers: Integers, names: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
    """The same with each row that is in no group as a group of its own, without a name.

    >>> with_single_rows(np.array([0, -1, 0, -1]), np.array(["a"], object))
    (array([0, 1, 0, 2]), array(['a', '', ''], dtype=object))
    """
    alone = np.flatnonzero(numbers < 0)
    numbers = numbers.copy()
    numbers[alone] = len(names) + np.arange(len(alone))
    return numbers, np.concatenate([names.astype(object), np.full(len(alone), "", object)])


def _by_appearance(names: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
    if names.dtype == object:
        known: dict[str, int] = {}
        numbers = np.fromiter((known.setdefault(name, len(known)) for name in names), np.int64, len(names))
        return numbers, np.array(list(known), object)
    least = int(names.min()) if len(names) else 0
    if len(names) and int(names.max()) - least < 4 * len(names):
        return _dense_by_appearance(names - least, least)
    found, first, places = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return _ranks(order)[places], found[order]


def _dense_by_appearance(places: Integers, least: int) -> tuple[Integers, Integers]:
    """The same for numbers close together, by a table of all of them: no sorting, half the memory."""
    first = np.full(int(places.max()) + 1, -1, np.int64)
    first[places[::-1]] = np.arange(len(places) - 1, -1, -1)  # the last one written stays: the first to appear
    found = np.flatnonzero(first >= 0)
    order = np.argsort(first[found])
    first[found] = _ranks(order)
    return first[places], found[order] + least


def _ranks(order: Integers) -> Integers:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def members_of(numbers: Integers, num_groups: int) -> tuple[Integers, Integers]:
    """Offsets `[groups + 1]` and the rows of each group, one group after the other, in the order of the file."""
    sizes = np.bincount(numbers[numbers >= 0] if (numbers < 0).any() else numbers, minlength=num_groups)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if _is_sorted(numbers):
        return offsets, np.arange(offsets[-1])
    order = np.argsort(numbers, kind="stable")
    return offsets, order[len(order) - offsets[-1] :]


def sorting_order(numbers: Integers) -> Integers | None:
    """The order that puts the rows of each group together, and rows without a group last; None if they are so."""
    if _is_sorted(numbers):
        return None
    return np.argsort(np.where(numbers < 0, np.iinfo(np.int64).max, numbers), kind="stable")


def _is_sorted(numbers: Integers) -> bool:
    """Whether groups stand one after the other, with the rows of no group at the end."""
    inside = numbers >= 0
    count = int(inside.sum())
    return bool(inside[:count].all() and (numbers[1:count] >= numbers[: max(count - 1, 0)]).all())


def rearrange_rows(array: NDArray[Any], order: Integers) -> NDArray[Any]:
    """The rows in another order; a matrix is rearranged in place, a column at a time."""
    if array.ndim == 1:
        return array[order]
    for column in range(array.shape[1]):
        array[:, column] = array[order, column]
    return array
