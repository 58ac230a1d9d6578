"""The tasks of the benchmark, by name."""

from __future__ import annotations

from glws.bench.contest import Task
from glws.bench.tasks.counts import BATCH, COUNTS, LONG
from glws.bench.tasks.pairs import PAIRS
from glws.bench.tasks.trellis import TRELLIS

TASKS: dict[str, Task] = {task.name: task for task in (COUNTS, BATCH, LONG, TRELLIS, PAIRS)}

FAMILIES: dict[str, tuple[str, ...]] = {
    "counts": ("counts", "batch", "long"),
    "trellis": ("trellis",),
    "pairs": ("pairs",),
    "all": tuple(TASKS),
}
"""What the command calls a task: one or several tables."""
