"""Tables as arrays, one for each column: .npz and HDF5."""

from __future__ import annotations

import math
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.data.sources.packages import needed
from glws.data.tables.cells import Cells, Stretch
from glws.data.tables.table_file import ROWS_AT_ONCE, AbstractTableFile, check_memory, check_ratio
from glws.errors import DataError

PROBLEMS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, KeyError)
"""What reading a damaged .npz raises."""


class AbstractArrayFile(AbstractTableFile):
    """Arrays of one length, `[rows]` or `[rows, width]`. Rows are numbered from 0.

    An array that is shorter than the group column holds one entry for each group, in the order of group numbers 0, 1,
    2, ...: it is spread over the rows of its groups.
    """

    group: str | None

    @abstractmethod
    def array(self, name: str) -> Any:
        """Something that gives rows when sliced, and has `shape` and `dtype`."""

    def stretches(self, names: Sequence[str]) -> Iterator[Stretch]:
        """Slices of the arrays."""
        arrays = {name: self.array(name) for name in dict.fromkeys((*names, *([self.group] if self.group else ())))}
        self.num_rows = self._count_rows(arrays)
        for start in range(0, self.num_rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, self.num_rows)
            groups = arrays[self.group][start:stop] if self.group else None
            cells = {name: self._cells(name, arrays[name], start, stop, groups) for name in names}
            yield Stretch(str(self.path), "row", np.arange(start, stop), cells)

    def _count_rows(self, arrays: dict[str, Any]) -> int:
        rows = int(arrays[self.group].shape[0]) if self.group else max(len(array) for array in arrays.values())
        for name, array in arrays.items():
            if len(array) != rows and not (self.group and len(array) < rows):
                raise DataError(f"{self.path}: {name} has {len(array):,} entries where there are {rows:,} rows")
        return rows

    def _cells(self, name: str, array: Any, start: int, stop: int, groups: NDArray[Any] | None) -> Cells:
        if len(array) == self.num_rows:
            return _cells(array[start:stop])
        assert groups is not None
        if groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() >= len(array):
            raise DataError(
                f"{self.path}: {name} has {len(array):,} entries where there are {self.num_rows:,} rows; one entry for "
                f"each group needs groups numbered 0 to {len(array) - 1:,} in {self.group}"
            )
        return _cells(array[:][groups])


class NpzFile(AbstractArrayFile):
    """A .npz archive of plain arrays. One that holds Python objects, which are pickles, is refused."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path, self.group, self.num_rows = path, group, None
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except PROBLEMS as error:
            raise DataError(f"{path}: cannot be read as .npz ({_first_line(error)})") from error
        self.columns = tuple(name.removesuffix(".npy") for name in names if name.endswith(".npy"))

    def array(self, name: str) -> NDArray[Any]:
        """The array, once its header has been compared with what is stored."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                return self._read(archive, name)
        except DataError:
            raise
        except PROBLEMS as error:
            raise DataError(f"{self.path}: {name} is damaged ({_first_line(error)})") from error

    def _read(self, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
        info = archive.getinfo(f"{name}.npy")
        with archive.open(info) as file:
            version = np.lib.format.read_magic(file)
            shape, _, dtype = _read_header(file, version)
            start = file.tell()
        if dtype.hasobject:
            raise DataError(f"{self.path}: {name} holds Python objects, which are pickles and never opened")
        claimed = math.prod(shape) * dtype.itemsize
        if claimed != info.file_size - start:
            raise DataError(f"{self.path}: {name} claims {claimed:,} bytes and stores {info.file_size - start:,}")
        check_ratio(self.path, name, claimed, info.compress_size)
        check_memory(self.path, claimed)
        with archive.open(info) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        _check_axes(self.path, name, array)
        return array


def _read_header(file: Any, version: tuple[int, int]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


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
            raise DataError(f"{path}: cannot be read as HDF5 ({_first_line(error)})") from error

    def _is_dataset(self, name: str) -> bool:
        return isinstance(self.file.get(name), self.h5py.Dataset)

    def array(self, name: str) -> Any:
        """The data set, or its text; rows are read as they are asked for."""
        try:
            return self._checked(name, self.file[name])
        except DataError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"{self.path}: {name} is damaged ({_first_line(error)})") from error

    def _checked(self, name: str, data: Any) -> _HdfRows:
        if data.external or data.is_virtual:
            raise DataError(f"{self.path}: {name} keeps its values in other files, which are not opened")
        if data.size is None or data.dtype.kind not in "biufSOU":
            raise DataError(f"{self.path}: {name} holds {data.dtype}, not numbers or text")
        check_ratio(self.path, name, data.size * data.dtype.itemsize, data.id.get_storage_size())
        _check_axes(self.path, name, data)
        if _is_partly_written(data):
            raise DataError(f"{self.path}: {name} is damaged: parts of it were never written")
        return _HdfRows(self.path, name, data, self.h5py.check_string_dtype(data.dtype) is not None)

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


class _HdfRows:
    """Rows of a data set; an error inside HDF5 names the file and the data set."""

    def __init__(self, path: Path, name: str, data: Any, is_text: bool) -> None:
        self.path, self.name, self.data, self.is_text = path, name, data, is_text
        self.shape, self.dtype = data.shape, data.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        try:
            return np.asarray(self.data.asstr()[rows] if self.is_text else self.data[rows])
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"{self.path}: {self.name} is damaged ({_first_line(error)})") from error


def _is_partly_written(data: Any) -> bool:
    """Whether some rows have no storage: they would read as zeros."""
    if not data.size:
        return False
    if data.chunks is None:
        return bool(data.id.get_storage_size() == 0)
    wanted = math.prod(math.ceil(side / part) for side, part in zip(data.shape, data.chunks, strict=True))
    return bool(data.id.get_num_chunks() != wanted)


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:150] or type(error).__name__


def _check_axes(path: Path, name: str, array: Any) -> None:
    if array.ndim not in (1, 2):
        raise DataError(f"{path}: {name} has shape {tuple(array.shape)}; expected [rows] or [rows, width]")


def _cells(values: NDArray[Any]) -> Cells:
    if values.dtype.kind == "f":
        gaps = np.isnan(values)
        return Cells(values, gaps if values.ndim == 1 else np.zeros(len(values), bool))
    if values.dtype.kind in "biu":
        return Cells(values, np.zeros(len(values), bool))
    if values.dtype.kind not in "SUO" or values.ndim != 1:
        raise DataError(f"expected numbers or text, found an array of {values.dtype}")
    texts = np.empty(len(values), object)
    texts[:] = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in values.tolist()]
    return Cells(texts, np.array([not text.strip() for text in texts], bool))
