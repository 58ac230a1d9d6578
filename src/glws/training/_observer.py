"""Observers of a training: a progress bar, a log, none."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType


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
