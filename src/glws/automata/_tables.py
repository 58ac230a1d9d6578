"""Automata as arrays of arcs: what is reached, in which order, and which states are equivalent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.uint64]

NEVER = float("-inf")
FEW = 5
"""Levels of fewer states are followed one by one, in plain Python."""
SMALL = 40
"""Automata of so many states are minimized in plain Python."""
PATIENCE, MAX_SEARCHES = 6, 4
"""Where blocks are still split after so many rounds, they are split by the distances to so many blocks."""


class Table(NamedTuple):
    """An automaton as arrays: arcs sorted by source, symbol and target; a log-weight for each state."""

    num_states: int
    num_symbols: int
    sources: IntArray
    symbols: IntArray
    targets: IntArray
    log_weights: FloatArray
    log_start: FloatArray
    log_final: FloatArray

    @classmethod
    def of(
        cls,
        num_symbols: int,
        arcs: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike | None],
        log_start: FloatArray | Mapping[int, float],
        log_final: npt.ArrayLike,
    ) -> Table:
        """From columns of arcs in any order; without weights all are 1."""
        sources, symbols, targets = (np.asarray(column, dtype=np.int64) for column in arcs[:3])
        final, size = np.asarray(log_final, dtype=np.float64), len(np.asarray(log_final))
        weights = np.zeros(len(sources)) if arcs[3] is None else np.asarray(arcs[3], dtype=np.float64)
        order = np.lexsort((targets, symbols, sources))
        columns = (sources[order], symbols[order], targets[order], weights[order])
        if isinstance(log_start, Mapping):
            log_start = dense(log_start, size)
        return cls(size, num_symbols, *columns, log_start, final)


def complete(targets: IntArray, is_final: npt.NDArray[np.bool_]) -> Table:
    """The language of a machine that starts in state 0, by the next state for each state and symbol (-1: none)."""
    sources, symbols = np.nonzero(targets >= 0)
    log_final = np.where(is_final, 0.0, NEVER)
    size, symbols_in_all = targets.shape
    zeros = np.zeros(len(sources))
    return Table(
        size, symbols_in_all, sources, symbols, targets[sources, symbols], zeros, dense({0: 0.0}, size), log_final
    )


def dense(weights: Mapping[int, float], size: int) -> FloatArray:
    """Log-weights of all states, -inf for the others."""
    found = np.full(size, NEVER)
    found[list(weights)] = list(weights.values())
    return found


def ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, ... (sizes[0] of them), starts[1], ..."""
    offsets: IntArray = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    return offsets + np.arange(len(offsets))


def by_state(near: IntArray, far: IntArray, num_states: int) -> tuple[IntArray, IntArray, IntArray]:
    """Arcs sorted by the state on one side: where those of each state begin, the states on the other, the order."""
    order = np.argsort(near, kind="stable")
    return np.searchsorted(near[order], np.arange(num_states + 1)), far[order], order


def breadth_first(bounds: IntArray, far: IntArray, first: IntArray) -> tuple[IntArray, IntArray]:
    """The states that are reached, in the order of discovery, and the distance of every state (-1: not reached)."""
    distance, level = np.full(len(bounds) - 1, -1), 0
    distance[first] = 0
    found, front, starts = [first], first, bounds.tolist() if len(bounds) < 1 << 20 else bounds
    while len(front):
        level += 1
        if len(front) < FEW:
            new = {}
            for state in front.tolist():
                after = far[starts[state] : starts[state + 1]]
                new.update(dict.fromkeys(after[distance[after] < 0].tolist()))
            front = np.array(list(new), dtype=np.int64)
        else:
            after = far[ranges(bounds[front], bounds[front + 1] - bounds[front])]
            after = after[distance[after] < 0]
            front = after[np.sort(np.unique(after, return_index=True)[1])]
        distance[front] = level
        found.append(front)
    return np.concatenate(found), distance


def trimmed(table: Table) -> Table:
    """Only the states on a path from a start to a final state, numbered breadth first."""
    return _trimmed(table, False)[0]


def _trimmed(table: Table, is_explored: bool) -> tuple[Table, IntArray]:
    """The same, and the number of arcs from each state to a final one."""
    order, to_end = np.arange(table.num_states), _to_end(table)
    if not is_explored:
        order, _ = breadth_first(_bounds(table), table.targets, np.flatnonzero(table.log_start > NEVER))
    order = order[to_end[order] >= 0]
    is_done = len(order) == table.num_states and bool((order[1:] > order[:-1]).all())
    return (table, to_end) if is_done else (renumbered(table, order), to_end[order])


def _bounds(table: Table) -> IntArray:
    """Where the arcs of each state begin."""
    found: IntArray = np.searchsorted(table.sources, np.arange(table.num_states + 1))
    return found


def _to_end(table: Table) -> IntArray:
    """The number of arcs from each state to a final one; -1: none is reached."""
    ends = np.flatnonzero(table.log_final > NEVER)
    return breadth_first(*by_state(table.targets, table.sources, table.num_states)[:2], ends)[1]


def renumbered(table: Table, order: IntArray) -> Table:
    """These states in this order, at least one, and the arcs between them."""
    if not len(order):
        none = np.zeros(0)
        return Table.of(table.num_symbols, (none, none, none, none), {0: 0.0}, [NEVER])
    number = np.full(table.num_states, -1)
    number[order] = np.arange(len(order))
    sources, targets = number[table.sources], number[table.targets]
    kept = (sources >= 0) & (targets >= 0)
    arcs = (sources[kept], table.symbols[kept], targets[kept], table.log_weights[kept])
    return Table.of(table.num_symbols, arcs, table.log_start[order], table.log_final[order])


def minimized(table: Table, is_explored: bool = False) -> Table:
    """The smallest table with the same weights; for one start and one arc for each state and symbol.

    `is_explored` says that the states are numbered breadth first from the start.
    """
    table, to_end = _trimmed(table, is_explored)
    if table.num_states == 1:
        return table
    _, first, block = np.unique(equivalent(table, to_end), return_index=True, return_inverse=True)
    order = np.sort(first)  # blocks in the order of their first states are numbered breadth first
    if len(order) == table.num_states:
        return table
    number = np.searchsorted(order, first)[block]
    kept = np.isin(table.sources, order)
    arcs = (number[table.sources[kept]], table.symbols[kept], number[table.targets[kept]], table.log_weights[kept])
    return Table.of(table.num_symbols, arcs, table.log_start[order], table.log_final[order])


# Equivalent states


def equivalent(table: Table, to_end: IntArray) -> IntArray:
    """The block of each state: equal where equal final weights follow equal symbols and weights.

    Blocks are split until states of a block have arcs into the same blocks. Only states with an arc into a part that
    was split off are compared again, and of the parts of a block the largest is never one of those (Hopcroft). States
    are compared by 64-bit hashes of their arcs.
    """
    if table.num_states <= SMALL:
        return _equivalent_by_rounds(table, to_end)
    letters, bounds = _letters(table), _bounds(table)
    incoming, sources, _ = by_state(table.targets, table.sources, table.num_states)
    ends = np.unique(table.log_final, return_inverse=True)[1]
    block = _joined([ends, np.unique(_sums(letters, bounds), return_inverse=True)[1], to_end])
    sizes, changed, rounds = np.bincount(block), np.arange(table.num_states), 0
    while len(changed) and len(sizes) < table.num_states:
        if rounds == PATIENCE:  # equivalent states are equally far from each block
            rare = np.argsort(sizes)[:MAX_SEARCHES]
            far = [breadth_first(incoming, sources, np.flatnonzero(block == number))[1] for number in rare]
            block = _joined([block, *far])
            sizes, changed = np.bincount(block), np.arange(table.num_states)
        some = ranges(bounds[changed], bounds[changed + 1] - bounds[changed])
        stops = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(bounds[changed + 1] - bounds[changed])])
        hashes = _sums(letters[some] * (block[table.targets[some]] + 1).astype(np.uint64), stops)
        moved, sizes = _split(block, sizes, changed, hashes)
        changed = np.unique(sources[ranges(incoming[moved], incoming[moved + 1] - incoming[moved])])
        rounds += 1
    return block


def _equivalent_by_rounds(table: Table, to_end: IntArray) -> IntArray:
    """The same, comparing all states in every round (Moore)."""
    block: list[object] = list(zip(table.log_final.tolist(), to_end.tolist(), strict=True))
    columns = (table.sources, table.symbols, table.targets, table.log_weights)
    arcs = list(zip(*(column.tolist() for column in columns), strict=True))
    blocks, before = len(set(block)), 0
    while before < blocks < len(block):
        after: list[list[object]] = [[own] for own in block]
        for source, symbol, target, weight in arcs:
            after[source].append((symbol, weight, block[target]))
        number: dict[object, int] = {}
        block = list(number.setdefault(tuple(key), len(number)) for key in after)
        before, blocks = blocks, len(number)
    number = {}
    return np.array([number.setdefault(own, len(number)) for own in block])


def _letters(table: Table) -> Hashes:
    """A hash of the symbol and weight of each arc."""
    weights = np.unique(table.log_weights, return_inverse=True)[1]
    return _mixed(table.symbols * (int(weights.max(initial=0)) + 1) + weights)


def _mixed(numbers: IntArray) -> Hashes:
    """Hashes of numbers, as random as can be (splitmix64), and odd."""
    found = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (found ^ (found >> np.uint64(31))) | np.uint64(1)


def _sums(values: Hashes, bounds: IntArray) -> Hashes:
    """The sums of values[bounds[i] : bounds[i + 1]], modulo 2^64."""
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Hashes = total[bounds[1:]] - total[bounds[:-1]]
    return sums


def _joined(keys: list[IntArray]) -> IntArray:
    """The number of each combination of keys."""
    block = keys[0]
    for key in keys[1:]:
        block = np.unique(block * (int(key.max()) + 2) + key + 1, return_inverse=True)[1]
    return block


def _split(block: IntArray, sizes: IntArray, changed: IntArray, hashes: Hashes) -> tuple[IntArray, IntArray]:
    """Split blocks, in place, by the hashes of their changed states; the states with another block, and all sizes."""
    order = np.lexsort((hashes, block[changed]))
    states, own, hashes = changed[order], block[changed[order]], hashes[order]
    first = np.flatnonzero(np.r_[True, (own[1:] != own[:-1]) | (hashes[1:] != hashes[:-1])])
    counts, owner = np.diff(np.r_[first, len(states)]), own[first]
    heads = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    number = np.repeat(np.arange(len(heads)), np.diff(np.r_[heads, len(owner)]))
    rest = sizes[owner[heads]] - np.add.reduceat(counts, heads)  # states that did not change stay together
    largest = np.lexsort((-counts, number))[heads]
    leaves = (rest > 0) & (rest <= counts[largest])
    is_moved = np.ones(len(first), dtype=bool)
    is_moved[largest[(rest == 0) | leaves]] = False
    new = np.full(len(sizes), -1)
    new[owner[heads[leaves]]] = len(sizes) + np.arange(int(leaves.sum()))
    others = np.zeros(0, dtype=np.int64)
    if leaves.any():
        is_other = new[block] >= 0
        is_other[changed] = False
        others = np.flatnonzero(is_other)
        block[others] = new[block[others]]
    moved = states[np.repeat(is_moved, counts)]
    block[moved] = len(sizes) + int(leaves.sum()) + np.repeat(np.arange(int(is_moved.sum())), counts[is_moved])
    moved = np.concatenate([moved, others])
    return moved, np.bincount(block, minlength=len(sizes) + int(leaves.sum()) + int(is_moved.sum()))
