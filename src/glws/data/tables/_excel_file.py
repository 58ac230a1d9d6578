"""Excel sheets, read whole and served as tables in memory."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from glws._messages import one_line
from glws._optional import needed
from glws.data.tables._frames import FrameFile, of_columns
from glws.data.tables._table_file import DecodedSize
from glws.errors import DataError

HEADER_ROWS = 1


def excel_file(path: Path) -> FrameFile:
    """The first sheet of an Excel file, its columns named in the first row. Rows are numbered as in Excel."""
    arrow = needed("pyarrow", "pyarrow", "reading Excel files")
    excel = needed("openpyxl", "openpyxl", "reading Excel files")
    try:
        with zipfile.ZipFile(path) as archive:
            DecodedSize(path).add("its sheets", sum(item.file_size for item in archive.infolist()))
        book = excel.load_workbook(path, read_only=True, data_only=True)
        rows = [row for row in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except (OSError, ValueError, KeyError, TypeError, IndexError, SyntaxError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as Excel ({one_line(error)})") from error
    if not rows or not any(rows[0]):
        raise DataError(f"{path}: empty: expected a row with the names of the columns")
    names, cells = _named_columns(rows)
    if len(set(names)) < len(names):
        raise DataError(
            f"{path}, row 1: two columns are called {next(name for name in names if names.count(name) > 1)!r}"
        )
    return FrameFile(of_columns(arrow, dict(zip(names, cells, strict=True))), path, first_row=HEADER_ROWS + 1)


def _named_columns(rows: list[tuple[Any, ...]]) -> tuple[list[str], list[list[Any]]]:
    """The columns with a name, without the empty rows at the end."""
    last = max(number for number, row in enumerate(rows) if any(cell is not None for cell in row))
    columns = list(zip(*rows[: last + 1], strict=True))
    kept = [column for column in columns if column[0] is not None]
    return [str(column[0]).strip() for column in kept], [list(column[1:]) for column in kept]
