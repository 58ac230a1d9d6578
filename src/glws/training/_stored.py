"""What a run stores: plain values, tensors and rows of metrics, believed only after every byte was checked."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from glws._files import (
    append_bytes,
    hash_of_start,
    physical_memory,
    read_bytes,
    read_start,
    read_verified,
    sync_file,
    truncate_file,
    verify,
    write_bytes,
    write_text,
)
from glws._messages import one_line
from glws.errors import DataError, FileError

# Plain values

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
    """The content of a checksummed file, or a one-line `FileError`: damaged, truncated, exchanged, or too new.

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


# Tensors

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
        raise DataError(f"these tensors cannot be stored: {one_line(error)}") from error


def decoded(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; inconsistent names, offsets or shapes raise a `FileError`."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError, AssertionError) as error:
        what = one_line(error, 120)
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
    memory = physical_memory()
    if memory is not None and size > memory:
        raise FileError(f"{path}: it claims {size:,} bytes, this machine has {memory:,} bytes of memory")
    header = int.from_bytes(read_start(path, 8), "little")
    if header > min(MAX_HEADER, size - 8):
        raise FileError(f"{path}: not a valid safetensors file: its header claims {header:,} of its {size:,} bytes")


# Metrics

Cell: TypeAlias = "bool | int | float | str | None"
Row: TypeAlias = "dict[str, Cell]"
"""One line of the log: names and plain values, usually with a step and an epoch."""

MAX_ROW = 1 << 20


class Mark(NamedTuple):
    """A place in the log: the number of rows and bytes before it, and their SHA-256."""

    rows: int
    bytes: int
    sha256: str

    @classmethod
    def read(cls, facts: Json) -> Mark:
        """The mark of a checkpoint's facts; None is the beginning."""
        if facts is None:
            return BEGINNING
        if isinstance(facts, dict) and set(facts) == set(cls._fields):
            rows, size, digest = (facts[name] for name in cls._fields)
            if type(rows) is int and type(size) is int and isinstance(digest, str):
                return cls(rows, size, digest)
        raise DataError(f"expected the rows, bytes and sha256 of a log of metrics, found {str(facts)[:80]}")


BEGINNING = Mark(0, 0, hashlib.sha256().hexdigest())


class MetricsLog:
    """The rows of a run, in `metrics.jsonl` as they are added and in `metrics.csv` on request.

    A checkpoint stores the `mark` of its time. A run that resumes from that checkpoint first goes back to the mark:
    rows after it are removed (they will be computed again), rows before it are verified. So the files of an interrupted
    run end up equal, bit for bit, to those of an undisturbed one.

    Numbers come back bit for bit; those that are not finite are written as Python does (NaN, Infinity). Reading does
    not change the file; an unfinished row of a killed process is ignored.

    >>> import tempfile
    >>> log = MetricsLog(Path(tempfile.mkdtemp()))
    >>> log.append({"step": 1, "loss": 0.5})
    >>> place = log.mark()
    >>> log.append({"step": 2, "loss": 0.25})
    >>> log.rewind(place)
    >>> log.rows()
    [{'step': 1, 'loss': 0.5}]
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "metrics.jsonl"
        self.csv_path = folder / "metrics.csv"
        self._place: tuple[int, int, hashlib._Hash] | None = None

    def append(self, row: Mapping[str, Cell]) -> None:
        """Append a row; if the disk is full, the log stays unchanged."""
        line = json.dumps(_checked(row)).encode("ascii") + b"\n"
        rows, size, digest = self._end()
        append_bytes(self.path, line, size)
        digest.update(line)
        self._place = (rows + 1, size + len(line), digest)

    def mark(self) -> dict[str, Json]:
        """The place after the last row, for a checkpoint; all rows are then on disk."""
        rows, size, digest = self._end()
        sync_file(self.path)
        return {**Mark(rows, size, digest.hexdigest())._asdict()}

    def rewind(self, facts: Json) -> None:
        """Cut the log back to a mark (None: to the beginning), after verifying all rows before it."""
        place = Mark.read(facts)
        digest = self._verified(place)
        truncate_file(self.path, place.bytes)
        self._place = (place.rows, place.bytes, digest)

    def verify(self, facts: Json) -> None:
        """Raise a `FileError` unless the rows before a mark are unchanged; changes nothing."""
        self._verified(Mark.read(facts))

    def rows(self) -> list[Row]:
        """All rows."""
        if not self.path.exists():
            return []
        found: list[Row] = []
        with self._reading() as file:
            while (line := file.readline(MAX_ROW + 1)).endswith(b"\n"):
                found.append(self._parsed(line, len(found) + 1))
        if len(line) > MAX_ROW:
            raise FileError(f"{self.path}: damaged: line {len(found) + 1} is longer than {MAX_ROW:,} bytes")
        return found

    def write_csv(self) -> None:
        """Write all rows as a table: a column for each name, in the order of first appearance."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.csv_path, text.getvalue() if names else "", makes_folders=False)

    def _end(self) -> tuple[int, int, hashlib._Hash]:
        """Rows, bytes and running hash of the whole log, which is created if it does not exist."""
        if self._place is None and not self.path.exists():
            write_bytes(self.path, b"")
        if self._place is None:
            with self._reading() as file:
                content = file.read()
            if content and not content.endswith(b"\n"):
                raise FileError(f"{self.path}: its last row is not finished; rewind it to a checkpoint first")
            self._place = (content.count(b"\n"), len(content), hashlib.sha256(content))
        return self._place

    def _verified(self, place: Mark) -> hashlib._Hash:
        """The running hash of the log before a mark, if it is correct."""
        if place == BEGINNING and not self.path.exists():
            write_bytes(self.path, b"")
        with self._reading() as file:
            digest = hash_of_start(file, place.bytes)
            read = file.tell()
        if read < place.bytes:
            raise FileError(f"{self.path}: damaged: expected at least {place.bytes:,} bytes, found {read:,}")
        if digest.hexdigest() != place.sha256:
            raise FileError(f"{self.path}: damaged: its first {place.rows:,} rows are not those that were written")
        return digest

    def _reading(self) -> Any:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise FileError(f"cannot read {self.path}: {error.strerror or error}") from error

    def _parsed(self, line: bytes, number: int) -> Row:
        try:
            return _checked(json.loads(line))
        except (ValueError, RecursionError, DataError):
            raise FileError(f"{self.path}: damaged: line {number} is not a row of metrics") from None


def _checked(row: object) -> Row:
    if not isinstance(row, Mapping) or not row:
        raise DataError(f"a row of metrics must be a mapping of names to values, found {str(row)[:80]!r}")
    for name, value in row.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, bool | int | float | str)):
            found = type(value).__name__
            raise DataError(f"metrics: {name!r} must be named by a text and be a number or a text, found {found}")
    return dict(row)
