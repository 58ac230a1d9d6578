"""The metrics of a run: rows that are never lost or duplicated by an interruption."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from glws._files import append_bytes, hash_of_start, sync_file, truncate_file, write_bytes, write_text
from glws.errors import DataError, FileError
from glws.training._checksummed import Json

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
    rows after it are cut off (they will be computed again), rows before it are verified. So the files of an interrupted
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


class TensorBoardMirror:
    """Shows rows in TensorBoard too, if it is installed; a failure there does not stop the run.

    The first failure goes to `report`, and later rows are not shown. After an interruption TensorBoard forgets the
    steps that are computed again.
    """

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._report = report
        self._writer: Any = None
        self._is_broken = False

    def append(self, row: Mapping[str, Cell]) -> None:
        """Show the numbers of a row at its step."""
        if self._is_broken:
            return
        try:
            self._show(row)
        except ImportError:
            self._is_broken = True  # it is not installed, and optional
        except Exception as error:  # a display must not end a run of many hours
            self._is_broken = True
            self._report(f"not shown in TensorBoard: {' '.join(str(error).split())[:200]}")

    def close(self) -> None:
        """Flush and close the writer."""
        if self._writer is not None and not self._is_broken:
            self._writer.close()

    def _show(self, row: Mapping[str, Cell]) -> None:
        step = row.get("step")
        if self._writer is None:
            self._writer = _summary_writer(self._folder, step)
        for name, value in row.items():
            if name != "step" and isinstance(value, bool | int | float):
                self._writer.add_scalar(name, float(value), step)


def _summary_writer(folder: Path, step: Cell) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step)
