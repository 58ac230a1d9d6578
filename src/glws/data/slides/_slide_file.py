"""`SlideFile`: the features of one slide in a file, a few rows at a time, and where its patches are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._messages import hint, one_line
from glws._optional import needed
from glws.data.slides._torch_file import StoredTensor, stored_tensors
from glws.errors import DataError

Floats = NDArray[np.float32]
FEATURES, COORDS = "features", "coords"
MOST_PATCHES = 50_000_000
"""More than this in a slide is a file that claims what it does not have."""
HDF_PROBLEMS = (OSError, RuntimeError, KeyError, ValueError, TypeError)


class SlideFile(ABC):
    """A file with `features` [patches, width] and perhaps `coords` [patches, 2]; a leading axis of 1 is ignored."""

    path: Path

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The number of patches, and the length of their feature vectors."""
        found = self._shape(FEATURES)
        sides = found[1:] if len(found) == 3 and found[0] == 1 else found
        if len(sides) != 2 or not 1 <= sides[0] <= MOST_PATCHES or sides[1] < 1:
            raise DataError(f"{self.path}: features must be [patches, width], found shape {list(found)}")
        return sides[0], sides[1]

    def rows(self, start: int, stop: int) -> Floats:
        """The features of these patches in float32; NaN and infinite ones are a `DataError`."""
        rows = self._rows(FEATURES, start, stop)
        if not math.isfinite(float(rows.sum(dtype=np.float64))):
            wrong = int(np.flatnonzero(~np.isfinite(rows).all(1))[0]) + start
            raise DataError(f"{self.path}: the features of patch {wrong} are not finite")
        return rows

    def coords(self) -> NDArray[np.float64] | None:
        """Where the patches are, [patches, 2]; None where the file does not say."""
        if COORDS not in self.names:
            return None
        found = self._shape(COORDS)
        if found[-2:] != (self.shape[0], 2) or math.prod(found) != 2 * self.shape[0]:
            raise DataError(f"{self.path}: coords must be [{self.shape[0]}, 2] like its patches, found {list(found)}")
        return self._rows(COORDS, 0, self.shape[0]).astype(np.float64)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What the file holds."""

    @abstractmethod
    def _shape(self, name: str) -> tuple[int, ...]: ...

    @abstractmethod
    def _rows(self, name: str, start: int, stop: int) -> Floats: ...

    def close(self) -> None:
        """Lets go of the file."""
        return None

    def _check_name(self, name: str) -> None:
        if name not in self.names:
            raise DataError(f"{self.path}: it holds no {name}; {hint(name, self.names, '{}', 'it holds')}")


class HdfSlide(SlideFile):
    """HDF5, as CLAM and TRIDENT write it. Links to other files are not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        h5py = needed("h5py", "h5py", "reading HDF5")
        try:
            self._file = h5py.File(path, "r")
            self._names = tuple(name for name in self._file if isinstance(self._file.get(name), h5py.Dataset))
        except HDF_PROBLEMS as error:
            raise DataError(f"{path}: cannot be read as HDF5 ({one_line(error)})") from error

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def _data(self, name: str) -> Any:
        self._check_name(name)
        data = self._file[name]
        if data.external or data.is_virtual or data.dtype.kind not in "fiu":
            raise DataError(f"{self.path}: {name} must be numbers in this file itself, found {data.dtype}")
        return data

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(side) for side in self._data(name).shape)

    def _rows(self, name: str, start: int, stop: int) -> Floats:
        data = self._data(name)
        try:
            found = data[0, start:stop] if data.ndim == 3 else data[start:stop]
            return np.asarray(found, np.float32)
        except HDF_PROBLEMS as error:
            raise DataError(f"{self.path}: {name} is damaged ({one_line(error)})") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class ArraySlide(SlideFile):
    """Raw numbers at a place in a file: `.npy`, and tensors of `.pt`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found = stored_tensors(path) if path.suffix == ".pt" else {FEATURES: _stored_array(path)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._found)

    def _shape(self, name: str) -> tuple[int, ...]:
        self._check_name(name)
        return self._found[name].shape

    def _rows(self, name: str, start: int, stop: int) -> Floats:
        stored = self._found[name]
        width, is_brain = stored.shape[-1], stored.dtype == "bfloat16"
        dtype = np.dtype("<u2" if is_brain else stored.dtype)
        offset, count = stored.offset + start * width * dtype.itemsize, (stop - start) * width
        try:
            found = np.fromfile(self.path, dtype, count, offset=offset)
        except OSError as error:
            raise DataError(f"{self.path}: {one_line(error)}") from error
        if len(found) < count:
            raise DataError(f"{self.path}: damaged ({name} ends after {len(found):,} of {count:,} numbers)")
        if is_brain:
            found = (found.astype(np.uint32) << 16).view(np.float32)
        return found.reshape(-1, width).astype(np.float32, copy=False)


def _stored_array(path: Path) -> StoredTensor:
    """Where the numbers of a .npy are; Python objects, which are pickles, are refused."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            is_first = version == (1, 0)
            read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
            offset, size = file.tell(), path.stat().st_size
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be read as .npy ({one_line(error)})") from error
    if dtype.kind not in "fiu" or is_fortran:
        what = f"holds {dtype}, not numbers" if dtype.kind not in "fiu" else "has its columns one after the other"
        raise DataError(f"{path}: {what}; save it as np.save(path, np.ascontiguousarray(features, np.float16))")
    if math.prod(shape) * dtype.itemsize > size - offset:
        raise DataError(f"{path}: damaged (shape {list(shape)} claims more than the {size:,} bytes of the file)")
    return StoredTensor(dtype.str, tuple(int(side) for side in shape), offset)


READERS: dict[str, Callable[[Path], SlideFile]] = {
    ".h5": HdfSlide,
    ".hdf5": HdfSlide,
    ".pt": ArraySlide,
    ".npy": ArraySlide,
}
"""By the end of the file's name."""


def open_slide(path: Path) -> SlideFile:
    """The reader of a slide's file."""
    return READERS[path.suffix.lower()](path)
