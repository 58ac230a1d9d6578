"""Forward and backward over the living arcs of a group, or of many groups side by side.

    α_0 = start        α_{t+1}(s) = floor + Σ_{arcs r -k-> s} α_t(r) w e_t(k) / c_t        c_t = Σ_s α_t(s)
    β_L = final        β_t(s) = floor + Σ_{arcs s -k-> r} w e_t(k) β_{t+1}(r) / d_{t+1}    d_t = Σ_s β_t(s), d_L = 1
    n_t = Σ_{arcs s -k-> r} α_t(s) w e_t(k) β_{t+1}(r) / c_t d_{t+1}                q_t(k) = the share of n_t of class k

A step divides by the sum of the step before, so that no step waits for its own sum. The floor is added to every living
state, so that a number that underflowed its type is overestimated instead. All numbers are overestimates, and a bound
on what was added bounds the error: Σ_s α_t(s) β_t(s) / c_t d_t is at least n_t / d_t, so that the floors of step t add
at most floor (1 / c_t + 1 / d_t) d_t / n_t of Z. Exponentials that underflowed add at most the posterior of their
class.

Everything is written for a number of lanes: see `vectors`. Positions in the work array are counted in lanes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glws.inference._compiled_trellis.exponential import exp_of_negative, kernel
from glws.inference._compiled_trellis.plan import (
    ALLOWED,
    BACK_BOUNDS,
    BACK_FIRST,
    BACK_TABLE,
    BACK_TOGETHER,
    BACK_WEIGHTS,
    FINAL,
    LAYERS,
    MEMBER_BOUNDS,
    MEMBERS,
    MOST_SUMS,
    ON_BOUNDS,
    ON_FIRST,
    ON_TABLE,
    ON_TOGETHER,
    ON_WEIGHTS,
    PLACES,
    SET_BOUNDS,
    SETS,
    SHARES,
    START,
    STATES,
    SUM_BOUNDS,
    WEIGHTED,
    WIDEST,
)  # fmt: skip
from glws.inference._compiled_trellis.tiles import EIGHT, turn
from glws.inference._compiled_trellis.vectors import eight, if_larger, item, lanes_of, larger, load, many, spread, store
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import bits_of_float, entry_kernel, float_of_bits

Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

HUGE = 1e300
"""Larger sums of potentials or log-weights may overflow; the plain trellis solves such groups."""
CHUNK = 4096
"""Numbers of a chunk of emissions, approximately, which are exponentiated together: few enough for the cache."""
_LN2 = log(2.0)
_MANTISSA, _ONE = (1 << 52) - 1, 1023 << 52


class Limits(NamedTuple):
    """Thresholds in the type of the kernel.

    floor:     added to every living state
    emission:  exponentials up to this one may be overestimates
    norm:      posteriors with a smaller sum are not computed
    tolerance: of a group's overestimates, relative to its Z; above it the group is left to a wider kernel
    weight:    automata with a smaller log-weight are left to a wider kernel
    """

    zero: float
    one: float
    least: float
    floor: float
    emission: float
    norm: float
    tolerance: float
    weight: float


def _limits(dtype: type[np.floating[Any]], *values: float) -> Limits:
    typed: list[Any] = [dtype(value) for value in (0.0, 1.0, -np.inf, *values)]
    return Limits(*typed)


# The smallest exponentials are exp(-75) = 2.7e-33 and exp(-600) = 2.65e-261; `emission` lies just above.
LIMITS = {
    np.dtype(np.float32): _limits(np.float32, 1e-30, 3e-33, 1e-36, 1e-7, -60.0),
    np.dtype(np.float64): _limits(np.float64, 1e-280, 3e-261, 1e-300, 1e-13, -500.0),
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


# Emissions


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


# Forward


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


@kernel
def onward(step: int, plan: Plan, work: Numbers, limits: Limits, like: Any) -> None:
    """α and its sum after this step."""
    width, layer, size = lanes_of(like), number_at(plan, LAYERS, step), num_alive(step + 1, plan)
    source, target = number_at(plan, PLACES, step) * width, number_at(plan, PLACES, step + 1)
    rows = (plan.emissions + step * plan.rows) * width
    inverse = spread(limits.one, like) / load(work, (plan.scales + step) * width, like)
    first, last = number_at(plan, ON_FIRST, layer), number_at(plan, ON_FIRST, layer + 1)
    numbers, weighted = plan.numbers, item(plan.numbers, WEIGHTED)
    table, bounds, weights = item(numbers, ON_TABLE), item(numbers, ON_BOUNDS), item(numbers, ON_WEIGHTS)
    floor = spread(limits.floor, like)
    total = like
    clear(target + size, number_at(plan, PLACES, step + 2), work, like)
    if item(numbers, ON_TOGETHER) == 1:
        for group in range(first, last):
            one = like
            for entry in range(item(numbers, bounds + group), item(numbers, bounds + group + 1)):
                row = load(work, rows + item(numbers, table + 2 * entry) * width, like)
                if weighted:
                    row = row * item(plan.reals, weights + entry)
                one = one + load(work, source + item(numbers, table + 2 * entry + 1) * width, like) * row
            one = one * inverse + floor
            store(work, (target + group - first) * width, one)
            total = total + one
    else:
        for group in range(first, last):
            one, two, three, four = like, like, like, like
            for entry in range(item(numbers, bounds + group), item(numbers, bounds + group + 1)):
                row = load(work, rows + item(numbers, table + 5 * entry) * width, like)
                a = load(work, source + item(numbers, table + 5 * entry + 1) * width, like)
                b = load(work, source + item(numbers, table + 5 * entry + 2) * width, like)
                c = load(work, source + item(numbers, table + 5 * entry + 3) * width, like)
                d = load(work, source + item(numbers, table + 5 * entry + 4) * width, like)
                if weighted:
                    a = a * item(plan.reals, weights + 4 * entry)
                    b = b * item(plan.reals, weights + 4 * entry + 1)
                    c = c * item(plan.reals, weights + 4 * entry + 2)
                    d = d * item(plan.reals, weights + 4 * entry + 3)
                one, two, three, four = one + a * row, two + b * row, three + c * row, four + d * row
            state = 4 * (group - first)
            at = (target + state) * width
            total = total + put(work, at, one, inverse, floor, True)
            total = total + put(work, at + width, two, inverse, floor, state + 1 < size)
            total = total + put(work, at + 2 * width, three, inverse, floor, state + 2 < size)
            total = total + put(work, at + 3 * width, four, inverse, floor, state + 3 < size)
    store(work, (plan.scales + step + 1) * width, larger(total, floor))


@kernel
def put(work: Numbers, at: int, value: Any, inverse: Any, floor: Any, is_alive: bool) -> Any:
    """value * inverse + floor, or 0 if the state is not alive."""
    value = value * inverse
    if is_alive:
        value = value + floor
    store(work, at, value)
    return value


@kernel
def begin(plan: Plan, work: Numbers, limits: Limits, like: Any) -> None:
    """α_0 and its sum."""
    width, size, total = lanes_of(like), num_alive(0, plan), like
    clear(size, number_at(plan, PLACES, 1), work, like)
    for state in range(size):
        value = spread(weight_at(plan, START, state), like)
        store(work, state * width, value)
        total = total + value
    store(work, plan.scales * width, larger(total, spread(limits.floor, like)))


@kernel
def finish(plan: Plan, work: Numbers, lanes: Lanes, groups: int, width: int, limits: Limits) -> None:
    """end = Σ_s α_L(s) final(s) / c_L of each lane; -1 if no labeling of that length is allowed.

    The last floor may have added floor / c_L Σ_s final(s) to it.
    """
    for lane in range(groups):
        length = lanes.length[lane]
        first = number_at(plan, SET_BOUNDS, number_at(plan, SETS, length))
        end = total = 0.0
        for state in range(num_alive(length, plan)):
            final = np.float64(weight_at(plan, FINAL, number_at(plan, STATES, first + state)))
            end += np.float64(work[(number_at(plan, PLACES, length) + state) * width + lane]) * final
            total += final
        scale = np.float64(work[(plan.scales + length) * width + lane])
        lanes.end[lane] = end / scale if total > 0 else -1.0
        added = limits.floor / scale * total if length else 0.0
        lanes.trouble[lane] = added * scale / end if end > 0 else np.inf


@kernel
def multiply_scales(steps: int, plan: Plan, work: Numbers, lanes: Lanes, width: int) -> None:
    """mantissa * 2^exponent = Π_t c_t, for the groups that have the step."""
    for step in range(steps + 1):
        at = (plan.scales + step) * width
        for lane in range(width):
            scale = np.float64(work[at + lane]) if step <= lanes.length[lane] else 1.0
            bits = bits_of_float(lanes.mantissa[lane] * scale)
            lanes.exponent[lane] += (bits >> 52) - 1023
            lanes.mantissa[lane] = float_of_bits((bits & _MANTISSA) | _ONE)


# Backward


@kernel
def end_lanes(step: int, lane: int, plan: Plan, work: Numbers, lanes: Lanes, width: int) -> int:
    """β_L = final for the lanes with L = step, from `lane` down; returns the next lane."""
    first, at = number_at(plan, SET_BOUNDS, number_at(plan, SETS, step)), plan.betas + step % 2 * plan.widest
    while lane >= 0 and lanes.length[lane] == step:
        work[(plan.beta_scales + step % 2) * width + lane] = 1
        for state in range(num_alive(step, plan)):
            work[(at + state) * width + lane] = weight_at(plan, FINAL, number_at(plan, STATES, first + state))
        lane -= 1
    return lane


@kernel
def back(step: int, plan: Plan, work: Numbers, limits: Limits, like: Any) -> None:
    """β of this step and its sum, and the gain of each row: Σ_{edges s -> r} α_t(s) w β_{t+1}(r)."""
    width, layer, size = lanes_of(like), number_at(plan, LAYERS, step), num_alive(step, plan)
    alphas = number_at(plan, PLACES, step) * width
    source, target = (plan.betas + (step + 1) % 2 * plan.widest) * width, plan.betas + step % 2 * plan.widest
    rows, gains = (plan.emissions + step * plan.rows) * width, plan.gains * width
    one, floor = spread(limits.one, like), spread(limits.floor, like)
    inverse = one / load(work, (plan.beta_scales + (step + 1) % 2) * width, like)
    scale = one / load(work, (plan.scales + step) * width, like)
    first, last = number_at(plan, BACK_FIRST, layer), number_at(plan, BACK_FIRST, layer + 1)
    numbers, weighted = plan.numbers, item(plan.numbers, WEIGHTED)
    table, bounds, weights = item(numbers, BACK_TABLE), item(numbers, BACK_BOUNDS), item(numbers, BACK_WEIGHTS)
    total = like
    clear(plan.gains, plan.gains + plan.rows, work, like)
    clear(target + size, target + (size // 4 + 1) * 4, work, like)
    if item(numbers, BACK_TOGETHER) == 1:
        for group in range(first, last):
            one = like
            alpha = load(work, alphas + (group - first) * width, like) * scale * inverse
            for entry in range(item(numbers, bounds + group), item(numbers, bounds + group + 1)):
                number = item(numbers, table + 2 * entry) * width
                beta = load(work, source + item(numbers, table + 2 * entry + 1) * width, like)
                if weighted:
                    beta = beta * item(plan.reals, weights + entry)
                one = one + beta * load(work, rows + number, like)
                store(work, gains + number, load(work, gains + number, like) + alpha * beta)
            total = total + put(work, (target + group - first) * width, one, inverse, floor, True)
    else:
        for group in range(first, last):
            state = 4 * (group - first)
            here = alphas + state * width
            alpha = load(work, here, like) * scale * inverse
            alpha_two = load(work, here + width, like) * scale * inverse
            alpha_three = load(work, here + 2 * width, like) * scale * inverse
            alpha_four = load(work, here + 3 * width, like) * scale * inverse
            one, two, three, four = like, like, like, like
            for entry in range(item(numbers, bounds + group), item(numbers, bounds + group + 1)):
                number = item(numbers, table + 5 * entry) * width
                row = load(work, rows + number, like)
                gain = load(work, gains + number, like)
                a = load(work, source + item(numbers, table + 5 * entry + 1) * width, like)
                b = load(work, source + item(numbers, table + 5 * entry + 2) * width, like)
                c = load(work, source + item(numbers, table + 5 * entry + 3) * width, like)
                d = load(work, source + item(numbers, table + 5 * entry + 4) * width, like)
                if weighted:
                    a = a * item(plan.reals, weights + 4 * entry)
                    b = b * item(plan.reals, weights + 4 * entry + 1)
                    c = c * item(plan.reals, weights + 4 * entry + 2)
                    d = d * item(plan.reals, weights + 4 * entry + 3)
                one, two, three, four = one + a * row, two + b * row, three + c * row, four + d * row
                gain = gain + alpha * a + alpha_two * b + alpha_three * c + alpha_four * d
                store(work, gains + number, gain)
            at = (target + state) * width
            total = total + put(work, at, one, inverse, floor, True)
            total = total + put(work, at + width, two, inverse, floor, state + 1 < size)
            total = total + put(work, at + 2 * width, three, inverse, floor, state + 2 < size)
            total = total + put(work, at + 3 * width, four, inverse, floor, state + 3 < size)
    store(work, (plan.beta_scales + step % 2) * width, larger(total, floor))


@kernel
def posteriors(step: int, plan: Plan, work: Numbers, limits: Limits, like: Any) -> Any:
    """q_t(k) = e_t(k) gain(k) / n_t in place of the emissions; returns what overestimates added, 1 if n_t is lost.

    Every sum hands its gain on to its members.
    """
    width, layer = lanes_of(like), number_at(plan, LAYERS, step)
    rows, gains = (plan.emissions + step * plan.rows) * width, plan.gains * width
    first = number_at(plan, SUM_BOUNDS, layer)
    for number in range(first, number_at(plan, SUM_BOUNDS, layer + 1)):
        gain = load(work, gains + (plan.classes + number - first) * width, like)
        for member in range(number_at(plan, MEMBER_BOUNDS, number), number_at(plan, MEMBER_BOUNDS, number + 1)):
            at = gains + number_at(plan, MEMBERS, member) * width
            store(work, at, load(work, at, like) + gain * weight_at(plan, SHARES, member))
    total, lost = like, like
    for label in range(plan.classes):
        share = load(work, rows + label * width, like) * load(work, gains + label * width, like)
        total = total + share
    one = spread(limits.one, like)
    norm = if_larger(total, spread(limits.norm, like), one / total, like)
    small = spread(limits.emission, like)
    for label in range(plan.classes):
        row = load(work, rows + label * width, like)
        share = row * load(work, gains + label * width, like) * norm
        store(work, rows + label * width, share)
        lost = lost + if_larger(row, small, like, share)
    beta_scale = load(work, (plan.beta_scales + step % 2) * width, like)
    scale = load(work, (plan.scales + step) * width, like)
    added = (beta_scale / scale + one) * norm * spread(limits.floor, like) + lost
    return if_larger(norm, like, added, one)


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


@kernel
def solve_block(
    potentials: Numbers, size: int, plan: Plan, logs: Floats, lanes: Lanes, groups: int, work: Numbers, limits: Limits,
    log_likelihood: Floats, marginals: Numbers, like: Any,
) -> None:  # fmt: skip
    """log Z and q of the groups of a block."""
    longest, places = lanes.length[groups - 1], places_of(size, plan, lanes, lanes_of(like))
    forward(potentials, places, longest, groups, plan, work, lanes, limits, like)
    backward(marginals, places, longest, groups, plan, work, lanes, limits, like)
    for lane in range(groups):
        value = log_z(lane, logs, lanes, limits)
        log_likelihood[lanes.group[lane]] = value
        if value == -np.inf:
            first = places.starts[lane]
            marginals[first : first + lanes.length[lane] * plan.classes] = limits.zero


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
            plan, number = (
                plan_at(numbers[block[PLAN] :], reals[block[REALS] :], block[LONGEST], shape[1]),
                block[NUMBER],
            )
            groups = order[block[FIRST] : block[FIRST] + block[GROUPS]]
            lanes = new_lanes(groups, lengths, block[WIDTH])
            whole = shape[0] * shape[1]
            if block[WIDTH] == 1:
                solve_block(
                    potentials, whole, plan, logs[number], lanes, len(groups), work, limits, log_likelihood, marginals,
                    limits.zero,
                )  # fmt: skip
            elif block[WIDTH] == EIGHT:
                solve_block(
                    potentials, whole, plan, logs[number], lanes, len(groups), work, limits, log_likelihood, marginals,
                    eight(limits.zero),
                )  # fmt: skip
            else:
                solve_block(
                    potentials, whole, plan, logs[number], lanes, len(groups), work, limits, log_likelihood, marginals,
                    many(limits.zero),
                )  # fmt: skip

    return solve


solve = _entry_point(_sources_fingerprint())
