"""Answers in files: one that appears when it is complete, or a folder of parts that can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glws._files import FolderLock, make_folder, read_bytes, remove_partial, replacing, write_text
from glws.errors import RunError
from glws.experiment._tables import with_plain_texts

FORMAT = 1
MANIFEST = "_manifest.json"
"""Readers of folders of parquet pass over what begins with an underscore."""
LARGEST = 1 << 26
"""Bytes of a manifest."""


class Written(NamedTuple):
    """What was written: the number of rows, and the names of the columns."""

    rows: int
    columns: tuple[str, ...]


def write_answers(path: Path, tables: Iterable[Any]) -> Written:
    """Writes tables of pyarrow one below the other as a parquet or CSV file, which appears when it is complete."""
    rows, writer, columns = 0, None, tuple[str, ...]()
    with replacing(path) as file, ExitStack() as stack:
        for table in tables:
            plain = table if path.suffix == ".parquet" else with_plain_texts(table)
            if writer is None:
                writer = stack.enter_context(_writer(file, path.suffix, plain.schema))
                columns = tuple(plain.column_names)
            writer.write_table(plain)
            rows += plain.num_rows
        if writer is None:
            raise RunError(f"{path}: there is nothing to write")
    return Written(rows, columns)


def _writer(file: Any, suffix: str, schema: Any) -> Any:
    """Texts are stored once in parquet, and read back as plain texts; each page has a checksum."""
    import pyarrow
    from pyarrow import csv, parquet

    if suffix == ".csv":
        return csv.CSVWriter(file, schema)
    texts = [item.name for item in schema if pyarrow.types.is_dictionary(item.type) or item.type == pyarrow.string()]
    return parquet.ParquetWriter(
        file, schema, use_dictionary=texts, store_schema=False, write_page_checksum=True, write_statistics=True
    )


@dataclass(frozen=True)
class PartFolder:
    """A folder with a parquet file for each piece of a table, and a manifest.

    A part appears when it is complete, so what is there is not answered again: a command that was killed goes on where
    it was, on any machine and in any order. The manifest says what the parts are about; parts of something else, such
    as another run or data that have changed, are refused. At the end it lists all parts.
    """

    path: Path
    num_pieces: int

    @classmethod
    def begin(cls, path: Path, num_pieces: int, about: Mapping[str, Any]) -> PartFolder:
        """A new folder, or one with the same manifest; another one is a `RunError`."""
        make_folder(path)
        remove_partial(path)
        wanted = {"format": FORMAT, **about, "pieces": num_pieces}
        found = _manifest(path)
        if found is None:
            if any(path.glob("part-*")):
                raise RunError(f"{path}: it has parts without {MANIFEST}; choose another folder, or remove it")
            write_text(path / MANIFEST, json.dumps(wanted, indent=2))
        else:
            different = [key for key in wanted if found.get(key) != wanted[key]]
            if different:
                raise RunError(
                    f"{path}: its parts answer something else ({', '.join(different)} differ); choose another folder, "
                    "or remove it"
                )
        return cls(path, num_pieces)

    @property
    def is_finished(self) -> bool:
        """Whether the manifest lists the parts."""
        found = _manifest(self.path)
        return found is not None and "parts" in found

    @property
    def missing(self) -> list[int]:
        """The pieces without a part."""
        there = {path.name for path in self.path.glob("part-*.parquet")}
        return [number for number in range(self.num_pieces) if part_name(number) not in there]

    def has(self, number: int) -> bool:
        """Whether the part of a piece is there."""
        return (self.path / part_name(number)).exists()

    def write(self, number: int, table: Any | None) -> Written:
        """Writes the part of a piece; a piece without any groups has none."""
        return Written(0, ()) if table is None else write_answers(self.path / part_name(number), [table])

    def finish(self) -> Written:
        """Lists the parts in the manifest; returns what they hold."""
        from pyarrow import parquet

        parts, columns = [], tuple[str, ...]()
        for path in sorted(self.path.glob("part-*.parquet")):
            about = parquet.read_metadata(path)
            columns = tuple(about.schema.to_arrow_schema().names)
            parts.append({"file": path.name, "rows": about.num_rows, "bytes": path.stat().st_size})
        manifest = {**(_manifest(self.path) or {}), "columns": list(columns), "parts": parts}
        write_text(self.path / MANIFEST, json.dumps(manifest, indent=2))
        return Written(sum(part["rows"] for part in parts), columns)

    def lock(self) -> FolderLock:
        """The right to write here, for one command at a time."""
        make_folder(self.path)
        return FolderLock(self.path)


def part_name(number: int) -> str:
    """The file of a piece.

    >>> part_name(7)
    'part-000007.parquet'
    """
    return f"part-{number:06}.parquet"


def _manifest(path: Path) -> dict[str, Any] | None:
    if not (path / MANIFEST).exists():
        return None
    try:
        found = json.loads(read_bytes(path / MANIFEST, LARGEST))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RunError(f"{path / MANIFEST}: damaged; remove the folder and begin again")
    return found


def about_file(path: Path, edges: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What a manifest remembers of a file: where it is, its size and time, and where it is cut."""
    state = path.stat()
    cuts = hashlib.sha256(json.dumps([list(edge) for edge in edges]).encode()).hexdigest()
    return {"path": str(path.resolve()), "bytes": state.st_size, "modified_ns": state.st_mtime_ns, "cuts": cuts}
