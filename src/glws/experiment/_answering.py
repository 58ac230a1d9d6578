"""`glws label` and `glws predict`: from a run and data to files of answers, in pieces where the data are large."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from glws._aliases import Report, silent
from glws.data import Description, Table, read_description
from glws.data.tables import TableStream, description_hash, file_hash, open_stream
from glws.errors import DataError, RunError
from glws.experiment._finished_run import FinishedRun, Source
from glws.experiment._labeler import Labeler
from glws.experiment._parts import PartFolder, Written, about_file, write_answers
from glws.experiment._tables import Approximations

Command = Literal["label", "predict"]
FILES = (".parquet", ".csv")
"""What an output file may end in; anything else is a folder of parts."""
Progress = Callable[[int, int, int], None]
"""Called with the rows that were answered before this command began, the rows that are, and all rows."""


def no_progress(before: int, done: int, total: int) -> None:
    """Shows nothing."""


@dataclass(frozen=True, eq=False)
class PieceWorker:
    """Answers for pieces of a stream, written as parts of a folder; processes and clusters call it by number.

    It can be pickled, and the same piece can be asked for again: its part is complete or not there.
    """

    labeler: Labeler
    command: Command
    stream: TableStream
    parts: PartFolder

    def __call__(self, number: int) -> Approximations:
        """Answers one piece and writes its part."""
        return self.write(number, self.stream.table(number))

    def write(self, number: int, table: Table) -> Approximations:
        """Writes the part of a piece that was read."""
        found = answer(self.labeler, self.command, table)
        self.parts.write(number, found)
        return noted(self.command, Approximations(), found)


RunPieces = Callable[[PieceWorker, Sequence[int]], Iterator[tuple[int, Approximations]]]
"""Calls the worker with the number of each piece, in any order and anywhere; yields numbers and notes when done."""


def answer(labeler: Labeler, command: Command, table: Table) -> Any | None:
    """The answers for a table, as a table of pyarrow; None without a group to label."""
    if command == "predict":
        return labeler.predict_table(table)
    return labeler.label_table(table) if table.blocks else None


def noted(command: Command, notes: Approximations, table: Any | None) -> Approximations:
    """The notes with those about another table."""
    if command == "label" and table is not None:
        return notes.add(table)
    notes.rows += 0 if table is None else table.num_rows
    return notes


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a run: predictions or labels for data, and where they go.

    `source` describes the data, as a YAML file or a mapping; None is what the run was trained on. `out` is a file, or a
    folder for parts. `rows_in_piece` is chosen by itself.
    """

    run: FinishedRun
    command: Command
    source: Source
    out: Path
    report: Report = silent
    progress: Progress = no_progress
    rows_in_piece: int | None = None
    notes: Approximations = field(default_factory=Approximations)

    def answer(self, run_pieces: RunPieces | None = None) -> Written:
        """Writes all answers; `run_pieces` calls the worker for these numbers, by default here and one by one."""
        labeler = self.run.labeler(None, self.report)
        stream = self._stream(labeler)
        if stream is None and run_pieces is not None:
            raise RunError("a cluster needs a table that can be read in pieces, and more than one of them")
        written = self._whole(labeler) if stream is None else self._streamed(labeler, stream, run_pieces)
        self.notes.report(self.report)
        shutil.rmtree(self._scratch, ignore_errors=True)
        return written

    @property
    def _is_file(self) -> bool:
        return self.out.suffix in FILES

    @property
    def _scratch(self) -> Path:
        """Where a table is rearranged."""
        return self.out.resolve().parent / f".{self.out.name}.grouped"

    def _about(self) -> Description | None:
        described = self.source or self.run.config.data.table
        return None if described is None else read_description(described)

    def _stream(self, labeler: Labeler) -> TableStream | None:
        about = self._about()
        if about is None:
            return None
        if self.command == "label" and not about.blocks:
            raise DataError(f"{self.source}: it describes no weak labels; glws predict does without them")
        keeps_groups = self.command == "label" or labeler.bags is not None
        stream = open_stream(
            about, self.run.schema, self._scratch, keeps_groups, labeler.allow_code, self.rows_in_piece
        )
        if stream is not None:
            self._check_hash(about)
            if stream.note:
                self.report(stream.note)
        return stream

    def _check_hash(self, about: Description) -> None:
        """Says so if the data that the run was trained on have changed; other data are not read for that."""
        described = self.source or self.run.config.data.table
        if isinstance(described, str | Path) and self.run.is_own(described):
            self.run.on_read(self.report)(str(described), file_hash(about, self.run.schema, self.run.allow_code))

    # ------------------------------------------------------------ at once

    def _whole(self, labeler: Labeler) -> Written:
        ask = self.run.label_table if self.command == "label" else self.run.predict_table
        table = ask(labeler, self.source, self.report)
        noted(self.command, self.notes, table)
        if self._is_file:
            return write_answers(self.out, [table])
        parts = PartFolder(self.out, 1)
        with parts.lock():
            parts = PartFolder.begin(self.out, 1, {"command": self.command, "run": labeler.digest})
            parts.write(0, table)
            return parts.finish()

    # ------------------------------------------------------------ in pieces

    def _streamed(self, labeler: Labeler, stream: TableStream, run_pieces: RunPieces | None) -> Written:
        if self._is_file:
            if run_pieces is not None:
                raise RunError(f"{self.out}: a cluster writes a folder of parts; give --out a name without an ending")
            return write_answers(self.out, self._tables(labeler, stream))
        path = self.out.resolve()  # workers have folders of their own
        stream = replace(stream, about=replace(stream.about, data=stream.about.data.resolve()))
        with PartFolder(path, 0).lock():
            data = about_file(stream.about.data, stream.pieces)
            said = description_hash(stream.about, ())
            about = {"command": self.command, "run": labeler.digest, "description": said, "data": data}
            parts = PartFolder.begin(path, len(stream.pieces), about)
            if not parts.is_finished:
                self._write_parts(PieceWorker(labeler, self.command, stream, parts), run_pieces or one_by_one)
            return parts.finish()

    def _tables(self, labeler: Labeler, stream: TableStream) -> Iterator[Any]:
        for number, table in stream.tables(range(len(stream.pieces))):
            found = answer(labeler, self.command, table)
            noted(self.command, self.notes, found)
            if found is not None:
                yield found
            self.progress(0, stream.pieces[number].last, stream.num_rows)

    def _write_parts(self, worker: PieceWorker, run_pieces: RunPieces) -> None:
        missing, pieces = worker.parts.missing, worker.stream.pieces
        before = worker.stream.num_rows - sum(pieces[number].last - pieces[number].first for number in missing)
        done = before
        if before:
            self.report(f"{worker.parts.path}: going on; {before:,} of {worker.stream.num_rows:,} rows are there")
        for number, notes in run_pieces(worker, missing):
            self.notes.merge(notes)
            if notes.rows and not worker.parts.has(number):
                raise RunError(f"{self.out}: a worker wrote a part elsewhere; use a folder that all machines share")
            done += pieces[number].last - pieces[number].first
            self.progress(before, done, worker.stream.num_rows)


def one_by_one(worker: PieceWorker, numbers: Sequence[int]) -> Iterator[tuple[int, Approximations]]:
    """Every piece in this process, in one pass over the file."""
    for number, table in worker.stream.tables(numbers):
        yield number, worker.write(number, table)
