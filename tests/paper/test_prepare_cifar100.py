"""CIFAR-100 from packed parts: pixels come back as they were, the files are those that the loader reads."""

import lzma
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from glws.data import load
from glws.data.sources import _official, _official_formats
from glws.errors import DataError
from reproduction import prepare_cifar100
from reproduction.prepare_cifar100 import PARTS, read_part, run, unpack

Bytes = npt.NDArray[np.uint8]


def random_images(number: int, seed: int = 0) -> Bytes:
    """(number, 32, 32, 3), brighter to the right, so that no two axes or colors are alike."""
    noise = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3))
    return (noise // [1, 2, 3] + np.arange(32)[:, None] * 5).astype(np.uint8)


def pack(images: Bytes) -> bytes:
    """Pixel by pixel as the layout says, with integers that do not wrap."""
    colors = images.astype(int)
    green = colors[..., 1]
    planes = np.stack([green, colors[..., 0] - green + 128, colors[..., 2] - green + 128]) % 256
    rest = np.empty_like(planes)
    for (plane, image, row, column), value in np.ndenumerate(planes):
        left = int(planes[plane, image, row, column - 1])
        above = int(planes[plane, image, row - 1, column])
        corner = int(planes[plane, image, row - 1, column - 1])
        if row and column:
            guess = sorted([left, above, left + above - corner])[1]
        else:
            guess = left if column else above if row else 128 * (plane > 0)
        rest[plane, image, row, column] = (value - guess) % 256
    return lzma.compress(rest.astype(np.uint8).tobytes(), format=lzma.FORMAT_XZ)


def write_part(path: Path, images: Bytes, labels: npt.NDArray[np.int64]) -> None:
    packed = np.frombuffer(pack(images), np.uint8)
    np.savez(path, shape=np.array(images.shape), res_xz=packed, y=labels)


def test_packed_pixels_come_back_as_they_were() -> None:
    images = random_images(3)
    assert np.array_equal(unpack(pack(images), 3), images.transpose(0, 3, 1, 2))


def test_the_files_are_read_by_the_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images, labels = random_images(6), np.array([99, 0, 42, 7, 7, 58])
    parts = [name for names in PARTS.values() for name in names]
    for number, name in enumerate(parts):
        rows = slice(2 * number, 2 * number + 2)
        write_part(tmp_path / name, images[rows], labels[rows])
    assert run([str(tmp_path), str(tmp_path / "data")]) == 0
    assert "wrote" in capsys.readouterr().out
    folder = tmp_path / "data" / "cifar-100-binary"
    assert (folder / "train.bin").stat().st_size == 4 * 3074
    sizes = {"train": 4, "test": 2}
    files = {split: (_official.OfficialFile(f"{split}.bin", number * 3074),) for split, number in sizes.items()}
    small = _official.CIFAR_100.__class__(**{**vars(_official.CIFAR_100), "parts": files})
    monkeypatch.setitem(_official.OFFICIAL_SETS, "cifar100", small)
    found = load("cifar100", tmp_path / "data", verify=False)
    assert np.array_equal(np.asarray(found.train.inputs), images[:4].transpose(0, 3, 1, 2))
    assert np.array_equal(found.train.labels, labels[:4])
    assert np.array_equal(found.test.labels, labels[4:])


def test_coarse_labels_are_those_that_the_loader_checks() -> None:
    fine = np.arange(100, dtype=np.uint8)
    content = prepare_cifar100.records(np.zeros((100, 3, 32, 32), np.uint8), fine)
    coarse = np.frombuffer(content, np.uint8).reshape(100, 3074)[:, 0]
    assert np.array_equal(coarse, _official_formats._coarse_of_fine())


def test_a_part_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "part.npz"
    with pytest.raises(DataError, match=r"part\.npz is not a part of CIFAR-100"):
        read_part(path)
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"part\.npz is not a part of CIFAR-100"):
        read_part(path)
    write_part(path, random_images(2), np.array([0, 100]))
    with pytest.raises(DataError, match="one label from 0 to 99"):
        read_part(path)
    packed = np.frombuffer(pack(random_images(2)), np.uint8)
    np.savez(path, shape=np.array([3, 32, 32, 3]), res_xz=packed, y=np.array([0, 1, 2]))
    with pytest.raises(DataError, match=r"part\.npz: expected 9216 packed bytes, found 6144"):
        read_part(path)
    np.savez(path, shape=np.array([2, 32, 32, 3]), res_xz=packed[:50], y=np.array([0, 1]))
    with pytest.raises(DataError, match=r"part\.npz: the packed pixels are damaged"):
        read_part(path)
