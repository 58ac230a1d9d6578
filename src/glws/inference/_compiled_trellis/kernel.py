"""Forward and backward over the living arcs of a group, or of many groups side by side.

Everything is written for a number of lanes: see `vectors`. Positions in the work array are counted in lanes. `memory`
has the layout, `emissions` what is read and written, `steps` the recursion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glws.inference._compiled_trellis.emissions import HUGE, emissions, load_chunk, store_chunk, sums
from glws.inference._compiled_trellis.exponential import kernel
from glws.inference._compiled_trellis.memory import (
    LIMITS,
    Floats,
    Integers,
    Lanes,
    Limits,
    Numbers,
    Places,
    Plan,
    clear,
    new_lanes,
    places_of,
    plan_at,
)
from glws.inference._compiled_trellis.steps import (
    back,
    begin,
    end_lanes,
    finish,
    multiply_scales,
    onward,
    posteriors,
)
from glws.inference._compiled_trellis.tiles import EIGHT
from glws.inference._compiled_trellis.vectors import eight, if_larger, lanes_of, load, many, spread, store
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import entry_kernel

__all__ = ["LIMITS", "solve"]

_LN2 = log(2.0)


@kernel
def log_z(lane: int, logs: Floats, lanes: Lanes, limits: Limits) -> float:
    """log Z; NaN if it is not reliable: something overflowed, a weight is too small, or an overestimate matters."""
    if lanes.top[lane] == -np.inf or lanes.end[lane] < 0:
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


@kernel
def forward(
    potentials: Numbers, places: Places, longest: int, groups: int, plan: Plan, work: Numbers, lanes: Lanes,
    limits: Limits, like: Any,
) -> None:  # fmt: skip
    """α of all steps; emissions are kept for the backward pass."""
    width = lanes_of(like)
    begin(plan, work, limits, like)
    for first in range(0, longest, places.per_chunk):
        steps = min(places.per_chunk, longest - first)
        load_chunk(potentials, places, first, steps, plan, work, lanes, groups, width)
        emissions(first, steps, plan, work, lanes, limits, like)
        for step in range(first, first + steps):
            sums(step, plan, work, like)
            onward(step, plan, work, limits, like)
    finish(plan, work, lanes, groups, width, limits)
    multiply_scales(longest, plan, work, lanes, width)


@kernel
def backward(
    marginals: Numbers, places: Places, longest: int, groups: int, plan: Plan, work: Numbers, lanes: Lanes,
    limits: Limits, like: Any,
) -> None:  # fmt: skip
    """β, posteriors, and what overestimates may have added."""
    width, trouble = lanes_of(like), like
    last = plan.betas + longest % 2 * plan.widest
    clear(last, last + plan.widest, work, like)
    store(work, (plan.beta_scales + longest % 2) * width, spread(limits.one, like))
    lane = end_lanes(longest, groups - 1, plan, work, lanes, width)
    for place in range(width):
        work[plan.lengths * width + place] = lanes.length[place]
    length = load(work, plan.lengths * width, like)
    for first in range((longest - 1) // places.per_chunk * places.per_chunk, -1, -places.per_chunk):
        steps = min(places.per_chunk, longest - first)
        for step in range(first + steps - 1, first - 1, -1):
            back(step, plan, work, limits, like)
            added = posteriors(step, plan, work, limits, like)
            trouble = trouble + if_larger(length, spread(limits.one * step, like), added, like)
            lane = end_lanes(step, lane, plan, work, lanes, width)
        store_chunk(marginals, places, first, steps, plan, work, lanes, groups, width)
    store(work, plan.tops * width, trouble)
    for place in range(groups):
        lanes.trouble[place] += work[plan.tops * width + place]


class Answers(NamedTuple):
    """Of all groups; `logs` are those of the plan."""

    logs: Floats
    log_likelihood: Floats
    marginals: Numbers


@kernel
def solve_block(
    potentials: Numbers, size: int, plan: Plan, lanes: Lanes, groups: int, work: Numbers, limits: Limits, out: Answers,
    like: Any,
) -> None:  # fmt: skip
    """log Z and q of the groups of a block."""
    longest, places = lanes.length[groups - 1], places_of(size, plan, lanes, lanes_of(like))
    forward(potentials, places, longest, groups, plan, work, lanes, limits, like)
    backward(out.marginals, places, longest, groups, plan, work, lanes, limits, like)
    for lane in range(groups):
        value = log_z(lane, out.logs, lanes, limits)
        out.log_likelihood[lanes.group[lane]] = value
        if value == -np.inf:
            first = places.starts[lane]
            out.marginals[first : first + lanes.length[lane] * plan.classes] = limits.zero


def _sources_fingerprint() -> str:
    """A hash of all sources, captured by the entry kernel, so that its disk cache follows every edit."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(numeric.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


FIRST, GROUPS, WIDTH, NUMBER, PLAN, REALS, LONGEST = range(7)
"""A block: its groups order[FIRST : FIRST + GROUPS], the lanes, its plan and where that begins, its longest group."""
ALIGNMENT = 64
"""Numbers; whole lines of the cache."""


def _entry_point(sources: str) -> Callable[..., None]:
    @entry_kernel
    def solve(
        potentials: Numbers, shape: tuple[int, int], lengths: Integers, order: Integers, blocks: Integers,
        numbers: Integers, reals: Numbers, logs: Floats, limits: Limits, log_likelihood: Floats, marginals: Numbers,
    ) -> None:  # fmt: skip
        """log Z and q of all groups; log Z is NaN if the result is not reliable."""
        sources  # noqa: B018
        size = 0
        for block in blocks:
            plan = plan_at(numbers[block[PLAN] :], reals[block[REALS] :], block[LONGEST], shape[1])
            size = max(size, plan.size * block[WIDTH])
        work = np.empty(size + ALIGNMENT, potentials.dtype)
        work = work[-(work.ctypes.data // work.itemsize) % ALIGNMENT :]
        for block in blocks:
            plan = plan_at(numbers[block[PLAN] :], reals[block[REALS] :], block[LONGEST], shape[1])
            groups = order[block[FIRST] : block[FIRST] + block[GROUPS]]
            lanes, size = new_lanes(groups, lengths, block[WIDTH]), shape[0] * shape[1]
            out = Answers(logs[block[NUMBER]], log_likelihood, marginals)
            if block[WIDTH] == 1:
                solve_block(potentials, size, plan, lanes, len(groups), work, limits, out, limits.zero)
            elif block[WIDTH] == EIGHT:
                solve_block(potentials, size, plan, lanes, len(groups), work, limits, out, eight(limits.zero))
            else:
                solve_block(potentials, size, plan, lanes, len(groups), work, limits, out, many(limits.zero))

    return solve


solve = _entry_point(_sources_fingerprint())
