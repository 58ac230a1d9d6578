"""Somebody who watches a training: a progress bar, a log, nobody."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType


class Observer:
    """Is told how training goes, and does nothing about it; those who do, do it in a child."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def started(self, step: int, num_steps: int) -> None:
        """Training begins, or goes on, at this step of so many."""

    def stepped(self, step: int) -> None:
        """So many steps are done."""

    def epoch_ended(self, row: Mapping[str, float | int | str]) -> None:
        """An epoch is over; the row is what the log says of it."""

    def warned(self, message: str) -> None:
        """Something is wrong, though training goes on; said once for epochs that follow each other."""
