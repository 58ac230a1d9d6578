"""What the kernel works on: thresholds, a plan, the groups of a block in lanes, and places in the work array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glws.inference._compiled_trellis.exponential import kernel
from glws.inference._compiled_trellis.plan import MOST_SUMS, PLACES, SET_BOUNDS, SETS, WIDEST
from glws.inference._compiled_trellis.vectors import item, lanes_of, store

Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CHUNK = 4096
"""Numbers of a chunk of emissions, approximately, which are exponentiated together: few enough for the cache."""


class Limits(NamedTuple):
    """Thresholds in the type of the kernel.

    floor:     added to every living state
    emission:  exponentials up to this one may be overestimates
    norm:      posteriors with a smaller sum are not computed
    tiny:      smaller posteriors are 0
    tolerance: of a group's overestimates, relative to its Z; above it the group is left to a wider kernel
    weight:    automata with a smaller log-weight are left to a wider kernel
    """

    zero: float
    one: float
    least: float
    floor: float
    emission: float
    norm: float
    tiny: float
    tolerance: float
    weight: float


def _limits(dtype: type[np.floating[Any]], *values: float) -> Limits:
    typed: list[Any] = [dtype(value) for value in (0.0, 1.0, -np.inf, *values)]
    return Limits(*typed)


# The smallest exponentials are exp(-75) = 2.7e-33 and exp(-600) = 2.65e-261; `emission` lies just above.
LIMITS = {
    np.dtype(np.float32): _limits(np.float32, 1e-30, 3e-33, 1e-36, 1e-20, 1e-7, -60.0),
    np.dtype(np.float64): _limits(np.float64, 1e-280, 3e-261, 1e-300, 1e-200, 1e-13, -500.0),
}


class Plan(NamedTuple):
    """A plan (see `plan`), and what follows the α in the work array: its rows of lanes.

    emissions: all classes and sums of each step; scales: c of each step; betas: of two steps; beta_scales: d of those;
    gains: of the rows of one step
    """

    numbers: Integers
    reals: Numbers
    classes: int
    rows: int
    widest: int
    emissions: int
    scales: int
    betas: int
    beta_scales: int
    gains: int
    tops: int
    lengths: int
    size: int


@kernel
def plan_at(numbers: Integers, reals: Numbers, length: int, classes: int) -> Plan:
    """A plan for groups of up to this length."""
    rows, widest = classes + numbers[MOST_SUMS], numbers[WIDEST]
    emissions = numbers[numbers[PLACES] + length + 1]
    scales = emissions + length * rows
    betas = scales + length + 1
    beta_scales = betas + 2 * widest
    gains = beta_scales + 2
    tops = gains + rows
    return Plan(
        numbers, reals, classes, rows, widest, emissions, scales, betas, beta_scales, gains, tops, tops + 1, tops + 2
    )


@kernel
def number_at(plan: Plan, field: int, index: int) -> int:
    """A number of one of the lists of integers."""
    number: int = item(plan.numbers, item(plan.numbers, field) + index)
    return number


@kernel
def weight_at(plan: Plan, field: int, index: int) -> float:
    """A number of one of the lists of weights."""
    number: float = item(plan.reals, item(plan.numbers, field) + index)
    return number


@kernel
def num_alive(step: int, plan: Plan) -> int:
    """Number of living states."""
    number = number_at(plan, SETS, step)
    size: int = number_at(plan, SET_BOUNDS, number + 1) - number_at(plan, SET_BOUNDS, number)
    return size


@kernel
def clear(first: int, last: int, work: Numbers, like: Any) -> None:
    """Zeros in these rows."""
    for row in range(first, last):
        store(work, row * lanes_of(like), like)


class Lanes(NamedTuple):
    """One number for each group of the block; lanes without a group have length 0 and come last.

    Z = mantissa * 2^exponent * end * exp(top + ...); trouble is the share of Z that may be overestimated.
    """

    group: Integers
    length: Integers
    exponent: Integers
    mantissa: Floats
    top: Floats
    end: Floats
    trouble: Floats


class Places(NamedTuple):
    """How the numbers of a group are spread over the lanes.

    per_chunk: steps of a chunk; place: of each number of a chunk, in the rows; starts: of each group, in the potentials
    """

    per_chunk: int
    place: Integers
    starts: Integers


@kernel
def new_lanes(groups: Integers, lengths: Integers, width: int) -> Lanes:
    """The groups of a block."""
    whole, real = np.zeros((3, width), np.int64), np.zeros((4, width))
    group, length = whole[0], whole[1]
    for lane in range(len(groups)):
        group[lane], length[lane] = groups[lane], lengths[groups[lane]]
    real[0] = 1.0
    return Lanes(group, length, whole[2], real[0], real[1], real[2], real[3])


@kernel
def places_of(size: int, plan: Plan, lanes: Lanes, width: int) -> Places:
    """The places of the groups of a block, each of `size` numbers."""
    per_chunk = max(1, CHUNK // (plan.rows * width))
    place = np.empty(per_chunk * plan.classes, np.int64)
    for i in range(len(place)):
        place[i] = (i // plan.classes * plan.rows + i % plan.classes) * width
    return Places(per_chunk, place, lanes.group * size)
