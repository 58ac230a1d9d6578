"""Reading margins: a text file with a row for each area and a column for each count."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._files import read_bytes
from glws._reprs import short_repr
from glws.errors import DataError

MAX_BYTES = 1 << 28
SEPARATORS = ",;\t "


@dataclass(frozen=True, eq=False)
class Margins:
    """Counts of rows and of columns for each area, the region of each area, and the areas' names."""

    __repr__ = short_repr

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    regions: NDArray[Any] | None
    areas: NDArray[Any]


def read_margins(
    path: Path, rows: Sequence[str], columns: Sequence[str], region: str | None = None, area: str | None = None
) -> Margins:
    """The named columns of a file separated by commas, semicolons, tabs or spaces, also as R writes tables.

    Without `area` the areas are named by the line that they stand in.
    """
    lines = _cells(path)
    names = lines[0]
    body = [line[-len(names) :] for line in lines[1:]]  # R writes row names that the first line has no name for
    numbers = {name: _place(path, names, name) for name in (*rows, *columns, *filter(None, (region, area)))}
    for number, line in enumerate(body, start=2):
        if len(line) != len(names):
            raise DataError(f"{path}, line {number}: found {len(line)} cells, expected {len(names)}")
    counted = [
        [[_number(path, at, line[numbers[name]], name) for name in wanted] for at, line in enumerate(body, start=2)]
        for wanted in (rows, columns)
    ]
    regions = None if region is None else np.array([line[numbers[region]] for line in body])
    areas = np.arange(2, len(lines) + 1) if area is None else np.array([line[numbers[area]] for line in body])
    return Margins(np.array(counted[0]), np.array(counted[1]), regions, areas)


def _cells(path: Path) -> list[list[str]]:
    text = read_bytes(path, MAX_BYTES).decode("utf-8-sig", errors="replace")
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    lines = [line for line in csv.reader(text.splitlines(), delimiter=separator) if line]
    if len(lines) < 2:
        raise DataError(f"{path}: there are no areas; expected a line of names and a line for each area")
    return lines


def _place(path: Path, names: list[str], name: str) -> int:
    if name not in names:
        raise DataError(f"{path}: there is no column {name!r}; there are {', '.join(names[:20])}")
    return names.index(name)


def _number(path: Path, line: int, cell: str, name: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise DataError(f"{path}, line {line}: column {name} must be a count, found {cell!r}") from None
