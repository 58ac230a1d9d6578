"""Run a task: for each size, build, check and time every contestant, then measure memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from benchmarks.engines import memory
from benchmarks.engines.checking import Errors, errors
from benchmarks.engines.contest import OURS, YARDSTICK, Answer, Call, Contestant, Task
from benchmarks.engines.results import FAILED, MISSING, OTHER, RIGHT, SKIPPED, WRONG, Row
from benchmarks.engines.timing import ROUNDS, interleaved

CAP = 20.0
"""Seconds; calls or constructions that are expected to take longer are skipped."""
WRONG_CAP = 1.0
"""The same for a contestant that was wrong at a smaller size."""
MEMORY_CAP = 4.0
"""Gigabytes."""


class _Last(NamedTuple):
    """Measurements of a contestant at the largest size so far."""

    size: int
    seconds: float
    prepare_seconds: float
    is_wrong: bool


@dataclass
class Run:
    """A run of one task at ascending sizes; keeps the times for extrapolation."""

    task: Task
    cap: float = CAP
    rounds: int = ROUNDS
    say: Callable[[str], None] = print
    _last: dict[str, _Last] = field(default_factory=dict)
    _calls: dict[tuple[str, int], Call] = field(default_factory=dict)

    def all_sizes(self, sizes: Sequence[int]) -> list[Row]:
        """The rows of all sizes; memory is measured last, since that changes allocation."""
        rows = [row for size in sorted(set(sizes)) for row in self._one_size(size)]
        self.say(f"{self.task.title}: memory")
        memory.give_back_early()
        return [self._weighed(row) for row in rows]

    def _weighed(self, row: Row) -> Row:
        call = self._calls.get((row.contestant, row.size))
        peak = None if call is None else memory.peak_bytes(call)
        return row if peak is None else replace(row, peak_mb=peak / 1e6)

    def _one_size(self, size: int) -> list[Row]:
        self.say(f"{self.task.title}: {self.task.size_word} = {size:,}")
        inputs = self.task.inputs(size)
        reference = self.task.reference(inputs)
        rows, calls = {}, {}
        for contestant in self.task.contestants:
            row, call = self._prepared(contestant, size, inputs, reference)
            rows[contestant.name] = row
            if call is not None:
                calls[contestant.name] = self._calls[contestant.name, size] = call
        for name, times in interleaved(calls, self.rounds).items():
            row = rows[name]
            rows[name] = replace(row, median_ms=1e3 * times.median, minimum_ms=1e3 * times.minimum, turns=times.turns)
            self._last[name] = _Last(size, times.median, row.prepare_s or 0.0, row.status == WRONG)
        return _with_ratios(self.task.contestants[0].name, rows)

    def _prepared(self, contestant: Contestant, size: int, inputs: Any, reference: Answer) -> tuple[Row, Call | None]:
        """Build, call once and check a contestant; or a row with the reason for skipping it."""
        row = Row(self.task.name, size, contestant.name, contestant.kind, MISSING)
        if contestant.missing:
            return replace(row, note="needs " + ", ".join(contestant.missing)), None
        try:
            reason = self._too_much(contestant, size)
            if reason:
                return replace(row, status=SKIPPED, note=reason), None
            start = time.perf_counter()
            call = contestant.build(inputs)
            answer = call()
        except Exception as error:  # a peer that breaks is a result, not the end of the run
            if contestant.kind == OURS:
                raise
            return replace(row, status=FAILED, note=f"{type(error).__name__}: {error}"[:120]), None
        return _checked(replace(row, prepare_s=time.perf_counter() - start), answer, reference), call

    def _too_much(self, contestant: Contestant, size: int) -> str:
        """Why a contestant is skipped at this size; empty if it is not."""
        if contestant.gigabytes(size) > MEMORY_CAP:
            return f"needs about {contestant.gigabytes(size):,.0f} GB"
        self._climb(contestant, size)
        expected, preparing = self._expected(contestant, size)
        known = self._last.get(contestant.name)
        if known is not None and known.is_wrong and expected > min(self.cap, WRONG_CAP):
            return f"wrong at {known.size:,} already"
        if preparing > self.cap:
            return f"about {preparing:,.0f} s of building expected"
        return f"about {expected:,.0f} s expected" if expected > self.cap else ""

    def _expected(self, contestant: Contestant, size: int) -> tuple[float, float]:
        """Expected seconds of a call, and of its construction."""
        known = self._last.get(contestant.name)
        if known is None:
            return 0.0, 0.0
        ratio = size / known.size
        return known.seconds * ratio**contestant.growth, known.prepare_seconds * ratio**contestant.build_growth

    def _climb(self, contestant: Contestant, size: int) -> None:
        """Time smaller sizes first, to extrapolate to this one."""
        if contestant.kind == OURS or contestant.name in self._last:
            return
        for smaller in sorted(self.task.sizes):
            if smaller < size and max(self._expected(contestant, smaller)) < self.cap:
                start = time.perf_counter()
                call = contestant.build(self.task.inputs(smaller))
                call()
                built = time.perf_counter()
                call()
                self._last[contestant.name] = _Last(smaller, time.perf_counter() - built, built - start, False)


def _checked(row: Row, answer: Answer, reference: Answer) -> Row:
    if row.kind == YARDSTICK:
        return replace(row, status=OTHER)
    found: Errors = errors(answer, reference)
    status = RIGHT if found.is_right else WRONG
    return replace(row, status=status, likelihood_error=found.likelihood, posterior_error=found.posterior)


def _with_ratios(first: str, rows: dict[str, Row]) -> list[Row]:
    base = rows[first].median_ms
    return [
        row if row.median_ms is None or base is None else replace(row, ratio=row.median_ms / base)
        for row in rows.values()
    ]
