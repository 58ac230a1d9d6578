"""From columns to a kind: how columns are read, and what a kind is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames
from glws._reprs import short_repr
from glws.errors import DataError

Columns = tuple[dict[str, str], ...]
"""The sets of weak values that a kind can be given by, and how each value is read: one of `READINGS`."""
READINGS = (
    *("class", "class or none", "set", "flag", "count", "first or second", "second or third"),
    *("share", "signed", "number", "text", "flag or class", "flag or none", "positive or none"),
)
"""How a column is read: as class numbers, as sets of classes [groups, classes], as 1 and 0, as whole numbers from 0
on, as 0 and 1, as 1 and 2, as numbers within 0 and 1, within -1 and 1, any number, text, or as 1 and 0 or by the name
of a class, which is read as `FIRST_CLASS` plus its number. "flag or none" is 1, 0 or -1 where the cell is empty;
"positive or none" is 1 or the name of class 1, 0 or that of class 0, -1 where the cell is empty, -2 for a written -1.

With " of each class" after it, as in "count of each class", there is a column for each class: [groups, classes].
With " of each source" there is a column for each source, as many as are named: [groups, sources].
"""


FIRST_CLASS = 2
"""What class 0 is read as where a column holds flags or classes."""


@dataclass(frozen=True)
class KindRequest:
    """What a kind is made from: its weak values, the classes, the groups' lengths, the options that were given."""

    __repr__ = short_repr

    weak: Mapping[str, NDArray[Any]]
    classes: tuple[str, ...]
    lengths: NDArray[np.int64]
    options: Mapping[str, Any]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    def counted(self) -> dict[str, Any]:
        """The arguments of a kind that counts: which classes, by number, and of how many; and the other options."""
        others = {name: value for name, value in self.options.items() if name != "counted"}
        if "counted" not in self.options and self.num_classes != 2:
            raise DataError(f"with {self.num_classes} classes say which is counted: options: {{counted: name}}")
        chosen = self.options.get("counted", self.classes[1])
        names = chosen if isinstance(chosen, list | tuple) else [chosen]
        return {"counted": [self._number(name) for name in names], "num_classes": self.num_classes, **others}

    def flags(self, name: str, counted: Sequence[int]) -> NDArray[Any]:
        """A weak value read as "flag or class", as 1 and 0: whether its class is a counted one."""
        values = np.asarray(self.weak[name])
        is_class = values >= FIRST_CLASS
        return np.where(is_class, np.isin(values - FIRST_CLASS, list(counted)), values) if is_class.any() else values

    def _number(self, name: Any) -> int:
        known = ClassNames(self.classes)
        if known.number(name) < 0:
            raise DataError(f"option counted: {known.complaint(name)}")
        return known.number(name)


def is_class(reading: str) -> bool:
    """Whether a column that is read so holds class numbers, one for each group."""
    return reading in ("class", "class or none")


def is_wide(reading: str) -> bool:
    """Whether a value that is read so has two axes: [groups, classes], or [groups, sources]."""
    return reading == "set" or reading.endswith((" of each class", " of each source"))


def single_reading(reading: str) -> str:
    """How one of the columns of a value is read.

    >>> single_reading("count of each class")
    'count'
    """
    return reading.removesuffix(" of each class").removesuffix(" of each source")
