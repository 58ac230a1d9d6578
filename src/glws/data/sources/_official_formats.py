"""The official formats: idx (MNIST), CIFAR's binary records, STL-10's planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glws.data.sources._class_names import CIFAR100, CIFAR100_SUPERCLASSES
from glws.data.sources._files import check_content, check_file, known_digest, read_content
from glws.data.sources._official import OfficialFile, OfficialSet
from glws.data.sources._source import Source, Split
from glws.errors import DataError

Bytes = NDArray[np.uint8]


def load_official(wanted: OfficialSet, folder: Path, verify: bool = True) -> Source:
    """Read an official set from a data folder; check sizes, headers, labels and, with `verify`, checksums."""
    home = find_home(wanted, folder)
    paths = {file.name: path_in(home, file.name, wanted) for file in wanted.files}
    digests = {file.name: known_digest(paths[file.name], file) for file in wanted.files}
    checked = {
        part: tuple(replace(file, digest=digests[file.name] if verify else None) for file in files)
        for part, files in wanted.parts.items()
    }
    read = READERS[wanted.format]
    train, test = (read(wanted, checked[part], paths) for part in ("train", "test"))
    unlabeled = _stl_images(wanted, checked["unlabeled"][0], paths) if "unlabeled" in checked else None
    unverified = tuple(file.name for files in checked.values() for file in files if file.digest is None)
    return Source(wanted.name, wanted.classes, train, test, unlabeled, unverified=unverified)


def find_home(wanted: OfficialSet, folder: Path) -> Path:
    """The first of the set's folders with its first file, gzipped or not."""
    first = wanted.files[0].name
    for place in wanted.folders:
        if any((folder / place / name).is_file() for name in (first, f"{first}.gz")):
            return folder / place
    _refuse_pickles(wanted, folder)
    places = ", ".join(str(folder / place) for place in wanted.folders)
    raise DataError(f'{wanted.name}: {first} is in none of {places}; "glws data get {wanted.name}" downloads it')


def _refuse_pickles(wanted: OfficialSet, folder: Path) -> None:
    for place in wanted.folders:
        for name in wanted.pickled:
            if (folder / place / name).exists():
                raise DataError(
                    f"{folder / place / name}: this is the Python version of {wanted.name}, made of pickles, which are "
                    f"never opened; use the binary version, {wanted.downloads[0].name}"
                )


def path_in(home: Path, name: str, wanted: OfficialSet) -> Path:
    """The file in its folder, gzipped or not."""
    for path in (home / name, home / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f'{wanted.name}: {name} is missing from {home}; "glws data get {wanted.name}" downloads it')


def _read_idx_split(wanted: OfficialSet, files: tuple[OfficialFile, ...], paths: dict[str, Path]) -> Split:
    number = files[1].size - 8
    images = _read_idx(paths[files[0].name], files[0], (number, *wanted.image_shape[1:]))
    labels = _read_idx(paths[files[1].name], files[1], (number,))
    _check_labels(paths[files[1].name], labels, len(wanted.classes))
    return Split(images.reshape(number, *wanted.image_shape), labels.astype(np.int64))


def _read_idx(path: Path, file: OfficialFile, shape: tuple[int, ...]) -> Bytes:
    """Read an idx file of bytes.

    It holds 0, 0, 8 (unsigned bytes), the number of axes, the axes as big-endian integers, the data.
    """
    content = read_content(path, file.size)
    header = bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes()
    found = content[: len(header)].tobytes()
    if found[:4] != header[:4]:
        raise DataError(
            f"{path}: begins with {found[:4].hex(' ')}, an idx file of this type with {header[:4].hex(' ')}"
        )
    if found != header:
        claimed = " x ".join(str(axis) for axis in np.frombuffer(found[4:], ">u4"))
        raise DataError(f"{path}: its header claims {claimed} bytes, expected {' x '.join(map(str, shape))}")
    check_content(path, content, file.digest)
    return content[len(header) :].reshape(shape)


def _read_cifar_split(wanted: OfficialSet, files: tuple[OfficialFile, ...], paths: dict[str, Path]) -> Split:
    """Records of one byte for each label (the class is the last) and the three planes of the image."""
    record = wanted.label_bytes + wanted.image_bytes
    total = sum(file.size for file in files) // record
    images, labels = np.empty((total, *wanted.image_shape), np.uint8), np.empty(total, np.int64)
    start = 0
    for file in files:
        path = paths[file.name]
        content = read_content(path, file.size)
        check_content(path, content, file.digest)
        records = content.reshape(-1, record)
        _check_cifar_labels(path, records[:, : wanted.label_bytes], len(wanted.classes))
        rows = slice(start, start + len(records))
        images[rows] = records[:, wanted.label_bytes :].reshape(-1, *wanted.image_shape)
        labels[rows] = records[:, wanted.label_bytes - 1]
        start = rows.stop
    return Split(images, labels)


def _check_cifar_labels(path: Path, labels: Bytes, num_classes: int) -> None:
    _check_labels(path, labels[:, -1], num_classes)
    if labels.shape[1] == 1:
        return
    wrong = np.flatnonzero(_coarse_of_fine()[labels[:, 1]] != labels[:, 0])
    if len(wrong):
        raise DataError(f"{path}: damaged: record {wrong[0]} has a coarse label that its class does not belong to")


def _coarse_of_fine() -> Bytes:
    coarse = np.zeros(len(CIFAR100), np.uint8)
    for number, names in enumerate(CIFAR100_SUPERCLASSES.values()):
        coarse[[CIFAR100.index(name) for name in names]] = number
    return coarse


def _read_stl_split(wanted: OfficialSet, files: tuple[OfficialFile, ...], paths: dict[str, Path]) -> Split:
    """Images in one file, labels 1..10 in another."""
    path = paths[files[1].name]
    labels = read_content(path, files[1].size)
    check_content(path, labels, files[1].digest)
    _check_labels(path, labels - np.uint8(1), len(wanted.classes), first=1)
    return Split(_stl_images(wanted, files[0], paths), labels.astype(np.int64) - 1)


def _stl_images(wanted: OfficialSet, file: OfficialFile, paths: dict[str, Path]) -> Bytes:
    """The images as a mapped file, with axes exchanged, since planes are stored column by column.

    Mapped copy-on-write: writes to the array stay in memory, and torch accepts it without a warning.
    """
    path = paths[file.name]
    if path.suffix == ".gz":
        raise DataError(f"{path}: decompress it first: STL-10's images are read from the mapped file")
    check_file(path, file.size, file.digest)
    channels, height, width = wanted.image_shape
    mapped = np.memmap(path, np.uint8, mode="c", shape=(file.size // wanted.image_bytes, channels, width, height))
    return mapped.transpose(0, 1, 3, 2)


def _check_labels(path: Path, labels: Bytes, num_classes: int, first: int = 0) -> None:
    wrong = np.flatnonzero(labels >= num_classes)
    if len(wrong):
        value = (int(labels[wrong[0]]) + first) % 256
        last = num_classes - 1 + first
        raise DataError(f"{path}: damaged: label {wrong[0]} is {value}, expected {first} to {last}")


READERS: dict[str, Callable[[OfficialSet, tuple[OfficialFile, ...], dict[str, Path]], Split]] = {
    "idx": _read_idx_split,
    "cifar": _read_cifar_split,
    "stl": _read_stl_split,
}
