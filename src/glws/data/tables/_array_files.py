"""Tables as arrays, one for each column: .npz and HDF5."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._messages import one_line
from glws._optional import needed
from glws.data.tables._cells import Cells, RowBatch
from glws.data.tables._table_file import LEAST_BYTES, ROWS_AT_ONCE, AbstractTableFile, DecodedSize, check_memory
from glws.errors import DataError

PROBLEMS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, KeyError)
"""What reading a damaged .npz raises."""
LONGEST_HEADER = 1 << 14
"""Bytes at the start of an array of a .npz that say what it is; numpy reads as many as a file claims, up to 4 GiB."""
TEXTS_AT_ONCE = 256
"""Rows of texts of any length that HDF5 decodes at once: many rows may claim the same long text."""


class AbstractArrayFile(AbstractTableFile):
    """Arrays of one length, `[rows]` or `[rows, width]`. Rows are numbered from 0.

    An array that is shorter than the group column holds one entry for each group, in the order of group numbers 0, 1,
    2, ...: it is spread over the rows of its groups.
    """

    group: str | None

    @abstractmethod
    def array(self, name: str, decoded: DecodedSize) -> Any:
        """Something that gives rows when sliced, and has `shape` and `dtype`; its bytes are counted first."""

    def row_batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """Slices of the arrays."""
        yield from self.part(names, 0, None)

    def part(self, names: Sequence[str], first: int, last: int | None) -> Iterator[RowBatch]:
        """The same for the rows from `first` up to `last`, or to the end."""
        decoded, wanted = DecodedSize(self.path), dict.fromkeys((*names, *([self.group] if self.group else ())))
        arrays = {name: self.array(name, decoded) for name in wanted}
        self.num_rows = self._count_rows(arrays)
        for name, array in arrays.items():
            if len(array) < self.num_rows:
                decoded.add(f"{name}, repeated for each row,", _size((self.num_rows, *array.shape[1:]), array.dtype))
        end = self.num_rows if last is None else min(last, self.num_rows)
        for start in range(first, end, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, end)
            groups = arrays[self.group][start:stop] if self.group else None
            cells = {name: self._cells(name, arrays[name], start, stop, groups) for name in names}
            yield RowBatch(str(self.path), "row", np.arange(start, stop), cells)

    def _count_rows(self, arrays: dict[str, Any]) -> int:
        rows = int(arrays[self.group].shape[0]) if self.group else max(len(array) for array in arrays.values())
        for name, array in arrays.items():
            if len(array) != rows and not (self.group and len(array) < rows):
                raise DataError(f"{self.path}: {name} has {len(array):,} entries where there are {rows:,} rows")
        return rows

    def _cells(self, name: str, array: Any, start: int, stop: int, groups: NDArray[Any] | None) -> Cells:
        if len(array) == self.num_rows:
            return self._checked_cells(name, array[start:stop], start)
        assert groups is not None
        if groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() >= len(array):
            raise DataError(
                f"{self.path}: {name} has {len(array):,} entries where there are {self.num_rows:,} rows; one entry for "
                f"each group needs groups numbered 0 to {len(array) - 1:,} in {self.group}"
            )
        return self._checked_cells(name, array[:][groups], start)

    def _checked_cells(self, name: str, values: NDArray[Any], start: int) -> Cells:
        if values.dtype.kind == "f":
            gaps = np.isnan(values)
            return Cells(values, gaps if values.ndim == 1 else np.zeros(len(values), bool))
        if values.dtype.kind in "biu":
            return Cells(values, np.zeros(len(values), bool))
        texts = np.empty(len(values), object)
        for row in range(len(values)):
            try:
                texts[row] = _text(values[row])
            except (ValueError, SystemError) as error:  # the latter is what numpy raises for a number above Unicode's
                reason = getattr(error, "reason", "no characters")
                raise DataError(
                    f"{self.path}, row {start + row}: column {name} is not text in UTF-8 ({reason})"
                ) from error
        return Cells(texts, np.array([not text.strip() for text in texts], bool))


class NpzFile(AbstractArrayFile):
    """A .npz archive of plain arrays. One that holds Python objects, which are pickles, is refused."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path, self.group, self.num_rows = path, group, None
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except PROBLEMS as error:
            raise DataError(f"{path}: cannot be read as .npz ({one_line(error)})") from error
        self.columns = tuple(name.removesuffix(".npy") for name in names if name.endswith(".npy"))

    def array(self, name: str, decoded: DecodedSize) -> NDArray[Any]:
        """The array, once its header has been compared with what is stored."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                return self._read(archive, name, decoded)
        except DataError:
            raise
        except PROBLEMS as error:
            raise DataError(f"{self.path}: {name} is damaged ({one_line(error)})") from error

    def _read(self, archive: zipfile.ZipFile, name: str, decoded: DecodedSize) -> NDArray[Any]:
        info = archive.getinfo(f"{name}.npy")
        with archive.open(info) as file:
            shape, dtype, start = _read_header(file.read(LONGEST_HEADER))
        if dtype.hasobject:
            raise DataError(f"{self.path}: {name} holds Python objects, which are pickles and never opened")
        if dtype.kind not in "biufSU":
            raise DataError(f"{self.path}: {name} holds {dtype}, not numbers or text")
        claimed = math.prod(shape) * dtype.itemsize
        if claimed != info.file_size - start:
            raise DataError(f"{self.path}: {name} claims {claimed:,} bytes and stores {info.file_size - start:,}")
        _check_axes(self.path, name, shape, dtype)
        decoded.add(name, _size(shape, dtype))
        check_memory(self.path, claimed)
        with archive.open(info) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _read_header(start: bytes) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and where the values begin, from the first bytes of an array; a longer header is a `ValueError`."""
    file = io.BytesIO(start)
    version = np.lib.format.read_magic(file)
    one = version == (1, 0)
    shape, _, dtype = (np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0)(file)
    return shape, dtype, file.tell()


class HdfFile(AbstractArrayFile):
    """An HDF5 file; columns are its data sets, by their full names. Links to other files are not followed."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path, self.group, self.num_rows = path, group, None
        self.h5py = needed("h5py", "h5py", "reading HDF5")
        try:
            self.file = self.h5py.File(path, "r")
            found: list[str] = []
            self.file.visit(found.append)
            self.columns = tuple(name for name in found if self._is_dataset(name))
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"{path}: cannot be read as HDF5 ({one_line(error)})") from error

    def _is_dataset(self, name: str) -> bool:
        return isinstance(self.file.get(name), self.h5py.Dataset)

    def array(self, name: str, decoded: DecodedSize) -> Any:
        """The data set, or its text; rows are read as they are asked for."""
        try:
            return self._checked(name, self.file[name], decoded)
        except DataError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"{self.path}: {name} is damaged ({one_line(error)})") from error

    def _checked(self, name: str, data: Any, decoded: DecodedSize) -> _HdfRows:
        if data.external or data.is_virtual:
            raise DataError(f"{self.path}: {name} keeps its values in other files, which are not opened")
        is_text = self.h5py.check_string_dtype(data.dtype) is not None
        if data.size is None or (data.dtype.kind not in "biufSU" and not is_text):
            raise DataError(f"{self.path}: {name} holds {data.dtype}, not numbers or text")
        _check_axes(self.path, name, data.shape, data.dtype)
        decoded.add(name, max(_size(data.shape, data.dtype), _size(data.chunks or (), data.dtype)))
        if _is_partly_written(data):
            raise DataError(f"{self.path}: {name} is damaged: parts of it were never written")
        return _HdfRows(self.path, name, data, decoded if data.dtype.kind == "O" else None)

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


class _HdfRows:
    """Rows of a data set; an error inside HDF5 names the file and the data set.

    With `decoded` they are texts of any length, which are counted while they are read: no header says how long.
    """

    def __init__(self, path: Path, name: str, data: Any, decoded: DecodedSize | None) -> None:
        self.path, self.name, self.data, self.decoded = path, name, data, decoded
        self.shape, self.dtype = data.shape, data.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        try:
            return np.asarray(self.data[rows]) if self.decoded is None else self._texts(rows, self.decoded)
        except DataError:
            raise
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"{self.path}: {self.name} is damaged ({one_line(error)})") from error

    def _texts(self, rows: slice, decoded: DecodedSize) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        texts = np.empty(stop - start, object)
        for first in range(start, stop, TEXTS_AT_ONCE):
            piece = self.data[first : min(first + TEXTS_AT_ONCE, stop)]
            decoded.add(self.name, sum(map(len, piece)))
            texts[first - start : first - start + len(piece)] = piece
        return texts


def _is_partly_written(data: Any) -> bool:
    """Whether some rows have no storage: they would read as zeros."""
    if not data.size:
        return False
    if data.chunks is None:
        return bool(data.id.get_storage_size() == 0)
    wanted = math.prod(math.ceil(side / part) for side, part in zip(data.shape, data.chunks, strict=True))
    return bool(data.id.get_num_chunks() != wanted)


def _check_axes(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    expected = "[rows] or [rows, width]" if dtype.kind in "biuf" else "[rows], as texts have"
    if len(shape) not in ((1, 2) if dtype.kind in "biuf" else (1,)):
        raise DataError(f"{path}: {name} has shape {shape}; expected {expected}")


def _size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """The bytes of an array; each row counts, also one of no columns."""
    row = math.prod(shape[1:]) * dtype.itemsize
    return shape[0] * max(row, LEAST_BYTES) if shape else 0


def _text(value: Any) -> str:
    """A text that can be written in UTF-8, or a `ValueError`."""
    text = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    text.encode("utf-8")
    return text
