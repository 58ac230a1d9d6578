"""Emissions: predictions from the order of groups to that of lanes, their exponentials and sums; posteriors back."""

from __future__ import annotations

from typing import Any

import numpy as np

from glws.inference._compiled_trellis.exponential import exp_of_negative, kernel
from glws.inference._compiled_trellis.memory import (
    Lanes,
    Limits,
    Numbers,
    Places,
    Plan,
    number_at,
    weight_at,
)
from glws.inference._compiled_trellis.plan import ALLOWED, LAYERS, MEMBER_BOUNDS, MEMBERS, SHARES, SUM_BOUNDS
from glws.inference._compiled_trellis.tiles import EIGHT, turn
from glws.inference._compiled_trellis.vectors import lanes_of, larger, load, spread, store

HUGE = 1e300
"""Larger sums of potentials or log-weights may overflow; the plain trellis solves such groups."""


@kernel
def common_numbers(first: int, begin: int, steps: int, plan: Plan, lanes: Lanes, groups: int) -> int:
    """How many numbers all eight lanes from here have in these steps; 0 if they are too few."""
    if first + EIGHT > groups:
        return 0
    count = max(min(steps, lanes.length[first] - begin), 0) * plan.classes
    return count if count >= EIGHT else 0


@kernel
def load_chunk(
    potentials: Numbers, places: Places, begin: int, steps: int, plan: Plan, work: Numbers, lanes: Lanes, groups: int,
    width: int,
) -> None:  # fmt: skip
    """The potentials of these steps, from the order of groups to that of lanes; 0 in padding."""
    target, shift = (plan.emissions + begin * plan.rows) * width, begin * plan.classes
    if groups < width or lanes.length[0] < begin + steps:
        work[target : target + steps * plan.rows * width] = 0
    for first in range(0, groups, EIGHT):
        common = common_numbers(first, begin, steps, plan, lanes, groups)
        for i in range(0, common, EIGHT):
            near = min(i, common - EIGHT)
            turn(work, places.place, near, target + first, potentials, places.starts, first, shift + near)
        for lane in range(first, min(first + EIGHT, groups)):
            source = places.starts[lane] + shift
            for i in range(common, min(steps, lanes.length[lane] - begin) * plan.classes):
                work[target + lane + places.place[i]] = potentials[source + i]


@kernel
def store_chunk(
    marginals: Numbers, places: Places, begin: int, steps: int, plan: Plan, work: Numbers, lanes: Lanes, groups: int,
    width: int,
) -> None:  # fmt: skip
    """The posteriors of these steps, back to the order of groups."""
    source, shift = (plan.emissions + begin * plan.rows) * width, begin * plan.classes
    for first in range(0, groups, EIGHT):
        common = common_numbers(first, begin, steps, plan, lanes, groups)
        for i in range(0, common, EIGHT):
            near = min(i, common - EIGHT)
            turn(marginals, places.starts, first, shift + near, work, places.place, near, source + first)
        for lane in range(first, min(first + EIGHT, groups)):
            target = places.starts[lane] + shift
            for i in range(common, min(steps, lanes.length[lane] - begin) * plan.classes):
                marginals[target + i] = work[source + lane + places.place[i]]


@kernel
def emissions(begin: int, steps: int, plan: Plan, work: Numbers, lanes: Lanes, limits: Limits, like: Any) -> None:
    """e_t(k) = exp(phi_t(k) - top_t) with top_t the largest of the classes that an arc has; 0 for the others."""
    width = lanes_of(like)
    for step in range(begin, begin + steps):
        rows = (plan.emissions + step * plan.rows) * width
        allowed = number_at(plan, LAYERS, step) * plan.classes
        top = spread(limits.least, like)
        for label in range(plan.classes):
            if number_at(plan, ALLOWED, allowed + label):
                top = larger(load(work, rows + label * width, like), top)
        for label in range(plan.classes):
            value = spread(limits.least, like)
            if number_at(plan, ALLOWED, allowed + label):
                value = load(work, rows + label * width, like) - top
            store(work, rows + label * width, value)
        store(work, plan.tops * width, top)
        for lane in range(width):
            value = np.float64(work[plan.tops * width + lane])
            value = value if value == -np.inf or abs(value) < HUGE else np.nan
            lanes.top[lane] += value if step < lanes.length[lane] else 0.0
    if plan.rows == plan.classes:
        exponentials(work, (plan.emissions + begin * plan.rows) * width, steps * plan.rows * width, limits)
    else:
        for step in range(begin, begin + steps):
            exponentials(work, (plan.emissions + step * plan.rows) * width, plan.classes * width, limits)


@kernel
def exponentials(work: Numbers, first: int, count: int, limits: Limits) -> None:
    """exp, and 0 for -inf."""
    values = work[first : first + count]
    for i in range(count):
        power = exp_of_negative(values[i])
        values[i] = power if values[i] > -np.inf else limits.zero


@kernel
def sums(step: int, plan: Plan, work: Numbers, like: Any) -> None:
    """The rows of the sums of classes."""
    width, layer = lanes_of(like), number_at(plan, LAYERS, step)
    rows = (plan.emissions + step * plan.rows) * width
    first = number_at(plan, SUM_BOUNDS, layer)
    for number in range(first, number_at(plan, SUM_BOUNDS, layer + 1)):
        total = like
        for member in range(number_at(plan, MEMBER_BOUNDS, number), number_at(plan, MEMBER_BOUNDS, number + 1)):
            total = total + load(work, rows + number_at(plan, MEMBERS, member) * width, like) * weight_at(
                plan, SHARES, member
            )
        store(work, rows + (plan.classes + number - first) * width, total)
