"""The data that kernels share: a block of groups with one automaton, and its work array.

Letters: S states, M rows, W lanes (groups side by side), T steps of a chunk. In the work array a row of a chunk holds
its T x W numbers, step by step, then the padding that keeps rows apart in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glws.inference._compiled_trellis.emitter import LANES
from glws.inference._compiled_trellis.lanes import Indices, Integers, Numbers, kernel
from glws.inference._compiled_trellis.machines import (
    DEPARTURE_QUARTETS,
    FIRST_CLASS,
    FIRST_END,
    FIRST_LIST,
    LISTS,
    ROWS,
    STATES,
    USED,
    WEIGHTED,
    WIDE_ROWS,
    Floats,
)
from glws.inference._compiled_trellis.quartets import rounded_up as rounded_up_to_four

SHORTEST_CHUNK, LONGEST_CHUNK = 512, 2048
"""Numbers of a row in a chunk, approximately: long, so that groups are read and written in long runs."""
CHUNK_NUMBERS = 1 << 16
"""Numbers of all rows of a chunk, approximately: few enough for the cache."""
ROW_PADDING = 16
HUGE = 1e300
"""Larger sums of potentials or log-weights may overflow; the plain trellis solves such groups."""
MAX_WIDTH = 64
MAX_WORK = 16_000_000
"""Numbers in the work array, approximately: blocks of long groups have fewer lanes to stay within it."""


rounded_up = kernel(rounded_up_to_four)


class Limits(NamedTuple):
    """Thresholds in the type of the kernel; all in that type, so that nothing is widened.

    least:     -inf
    floor:     added to every reachable state, so that an underflowed value is overestimated instead
    emission:  exponentials up to this one may be overestimates
    norm:      posteriors with a smaller sum are not computed
    tolerance: of a group's overestimates, relative to its Z; above it the group is left to a wider kernel
    weight:    automata with a smaller log-weight are left to a wider kernel
    """

    least: float
    zero: float
    one: float
    floor: float
    emission: float
    norm: float
    tolerance: float
    weight: float


class Block(NamedTuple):
    """Groups order[first], order[first + 1], ..., their layout, and the offsets in the work array.

    Kept from the forward for the backward pass: alphas [chunks, S], scales [chunks], emissions [chunks, used]. The M
    rows of a chunk begin with its emissions; sums follow, where the next chunk has its own. Of the current chunk: betas
    [S], beta_scales, gains [M], tops, norms. Betas have one more step than the others, and after the states, filled up
    to a multiple of four, a row of zeros; gains are filled up too. state_floors [S] are of one step; floors and zeros
    are constant rows.
    """

    machine: int
    first: int
    groups: int
    width: int
    steps: int
    stride: int
    beta_stride: int
    longest: int
    chunks: int
    states: int
    num_rows: int
    used: int
    first_class: int
    first_end: int
    arrivals: int
    departures: int
    visits: int
    members: int
    shares: int
    departure_quartets: int
    weighted: int
    floors: int
    zeros: int
    tops: int
    norms: int
    beta_scales: int
    state_floors: int
    betas: int
    gains: int
    scales: int
    alphas: int
    emissions: int
    size: int


class Ways(NamedTuple):
    """Map from the order of the potentials to that of the work array.

    origin, place: positions of the numbers of one group in a chunk of the potentials, and in the rows of a lane
    starts:        position of the first number of each lane
    dense:         whether all classes are used, so that those of a group are neighbors
    """

    origin: Indices
    place: Indices
    starts: Indices
    dense: bool


class Lanes(NamedTuple):
    """One number for each group of the block.

    Z = mantissa · 2^exponent · end · exp(top + ...); trouble is the share of Z that may be overestimated.
    """

    group: Integers
    length: Integers
    exponent: Integers
    mantissa: Floats
    top: Floats
    end: Floats
    trouble: Floats


@kernel
def block_width(groups: int, numbers: int) -> int:
    """Number of lanes for groups of one automaton, each with this amount of work space."""
    width = min(groups, MAX_WIDTH, max(1, MAX_WORK // max(numbers, 1)))
    if width < 3:
        return width
    if width < LANES or width == groups:
        return (width + LANES - 1) // LANES * LANES
    return width // LANES * LANES


@kernel
def chunk_size(rows: int) -> int:
    """Numbers per row in a chunk with this number of rows."""
    return min(max(CHUNK_NUMBERS // max(rows, 1), SHORTEST_CHUNK), LONGEST_CHUNK)


@kernel
def block_at(first: int, order: Integers, index: Integers, lengths: Integers, numbers: Integers) -> Block:
    """The block that begins with this group, with as many of the next ones as fit.

    `order` sorts groups by automaton, then by length, so that the longest comes last.
    """
    machine = index[order[first]]
    end = first + 1
    while end < len(order) and end < first + MAX_WIDTH and index[order[end]] == machine:
        end += 1
    states, used = numbers[machine, STATES], numbers[machine, USED]
    width = block_width(end - first, (lengths[order[end - 1]] + 1) * (states + used))
    count, wide = min(width, end - first), width >= LANES
    rows, lists = numbers[machine, WIDE_ROWS if wide else ROWS], numbers[machine, FIRST_LIST + (LISTS if wide else 0) :]
    departure_quartets = numbers[machine, DEPARTURE_QUARTETS] if wide else -1
    longest = lengths[order[first + count - 1]]
    steps = max(1, chunk_size(rows + states) // width)
    if not wide:
        steps = (min(steps, longest + 1) + LANES - 1) // LANES * LANES
    stride, chunks = steps * width + ROW_PADDING, longest // steps + 1
    beta_stride, beta_rows = stride + width, rounded_up(states)
    floors = 0
    zeros = floors + width
    tops, norms, beta_scales = zeros + stride, zeros + 2 * stride, zeros + 3 * stride
    state_floors = beta_scales + beta_stride
    betas = state_floors + beta_rows * width
    gains = betas + (beta_rows + 1) * beta_stride
    scales = gains + rounded_up(rows) * stride
    alphas = scales + chunks * stride
    emissions = alphas + chunks * states * stride
    size = emissions + (chunks * used + rows - used) * stride
    return Block(
        machine, first, count, width, steps, stride, beta_stride, longest, chunks, states, rows, used,
        numbers[machine, FIRST_CLASS], numbers[machine, FIRST_END],
        lists[0], lists[1], lists[2], lists[3], lists[4],
        departure_quartets, numbers[machine, WEIGHTED],
        floors, zeros, tops, norms, beta_scales, state_floors, betas, gains, scales, alphas, emissions, size,
    )  # fmt: skip


@kernel
def prepare_work(work: Numbers, block: Block, limits: Limits) -> None:
    """Fill the constant rows, and every row that is read before it is written."""
    work[block.floors : block.zeros] = limits.floor
    work[block.zeros : block.tops] = limits.zero
    work[block.state_floors : block.gains] = limits.zero
    work[block.beta_scales : block.state_floors] = limits.one


@kernel
def new_lanes(block: Block, order: Integers, lengths: Integers) -> Lanes:
    """The groups of the block; lanes without a group have a length of -1."""
    whole, real = np.full((3, block.width), -1, np.int64), np.zeros((4, block.width))
    group, length = whole[0], whole[1]
    for lane in range(block.groups):
        group[lane] = order[block.first + lane]
        length[lane] = lengths[group[lane]]
    whole[2] = 0
    real[0] = 1.0
    return Lanes(group, length, whole[2], real[0], real[1], real[2], real[3])
