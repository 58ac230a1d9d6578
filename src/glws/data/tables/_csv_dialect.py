"""The separator and the decimal sign of a text table, from its first rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from glws.errors import DataError

SEPARATORS = (",", ";", "\t", "|")
ROWS_LOOKED_AT = 100
LONGEST_LINE = 1 << 20
COMMA, POINT = re.compile(r"\s*[+-]?\d+,\d+\s*"), re.compile(r"\s*[+-]?\d+\.\d+\s*")


class Dialect(NamedTuple):
    """What separates cells, and the whole from the fraction of a number."""

    separator: str
    decimal: str


def found_dialect(path: Path, separator: str | None = None, decimal: str | None = None) -> Dialect:
    """The dialect of a file, where it is not given.

    The separator is a comma, unless another sign cuts the first row into more cells, and all rows into as many. The
    decimal sign is a comma if that does not separate cells, and numbers are written with it. A `DataError` asks which
    it is where some numbers are written with a comma and others with a point.
    """
    if separator is None:
        separator = "\t" if path.suffix == ".tsv" else _found_separator(path)
    if decimal is None:
        cells = [cell for row in _rows(path, separator)[1:] for cell in row] if separator != "," else []
        with_comma, with_point = (next(filter(pattern.fullmatch, cells), None) for pattern in (COMMA, POINT))
        if with_comma is not None and with_point is not None:
            raise DataError(
                f"{path}: numbers are written as {with_comma} and as {with_point}; "
                'say which is the decimal sign: decimal: "," or decimal: "."'
            )
        decimal = "." if with_comma is None else ","
    return Dialect(separator, decimal)


def _found_separator(path: Path) -> str:
    rows = {sign: _rows(path, sign) for sign in SEPARATORS}
    columns = {sign: len(found[0]) if found else 0 for sign, found in rows.items()}
    uniform = [sign for sign, found in rows.items() if {len(row) for row in found} == {columns[sign]}]
    best = max([",", *uniform], key=lambda sign: columns[sign])
    return "," if columns[best] == columns[","] else best


def _rows(path: Path, separator: str) -> Sequence[list[str]]:
    """The first rows; none where they cannot be read, which the reader will say better."""
    try:
        with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
            lines = iter(lambda: file.readline(LONGEST_LINE), "")
            return [row for row in islice(csv.reader(lines, delimiter=separator), ROWS_LOOKED_AT) if row]
    except (OSError, csv.Error):
        return []
