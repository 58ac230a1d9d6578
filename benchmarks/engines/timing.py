"""Interleaved timing: contestants take turns, so that a busy moment hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

TURN = 0.02
"""Seconds per turn of a fast contestant; calls are repeated to fill it."""
ROUNDS = 9
PATIENCE = 1.5
"""Seconds after which a slow contestant gets no further turn."""


class Times(NamedTuple):
    """Seconds of one call, over a number of turns."""

    median: float
    minimum: float
    turns: int


class _Plan(NamedTuple):
    call: Callable[[], object]
    repeats: int
    turns: int
    samples: list[float]


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, Times]:
    """The times of every call, all of them warmed up before; slow ones take fewer turns, at least one."""
    plans = {name: _plan(call, rounds) for name, call in calls.items()}
    for turn in range(rounds):
        for plan in plans.values():
            if turn < plan.turns:
                plan.samples.append(_seconds(plan.call, plan.repeats))
    return {name: _summary(plan.samples) for name, plan in plans.items()}


def _plan(call: Callable[[], object], rounds: int) -> _Plan:
    """Time one call to see how many fit into a turn; for a slow contestant it is the first turn."""
    once = _seconds(call, 1)
    if once > TURN:
        return _Plan(call, 1, min(rounds, int(PATIENCE / once)), [once])
    return _Plan(call, max(1, int(TURN / max(once, 1e-6))), rounds, [])


def _seconds(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _summary(samples: list[float]) -> Times:
    return Times(statistics.median(samples), min(samples), len(samples))
