"""Images that are read from their files on access."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._messages import one_line
from glws._optional import needed
from glws._reprs import short_repr
from glws.errors import DataError

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP")
SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".tif", ".tiff", ".webp")
MAX_PIXELS = 64_000_000
"""Larger images are refused before they are decoded: a few bytes can claim any size."""


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """A sequence of images, each read when indexed, as bytes `[3, size, size]`.

    The shorter side is scaled to `size` and the middle is cropped. Reading needs Pillow. A file that is missing,
    damaged or not an image raises a `DataError` that names it. It has the interface of instances of `WeakDataset`
    (`len`, `take`) and of a data set for a torch `DataLoader` (`len`, indexing).
    """

    __repr__ = short_repr

    paths: tuple[str, ...]
    size: int = 224

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str], size: int = 224) -> ImageFiles:
        """All images below a folder, sorted by name."""
        found = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in SUFFIXES)
        if not found:
            raise DataError(f"{folder}: there are no images in this folder ({', '.join(SUFFIXES)})")
        return cls(tuple(str(path) for path in found), size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> NDArray[np.uint8]:
        return read_image(self.paths[number], self.size)

    def take(self, numbers: Iterable[int] | Tensor) -> Tensor:
        """The chosen images, read and stacked: `[chosen, 3, size, size]`."""
        images = [self[int(number)] for number in numbers]
        return torch.from_numpy(np.stack(images) if images else np.empty((0, 3, self.size, self.size), np.uint8))

    def subset(self, numbers: Iterable[int]) -> ImageFiles:
        """Some of the images, in this order, not read yet."""
        return ImageFiles(tuple(self.paths[int(number)] for number in numbers), self.size)


def read_image(path: str | os.PathLike[str], size: int) -> NDArray[np.uint8]:
    """One image as bytes `[3, size, size]`: its shorter side scaled to `size`, the middle cropped."""
    pillow = needed("PIL.Image", "pillow", "reading images")
    try:
        with pillow.open(path, formats=FORMATS) as image:
            _check_pixels(path, image.size)
            return _middle(image.convert("RGB"), size)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such image") from error
    except needed("PIL", "pillow", "reading images").UnidentifiedImageError as error:
        raise DataError(f"{path}: not a readable image: none of {', '.join(FORMATS)}") from error
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a readable image ({one_line(error)})") from error


def _check_pixels(path: str | os.PathLike[str], sides: tuple[int, int]) -> None:
    if sides[0] * sides[1] > MAX_PIXELS:
        raise DataError(f"{path}: claims {sides[0]} x {sides[1]} pixels, more than the limit of {MAX_PIXELS:,}")


def _middle(image: Any, size: int) -> NDArray[np.uint8]:
    width, height = image.size
    scale = size / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (width - size) // 2, (height - size) // 2
    cut = image.resize((width, height)).crop((left, top, left + size, top + size))
    return np.ascontiguousarray(np.asarray(cut, dtype=np.uint8).transpose(2, 0, 1))


def image_paths(folder: Path) -> list[str]:
    """The images directly inside a folder, sorted by name."""
    return sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
