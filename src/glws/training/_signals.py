"""Stop signals: the first saves after the step, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """In this context SIGTERM and SIGINT are stored in `received` instead of ending the process.

    The second one ends it, with the exit status of a process killed by it. Outside the main thread, where
    Python allows no handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number
