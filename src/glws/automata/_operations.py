"""Operations on automata, each a few lines around `explore`.

All functions take automata and return the `Table` of a new one; `Automaton` has the operators and decides what the
result means (a language or a sum of weights).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from glws.automata._explore import ALWAYS, NEVER, check_budget, explore
from glws.automata._questions import adder, log_weight, starts
from glws.automata._tables import IntArray, Table, complete, ranges, trimmed
from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


def _final(automaton: Automaton) -> list[float]:
    result: list[float] = automaton.log_final.tolist()
    return result


# Combining


def intersect(left: Automaton, right: Automaton) -> Table:
    """Pairs of states that read the same symbol; weights multiply."""
    return trimmed(product(left.table, right.table))


def product(left: Table, right: Table) -> Table:
    """All pairs of states that are reached together, level by level."""
    size, letters = right.num_states, left.num_symbols
    bounds = np.searchsorted(left.sources, np.arange(left.num_states + 1))
    begins, ends = (
        np.searchsorted(right.sources * letters + right.symbols, np.arange(size * letters), side)
        for side in ("left", "right")
    )
    starts = [np.flatnonzero(side.log_start > NEVER) for side in (left, right)]
    level = (starts[0][:, None] * size + starts[1]).reshape(-1)
    found, seen = [level], set(level.tolist())
    columns: list[tuple[IntArray, IntArray, IntArray]] = []
    while len(level):
        state, other = np.divmod(level, size)
        counts = bounds[state + 1] - bounds[state]
        arc, pair = ranges(bounds[state], counts), np.repeat(np.arange(len(level)), counts)
        key = other[pair] * letters + left.symbols[arc]
        matches = ends[key] - begins[key]
        both = ranges(begins[key], matches)
        arc, pair = np.repeat(arc, matches), np.repeat(pair, matches)
        columns.append((level[pair], arc, both))
        codes = dict.fromkeys((left.targets[arc] * size + right.targets[both]).tolist())
        level = np.array([code for code in codes if code not in seen], dtype=np.int64)
        seen.update(codes)
        check_budget(len(seen))
        found.append(level)
    codes_in_order = np.concatenate(found)
    source, arc, both = (np.concatenate(parts) for parts in zip(*columns, strict=True)) if columns else [level] * 3
    rank = np.argsort(codes_in_order)

    def number(codes: IntArray) -> IntArray:
        return rank[np.searchsorted(codes_in_order, codes, sorter=rank)] if len(codes) else codes

    targets = number(left.targets[arc] * size + right.targets[both])
    weights = left.log_weights[arc] + right.log_weights[both]
    state, other = np.divmod(codes_in_order, size)
    arcs = (number(source), left.symbols[arc], targets, weights)
    log_start = np.full(len(state), NEVER)
    few = len(found[0])
    log_start[:few] = (left.log_start[state] + right.log_start[other])[:few]
    return Table.of(letters, arcs, log_start, left.log_final[state] + right.log_final[other])


def unite(left: Automaton, right: Automaton) -> Table:
    """Both automata side by side, with the starts of both."""
    sides = (left, right)
    finals = (_final(left), _final(right))

    def follow(state: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        side, inner = state
        return ((symbol, (side, target), weight) for symbol, target, weight in sides[side].outgoing[inner])

    start = {(side, state): weight for side in (0, 1) for state, weight in starts(sides[side]).items()}
    return explore(left.num_symbols, start, follow, lambda state: finals[state[0]][state[1]])


def entry(automaton: Automaton) -> list[tuple[int, int, float]]:
    """The first steps of an automaton, from all of its starts."""
    return [
        (symbol, target, start + weight)
        for state, start in starts(automaton).items()
        for symbol, target, weight in automaton.outgoing[state]
    ]


def _empty_weight(automaton: Automaton) -> float:
    """The log-weight of the empty labeling."""
    return log_weight(automaton, ())


def concatenate(left: Automaton, right: Automaton) -> Table:
    """From a final state of the left one, the first steps of the right one are available too."""
    add, first_steps, empty = adder(left, right), entry(right), _empty_weight(right)
    left_final, right_final = _final(left), _final(right)

    def follow(state: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        side, inner = state
        yield from ((y, (side, target), w) for y, target, w in (left, right)[side].outgoing[inner])
        if side == 0 and left_final[inner] > NEVER:
            yield from ((y, (1, target), left_final[inner] + w) for y, target, w in first_steps)

    start = {(0, state): weight for state, weight in starts(left).items()}
    return explore(
        left.num_symbols,
        start,
        follow,
        lambda state: right_final[state[1]] if state[0] else left_final[state[1]] + empty,
        add,
    )


def star(automaton: Automaton) -> Table:
    """A new start that is final (state -1); a final state has the first steps again."""
    if automaton.is_weighted and _empty_weight(automaton) > NEVER:
        raise AutomatonError("the star of a weighted automaton needs weight 0 for the empty labeling")
    first_steps, final = entry(automaton), _final(automaton)

    def follow(state: int) -> Iterable[tuple[int, int, float]]:
        if state < 0:
            return first_steps
        again = [(y, target, final[state] + w) for y, target, w in first_steps] if final[state] > NEVER else []
        return automaton.outgoing[state] + again

    return explore(
        automaton.num_symbols, {-1: ALWAYS}, follow, lambda s: ALWAYS if s < 0 else final[s], adder(automaton)
    )


def complement(automaton: Automaton) -> Table:
    """Determinize, complete with a state that accepts everything, and exchange final and other states."""
    if automaton.is_weighted:
        raise AutomatonError("a weighted automaton has no complement; take the complement of its .support()")
    machine = automaton.determinize()
    return trimmed(inverted(machine.table))


def inverted(table: Table) -> Table:
    """The complement of a deterministic language, untrimmed."""
    size = table.num_states
    targets = np.full((size + 1, table.num_symbols), size)
    targets[table.sources, table.symbols] = table.targets
    found = complete(targets, np.append(table.log_final == NEVER, True))
    return found._replace(log_start=np.append(table.log_start, NEVER))


def reverse(automaton: Automaton) -> Table:
    """Reverse the arcs, exchange starts and finals."""
    table = automaton.table
    arcs = (table.targets, table.symbols, table.sources, table.log_weights)
    return Table.of(table.num_symbols, arcs, table.log_final, table.log_start)


def support(automaton: Automaton) -> Table:
    """The same machine with every weight above zero set to one."""
    table = automaton.table
    log_start, log_final = (np.where(ends > NEVER, 0.0, NEVER) for ends in (table.log_start, table.log_final))
    return table._replace(log_weights=np.zeros(len(table.sources)), log_start=log_start, log_final=log_final)


def given(automaton: Automaton, labels: Mapping[int, int], length: int) -> Table:
    """Places and states before the labels that are not given; given ones are read at once where they come."""
    add, last = adder(automaton), _final(automaton)

    def read(place: int, states: dict[int, float]) -> dict[tuple[int, int], float]:
        """Where all given labels from this place on lead."""
        while place in labels:
            after: dict[int, float] = {}
            for state, weight in states.items():
                for symbol, target, arc in automaton.outgoing[state]:
                    if symbol == labels[place]:
                        after[target] = add(after.get(target, NEVER), weight + arc)
            place, states = place + 1, after
        return {(place, state): weight for state, weight in states.items()}

    def follow(where: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        place, state = where
        for symbol, target, weight in automaton.outgoing[state] if place < length else ():
            yield from ((symbol, *after) for after in read(place + 1, {target: weight}).items())

    def stop(where: tuple[int, int]) -> float:
        return last[where[1]] if where[0] == length else NEVER

    return trimmed(explore(automaton.num_symbols, read(0, starts(automaton)), follow, stop, add))


# Simplification


def determinize(automaton: Automaton) -> Table:
    """Subset construction: the sets of states that a labeling can reach."""
    if automaton.is_weighted:
        raise AutomatonError("a weighted automaton that is not deterministic cannot be determinized in general")
    final = {state for state, weight in enumerate(_final(automaton)) if weight > NEVER}

    def follow(states: frozenset[int]) -> Iterable[tuple[int, frozenset[int], float]]:
        reached = defaultdict(set)
        for state in states:
            for symbol, target, _ in automaton.outgoing[state]:
                reached[symbol].add(target)
        return ((symbol, frozenset(targets), ALWAYS) for symbol, targets in sorted(reached.items()))

    start = {frozenset(starts(automaton)): ALWAYS}
    return explore(
        automaton.num_symbols,
        start,
        follow,
        lambda states: NEVER if final.isdisjoint(states) else ALWAYS,
    )
