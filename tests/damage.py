"""Ways to hurt a file, for the tests that see whether it is noticed (R20)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path


def damaged(content: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` versions with one flipped bit each, then some that are cut off, emptied, lengthened or overwritten."""
    draw = random.Random(seed)
    for place in (draw.randrange(8 * len(content)) for _ in range(count)):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        yield f"bit {place} flipped", bytes(flipped)
    for size in sorted({0, 1, len(content) - 1, *(draw.randrange(len(content)) for _ in range(20))}):
        yield f"cut off after {size}", content[:size]
        yield f"zeros after {size}", content[:size] + bytes(len(content) - size - 1) + b"\1"
    yield "lengthened", content + b"\n"
    yield "other content", b"\0" * len(content)


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by name, without the lock."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def overwrite(path: Path, content: bytes) -> None:
    """Changes a file in place, which is faster than a new one."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate(len(content))
