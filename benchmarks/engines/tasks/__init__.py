"""The tasks of the benchmark, by name."""

from __future__ import annotations

from benchmarks.engines.contest import Task
from benchmarks.engines.tasks.counts import BATCH, COUNTS, LONG
from benchmarks.engines.tasks.pairs import PAIRS
from benchmarks.engines.tasks.trellis import TRELLIS

TASKS: dict[str, Task] = {task.name: task for task in (COUNTS, BATCH, LONG, TRELLIS, PAIRS)}

FAMILIES: dict[str, tuple[str, ...]] = {
    "counts": ("counts", "batch", "long"),
    "trellis": ("trellis",),
    "pairs": ("pairs",),
    "all": tuple(TASKS),
}
"""The task names of the command; each is one or several tables."""
