"""The rows of a benchmark, and their CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from benchmarks.engines.contest import BY_HAND, OURS, PEER

RIGHT, WRONG, OTHER, SKIPPED, MISSING, FAILED = "right", "wrong", "other function", "skipped", "not installed", "failed"


@dataclass(frozen=True)
class Row:
    """One contestant at one size of one task; None for what was not measured.

    ratio:              its median divided by that of the first contestant, in the same run.
    peak_mb:            rise of resident memory during one call, in units of 1e6 bytes.
    prepare_s:          one-time cost: building a circuit, compiling.
    likelihood_error, posterior_error: against the reference, relative and absolute.
    """

    task: str
    size: int
    contestant: str
    kind: str
    status: str
    median_ms: float | None = None
    minimum_ms: float | None = None
    turns: int | None = None
    ratio: float | None = None
    peak_mb: float | None = None
    prepare_s: float | None = None
    likelihood_error: float | None = None
    posterior_error: float | None = None
    note: str = ""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        """A row from its dictionary."""
        return cls(**{field.name: record[field.name] for field in fields(cls) if field.name in record})

    @property
    def record(self) -> dict[str, Any]:
        """The row as a dictionary."""
        return asdict(self)


def best_right_peer(rows: Iterable[Row]) -> Row | None:
    """The fastest right peer with a whole answer: a library, or written by hand."""
    return _fastest_right(row for row in rows if row.kind in (PEER, BY_HAND))


def best_right_library(rows: Iterable[Row]) -> Row | None:
    """The same among libraries only."""
    return _fastest_right(row for row in rows if row.kind == PEER)


def _fastest_right(rows: Iterable[Row]) -> Row | None:
    timed = [row for row in rows if row.status == RIGHT and row.median_ms is not None]
    return min(timed, key=lambda row: row.median_ms or 0.0, default=None)


def leader(rows: Sequence[Row]) -> Row | None:
    """The first contestant; ratios are to its time."""
    return next((row for row in rows if row.kind == OURS and row.median_ms is not None), None)


def to_csv(rows: Iterable[Row]) -> str:
    """One line for each row, under the names of its fields."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.record.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
