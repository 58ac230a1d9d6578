"""Observers of a training: a progress bar, a log, TensorBoard, none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from glws._messages import one_line
from glws.training._stored import Cell


class Observer:
    """Receives events of a training and ignores them; subclasses use them."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        pass

    def started(self, step: int, num_steps: int) -> None:
        """Training starts or resumes at `step` of `num_steps`."""

    def stepped(self, step: int) -> None:
        """`step` steps are done."""

    def epoch_ended(self, row: Mapping[str, float | int | str]) -> None:
        """An epoch is over; the row is its line in the log."""

    def warned(self, message: str) -> None:
        """A problem that does not stop training; reported once for consecutive epochs."""


def shown_progress(verbose: bool = True, measure: str = "accuracy", console: Any = None) -> Observer:
    """A progress bar in a terminal or a notebook, lines elsewhere; nothing without `verbose`.

    `measure` is the score of test predictions that is shown, `console` that of rich, by default a new one.
    """
    if not verbose:
        return Observer()
    from rich.console import Console

    from glws.training._progress import watching

    return watching(console or Console(highlight=False, soft_wrap=True), measure)


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
            self._report(f"not shown in TensorBoard: {one_line(error)}")

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
