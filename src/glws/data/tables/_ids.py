"""Id columns, which stand beside predictions and labels: whole numbers, or texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._cells import Cells

LONGEST = 18
"""Digits that surely fit in 64 bits."""


class IdColumn:
    """The ids of all rows. They are whole numbers if each is written like one, and texts otherwise.

    Of a part of a table, `is_whole` says what those of all of it are.

    >>> column = IdColumn()
    >>> column.add(Cells(np.array(["7", "12"], object), np.zeros(2, bool)))
    >>> column.result(), IdColumn.joined(["07", "12"]).tolist()
    (array([ 7, 12]), ['07', '12'])
    """

    def __init__(self, is_whole: bool | None = None) -> None:
        self.is_whole = is_whole
        self._pieces: list[NDArray[Any]] = []

    def add(self, cells: Cells) -> None:
        """More rows."""
        self._pieces.append(_ids(cells))

    def result(self, order: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """All rows, in this order."""
        kinds = {piece.dtype.kind for piece in self._pieces}
        found: NDArray[Any]
        if kinds == {"i"} and self.is_whole is not False:
            found = np.concatenate(self._pieces)
        else:
            found = self.joined([value for piece in self._pieces for value in piece.tolist()], self.is_whole)
        return found if order is None else found[order]

    @staticmethod
    def joined(values: list[Any], is_whole: bool | None = None) -> NDArray[Any]:
        """Values as whole numbers, or as texts."""
        texts = [str(value) for value in values]
        if all(map(is_whole_number, texts)) if is_whole is None else is_whole:
            return np.array([int(text) for text in texts], np.int64)
        return np.array(texts, object)


def are_whole(cells: Cells) -> bool:
    """Whether all ids of a batch are written as whole numbers."""
    found = _ids(cells)
    return found.dtype.kind == "i" or all(map(is_whole_number, found.tolist()))


def is_whole_number(text: str) -> bool:
    """Whether a text is a number as `str` writes it."""
    return text.isdecimal() and len(text) <= LONGEST and (text[0] != "0" or text == "0")


def _ids(cells: Cells) -> NDArray[Any]:
    """Whole numbers of 64 bits, or texts."""
    if cells.is_numeric and cells.values.dtype.kind in "iu" and not cells.missing.any():
        known = cells.values.astype(np.int64)
        if not len(known) or known.min() >= 0:
            return known
    found = np.empty(len(cells.missing), object)
    found[:] = cells.text().fill_null("").to_pylist()
    return found
