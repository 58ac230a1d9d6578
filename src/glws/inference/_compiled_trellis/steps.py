"""One step of the recursion in either direction, over the living arcs of a plan: α, β and posteriors.

α_0 = start        α_{t+1}(s) = floor + Σ_{arcs r -k-> s} α_t(r) w e_t(k) / c_t        c_t = Σ_s α_t(s)
β_L = final        β_t(s) = floor + Σ_{arcs s -k-> r} w e_t(k) β_{t+1}(r) / d_{t+1}    d_t = Σ_s β_t(s), d_L = 1
n_t = Σ_{arcs s -k-> r} α_t(s) w e_t(k) β_{t+1}(r) / c_t d_{t+1}                q_t(k) = the share of n_t of class k

A step divides by the sum of the step before, so that no step waits for its own sum. The floor is added to every living
state, so that a number that underflowed its type is overestimated instead. All numbers are overestimates, and a bound
on what was added bounds the error: Σ_s α_t(s) β_t(s) / c_t d_t is at least n_t / d_t, so that the floors of step t add
at most floor (1 / c_t + 1 / d_t) d_t / n_t of Z. Exponentials that underflowed add at most the posterior of their
class.

States are listed one by one, or four neighbors at a time that share the rows of their arcs (see `plan`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glws.inference._compiled_trellis.exponential import kernel
from glws.inference._compiled_trellis.memory import (
    Lanes,
    Limits,
    Numbers,
    Plan,
    clear,
    num_alive,
    number_at,
    weight_at,
)
from glws.inference._compiled_trellis.plan import (
    BACK_BOUNDS,
    BACK_FIRST,
    BACK_TABLE,
    BACK_TOGETHER,
    BACK_WEIGHTS,
    FINAL,
    LAYERS,
    MEMBER_BOUNDS,
    MEMBERS,
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
)
from glws.inference._compiled_trellis.vectors import if_larger, item, lanes_of, larger, load, spread, store
from glws.inference._counts.compiled.numeric import bits_of_float, float_of_bits

_MANTISSA, _ONE = (1 << 52) - 1, 1023 << 52


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

    Every sum hands its gain on to its members. What is no more than floors usually add is 0.
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
    small, tiny = spread(limits.emission, like), spread(limits.tiny, like)
    for label in range(plan.classes):
        row = load(work, rows + label * width, like)
        share = row * load(work, gains + label * width, like) * norm
        store(work, rows + label * width, if_larger(share, tiny, share, like))
        lost = lost + if_larger(row, small, like, share)
    beta_scale = load(work, (plan.beta_scales + step % 2) * width, like)
    scale = load(work, (plan.scales + step) * width, like)
    added = (beta_scale / scale + one) * norm * spread(limits.floor, like) + lost
    return if_larger(norm, like, added, one)
