"""Images as PNG in the page itself: a small encoder, and data addresses."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from glws.report._content import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {1: 0, 3: 2}  # gray, RGB


def png(image: Image) -> bytes:
    """The bytes of a PNG file of an image [channels, height, width] with one channel (gray) or three (RGB).

    >>> png(np.zeros((1, 2, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    channels, height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    rows = image.transpose(1, 2, 0).reshape(height, width * channels)
    unfiltered = np.zeros((height, 1), np.uint8)  # each row starts with the number of its filter: none
    pixels = np.hstack([unfiltered, rows]).tobytes()
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels, 9)) + _chunk(b"IEND", b"")


def image_address(image: Image, largest: int) -> str:
    """The image as a `data:` address, made smaller until neither side is longer than `largest` pixels."""
    return "data:image/png;base64," + base64.b64encode(png(shrunk(image, largest))).decode()


def drawing_address(svg: str) -> str:
    """An SVG document as a `data:` address: shown as an image, nothing in it can run or reach the page."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8", "replace")).decode()


def shrunk(image: Image, largest: int) -> Image:
    """The image with square blocks of pixels averaged into one, so that neither side is longer than `largest`.

    >>> shrunk(np.array([[[0, 10, 7], [20, 30, 7]]], np.uint8), 2).tolist()
    [[[15]]]
    """
    channels, height, width = image.shape
    block = -(-max(height, width) // largest)
    if block == 1:
        return image
    high, wide = max(height // block, 1), max(width // block, 1)  # what is left of a block at the edge is cut off
    tall, broad = min(block, height), min(block, width)
    blocks = image[:, : high * tall, : wide * broad].reshape(channels, high, tall, wide, broad)
    means: Image = blocks.mean(axis=(2, 4)).round().astype(np.uint8)
    return means


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
