"""From the first instance to the last: emissions, and α with the sum of each step taken out.

    α_0 = start        α_{t+1}(s) c_{t+1} = floor + Σ_{arcs r -k-> s} α_t(r) w e_t(k)        Σ_s α_t(s) = 1

The floor goes to states that some labeling can reach. It makes α an overestimate, also where a number was too small for
its type: what it may add to Z is known after the backward pass.
"""

from __future__ import annotations

import numpy as np

from glws.inference.compiled_trellis.block import HUGE, Block, Lanes, Limits
from glws.inference.compiled_trellis.lanes import (
    LANES,
    Indices,
    Integers,
    Numbers,
    copy,
    exp_of_negative,
    kernel,
    mix,
    move,
    normalise,
    part,
)
from glws.inference.compiled_trellis.machines import Machines, Terms


@kernel
def reach_table(terms: Terms, items: int, states: int, weights: Numbers, steps: int, table: Integers) -> int:
    """table[t, s]: whether state s can be there after t steps. The answer: from which t on nothing changes."""
    for state in range(states):
        table[state] = weights[state] > 0
    for step in range(steps):
        same = True
        before, after = step * states, (step + 1) * states
        for state in range(states):
            found = 0
            for term in range(terms.bounds[items + state], terms.bounds[items + state + 1]):
                found |= table[before + terms.left[term]]
            table[after + state] = found
            same = same and found == table[before + state]
        if same:
            return step
    return steps


@kernel
def transposition(classes: Integers, num_classes: int, block: Block) -> tuple[Indices, Indices]:
    """Where the numbers of one group are in a chunk of the potentials, and where in the rows of a lane."""
    origin, place = np.empty(block.steps * block.used, np.uint64), np.empty(block.steps * block.used, np.uint64)
    for step in range(block.steps):
        for row in range(block.used):
            origin[step * block.used + row] = step * num_classes + classes[row]
            place[step * block.used + row] = row * block.stride + step * block.width
    return origin, place


@kernel
def load_chunk(
    potentials: Numbers, size: int, begin: int, num_classes: int, ways: tuple[Indices, Indices], block: Block,
    work: Numbers, lanes: Lanes,
) -> None:  # fmt: skip
    """rows[class, t, lane] = φ_{begin + t}(class) of the lane's group; 0 where there is none."""
    origin, place = ways
    work[block.rows : block.rows + block.used * block.stride] = 0
    for lane in range(block.groups):
        source, target = np.uint64(lanes.group[lane] * size + begin * num_classes), np.uint64(block.rows + lane)
        for i in range(min(block.steps, lanes.length[lane] - begin) * block.used):
            work[target + place[i]] = potentials[source + origin[i]]


@kernel
def exponentials(work: Numbers, block: Block, span: int, limits: Limits) -> None:
    """top = max_k φ(k); rows = exp(φ(k) - top), and 0 for -inf."""
    top = work[block.tops : block.tops + span]
    top[:] = -np.inf if block.used else limits.zero
    for row in range(block.rows, block.rows + block.used * block.stride, block.stride):
        values = work[row : row + span]
        for i in range(span):
            top[i] = values[i] if values[i] > top[i] else top[i]
    for row in range(block.rows, block.rows + block.used * block.stride, block.stride):
        values = work[row : row + span]
        for i in range(span):
            value = values[i]
            some = value > -np.inf
            power = exp_of_negative(value - top[i] if some else limits.zero)
            values[i] = power if some else limits.zero


@kernel
def sum_rows(terms: Terms, block: Block, work: Numbers, span: int) -> None:
    """rows[sum] = Σ_{members} weight · rows[member]."""
    for row in range(block.used, block.num_rows):
        at, items = block.rows + row * block.stride, block.members + row
        mix(work, at, block.rows, block.stride, terms, items, block.zeros, span)


@kernel
def start(ends: Numbers, block: Block, work: Numbers, limits: Limits) -> None:
    """α_0 = start / Σ start."""
    for state in range(block.states):
        place = block.alphas + state * block.stride
        work[place : place + block.width] = ends[block.first_end + state]
    normalise(work, block.alphas, block.stride, block.states, block.scales, limits.floor, block.width)


@kernel
def advance(
    chunk: int, steps: int, terms: Terms, reached: Integers, stable: int, block: Block, work: Numbers, limits: Limits
) -> None:
    """α of the steps after those of the chunk."""
    states, width, stride = block.states, block.width, block.stride
    for slot in range(steps):
        step = chunk * block.steps + slot + 1
        source = block.alphas + chunk * states * stride + slot * width
        after, at = step // block.steps, step % block.steps * width
        target = block.alphas + after * states * stride + at
        present = reached[min(step, stable) * states : min(step, stable) * states + states]
        move(
            work, target, source, stride, block.rows + slot * width, stride, terms, block.arrivals,
            block.floors, 0, present, width, limits.zero,
        )  # fmt: skip
        normalise(work, target, stride, states, block.scales + after * stride + at, limits.floor, width)


@kernel
def finish(ends: Numbers, block: Block, work: Numbers, lanes: Lanes, limits: Limits) -> None:
    """end = Σ_s α_L(s) final(s) of each lane.

    The last floor may have added floor / c_L · Σ_s final(s) to it.
    """
    for lane in range(block.groups):
        length = lanes.length[lane]
        chunk, at = length // block.steps, length % block.steps * block.width + lane
        end = total = 0.0
        for state in range(block.states):
            final = ends[block.first_end + block.states + state]
            end += work[block.alphas + (chunk * block.states + state) * block.stride + at] * final
            total += final
        added = limits.floor / work[block.scales + chunk * block.stride + at] * total if length else 0.0
        lanes.end[lane] = end
        lanes.trouble[lane] = added / end if end > 0 else np.inf


@kernel
def add_tops(steps: int, block: Block, work: Numbers, total: Numbers) -> None:
    """total[lane] += Σ_t top[t, lane]: -inf if an instance has no possible class, NaN if the sum might overflow."""
    width = block.width
    for step in range(steps):
        row = work[block.tops + step * width : block.tops + (step + 1) * width]
        for lane in range(width):
            top = np.float64(row[lane])
            total[lane] += top if top == -np.inf or abs(top) < HUGE else np.nan


@part
def forward(
    potentials: Numbers, shape: tuple[int, int], ways: tuple[Indices, Indices], machines: Machines, reached: Integers,
    stable: int, block: Block, work: Numbers, lanes: Lanes, limits: Limits,
) -> None:  # fmt: skip
    """α of all steps, chunk by chunk; emissions are kept for the way back."""
    kept = block.used * block.stride
    start(machines.ends, block, work, limits)
    for chunk in range(block.chunks):
        begin = chunk * block.steps
        steps = min(block.steps, block.longest - begin)
        span = (steps * block.width + LANES - 1) // LANES * LANES
        load_chunk(potentials, shape[0] * shape[1], begin, shape[1], ways, block, work, lanes)
        exponentials(work, block, span, limits)
        add_tops(steps, block, work, lanes.top)
        copy(work, block.emissions + chunk * kept, block.rows, kept)
        sum_rows(machines.terms, block, work, span)
        advance(chunk, steps, machines.terms, reached, stable, block, work, limits)
    finish(machines.ends, block, work, lanes, limits)
