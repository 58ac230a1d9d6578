"""Images in files, and ImageNet-100's folders."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from glws import _optional as packages
from glws.data.sources import ImageFiles
from glws.data.sources._image_folder import load_imagenet100
from glws.data.sources._images import read_image
from glws.errors import DataError

pillow = pytest.importorskip("PIL.Image")


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow.fromarray(array).save(path)


@pytest.fixture
def folder(tmp_path):
    for part, number in (("train", 3), ("val", 2)):
        for place, name in enumerate(("n01", "n02", "n03", "n99")):
            for image in range(number):
                save(tmp_path / part / name / f"{image}.png", np.full((6, 9, 3), 10 * place + image, np.uint8))
    (tmp_path / "train" / "n01" / "notes.txt").write_text("no image")
    (tmp_path / "classes.txt").write_text("n02 tench, Tinca\nn01\n\nn03 cock\n")
    return tmp_path


def test_the_list_picks_and_numbers_the_classes(folder):
    source = load_imagenet100(folder, num_classes=3)
    assert source.classes == ("tench, Tinca", "n01", "cock")
    assert source.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(source.test) == 6
    image = source.train.inputs[4]
    assert image.shape == (3, 224, 224)
    assert image.dtype == np.uint8
    assert (image == 1).all(), "the second image of n01"
    assert source.train.inputs.take([7, 0])[:, 0, 0, 0].tolist() == [21, 10]
    assert source.train.inputs.take([]).shape == (0, 3, 224, 224)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n01\nn02", "classes.txt: expected 3 classes, found 2"),
        ("n01\nn02\nn01", "classes.txt, line 3: n01 is listed twice"),
        ("n01\n../../etc\nn03", "classes.txt, line 2: '../../etc' is not the name of a folder"),
        ("n01\nn02\nn77", "no images of class n77"),
    ],
)
def test_a_wrong_list_is_refused(folder, text, message):
    (folder / "classes.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        load_imagenet100(folder, num_classes=3)


def test_a_missing_list_or_folder_is_named(folder, tmp_path):
    (folder / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"the list of classes, classes.txt, is missing"):
        load_imagenet100(folder)
    with pytest.raises(DataError, match="no folders train and val"):
        load_imagenet100(tmp_path / "val")


def test_the_middle_is_cut_out_of_a_long_image(tmp_path):
    columns = np.repeat(np.arange(12, dtype=np.uint8)[None, :, None] * 20, 4, axis=0).repeat(3, axis=2)
    save(tmp_path / "a.png", columns)
    read = read_image(tmp_path / "a.png", 4)
    np.testing.assert_array_equal(read[0, 0], [80, 100, 120, 140])


def png_claiming(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = header + struct.pack(">I", zlib.crc32(header)) + struct.pack(">I", 9) + b"IDAT" + bytes(5)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunks


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable image"),
        (b"GIF89a" + bytes(40), "not a readable image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable image"),
        (png_claiming(9_000, 9_000), "claims 9000 x 9000 pixels"),
        (png_claiming(100_000, 100_000), "not a readable image"),
        (png_claiming(20, 20), "not a readable image"),
    ],
)
def test_what_is_no_image_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.png: {message}") as caught:
        ImageFiles((str(tmp_path / "a.png"),))[0]
    assert "\n" not in str(caught.value)


def test_a_missing_image_and_a_missing_pillow_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"b\.png: there is no such image"):
        read_image(tmp_path / "b.png", 4)

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(packages, "import_module", refuse)
    with pytest.raises(DataError, match="reading images needs the package pillow"):
        read_image(tmp_path / "b.png", 4)
