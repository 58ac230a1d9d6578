"""How many rows have been answered, and an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

QUIET_SECONDS = 2.0
"""Nothing is said about shorter work."""


@contextmanager
def watching_rows() -> Iterator[Callable[[int, int, int], None]]:
    """A bar for rows, or a line on stderr for each tenth of them, with an estimate of the time left."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began, shown = time.monotonic(), [0]

    def line(before: int, done: int, total: int) -> None:
        due, seconds = 10 * done // max(total, 1), time.monotonic() - began
        if due > shown[0] and seconds > QUIET_SECONDS and done < total:
            shown[0] = due
            rate = (done - before) / seconds
            left = f"{rate:,.0f} rows/s, {(total - done) / rate:,.0f} s left"
            console.print(f"{done:,} of {total:,} rows, {left}", markup=False)

    if not console.is_terminal:
        yield line
        return
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda before, done, total: bar.update(task, completed=done, total=total, visible=True)
