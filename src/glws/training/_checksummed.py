"""Checksummed JSON: plain values in a file with its checksum, its name and its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from glws._files import read_bytes, write_bytes
from glws.errors import DataError, FileError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""The values that a checksummed file can hold."""

FORMAT = 1
"""Version of the files of a run; later versions are refused, earlier ones are always readable."""
MAX_BYTES = 4 << 20
MAX_DEPTH = 20
HEAD, BEHIND = b'{"sha256": "', b'",'
HASH_PLACE = slice(len(HEAD), len(HEAD) + 64)
BODY_START = len(HEAD) + 64 + len(BEHIND)


def plain(value: object, where: str = "value") -> Json:
    """A copy of a value in the types of JSON; a `DataError` names the place of anything else.

    Tuples become lists. Keys must be texts: JSON would silently turn the number 1 into "1".

    >>> plain({"betas": (0.9, 0.99), "steps": 3})
    {'betas': [0.9, 0.99], 'steps': 3}
    >>> plain({"model": {"layers": [1, {2}]}})
    Traceback (most recent call last):
    ...
    glws.errors.DataError: value.model.layers[1]: expected texts, numbers, booleans, None, lists or mappings, found set
    """
    return _plain(value, where, MAX_DEPTH)


def _plain(value: object, where: str, depth: int) -> Json:
    if value is None or isinstance(value, bool):
        return value
    for plain_type in (int, float, str):
        if isinstance(value, plain_type):
            return plain_type(value)
    if depth == 0:
        raise DataError(f"{where[:80]}...: nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(item, f"{where}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{place}]", depth - 1) for place, item in enumerate(value)]
    found = type(value).__name__
    raise DataError(f"{where}: expected texts, numbers, booleans, None, lists or mappings, found {found}")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise DataError(f"{where}: the keys must be texts, found {key!r}; write str(key)")
    return str(key)


def write_checksummed(path: Path, purpose: str, content: object, owner: str = "") -> None:
    """Write plain values with a checksum over every byte, atomically; `read_checksummed` returns them.

    Args:
        path: the file; its name is part of the checksummed content, so that files cannot change places.
        purpose: the content in a word, for messages ("checkpoint").
        content: plain values (see `plain`); floats come back bit for bit.
        owner: the run it belongs to; "" for none.
    """
    header = {"format": FORMAT, "kind": purpose, "name": path.name, "owner": owner}
    body = json.dumps({**header, "content": plain(content, path.name)}, indent=1)[1:].encode("ascii") + b"\n"
    stored = HEAD + hashlib.sha256(body).hexdigest().encode("ascii") + BEHIND + body
    if len(stored) > MAX_BYTES:
        raise DataError(f"{path.name}: {len(stored):,} bytes, at most {MAX_BYTES:,} are allowed; store it as tensors")
    write_bytes(path, stored, makes_folders=False)  # a folder that vanished is not created again


def read_checksummed(path: Path, purpose: str, owner: str = "") -> Json:
    """The content of a checksummed file, or a one-line `FileError`: damaged, cut off, exchanged, or too new.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "facts.json"
    >>> write_checksummed(path, "facts", {"lr": 0.1})
    >>> read_checksummed(path, "facts")
    {'lr': 0.1}
    """
    stored = read_bytes(path, MAX_BYTES)
    _check_checksum(path, stored)
    document = _parsed(path, stored)
    if not isinstance(document, dict) or "content" not in document:
        raise FileError(f"{path}: not a {purpose} of glws: it has no content")
    _check_header(path, document, {"kind": purpose, "name": path.name, "owner": owner})
    content: Json = document["content"]
    return content


def _check_checksum(path: Path, stored: bytes) -> None:
    is_framed = stored.startswith(HEAD) and stored[HASH_PLACE.stop : BODY_START] == BEHIND
    digest = hashlib.sha256(stored[BODY_START:]).hexdigest().encode("ascii")
    if not stored:
        raise FileError(f"{path}: damaged: it is empty")
    if not is_framed or stored[HASH_PLACE] != digest:
        raise FileError(f"{path}: damaged or changed: its content does not have the SHA-256 that it states")


def _parsed(path: Path, stored: bytes) -> Any:
    try:
        return json.loads(stored)
    except RecursionError:
        raise FileError(f"{path}: not readable: nested too deep") from None
    except ValueError as error:
        raise FileError(f"{path}: not readable as JSON: {str(error)[:100]}") from None


def _check_header(path: Path, document: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    version = document.get("format")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise FileError(
            f"{path}: its format is {str(version)[:20]!r}, this glws reads 1 to {FORMAT}; a newer glws may read it"
        )
    for key, value in expected.items():
        if document.get(key) != value:
            found = repr(document.get(key))[:60]
            raise FileError(f"{path}: exchanged with another file: its {key} is {found}, expected {value!r}")
