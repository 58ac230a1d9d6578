"""Backward pass: β divided by the sum of each step, posteriors, and error bounds.

    β_L = final        β_t(s) d_t = floor + Σ_{arcs s -k-> r} w e_t(k) β_{t+1}(r)        Σ_s β_t(s) = 1
    n_t = Σ_{arcs s -k-> r} α_t(s) w e_t(k) β_{t+1}(r)        q_t(k) = the share of n_t that has class k

All numbers are overestimates, so that a bound on the added amounts bounds the error. N_t = Σ_s α_t(s) β_t(s) is at
least n_t / d_t, so the floors of step t added at most (floor / c_t + floor / d_t) d_t / n_t of Z. Exponentials that
underflow their type added at most the posterior of their class.
"""

from __future__ import annotations

import numpy as np

from glws.inference._compiled_trellis.block import Block, Lanes, Limits, Ways
from glws.inference._compiled_trellis.columns import normalize, share
from glws.inference._compiled_trellis.emitter import LANES
from glws.inference._compiled_trellis.forward import begin_chunk, count_common, sum_rows
from glws.inference._compiled_trellis.lanes import Integers, Numbers, combine, copy, kernel, mix, move_few, part
from glws.inference._compiled_trellis.machines import Floats, Machines
from glws.inference._compiled_trellis.steps import Places, Steps, move, retreat_four
from glws.inference._compiled_trellis.tiles import turn
from glws.inference._counts.compiled.numeric import bits_of_float, float_of_bits

_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52


@kernel
def floors_change(step: int, stable: int, length: Integers) -> bool:
    """Whether a group ends within `stable` steps from here; lengths are sorted, unused lanes come last."""
    if length[0] > step + stable:
        return False
    found = False
    for lane in range(len(length)):
        found = found or step <= length[lane] <= step + stable
    return found


@kernel
def state_floors(
    step: int, leads: Integers, stable: int, block: Block, work: Numbers, length: Integers, limits: Limits
) -> None:
    """floors[s, lane] = floor if state s can end in the remaining steps of the lane's group."""
    for state in range(block.states):
        row = work[block.state_floors + state * block.width : block.state_floors + (state + 1) * block.width]
        for lane in range(block.width):
            left = min(max(length[lane] - step, 0), stable)
            row[lane] = limits.floor if leads[left * block.states + state] else limits.zero


@kernel
def retreat(
    chunk: int, slot: int, count: int, rows: int, reached: Integers, stable: int, machines: Machines, block: Block,
    work: Numbers, limits: Limits,
) -> None:  # fmt: skip
    """β of `count` steps, from that after the slot down; unreachable states are left out."""
    width, stride, at = block.width, block.beta_stride, slot * block.width
    target, scales, strides = block.betas + at, block.beta_scales + at, (stride, block.stride, width)
    steps = Steps(count, -1, chunk * block.steps + slot, reached, stable, block.states, limits.floor)
    places = Places(target, target + width, rows + at, block.state_floors, scales + width, scales)
    if block.departure_quartets >= 0:
        alphas = block.alphas + chunk * block.states * block.stride + at
        turned = Places(target, rows + at, target + width, block.state_floors, scales + width, scales)
        retreat_four(
            work, steps, turned, alphas, block.gains + at, block.num_rows, strides, machines.quartets,
            block.departure_quartets, width,
        )  # fmt: skip
    elif width % LANES == 0:
        move(work, steps, places, strides, block.weighted, machines.terms, block.departures, width)
    else:
        reached_at = min(steps.first, stable) * block.states
        move_few(
            work, target, target + width, stride, rows + at, block.stride, machines.terms, block.departures,
            block.state_floors, width, reached[reached_at : reached_at + block.states], width, limits.zero,
        )  # fmt: skip
        normalize(work, target, stride, block.states, scales, limits.floor, width)


@kernel
def calm_steps(step: int, slot: int, stable: int, block: Block, length: Integers) -> int:
    """Number of steps down from here, in this chunk, with the same floors, which are taken together."""
    count = 1
    if block.width % LANES == 0 and not floors_change(step, stable, length):
        while count <= slot and not floors_change(step - count, stable, length):
            count += 1
    return count


@kernel
def begin_lanes(step: int, slot: int, lane: int, ends: Numbers, block: Block, work: Numbers, length: Integers) -> int:
    """β_L = final for the lanes with L = step, from `lane` down; returns the next lane."""
    while lane >= 0 and length[lane] == step:
        place = block.betas + slot * block.width + lane
        work[block.beta_scales + slot * block.width + lane] = 1
        for state in range(block.states):
            work[place + state * block.beta_stride] = ends[block.first_end + block.states + state]
        lane -= 1
    return lane


@part
def retreat_chunk(
    chunk: int, steps: int, lane: int, rows: int, machines: Machines, reached: Integers, leads: Integers,
    stable: tuple[int, int], block: Block, work: Numbers, length: Integers, limits: Limits,
) -> int:  # fmt: skip
    """β of one chunk, from that after its last step; returns the next lane to begin."""
    copy(work, block.beta_scales + steps * block.width, block.beta_scales, block.width)
    for state in range(block.states):
        place = block.betas + state * block.beta_stride
        copy(work, place + steps * block.width, place, block.width)
    slot = steps - 1
    while slot >= 0:
        step = chunk * block.steps + slot
        if floors_change(step, stable[1], length):
            state_floors(step, leads, stable[1], block, work, length, limits)
        count = calm_steps(step, slot, stable[1], block, length)
        retreat(chunk, slot, count, rows, reached, stable[0], machines, block, work, limits)
        slot -= count
        lane = begin_lanes(step - count + 1, slot + 1, lane, machines.ends, block, work, length)
    return lane


@kernel
def gains(chunk: int, machines: Machines, block: Block, work: Numbers, span: int) -> None:
    """gain(row) = Σ_{edges s -> r of that row} α_t(s) w β_{t+1}(r) + Σ_{sums it is in} weight · gain(sum)."""
    stride, terms = block.stride, machines.terms
    alphas, betas = block.alphas + chunk * block.states * stride, block.betas + block.width
    for row in range(block.num_rows if block.departure_quartets < 0 else 0):
        out = block.gains + row * stride
        combine(work, out, alphas, stride, betas, block.beta_stride, terms, block.visits + row, block.zeros, span)
    for row in range(block.num_rows - 1, -1, -1):
        if terms.bounds[block.shares + row + 1] > terms.bounds[block.shares + row]:
            out = block.gains + row * stride
            mix(work, out, block.gains, stride, terms, block.shares + row, out, span)


@kernel
def posteriors(rows: int, block: Block, work: Numbers, span: int, limits: Limits) -> None:
    """n_t = Σ_k e_t(k) gain(k); q_t(k) = e_t(k) gain(k) / n_t, in place of the gains; tops = Σ q_t(k) of lost e_t(k).

    norms = 1 / n_t, or 0 if that is not finite.
    """
    gain, stride, count = block.gains, block.stride, block.used
    share(work, gain, stride, count, rows, block.norms, block.tops, limits.norm, limits.emission, span)


@kernel
def judge_chunk(chunk: int, steps: int, block: Block, work: Numbers, lanes: Lanes, limits: Limits) -> None:
    """trouble += floor (d_t / c_t + 1) / n_t + Σ q_t(k) of underflowed e_t(k); 1 if n_t is not finite."""
    shape, size = (steps, block.width), steps * block.width
    norms, lost = work[block.norms : block.norms + size], work[block.tops : block.tops + size]
    scales_at = block.scales + chunk * block.stride
    scales, beta_scales = work[scales_at : scales_at + size], work[block.beta_scales : block.beta_scales + size]
    for i in range(size):
        added = limits.floor * (beta_scales[i] / scales[i] + limits.one) * norms[i] + lost[i]
        norms[i] = added if norms[i] > limits.zero else limits.one
    add_trouble(chunk * block.steps, norms.reshape(shape), lanes.length, lanes.trouble)
    multiply_scales(chunk * block.steps, scales.reshape(shape), lanes.length, lanes.mantissa, lanes.exponent)


@kernel
def add_trouble(begin: int, added: Numbers, length: Integers, trouble: Floats) -> None:
    """trouble += added, for the groups that have the step."""
    for slot in range(len(added)):
        for lane in range(len(length)):
            trouble[lane] += np.float64(added[slot, lane]) if begin + slot < length[lane] else 0.0


@kernel
def multiply_scales(begin: int, scales: Numbers, length: Integers, mantissa: Floats, exponent: Integers) -> None:
    """mantissa · 2^exponent *= c_step, for the groups that have the step."""
    for slot in range(len(scales)):
        for lane in range(len(length)):
            scale = np.float64(scales[slot, lane]) if begin + slot <= length[lane] else 1.0
            bits = bits_of_float(mantissa[lane] * scale)
            exponent[lane] += (bits >> 52) - 1023
            mantissa[lane] = float_of_bits((bits & _MANTISSA) | _ONE)


@kernel
def store_chunk(
    marginals: Numbers, size: int, begin: int, num_classes: int, ways: Ways, block: Block,
    work: Numbers, lanes: Lanes,
) -> None:  # fmt: skip
    """q_{begin + t}(class) of the lane's group = gains[class, t, lane]."""
    for first in range(0, block.groups, LANES):
        common = count_common(begin, first, ways, block, lanes)
        source = np.uint64(block.gains + first)
        for i in range(0, common, LANES):
            at = np.uint64(min(i, common - LANES))
            turn(marginals, ways.starts, np.uint64(first), at, work, ways.place, at, source)
        for lane in range(first, min(first + LANES, block.groups)):
            target, source = ways.starts[lane], np.uint64(block.gains + lane)
            for i in range(common, min(block.steps, lanes.length[lane] - begin) * block.used):
                marginals[target + ways.origin[i]] = work[source + ways.place[i]]


@part
def backward(
    marginals: Numbers, shape: tuple[int, int], ways: Ways, machines: Machines, reached: Integers,
    leads: Integers, stable: tuple[int, int], block: Block, work: Numbers, lanes: Lanes, limits: Limits,
) -> None:  # fmt: skip
    """β and posteriors, chunk by chunk from the last."""
    last = block.longest % block.steps
    state_floors(block.longest, leads, stable[1], block, work, lanes.length, limits)
    lane = begin_lanes(block.longest, 0, block.groups - 1, machines.ends, block, work, lanes.length)
    scales_at = block.scales + (block.chunks - 1) * block.stride + last * block.width
    scales = work[scales_at : scales_at + block.width].reshape((1, block.width))
    multiply_scales(block.longest, scales, lanes.length, lanes.mantissa, lanes.exponent)
    for chunk in range(block.chunks - 1, -1, -1):
        steps = last if chunk == block.chunks - 1 else block.steps
        if steps == 0:
            continue
        span = (steps * block.width + LANES - 1) // LANES * LANES
        rows = block.emissions + chunk * block.used * block.stride
        begin_chunk(shape[0] * shape[1], chunk * block.steps, shape[1], ways, lanes)
        sum_rows(rows, machines.terms, block, work, span)
        lane = retreat_chunk(
            chunk, steps, lane, rows, machines, reached, leads, stable, block, work, lanes.length, limits
        )
        gains(chunk, machines, block, work, span)
        posteriors(rows, block, work, span, limits)
        judge_chunk(chunk, steps, block, work, lanes, limits)
        store_chunk(marginals, shape[0] * shape[1], chunk * block.steps, shape[1], ways, block, work, lanes)
