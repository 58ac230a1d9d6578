"""A progress bar for training, where somebody is looking; a line for each tenth of the way where nobody is."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from glws.training._observer import Observer


def watching(console: Console, measure: str = "accuracy") -> Observer:
    """An observer for this console; `measure` is what test predictions are judged by."""
    return Bar(console, measure) if console.is_terminal else Lines(console, measure)


def summary(row: Mapping[str, Any], measure: str) -> str:
    """What an epoch or a candidate came to, in a few numbers."""
    if row.get("score") is not None:
        return f"{row['candidate']}: held-out score {row['score']:.4f}"
    bags = ("test_bag_accuracy", "test_bag_auc", "held_out_bag_accuracy")
    shown = ("loss", f"test_{measure}", "held_out_log_likelihood", *bags)
    return "  ".join(f"{name.replace('_', ' ')} {row[name]:.4g}" for name in shown if name in row)


def _place(row: Mapping[str, Any]) -> str:
    """Which epoch, or which of the models that are tried."""
    if row.get("candidate") == "mixture":
        return "mixture"
    return f"{'candidate' if 'candidate' in row else 'epoch'} {row['epoch']}"


class Bar(Observer):
    """A bar with the numbers of the last epoch beside it."""

    def __init__(self, console: Console, measure: str) -> None:
        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._console, self._measure = console, measure
        self._progress = Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def started(self, step: int, num_steps: int) -> None:
        """The bar appears."""
        self._task = self._progress.add_task("", total=num_steps, completed=step)

    def stepped(self, step: int) -> None:
        """The bar moves."""
        self._progress.update(self._task, completed=step)

    def epoch_ended(self, row: Mapping[str, float | int | str]) -> None:
        """The numbers change."""
        name = f"{_place(row)}  {summary(row, self._measure)}"
        self._progress.update(self._task, description=name)

    def warned(self, message: str) -> None:
        """A line above the bar."""
        self._console.print(f"warning: {message}", style="yellow", markup=False)


class Lines(Observer):
    """A line at the end of about every tenth of training, for logs."""

    def __init__(self, console: Console, measure: str) -> None:
        self._console, self._measure, self._num_steps, self._told = console, measure, 1, 0

    def started(self, step: int, num_steps: int) -> None:
        """Where it starts decides when the next line is due."""
        self._num_steps, self._told = num_steps, 10 * step // max(num_steps, 1)

    def epoch_ended(self, row: Mapping[str, float | int | str]) -> None:
        """A line, if it is time for one."""
        due = 10 * int(row["step"]) // max(self._num_steps, 1)
        if due > self._told or "candidate" in row:
            self._told = due
            self._console.print(f"{_place(row)}: {summary(row, self._measure)}", markup=False)

    def warned(self, message: str) -> None:
        """A line."""
        self._console.print(f"warning: {message}", markup=False)
