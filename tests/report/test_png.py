"""Images in the page are the images given, pixel by pixel."""

import base64
import struct
import zlib

import numpy as np
import pytest

from glws.report._views import image_address, png, shrunk

SHAPES = [(1, 1, 1), (1, 5, 3), (3, 2, 7), (3, 33, 20)]


def decoded(data: bytes) -> np.ndarray:
    """A PNG without filters, read back by the book."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(data):
        size, name = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size])[0] == zlib.crc32(name + body)
        chunks[name], place = body, place + 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, rest) == (8, [0, 0, 0])
    channels = {0: 1, 2: 3}[color]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels).transpose(2, 0, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_image_is_read_back_as_it_was(shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(decoded(png(image)), image)


@pytest.mark.parametrize("shape", SHAPES)
def test_another_program_reads_the_same_image(shape: tuple[int, int, int]) -> None:
    pillow = pytest.importorskip("PIL.Image")
    import io

    image = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    read = np.asarray(pillow.open(io.BytesIO(png(image))))
    assert np.array_equal(np.atleast_3d(read).transpose(2, 0, 1), image)


@pytest.mark.parametrize(("shape", "largest"), [((3, 10, 7), 4), ((1, 64, 64), 64), ((1, 1, 100), 9), ((3, 65, 3), 64)])
def test_a_large_image_is_averaged_over_blocks(shape: tuple[int, int, int], largest: int) -> None:
    image = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    small, block = shrunk(image, largest), -(-max(shape[1:]) // largest)
    assert max(small.shape[1:]) <= largest
    for (channel, row, column), value in np.ndenumerate(small):
        cut = image[channel, row * block : (row + 1) * block, column * block : (column + 1) * block]
        assert value == np.round(cut.mean())


def test_the_address_holds_the_bytes_of_the_file() -> None:
    image = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    kind, data = image_address(image, 64).split(",")
    assert kind == "data:image/png;base64"
    assert np.array_equal(decoded(base64.b64decode(data)), image)
