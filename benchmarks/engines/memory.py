"""Peak memory of a call: how far the resident memory of the process rises above what it was before.

Allocators that Python does not see (torch, XLA, numba) are counted too, because the operating system counts. Freed
memory is given back first, so that it is not used again unnoticed. Linux only: elsewhere there is no answer.
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
    """From now on blocks of 64 KiB and more go back to the system when freed. Slows calls down: time them before."""
    try:
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST_MAPPED)
    except (AttributeError, OSError, TypeError):
        return


def peak_bytes(call: Callable[[], object], attempts: int = 4, patience: float = 1.0) -> int | None:
    """What one call needs at its peak, its answer included; None where the system does not say.

    The largest of a few attempts, of one if that takes long: a library may still hold memory of the call before.
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
