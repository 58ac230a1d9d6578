"""Tensors in a file of torch.save, read without unpickling: only what a plain tensor needs is understood.

Such a file is a zip archive: `data.pkl` says which tensors there are, and each storage is a member of raw numbers. The
few instructions that describe tensors are interpreted here; anything else is refused, and nothing is ever called.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glws._messages import one_line
from glws.errors import DataError

STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
}
"""Types of numbers, by the name that torch gives their storage."""
MOST_INSTRUCTIONS, MOST_BYTES = 10_000, 1 << 20
PROBLEMS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, KeyError)
LOCAL_HEADER, NAME_LENGTHS = 30, slice(26, 30)


class StoredTensor(NamedTuple):
    """Where the numbers of a tensor are in the file: bytes from `offset` on, row after row."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


class _Name(NamedTuple):
    """A name that the file wants to be looked up, which is not done."""

    module: str
    name: str


class _Storage(NamedTuple):
    dtype: str
    key: str


class _Tensor(NamedTuple):
    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name; a tensor by itself has the name "features".

    Tensors whose rows do not stand one after the other, old files that are one pickle, and anything that is not a plain
    tensor raise `DataError`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _tensors(path, archive)
    except zipfile.BadZipFile as error:
        hint = "old files of torch are pickles and never opened; save it again with torch.save, or as .npy"
        raise DataError(f"{path}: not an archive of torch.save ({one_line(error)}); {hint}") from error
    except DataError:
        raise
    except PROBLEMS as error:
        raise DataError(f"{path}: damaged ({one_line(error)})") from error


def _tensors(path: Path, archive: zipfile.ZipFile) -> dict[str, StoredTensor]:
    pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
    if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > MOST_BYTES:
        raise DataError(f"{path}: expected one small data.pkl, as torch.save writes it, found {len(pickles)}")
    prefix = pickles[0].removesuffix("data.pkl")
    order = f"{prefix}byteorder"
    if order in archive.namelist() and archive.read(order).strip() != b"little":
        raise DataError(f"{path}: its numbers are big-endian; save it again on another machine, or as .npy")
    found = _Interpreter(path).run(archive.read(pickles[0]))
    named = {"features": found} if isinstance(found, _Tensor) else found
    if not isinstance(named, dict) or not all(isinstance(one, _Tensor) for one in named.values()):
        raise DataError(f"{path}: expected a tensor, or tensors by name, found {_called(found)}")
    return {str(name): _placed(path, archive, prefix, tensor) for name, tensor in named.items()}


def _placed(path: Path, archive: zipfile.ZipFile, prefix: str, tensor: _Tensor) -> StoredTensor:
    """The place of a tensor in the file, once its storage has been compared with its size."""
    info = archive.getinfo(f"{prefix}data/{tensor.storage.key}")
    if info.compress_type != zipfile.ZIP_STORED:
        raise DataError(f"{path}: its storages are compressed, which torch.save does not do")
    size = 2 if tensor.storage.dtype == "bfloat16" else np.dtype(tensor.storage.dtype).itemsize
    if tensor.strides != _row_after_row(tensor.shape):
        raise DataError(f"{path}: a tensor of shape {list(tensor.shape)} is a view; save tensor.contiguous()")
    if (tensor.start + int(np.prod(tensor.shape, dtype=object))) * size > info.file_size or tensor.start < 0:
        raise DataError(
            f"{path}: a tensor of shape {list(tensor.shape)} claims more than the {info.file_size:,} bytes stored"
        )
    return StoredTensor(tensor.storage.dtype, tensor.shape, _first_byte(path, info) + tensor.start * size)


def _first_byte(path: Path, info: zipfile.ZipInfo) -> int:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(LOCAL_HEADER)
    if len(header) < LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise DataError(f"{path}: damaged (a member has no header)")
    name, extra = struct.unpack("<HH", header[NAME_LENGTHS])
    return int(info.header_offset + LOCAL_HEADER + name + extra)


def _row_after_row(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for side in reversed(shape):
        strides.append(step)
        step *= max(side, 1)
    return tuple(reversed(strides))


class _Interpreter:
    """The instructions of a pickle that describe tensors, on a stack of plain values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """What the pickle describes."""
        for number, (code, argument, _) in enumerate(pickletools.genops(content)):
            if number > MOST_INSTRUCTIONS:
                raise DataError(f"{self.path}: it has more than {MOST_INSTRUCTIONS:,} parts")
            if code.name == "STOP":
                return self._pop()
            action = ACTIONS.get(code.name)
            if action is None:
                raise self._refusal(f"the instruction {code.name}")
            action(self, argument)
        raise DataError(f"{self.path}: damaged (it does not end)")

    def push(self, value: Any) -> None:
        """Onto the stack."""
        self.stack.append(value)

    def _pop(self) -> Any:
        if not self.stack:
            raise DataError(f"{self.path}: damaged (an instruction lacks its values)")
        return self.stack.pop()

    def _since_mark(self) -> list[Any]:
        if not self.marks:
            raise DataError(f"{self.path}: damaged (an instruction lacks its mark)")
        place = self.marks.pop()
        values, self.stack = self.stack[place:], self.stack[:place]
        return values

    def mark(self, _: Any) -> None:
        """Where a tuple or a dictionary begins."""
        self.marks.append(len(self.stack))

    def tuple_of_marked(self, _: Any) -> None:
        """A tuple of everything since the mark."""
        self.push(tuple(self._since_mark()))

    def tuple_of(self, number: int) -> None:
        """A tuple of the last values."""
        self.push(tuple(reversed([self._pop() for _ in range(number)])))

    def remember(self, place: Any) -> None:
        """The last value under a number."""
        value = self._pop()
        self.push(value)
        self.memo[len(self.memo) if place is None else int(place)] = value

    def recall(self, place: Any) -> None:
        """What was remembered."""
        self.push(self.memo[int(place)])

    def name(self, argument: Any) -> None:
        """A name, which is not looked up."""
        if argument is None:  # the two last values are module and name
            last, module = self._pop(), self._pop()
            argument = f"{module} {last}"
        module, _, last = str(argument).partition(" ")
        self.push(_Name(module, last))

    def set_items(self, pairs: list[Any]) -> None:
        """Keys and values into the dictionary below them."""
        target = self._pop()
        if not isinstance(target, dict) or not all(isinstance(key, str) for key in pairs[::2]):
            raise self._refusal("a dictionary whose keys are not names")
        target.update(zip(pairs[::2], pairs[1::2], strict=True))
        self.push(target)

    def storage(self, _: Any) -> None:
        """The storage that a persistent id names."""
        found = self._pop()
        is_known = (
            isinstance(found, tuple) and len(found) == 5 and found[0] == "storage" and isinstance(found[1], _Name)
        )
        if not is_known or found[1].module != "torch" or found[1].name not in STORAGES:
            raise self._refusal(_called(found))
        self.push(_Storage(STORAGES[found[1].name], str(found[2])))

    def build(self, _: Any) -> None:
        """A tensor, or an empty dictionary: nothing else may be asked for."""
        values, wanted = self._pop(), self._pop()
        if wanted == _Name("collections", "OrderedDict") and values == ():
            self.push({})
        elif wanted == _Name("torch._utils", "_rebuild_tensor_v2") and isinstance(values, tuple):
            self.push(self._tensor(values))
        else:
            raise self._refusal(_called(wanted))

    def _tensor(self, values: tuple[Any, ...]) -> _Tensor:
        if len(values) < 4 or not isinstance(values[0], _Storage) or not isinstance(values[1], int):
            raise self._refusal("a tensor without a storage")
        shape, strides = values[2], values[3]
        for sides in (shape, strides):
            if not isinstance(sides, tuple) or not all(isinstance(side, int) and side >= 0 for side in sides):
                raise self._refusal("a tensor without a shape")
        return _Tensor(values[0], values[1], shape, strides)

    def _refusal(self, what: str) -> DataError:
        hint = "only plain tensors are read from it, because a pickle could run code"
        return DataError(f"{self.path}: it holds {what}; {hint} (save the tensors by themselves, or as .npy)")


def _called(value: Any) -> str:
    if isinstance(value, _Name):
        return f"{value.module}.{value.name}"[:80]
    return f"a {type(value).__name__.strip('_').lower()}"


Action = Callable[[_Interpreter, Any], None]
ACTIONS: dict[str, Action] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, argument: None),
    **dict.fromkeys(
        ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"),
        lambda machine, argument: machine.push(argument),
    ),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MARK": _Interpreter.mark,
    "TUPLE": _Interpreter.tuple_of_marked,
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Interpreter.remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Interpreter.recall),
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _Interpreter.name),
    "SETITEM": lambda machine, _: machine.set_items(list(reversed([machine._pop(), machine._pop()]))),
    "SETITEMS": lambda machine, _: machine.set_items(machine._since_mark()),
    "BINPERSID": _Interpreter.storage,
    "REDUCE": _Interpreter.build,
}
"""What is understood, by the name of the instruction."""
