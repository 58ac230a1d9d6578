"""`python -m reproduction.prepare_cifar100`: CIFAR-100 from losslessly packed parts, as the official binary files.

A part is an .npz file with `shape` (images, 32, 32, 3), `res_xz` (the packed pixels) and `y` (fine labels). Pixels are
stored as planes G, R - G + 128 and B - G + 128 modulo 256. Each pixel is predicted from its left, upper and upper left
neighbors (median edge detector), the first one by 0, 128 and 128; the differences are compressed by LZMA.
"""

from __future__ import annotations

import lzma
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from glws._files import write_bytes
from glws.cli import LOOK, run_application
from glws.data.sources._class_names import CIFAR100, CIFAR100_SUPERCLASSES
from glws.errors import DataError

Bytes = npt.NDArray[np.uint8]

PARTS = {"train.bin": ("cifar100_train_a.npz", "cifar100_train_b.npz"), "test.bin": ("cifar100_test.npz",)}
"""The official files, and the parts that each is joined from."""

MIDDLE = np.uint8(128)
SIDE, PLANES = 32, 3
FOLDER = "cifar-100-binary"


def unpack(packed: bytes, number: int) -> Bytes:
    """The images of a part, of shape (number, 3, 32, 32), from its packed pixels."""
    try:
        content = lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise DataError(f"the packed pixels are damaged: {error}") from None
    if len(content) != PLANES * number * SIDE * SIDE:
        raise DataError(f"expected {PLANES * number * SIDE * SIDE} packed bytes, found {len(content)}")
    found = np.frombuffer(content, np.uint8).reshape(PLANES, number, SIDE, SIDE)
    planes = np.ascontiguousarray(found.transpose(2, 3, 0, 1))  # rows, columns, planes, images
    planes[0, 0, 1:] += MIDDLE
    planes[0] = np.cumsum(planes[0], axis=0, dtype=np.uint8)
    planes[:, 0] = np.cumsum(planes[:, 0], axis=0, dtype=np.uint8)
    for row in range(1, SIDE):
        for column in range(1, SIDE):
            left, above = planes[row, column - 1], planes[row - 1, column]
            planes[row, column] += _median_edge(left, above, planes[row - 1, column - 1])
    green = planes[:, :, 0]
    colors = np.stack([planes[:, :, 1] + green - MIDDLE, green, planes[:, :, 2] + green - MIDDLE])
    return np.ascontiguousarray(colors.transpose(3, 0, 1, 2))


def _median_edge(left: Bytes, above: Bytes, corner: Bytes) -> Bytes:
    """left + above - corner, but neither below nor above both neighbors."""
    plane = left.astype(np.int16) + above - corner
    bounded: Bytes = np.clip(plane, np.minimum(left, above), np.maximum(left, above)).astype(np.uint8)
    return bounded


def read_part(path: Path) -> tuple[Bytes, Bytes]:
    """Images and fine labels of a part."""
    try:
        with np.load(path, allow_pickle=False) as part:
            shape, packed, labels = part["shape"].tolist(), part["res_xz"].tobytes(), part["y"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a part of CIFAR-100: {' '.join(str(error).split())}") from None
    if shape[1:] != [SIDE, SIDE, PLANES] or len(labels) != shape[0] or not np.isin(labels, range(len(CIFAR100))).all():
        raise DataError(f"{path} needs images of 32 x 32 x 3 and one label from 0 to 99 for each; its shape is {shape}")
    try:
        return unpack(packed, shape[0]), labels.astype(np.uint8)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def records(images: Bytes, fine: Bytes) -> bytes:
    """The official records: coarse label, fine label, red, green and blue plane."""
    coarse = np.zeros(len(CIFAR100), np.uint8)
    for number, names in enumerate(CIFAR100_SUPERCLASSES.values()):
        coarse[[CIFAR100.index(name) for name in names]] = number
    rows = [coarse[fine][:, None], fine[:, None], images.reshape(len(images), -1)]
    return np.concatenate(rows, axis=1).tobytes()


def prepare(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The folder of the packed parts.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder of the data sets, as glws data and run --folder take it."),
    ],
) -> None:
    """Write CIFAR-100 as the official binary files, from losslessly packed parts."""
    for name, parts in PARTS.items():
        content = b"".join(records(*read_part(source / part)) for part in parts)
        path = folder / FOLDER / name
        write_bytes(path, content)
        typer.echo(f"wrote {path}")


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    app: Any = typer.Typer(**LOOK)
    app.command()(prepare)
    return run_application(app, arguments, "python -m reproduction.prepare_cifar100")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
