"""The living states and arcs of an automaton at each step of a group, laid out for the compiled kernel.

A state is alive at step t of a group if t labels can lead to it and the remaining ones can lead from it to an end. Only
arcs between living states are followed: an automaton that counts its steps costs what is alive at one step. Steps with
the same living arcs share a *layer*, so that the plan of an automaton does not grow with the length if its states do
not depend on the step.

Arcs of a layer between the same two states are one edge, whose emission is one *row*: a class, or a weighted sum of
classes, computed once for all edges that share it. Edges are listed by target for the forward pass and by source for
the backward pass, one state at a time or four: four neighbors that share most of their rows load each row once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glws.automata import Automaton

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FOUR = 4
MAX_SPELLED = 4
"""Sums that take at most this many arcs stay arcs."""
MAX_STATES, MAX_ARCS = 4_000_000, 4_000_000
"""Above so many living states of distinct steps, or arcs, all states count as alive at all steps."""

# fmt: off
(
    WEIGHTED, MOST_SUMS, WIDEST, ON_TOGETHER, BACK_TOGETHER, PLACES, SETS, SET_BOUNDS, STATES, LAYERS,
    SUM_BOUNDS, MEMBER_BOUNDS, MEMBERS, ALLOWED, ON_FIRST, ON_BOUNDS, ON_TABLE, BACK_FIRST, BACK_BOUNDS, BACK_TABLE,
    SHARES, ON_WEIGHTS, BACK_WEIGHTS, START, FINAL, FIELDS,
) = range(26)
# fmt: on
"""The header of a plan: five numbers, then the positions of its lists of integers, then of its lists of weights.

WEIGHTED:  whether an edge has a weight other than 1; MOST_SUMS: of a layer; WIDEST: the rows of the widest step
TOGETHER:  how many neighboring states are a group: one or four
PLACES:    the first row of each step; a step has a row for each living state, then one to four empty ones
SETS:      the number of the set of living states of each step; STATES has those of set i from SET_BOUNDS[i] on
LAYERS:    the layer of the arcs from each step to the next
SUMS:      layer d has those from SUM_BOUNDS[d] on; the MEMBERS of sum i, classes with SHARES, from MEMBER_BOUNDS[i] on
ALLOWED:   of each layer and class, whether an arc has it
edges:     of layer d are the groups from FIRST[d] on; group i has the entries from BOUNDS[i] on; an entry of the TABLE
           is a row and, for each state of the group, the state on the other side, with weights for those. ON: groups
           of targets; BACK: groups of sources
START:     the weights of the living states of step 0; FINAL: of all states, the largest of each 1
"""


class Plan(NamedTuple):
    """Header and lists of integers, lists of weights, and three numbers.

    logs: the log-divisors of start and final weights together, and of arcs; the smallest log-weight left
    """

    numbers: Integers
    weights: Floats
    logs: Floats


def work_size(plan: Plan, length: int, num_classes: int) -> int:
    """Numbers that a group of this length needs, for its living states and emissions."""
    header = plan.numbers
    return int(header[header[PLACES] + length + 1] + length * (num_classes + header[MOST_SUMS]))


def plan_of(automaton: Automaton, length: int, is_ragged: bool) -> Plan:
    """The plan of groups of this length, or of any length up to it if `is_ragged`."""
    machine = automaton.inference_form
    steps = np.arange(length + 1)
    alive = _alive(machine, length, is_ragged) or _everything(machine, steps)
    arcs = _arcs(machine, alive)
    if arcs is None:
        alive = _everything(machine, steps)
        arcs = _arcs(machine, alive)
    assert arcs is not None
    return _packed(
        machine, alive, _allowed(arcs, len(alive.pairs), machine.num_symbols), *_edges(arcs, machine, len(alive.pairs))
    )


class _Alive(NamedTuple):
    """The sets of living states, that of each step, the pair of sets of each layer, and the layer of each step."""

    bounds: Integers
    states: Integers
    sets: Integers
    pairs: Integers
    layers: Integers


class _Sequence(NamedTuple):
    """Sorted sets of states after 0, 1, ... steps; set `repeat` follows the last one."""

    bounds: Integers
    states: Integers
    repeat: int

    def at(self, steps: Integers) -> Integers:
        """The number of the set after so many steps."""
        count = len(self.bounds) - 1
        return np.where(steps < count, steps, self.repeat + (steps - self.repeat) % max(count - self.repeat, 1))


def _by_state(near: Integers, far: Integers, num_states: int) -> tuple[Integers, Integers, Integers]:
    """Arcs sorted by the state on one side: where those of each state begin, the states on the other, the order."""
    order = np.argsort(near, kind="stable")
    return np.searchsorted(near[order], np.arange(num_states + 1)), far[order], order


def _ranges(starts: Integers, sizes: Integers) -> Integers:
    """starts[0], starts[0] + 1, ... (sizes[0] of them), starts[1], ..."""
    offsets: Integers = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    return offsets + np.arange(len(offsets))


def _reached(bounds: Integers, far: Integers, first: Integers, steps: int, at_least: bool) -> _Sequence | None:
    """The sets that 0, 1, ... steps lead to, or as many or fewer if `at_least`; None if they are too large together."""
    found, total, numbers = [first], 0, {first.tobytes(): 0}
    for step in range(steps):
        states = far[_ranges(bounds[found[-1]], np.diff(bounds)[found[-1]])]
        states = np.unique(np.concatenate([states, first]) if at_least else states)
        number = numbers.setdefault(states.tobytes(), step + 1)
        if number <= step:
            break
        found.append(states)
        total += len(states)
        if total > MAX_STATES:
            return None
    else:
        number = steps
    return _Sequence(np.r_[0, np.cumsum([len(states) for states in found])], np.concatenate(found), number)


def _alive(machine: Automaton, length: int, is_ragged: bool) -> _Alive | None:
    """Of each step, the states that the start leads to and that can still come to an end."""
    starts, ends = (np.flatnonzero(weights > -np.inf) for weights in (machine.log_start, machine.log_final))
    size = machine.num_states
    ahead = _reached(*_by_state(machine.sources, machine.targets, size)[:2], starts, length, False)
    back = _reached(*_by_state(machine.targets, machine.sources, size)[:2], ends, length, is_ragged)
    if ahead is None or back is None:
        return None
    steps = np.arange(length + 1)
    kinds = len(back.bounds) - 1
    pairs, sets = np.unique(ahead.at(steps) * kinds + back.at(length - steps), return_inverse=True)
    keys = [_keys(sequence, numbers, size) for sequence, numbers in ((ahead, pairs // kinds), (back, pairs % kinds))]
    if keys[0] is None or keys[1] is None:
        return None
    kept = keys[0][np.isin(keys[0], keys[1], assume_unique=True)]
    return _with_layers(np.searchsorted(kept, np.arange(len(pairs) + 1) * size), kept % size, sets)


def _keys(sequence: _Sequence, numbers: Integers, num_states: int) -> Integers | None:
    """place * num_states + state, for each state of the sets with these numbers; None if there are too many."""
    sizes = np.diff(sequence.bounds)[numbers]
    if sizes.sum() > MAX_STATES:
        return None
    states = sequence.states[_ranges(sequence.bounds[numbers], sizes)]
    keys: Integers = np.repeat(np.arange(len(numbers)) * num_states, sizes) + states
    return keys


def _everything(machine: Automaton, steps: Integers) -> _Alive:
    """All states at all steps."""
    states = np.arange(machine.num_states)
    return _with_layers(np.array([0, len(states)]), states, np.zeros(len(steps), dtype=np.int64))


def _with_layers(bounds: Integers, states: Integers, sets: Integers) -> _Alive:
    keys, layers = np.unique(sets[:-1] * len(bounds) + sets[1:], return_inverse=True)
    return _Alive(bounds, states, sets, np.stack(np.divmod(keys, len(bounds)), 1), layers)


class _Arcs(NamedTuple):
    """Arcs of all layers; states are numbered within the living ones of their step."""

    layer: Integers
    source: Integers
    target: Integers
    symbol: Integers
    log_weight: Floats

    def sorted(self, order: Integers) -> _Arcs:
        """The arcs in this order."""
        return _Arcs(
            self.layer[order], self.source[order], self.target[order], self.symbol[order], self.log_weight[order]
        )


def _arcs(machine: Automaton, alive: _Alive) -> _Arcs | None:
    """The arcs of all layers; None if there are too many."""
    bounds, targets, order = _by_state(machine.sources, machine.targets, machine.num_states)
    before, after = alive.pairs.T
    sizes = np.diff(alive.bounds)
    number = _ranges(alive.bounds[before], sizes[before])
    states, layer = alive.states[number], np.repeat(np.arange(len(before)), sizes[before])
    counts = np.diff(bounds)[states]
    if counts.sum() > MAX_ARCS and len(before) > 1:
        return None
    arc = _ranges(bounds[states], counts)
    source, layer = np.repeat(number - alive.bounds[before[layer]], counts), np.repeat(layer, counts)
    keys = np.repeat(np.arange(len(sizes)) * machine.num_states, sizes) + alive.states
    wanted = after[layer] * machine.num_states + targets[arc]
    place = np.searchsorted(keys, wanted)
    is_alive = (
        keys[np.minimum(place, max(len(keys) - 1, 0))] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
    )
    arc, layer, source, place = (part[is_alive] for part in (order[arc], layer, source, place))
    target = place - alive.bounds[after[layer]]
    return _Arcs(layer, source, target, machine.symbols[arc], machine.log_weights[arc])


def _allowed(arcs: _Arcs, layers: int, num_classes: int) -> Integers:
    allowed = np.zeros((layers, num_classes), dtype=np.int64)
    allowed[arcs.layer, arcs.symbol] = 1
    return allowed


class _Sums(NamedTuple):
    """Sums of classes: those of each layer, and the members of each."""

    bounds: Integers
    member_bounds: Integers
    members: Integers
    shares: Floats


def _edges(arcs: _Arcs, machine: Automaton, layers: int) -> tuple[_Sums, Integers, Floats]:
    """The sums of all layers, and the edges: (layer, source, target, row) with a weight."""
    order = np.lexsort((arcs.symbol, arcs.target, arcs.source, arcs.layer))
    arcs = arcs.sorted(order)
    weight = np.exp(arcs.log_weight - _log_step(machine))
    ends = np.stack([arcs.layer, arcs.source, arcs.target], 1)
    first = np.flatnonzero(_is_new(ends))
    sizes = np.diff(np.r_[first, len(ends)])
    number, sums = _sums(arcs, weight, first, sizes, layers)
    is_summed = number[np.repeat(np.arange(len(first)), sizes)] >= 0
    kept = np.r_[np.flatnonzero(~is_summed), first[number >= 0]]
    row = np.r_[arcs.symbol[~is_summed], machine.num_symbols + number[number >= 0]]
    return sums, np.c_[ends[kept], row], np.r_[weight[~is_summed], np.ones(int((number >= 0).sum()))]


def _is_new(keys: Integers) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before."""
    is_new: npt.NDArray[np.bool_] = np.r_[len(keys) > 0, (keys[1:] != keys[:-1]).any(1)][: len(keys)]
    return is_new


def _sums(arcs: _Arcs, weight: Floats, first: Integers, sizes: Integers, layers: int) -> tuple[Integers, _Sums]:
    """The number within its layer of the sum of each edge (-1: it stays arcs), and the different sums of each layer."""
    numbers = np.full(len(first), -1)
    found: dict[tuple[int, bytes, bytes], list[int]] = {}
    for edge in np.flatnonzero(sizes > 1).tolist():
        part = slice(first[edge], first[edge] + sizes[edge])
        found.setdefault(
            (int(arcs.layer[first[edge]]), arcs.symbol[part].tobytes(), weight[part].tobytes()), []
        ).append(edge)
    counts, members, shares = np.zeros(layers, dtype=np.int64), [], []
    for (layer, symbols, weights), edges in found.items():  # edges, hence layers, are in order
        values = np.frombuffer(symbols, dtype=np.int64)
        if len(edges) * len(values) > MAX_SPELLED:
            numbers[edges] = counts[layer]
            counts[layer] += 1
            members.append(values)
            shares.append(np.frombuffer(weights))
    member_bounds = np.r_[0, np.cumsum([len(values) for values in members])].astype(np.int64)
    joined = np.concatenate([np.zeros(0, dtype=np.int64), *members]), np.concatenate([np.zeros(0), *shares])
    return numbers, _Sums(np.r_[0, np.cumsum(counts)], member_bounds, *joined)


def _log_step(machine: Automaton) -> float:
    top = float(machine.log_weights.max(initial=-np.inf))
    return top if top > -np.inf else 0.0


class _Groups(NamedTuple):
    """Edges of all layers, grouped by the states on one side, as in the header of a plan."""

    together: int
    first: Integers
    bounds: Integers
    table: Integers
    weights: Floats


def _grouped(
    edges: tuple[Integers, Integers, Integers, Integers], weight: Floats, here: Integers, there: Integers,
    costs: tuple[int, int],
) -> _Groups:  # fmt: skip
    """Edges (layer, unit, row, other) by unit, one or four at a time, whichever costs less.

    `here` and `there` are the numbers of states of each layer on the two sides; `costs` are those of an entry of one
    and of four.
    """
    layer, unit, row, other = edges
    order = np.lexsort((other, row, unit, layer))
    layer, unit, row, other = (part[order] for part in edges)
    weight = weight[order]
    found = [_entries(together, layer, unit, row) for together in (1, FOUR)]
    together = FOUR if costs[1] * len(found[1][0]) < costs[0] * len(found[0][0]) else 1
    entries, entry = found[together == FOUR]
    table = np.repeat(there[entries[:, 0], None], 1 + together, 1)  # at first, an empty row for everyone
    shares = np.ones((len(entries), together))
    table[:, 0] = entries[:, 2]
    table[entry, 1 + unit % together], shares[entry, unit % together] = other, weight
    first = np.r_[0, np.cumsum((here + together - 1) // together)]
    counts = np.bincount(first[entries[:, 0]] + entries[:, 1], minlength=int(first[-1]))
    return _Groups(together, first, np.r_[0, np.cumsum(counts)], table, shares)


def _entries(together: int, layer: Integers, unit: Integers, row: Integers) -> tuple[Integers, Integers]:
    """(layer, group, row, occurrence) of each entry, sorted, and the entry of each edge; edges are sorted."""
    keys = np.stack([layer, unit, row], 1)
    places = np.arange(len(keys))
    begins = _is_new(keys)
    occurrence = places - np.maximum.accumulate(np.where(begins, places, 0))
    columns = (layer, unit // together, row, occurrence)
    order = np.lexsort(columns[::-1])
    table = np.stack(columns, 1)[order]
    is_new = _is_new(table)
    entry = np.empty(len(table), dtype=np.int64)
    entry[order] = np.cumsum(is_new) - 1
    return table[is_new], entry


ONWARD_COSTS, BACK_COSTS = (2, 5), (4, 7)
"""Loads and stores of an entry of one state and of four."""


def _packed(machine: Automaton, alive: _Alive, allowed: Integers, sums: _Sums, edges: Integers, weight: Floats) -> Plan:
    sizes = np.diff(alive.bounds)
    sources, targets = sizes[alive.pairs.T]
    layer, source, target, row = edges.T
    onward = _grouped((layer, target, row, source), weight, targets, sources, ONWARD_COSTS)
    back = _grouped((layer, source, row, target), weight, sources, targets, BACK_COSTS)
    rows = (sizes[alive.sets] // FOUR + 1) * FOUR
    log_start, start_top = _scaled(machine.log_start)
    log_final, final_top = _scaled(machine.log_final)
    log_step = _log_step(machine)
    finite = np.concatenate([machine.log_weights - log_step, log_start, log_final])
    logs = np.array([start_top + final_top, log_step, float(finite.min(initial=0.0, where=finite > -np.inf))])
    is_weighted = bool((weight != 1.0).any())
    header = [is_weighted, int(np.diff(sums.bounds).max(initial=0)), int(rows.max()), onward.together, back.together]
    numbers = [
        np.r_[0, np.cumsum(rows)], alive.sets, alive.bounds, alive.states, alive.layers,
        sums.bounds, sums.member_bounds, sums.members,
        allowed, onward.first, onward.bounds, onward.table, back.first, back.bounds, back.table,
    ]  # fmt: skip
    first = alive.states[alive.bounds[alive.sets[0]] : alive.bounds[alive.sets[0] + 1]]
    weights = [sums.shares, onward.weights, back.weights, np.exp(log_start)[first], np.exp(log_final)]
    places = [*FIELDS + _before(numbers), *_before(weights)]
    flat = [np.array([*header, *places]), *(part.reshape(-1) for part in numbers)]
    return Plan(np.concatenate(flat).astype(np.int64), np.concatenate([part.reshape(-1) for part in weights]), logs)


def _scaled(log_weights: Floats) -> tuple[Floats, float]:
    top = float(log_weights.max())
    return (log_weights - top, top) if top > -np.inf else (log_weights, 0.0)


def _before(parts: list[Any]) -> Integers:
    """The offset of each: the sum of the sizes before it."""
    sizes = np.array([part.size for part in parts])
    before: Integers = np.cumsum(sizes) - sizes
    return before
