"""Tensors in a safetensors file whose size and checksum are stored elsewhere and verified before reading."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from glws._files import read_start, read_verified, verify, write_bytes
from glws.errors import DataError, FileError
from glws.training._checksummed import Json

ENDING = ".safetensors"
MAX_HEADER = 8 << 20
"""Limit on the bytes of names and shapes in a file; enough for some hundred thousand tensors."""
HASH_IN_NAME = 12


class TensorFile(NamedTuple):
    """The facts that identify a file of tensors: its name in its folder, its size, its SHA-256."""

    file: str
    size: int
    sha256: str

    @classmethod
    def read(cls, facts: Json, stem: str, where: Path) -> TensorFile:
        """The facts from the JSON beside it; the name must be one of `write_tensors`."""
        if isinstance(facts, dict) and set(facts) == set(cls._fields):
            name, size, digest = (facts[field] for field in cls._fields)
            is_named = isinstance(name, str) and re.fullmatch(
                rf"{re.escape(stem)}-[0-9a-f]{{{HASH_IN_NAME}}}{re.escape(ENDING)}", name
            )
            if is_named and type(size) is int and isinstance(digest, str):
                return cls(str(name), size, digest)
        raise FileError(f"{where}: expected the name, size and sha256 of a file of tensors, found {str(facts)[:80]}")


def write_tensors(folder: Path, stem: str, tensors: Mapping[str, Tensor]) -> TensorFile:
    """Write tensors to `STEM-HASH.safetensors` and return the facts that identify the file.

    The name contains the start of the SHA-256, so a referenced file is only ever replaced by an equal one.
    Values, dtypes and shapes come back bit for bit; strides, sharing and devices do not: each tensor is stored
    separately, in row-major order, and comes back on the CPU.
    """
    content = encoded(tensors)
    digest = hashlib.sha256(content).hexdigest()
    stored = TensorFile(f"{stem}-{digest[:HASH_IN_NAME]}{ENDING}", len(content), digest)
    write_bytes(folder / stored.file, content, makes_folders=False)
    return stored


def read_tensors(folder: Path, stored: TensorFile) -> dict[str, Tensor]:
    """The tensors of a file, after checking its size, the length of its header and its SHA-256."""
    path = folder / stored.file
    _check_claims(path, stored.size)
    return decoded(read_verified(path, stored.size, stored.sha256), path)


def verify_tensors(folder: Path, stored: TensorFile) -> None:
    """Raise unless the file has its size and checksum."""
    verify(folder / stored.file, stored.size, stored.sha256)


def encoded(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file; the same tensors give the same bytes."""
    from safetensors.torch import save

    try:
        return bytes(save({_name(name): _dense(tensor) for name, tensor in tensors.items()}))
    except (ValueError, KeyError, TypeError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"these tensors cannot be stored: {' '.join(str(error).split())[:200]}") from error


def decoded(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; inconsistent names, offsets or shapes raise a `FileError`."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError, AssertionError) as error:
        what = " ".join(str(error).split())[:120]
        raise FileError(f"{path}: not a valid safetensors file: {type(error).__name__} {what}") from None


def _name(name: object) -> str:
    if not isinstance(name, str) or name == "__metadata__":
        raise DataError(f"a tensor must be named by a text other than '__metadata__', found {name!r}")
    return name


def _dense(tensor: Tensor) -> Tensor:
    """A contiguous copy on the CPU; a clone also applies lazy conjugates and negatives."""
    import torch

    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _check_claims(path: Path, size: int) -> None:
    """Refuse a file that cannot hold these tensors before anything is allocated for it."""
    memory = _memory()
    if memory and size > memory:
        raise FileError(f"{path}: it claims {size:,} bytes, this machine has {memory:,} bytes of memory")
    header = int.from_bytes(read_start(path, 8), "little")
    if header > min(MAX_HEADER, size - 8):
        raise FileError(f"{path}: not a valid safetensors file: its header claims {header:,} of its {size:,} bytes")


def _memory() -> int:
    """Bytes of main memory, 0 if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
