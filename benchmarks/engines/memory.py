"""Peak memory of a call: the increase of the resident memory of the process.

The operating system measures, so all allocators are covered (torch, XLA, numba). Freed memory is returned to the system
first, so that it is not reused without being counted. Linux only; None elsewhere.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MMAP_THRESHOLD, SMALLEST_MAPPED = -3, 1 << 16


def give_back_early() -> None:
    """Return blocks of 64 KiB and more to the system when freed. This slows calls: time them before."""
    try:
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST_MAPPED)
    except (AttributeError, OSError, TypeError):
        return


def peak_bytes(call: Callable[[], object], attempts: int = 4, patience: float = 1.0) -> int | None:
    """Peak memory of one call, including its answer; None if the system does not report it.

    The largest of a few attempts (one if slow): a library may still hold memory of the previous call.
    """
    gc.collect()
    peaks: list[int] = []
    start = time.perf_counter()
    while len(peaks) < attempts and (not peaks or time.perf_counter() - start < patience):
        peak = _rise(call)
        if peak is None:
            return None
        peaks.append(peak)
    return max(peaks)


def _rise(call: Callable[[], object]) -> int | None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
        RESET.write_text("5")  # the high-water mark starts again from here
        before = _kilobytes("VmRSS")
        call()
        return max(0, _kilobytes("VmHWM") - before) * 1024
    except (AttributeError, OSError, TypeError, StopIteration):
        return None


def _kilobytes(entry: str) -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(entry + ":"))
