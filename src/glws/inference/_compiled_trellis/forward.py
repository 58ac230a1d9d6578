"""From the first instance to the last: emissions, and α divided by the sum of each step.

    α_0 = start        α_{t+1}(s) c_{t+1} = floor + Σ_{arcs r -k-> s} α_t(r) w e_t(k)        Σ_s α_t(s) = 1

The floor is added to states that some labeling can reach. It makes α an overestimate, also if a number underflowed its
type; the backward pass computes a bound on its contribution to Z.
"""

from __future__ import annotations

import numpy as np

from glws.inference._compiled_trellis.block import HUGE, Block, Lanes, Limits, Ways
from glws.inference._compiled_trellis.columns import largest, normalize
from glws.inference._compiled_trellis.emitter import LANES
from glws.inference._compiled_trellis.lanes import Integers, Numbers, exp_of_negative, kernel, mix, move_few, part
from glws.inference._compiled_trellis.machines import Machines, Terms
from glws.inference._compiled_trellis.steps import Places, Steps, move
from glws.inference._compiled_trellis.tiles import turn


@kernel
def reach_table(terms: Terms, items: int, states: int, weights: Numbers, steps: int, table: Integers) -> int:
    """table[t, s]: whether state s is reachable in t steps. Returns the t from which rows are constant."""
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
def transposition(classes: Integers, num_classes: int, block: Block) -> Ways:
    """Positions of the numbers of one group in a chunk of the potentials, and in the rows of a lane."""
    origin, place = np.empty(block.steps * block.used, np.uint64), np.empty(block.steps * block.used, np.uint64)
    dense = True
    for step in range(block.steps):
        for row in range(block.used):
            origin[step * block.used + row] = step * num_classes + classes[row]
            place[step * block.used + row] = row * block.stride + step * block.width
            dense = dense and origin[step * block.used + row] == step * block.used + row
    return Ways(origin, place, np.empty(block.width, np.uint64), dense)


@kernel
def begin_chunk(size: int, begin: int, num_classes: int, ways: Ways, lanes: Lanes) -> None:
    """Set the position in the potentials at which the numbers of each lane begin."""
    for lane in range(len(ways.starts)):
        ways.starts[lane] = max(lanes.group[lane], 0) * size + begin * num_classes


@kernel
def count_common(begin: int, lane: int, ways: Ways, block: Block, lanes: Lanes) -> int:
    """How many numbers all eight lanes from here have in this chunk; 0 if too few or not dense."""
    if not ways.dense or lane + LANES > block.groups:
        return 0
    count = min(block.steps, lanes.length[lane] - begin) * block.used
    return count if count >= LANES else 0


@kernel
def load_chunk(
    potentials: Numbers, size: int, begin: int, num_classes: int, ways: Ways, rows: int, block: Block, work: Numbers,
    lanes: Lanes,
) -> None:  # fmt: skip
    """rows[class, t, lane] = φ_{begin + t}(class) of the lane's group; 0 in padding."""
    begin_chunk(size, begin, num_classes, ways, lanes)
    if block.groups < block.width or lanes.length[0] < begin + block.steps:
        work[rows : rows + block.used * block.stride] = 0
    for first in range(0, block.groups, LANES):
        common = count_common(begin, first, ways, block, lanes)
        target = np.uint64(rows + first)
        for i in range(0, common, LANES):
            at = np.uint64(min(i, common - LANES))
            turn(work, ways.place, at, target, potentials, ways.starts, np.uint64(first), at)
        for lane in range(first, min(first + LANES, block.groups)):
            source, target = ways.starts[lane], np.uint64(rows + lane)
            for i in range(common, min(block.steps, lanes.length[lane] - begin) * block.used):
                work[target + ways.place[i]] = potentials[source + ways.origin[i]]


@kernel
def exponentials(work: Numbers, rows: int, block: Block, span: int, limits: Limits) -> None:
    """top = max_k φ(k); rows = exp(φ(k) - top), and 0 for -inf."""
    least = limits.least if block.used else limits.zero
    largest(work, block.tops, rows, block.stride, block.used, least, span)
    top = work[block.tops : block.tops + span]
    for row in range(rows, rows + block.used * block.stride, block.stride):
        values = work[row : row + span]
        for i in range(span):
            value = values[i]
            some = value > -np.inf
            power = exp_of_negative(value - top[i])
            values[i] = power if some else limits.zero


@kernel
def sum_rows(rows: int, terms: Terms, block: Block, work: Numbers, span: int) -> None:
    """rows[sum] = Σ_{members} weight · rows[member], written where the next chunk begins, which is not in use."""
    for row in range(block.used, block.num_rows):
        mix(work, rows + row * block.stride, rows, block.stride, terms, block.members + row, block.zeros, span)


@kernel
def start(ends: Numbers, block: Block, work: Numbers, limits: Limits) -> None:
    """α_0 = start, and its sum; `settle` divides."""
    total = limits.zero
    for state in range(block.states):
        place = block.alphas + state * block.stride
        work[place : place + block.width] = ends[block.first_end + state]
        total += ends[block.first_end + state]
    work[block.scales : block.scales + block.width] = max(total, limits.floor)
    if block.width % LANES:
        settle(0, block, work, limits)


@kernel
def settle(step: int, block: Block, work: Numbers, limits: Limits) -> None:
    """α = α / Σ α of one step that no other step divides."""
    chunk, at = step // block.steps, step % block.steps * block.width
    alphas = block.alphas + chunk * block.states * block.stride + at
    scales = block.scales + chunk * block.stride + at
    normalize(work, alphas, block.stride, block.states, scales, limits.floor, block.width)


@kernel
def advance(
    chunk: int, count: int, terms: Terms, rows: int, reached: Integers, stable: int, block: Block, work: Numbers,
    limits: Limits,
) -> None:  # fmt: skip
    """α of the steps after those of the chunk."""
    wide, within = block.width % LANES == 0, min(count, block.steps - 1)
    for slot in range(0 if wide else within):
        advance_few(chunk, slot, terms, rows, reached, stable, block, work, limits)
    if wide:
        advance_many(chunk, 0, within, terms, rows, reached, stable, block, work, limits)
    if within < count and wide:
        advance_many(chunk, within, 1, terms, rows, reached, stable, block, work, limits)
    elif within < count:
        advance_few(chunk, within, terms, rows, reached, stable, block, work, limits)


@kernel
def advance_many(
    chunk: int, slot: int, count: int, terms: Terms, rows: int, reached: Integers, stable: int, block: Block,
    work: Numbers, limits: Limits,
) -> None:  # fmt: skip
    """α of the `count` steps after this one, all in the same chunk, or one step in the next chunk."""
    at, target, scales = slot * block.width, *after(chunk, slot, block)
    source, source_scales = (
        block.alphas + chunk * block.states * block.stride + at,
        block.scales + chunk * block.stride + at,
    )
    steps = Steps(count, 1, chunk * block.steps + slot + 1, reached, stable, block.states, limits.floor)
    places = Places(target, source, rows + at, block.floors, source_scales, scales)
    strides = (block.stride, block.stride, 0)
    move(work, steps, places, strides, block.weighted, terms, block.arrivals, block.width)


@kernel
def advance_few(
    chunk: int, slot: int, terms: Terms, rows: int, reached: Integers, stable: int, block: Block, work: Numbers,
    limits: Limits,
) -> None:  # fmt: skip
    """α of the step after this one, for a few groups."""
    width, stride, step = block.width, block.stride, chunk * block.steps + slot + 1
    (target, scales), reached_at = after(chunk, slot, block), min(step, stable) * block.states
    source = block.alphas + chunk * block.states * stride + slot * width
    move_few(
        work, target, source, stride, rows + slot * width, stride, terms, block.arrivals, block.floors, 0,
        reached[reached_at : reached_at + block.states], width, limits.zero,
    )  # fmt: skip
    normalize(work, target, stride, block.states, scales, limits.floor, width)


@kernel
def after(chunk: int, slot: int, block: Block) -> tuple[int, int]:
    """Position of α of the next step, and of its scale."""
    step = chunk * block.steps + slot + 1
    chunk, at = step // block.steps, step % block.steps * block.width
    return block.alphas + chunk * block.states * block.stride + at, block.scales + chunk * block.stride + at


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
    """total[lane] += Σ_t top[t, lane]: -inf for an instance without a possible class, NaN if the sum may overflow."""
    width = block.width
    for step in range(steps):
        row = work[block.tops + step * width : block.tops + (step + 1) * width]
        for lane in range(width):
            top = np.float64(row[lane])
            total[lane] += top if top == -np.inf or abs(top) < HUGE else np.nan


@part
def forward(
    potentials: Numbers, shape: tuple[int, int], ways: Ways, machines: Machines, reached: Integers,
    stable: int, block: Block, work: Numbers, lanes: Lanes, limits: Limits,
) -> None:  # fmt: skip
    """α of all steps, chunk by chunk; emissions are kept for the backward pass."""
    kept = block.used * block.stride
    start(machines.ends, block, work, limits)
    for chunk in range(block.chunks):
        begin = chunk * block.steps
        steps = min(block.steps, block.longest - begin)
        span = (steps * block.width + LANES - 1) // LANES * LANES
        rows = block.emissions + chunk * kept
        load_chunk(potentials, shape[0] * shape[1], begin, shape[1], ways, rows, block, work, lanes)
        exponentials(work, rows, block, span, limits)
        add_tops(steps, block, work, lanes.top)
        sum_rows(rows, machines.terms, block, work, span)
        advance(chunk, steps, machines.terms, rows, reached, stable, block, work, limits)
    if block.width % LANES == 0:
        settle(block.longest, block, work, limits)
    finish(machines.ends, block, work, lanes, limits)
