"""The function called from Python: all blocks of a batch in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from glws.inference._compiled_trellis.backward import backward
from glws.inference._compiled_trellis.block import HUGE, Block, Lanes, Limits, block_at, new_lanes, prepare_work
from glws.inference._compiled_trellis.forward import forward, reach_table, transposition
from glws.inference._compiled_trellis.lanes import Integers, Numbers, kernel, part
from glws.inference._compiled_trellis.machines import Floats, Machines
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import entry_kernel


def _limits(dtype: type[np.floating[Any]], *values: float) -> Limits:
    typed: list[Any] = [dtype(value) for value in (-np.inf, 0.0, 1.0, *values)]
    return Limits(*typed)


# The smallest exponentials are exp(-75) = 2.7e-33 and exp(-600) = 2.65e-261; `emission` lies just above.
LIMITS = {
    np.dtype(np.float32): _limits(np.float32, 1e-30, 3e-33, 1e-36, 1e-7, -60.0),
    np.dtype(np.float64): _limits(np.float64, 1e-280, 3e-261, 1e-300, 1e-13, -500.0),
}

_LN2 = log(2.0)
ALIGNMENT = 64
"""Numbers; whole lines of the cache."""
Solve = Callable[[Numbers, tuple[int, int], Integers, Integers, Integers, Machines, Limits, Floats, Numbers], None]


@kernel
def _is_possible(length: int, stable: int, reached: Integers, final: Numbers) -> bool:
    """Whether some labeling of this length ends in a final state, whatever the predictions."""
    first = min(length, stable) * len(final)
    found = False
    for state in range(len(final)):
        found = found or (reached[first + state] != 0 and final[state] > 0)
    return found


@kernel
def _log_z(lane: int, lanes: Lanes, logs: Floats, limits: Limits) -> float:
    """log Z = log(mantissa · 2^exponent · end) + scales; NaN if it is not reliable.

    That is the case if something overflowed, a weight is too small, or an overestimate is not negligible.
    """
    if lanes.top[lane] == -np.inf:
        return -np.inf
    ends, step, least = logs[0], logs[1], logs[2]
    length, top = lanes.length[lane], lanes.top[lane]
    if not abs(ends) + length * abs(step) + abs(top) < HUGE or least < limits.weight:
        return np.nan
    if not lanes.trouble[lane] <= limits.tolerance:
        return np.nan
    scale: float = log(lanes.mantissa[lane]) + lanes.exponent[lane] * _LN2 + log(lanes.end[lane])
    total: float = scale + ends + length * step + top
    return total


@part
def _solve_block(
    potentials: Numbers, shape: tuple[int, int], machines: Machines, block: Block, work: Numbers, reached: Integers,
    leads: Integers, lanes: Lanes, limits: Limits, log_likelihood: Floats, marginals: Numbers,
) -> None:  # fmt: skip
    size, states, terms = shape[0] * shape[1], block.states, machines.terms
    initial = machines.ends[block.first_end : block.first_end + states]
    final = machines.ends[block.first_end + states : block.first_end + 2 * states]
    stable = reach_table(terms, block.arrivals, states, initial, block.longest, reached)
    settled = reach_table(terms, block.departures, states, final, block.longest, leads)
    ways = transposition(machines.classes[block.first_class : block.first_class + block.used], shape[1], block)
    prepare_work(work, block, limits)
    forward(potentials, shape, ways, machines, reached, stable, block, work, lanes, limits)
    backward(marginals, shape, ways, machines, reached, leads, (stable, settled), block, work, lanes, limits)
    for lane in range(block.groups):
        group, value = lanes.group[lane], -np.inf
        if _is_possible(lanes.length[lane], stable, reached, final):
            value = _log_z(lane, lanes, machines.logs[block.machine], limits)
        log_likelihood[group] = value
        if value == -np.inf:
            marginals[group * size : (group + 1) * size] = limits.zero


def _sources_fingerprint() -> str:
    """A hash of all sources, captured by the entry kernel, so that its disk cache follows every edit."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(numeric.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _entry_point(sources: str) -> Solve:
    @entry_kernel
    def solve(
        potentials: Numbers, shape: tuple[int, int], lengths: Integers, index: Integers, order: Integers,
        machines: Machines, limits: Limits, log_likelihood: Floats, marginals: Numbers,
    ) -> None:  # fmt: skip
        """log Z and q of all groups; log Z is NaN if the result is not reliable."""
        sources  # noqa: B018
        size = table = first = 0
        while first < len(order):
            block = block_at(first, order, index, lengths, machines.numbers)
            size, table = max(size, block.size), max(table, (block.longest + 1) * block.states)
            first += block.groups
        work = np.empty(size + ALIGNMENT, potentials.dtype)
        work = work[-(work.ctypes.data // work.itemsize) % ALIGNMENT :]
        reached, leads = np.empty(table, np.int64), np.empty(table, np.int64)
        first = 0
        while first < len(order):
            block = block_at(first, order, index, lengths, machines.numbers)
            lanes = new_lanes(block, order, lengths)
            _solve_block(
                potentials, shape, machines, block, work, reached, leads, lanes, limits, log_likelihood, marginals
            )
            first += block.groups

    return solve


solve = _entry_point(_sources_fingerprint())
