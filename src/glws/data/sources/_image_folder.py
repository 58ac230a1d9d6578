"""ImageNet-100: a folder of images for each class, and a list of the classes in use."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from glws.data.sources._images import ImageFiles, image_paths
from glws.data.sources._source import Source, Split
from glws.errors import DataError

CLASS_LISTS = ("classes.txt", "imagenet100.txt")
FOLDERS = ("imagenet100", "ImageNet100", "imagenet-100", ".")
LONGEST_LIST = 1 << 20


def load_imagenet100(folder: Path, num_classes: int = 100) -> Source:
    """Images under `train/<class>/` and `val/<class>/`, for the classes listed in `classes.txt`, one per line.

    A line is the folder's name (such as n01440764), optionally followed by a readable name; its place in the list is
    the class's number. Folders that are not listed are ignored, so the list can select 100 classes of all of ImageNet.
    Images stay in their files: `source.train.inputs[0]` reads one.
    """
    home = _home(folder)
    listed = read_class_list(home, num_classes)
    train, test = (_split(home / part, listed) for part in ("train", "val"))
    return Source("imagenet100", tuple(name for _, name in listed), train, test)


def _home(folder: Path) -> Path:
    for place in FOLDERS:
        if (folder / place / "train").is_dir() and (folder / place / "val").is_dir():
            return folder / place
    places = ", ".join(str(folder / place) for place in FOLDERS)
    raise DataError(
        f"imagenet100: no folders train and val in any of {places}; ImageNet cannot be downloaded without its owners' "
        f"permission: put <class>/*.JPEG under train and val, and the list of classes in {CLASS_LISTS[0]}"
    )


def read_class_list(home: Path, num_classes: int) -> list[tuple[str, str]]:
    """Folder and name of each listed class; a `DataError` names the line that is wrong."""
    path = next((home / name for name in CLASS_LISTS if (home / name).is_file()), None)
    if path is None:
        raise DataError(f"imagenet100: the list of classes, {CLASS_LISTS[0]}, is missing from {home}")
    if path.stat().st_size > LONGEST_LIST:
        raise DataError(f"{path}: a list of classes must be shorter than {LONGEST_LIST:,} bytes")
    text = path.read_text(encoding="utf-8", errors="replace")
    listed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            folder, _, name = line.strip().partition(" ")
            _check_line(path, number, folder, listed)
            listed[folder] = name.strip() or folder
    if len(listed) != num_classes:
        raise DataError(f"{path}: expected {num_classes} classes, found {len(listed)}")
    return list(listed.items())


def _check_line(path: Path, number: int, folder: str, listed: dict[str, str]) -> None:
    if not re.fullmatch(r"[\w-][\w.-]*", folder):
        raise DataError(f"{path}, line {number}: {folder[:60]!r} is not the name of a folder")
    if folder in listed:
        raise DataError(f"{path}, line {number}: {folder} is listed twice")


def _split(part: Path, listed: list[tuple[str, str]]) -> Split:
    paths: list[str] = []
    labels: list[int] = []
    for number, (folder, _) in enumerate(listed):
        found = image_paths(part / folder) if (part / folder).is_dir() else []
        if not found:
            raise DataError(f"imagenet100: no images of class {folder} in {part / folder}")
        paths += found
        labels += [number] * len(found)
    return Split(ImageFiles(tuple(paths)), np.array(labels, np.int64))
