"""Counts on the CPU, compiled: one call solves a whole batch of problems on one thread.

Importing this package imports numba; nothing outside does so at import time.
"""

from __future__ import annotations

from collections.abc import Callable

from glws.inference._counts.compiled.interval import interval_batch
from glws.inference._counts.compiled.numeric import Integers, Vector, entry_kernel, sources_fingerprint
from glws.inference._counts.compiled.weighted import weighted_batch

IntervalBatch = Callable[[Vector, Vector, Integers, Integers, Integers, Integers, int, Vector, Vector], None]
WeightedBatch = Callable[[Vector, Vector, Integers, Integers, Vector, int, Vector, Vector], None]


def _entry_points(sources: str) -> tuple[IntervalBatch, WeightedBatch]:
    """The two functions called from Python; they capture `sources` so that the disk cache follows every edit."""

    @entry_kernel
    def intervals(
        log_zero: Vector,
        log_one: Vector,
        starts: Integers,
        lengths: Integers,
        low: Integers,
        high: Integers,
        short: int,
        log_likelihood: Vector,
        marginals: Vector,
    ) -> None:
        sources  # noqa: B018
        interval_batch(log_zero, log_one, starts, lengths, low, high, short, log_likelihood, marginals)

    @entry_kernel
    def weighted(
        log_zero: Vector,
        log_one: Vector,
        starts: Integers,
        lengths: Integers,
        log_weights: Vector,
        short: int,
        log_likelihood: Vector,
        marginals: Vector,
    ) -> None:
        sources  # noqa: B018
        weighted_batch(log_zero, log_one, starts, lengths, log_weights, short, log_likelihood, marginals)

    return intervals, weighted


intervals, weighted = _entry_points(sources_fingerprint())

__all__ = ["intervals", "weighted"]
