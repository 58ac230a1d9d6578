"""Rows as tables: for the terminal (rich), and for documents (Markdown)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.engines.contest import BY_HAND, OURS, PARTIAL, PEER, Task
from benchmarks.engines.results import OTHER, RIGHT, WRONG, Row, best_right_library, best_right_peer, leader

if TYPE_CHECKING:
    from rich.table import Table

HEADS = ("median ms", "min ms", "ratio", "peak MB", "built in s", "answer")


def sizes_of(rows: Iterable[Row]) -> list[int]:
    """The sizes, ascending."""
    return sorted({row.size for row in rows})


def rich_table(task: Task, rows: Sequence[Row]) -> Table:
    """All measurements, for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=task.title, title_justify="left", title_style="bold")
    for head in (task.size_word, "contestant", *HEADS):
        table.add_column(head, justify="left" if head in ("contestant", "answer") else "right", no_wrap=True)
    for size in sizes_of(rows):
        for row in (row for row in rows if row.size == size):
            style = "bold" if row.kind == OURS else "red" if row.status == WRONG else ""
            cells = (f"{size:,}", row.contestant, *_cells(row))
            table.add_row(*(Text(cell) for cell in cells), style=style)
        table.add_section()
    return table


def markdown(task: Task, rows: Sequence[Row]) -> str:
    """Contestants down, sizes across: milliseconds and ratio; then peak memory; then the targets."""
    parts = [
        f"**{task.title}.** Median ms (ratio to the first line).",
        _matrix(task, rows, _time_cell),
        "Peak memory of one call, MB:",
        _matrix(task, [row for row in rows if row.peak_mb is not None], _memory_cell),
        *(f"- {line}" for line in verdicts(task, rows)),
    ]
    return _joined(parts)


def verdicts(task: Task, rows: Sequence[Row]) -> list[str]:
    """For each size with peers: the speedup over the best right one, and whether the target is met."""
    if all(row.kind not in (PEER, BY_HAND) for row in rows):
        return []
    return [_verdict(task, size, [row for row in rows if row.size == size]) for size in sizes_of(rows)]


def _verdict(task: Task, size: int, rows: Sequence[Row]) -> str:
    ours, peer, target = leader(rows), best_right_peer(rows), task.targets.get(size)
    if ours is None or peer is None or not ours.median_ms or not peer.median_ms:
        return f"{task.size_word} = {size:,}: no right peer was timed"
    factor = peer.median_ms / ours.median_ms
    aim = "" if target is None else f"; target {target:,g}x, {'met' if factor >= target else 'missed'}"
    line = f"{task.size_word} = {size:,}: {_compared(factor)} than the best right peer ({peer.contestant}){aim}"
    library = best_right_library(rows)
    if library is None or library is peer or not library.median_ms:
        return line
    return f"{line}; {_compared(library.median_ms / ours.median_ms)} than the best right library ({library.contestant})"


def _compared(factor: float) -> str:
    return f"{_number(factor)}x faster" if factor >= 1 else f"{_number(1 / factor)}x slower"


def _cells(row: Row) -> list[str]:
    return [
        _number(row.median_ms),
        _number(row.minimum_ms),
        _number(row.ratio),
        _memory_cell(row),
        "" if row.prepare_s is None else f"{row.prepare_s:.1f}",
        _answer(row),
    ]


def _answer(row: Row) -> str:
    """Whether the answer is right, and its error."""
    if row.status == RIGHT and row.kind == PARTIAL:
        return f"right, {row.kind}"
    if row.status == WRONG:
        return _error(row)
    if row.status in (RIGHT, OTHER):
        return row.status
    return f"{row.status}: {row.note}" if row.note else row.status


def _error(row: Row) -> str:
    worst = max(row.posterior_error or 0.0, row.likelihood_error or 0.0)
    return "wrong: -inf or NaN" if worst == float("inf") else f"wrong by {worst:.1g}"


def _time_cell(row: Row) -> str:
    if row.median_ms is None:
        return f"{row.status}: {row.note}" if row.note else row.status
    ratio = "" if row.ratio is None else f" ({_number(row.ratio)}x)"
    return f"{_number(row.median_ms)}{ratio}" + (f", {_error(row)}" if row.status == WRONG else "")


def _memory_cell(row: Row) -> str:
    return "" if row.peak_mb is None else "< 0.1" if row.peak_mb < 0.1 else _number(row.peak_mb)


def _number(value: float | None) -> str:
    """Three digits, never in exponents."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _matrix(task: Task, rows: Sequence[Row], cell: Callable[[Row], str]) -> str:
    sizes = sizes_of(rows)
    lines = [[task.size_word + " =", *(f"{size:,}" for size in sizes)], ["---", *["---:"] * len(sizes)]]
    for name in dict.fromkeys(row.contestant for row in rows):
        own = {row.size: row for row in rows if row.contestant == name}
        label = name + (f" ({PARTIAL})" if next(iter(own.values())).kind == PARTIAL else "")
        lines.append([label, *(cell(own[size]) if size in own else "" for size in sizes)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _joined(parts: Sequence[str]) -> str:
    """Join parts with blank lines, except between list items."""
    text = parts[0]
    for before, part in pairwise(parts):
        text += ("\n" if before.startswith("- ") and part.startswith("- ") else "\n\n") + part
    return text
