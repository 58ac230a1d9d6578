"""What automata can do to one another: each operation is a few lines around `explore`.

All functions take automata and return the `Parts` of a new one; `Automaton` gives them their operators and decides what
the result means (a language or a sum of weights).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glws.automata.explore import ALWAYS, NEVER, Parts, explore
from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata.automaton import Automaton


def adder(*automata: Automaton) -> Callable[[float, float], float]:
    """How parallel paths join: as a set for languages, as a sum once there are weights."""
    return _log_add if any(automaton.is_weighted for automaton in automata) else max


def _log_add(left: float, right: float) -> float:
    return float(np.logaddexp(left, right))


def _starts(automaton: Automaton) -> dict[int, float]:
    return {int(s): float(automaton.log_start[s]) for s in np.flatnonzero(automaton.log_start > NEVER)}


def _final(automaton: Automaton) -> list[float]:
    result: list[float] = automaton.log_final.tolist()
    return result


# Combining


def intersect(left: Automaton, right: Automaton) -> Parts:
    """Pairs of states that read the same symbol; weights multiply."""
    left_final, right_final = _final(left), _final(right)

    def follow(pair: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        by_symbol = defaultdict(list)
        for symbol, target, weight in right.outgoing[pair[1]]:
            by_symbol[symbol].append((target, weight))
        for symbol, target, weight in left.outgoing[pair[0]]:
            for other, other_weight in by_symbol[symbol]:
                yield symbol, (target, other), weight + other_weight

    start = {(p, q): v + w for p, v in _starts(left).items() for q, w in _starts(right).items()}
    return _trimmed(explore(left.num_symbols, start, follow, lambda pair: left_final[pair[0]] + right_final[pair[1]]))


def unite(left: Automaton, right: Automaton) -> Parts:
    """Side by side, with the starts of both."""
    sides = (left, right)
    finals = (_final(left), _final(right))

    def follow(state: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        side, inner = state
        return ((symbol, (side, target), weight) for symbol, target, weight in sides[side].outgoing[inner])

    start = {(side, state): weight for side in (0, 1) for state, weight in _starts(sides[side]).items()}
    return explore(left.num_symbols, start, follow, lambda state: finals[state[0]][state[1]])


def entry(automaton: Automaton) -> list[tuple[int, int, float]]:
    """The first steps of an automaton, whichever start they come from."""
    return [
        (symbol, target, start + weight)
        for state, start in _starts(automaton).items()
        for symbol, target, weight in automaton.outgoing[state]
    ]


def _empty_weight(automaton: Automaton) -> float:
    """The log-weight of the empty labeling."""
    return log_weight(automaton, ())


def concatenate(left: Automaton, right: Automaton) -> Parts:
    """From a final state of the left one, the first steps of the right one can be taken as well."""
    add, first_steps, empty = adder(left, right), entry(right), _empty_weight(right)
    left_final, right_final = _final(left), _final(right)

    def follow(state: tuple[int, int]) -> Iterable[tuple[int, tuple[int, int], float]]:
        side, inner = state
        yield from ((y, (side, target), w) for y, target, w in (left, right)[side].outgoing[inner])
        if side == 0 and left_final[inner] > NEVER:
            yield from ((y, (1, target), left_final[inner] + w) for y, target, w in first_steps)

    start = {(0, state): weight for state, weight in _starts(left).items()}
    return explore(
        left.num_symbols,
        start,
        follow,
        lambda state: right_final[state[1]] if state[0] else left_final[state[1]] + empty,
        add,
    )


def star(automaton: Automaton) -> Parts:
    """A new start that is final (state -1); from a final state one can begin again."""
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


def complement(automaton: Automaton) -> Parts:
    """Determinized and completed by a state -1 in which nothing can go wrong any more; final and other states swap."""
    if automaton.is_weighted:
        raise AutomatonError("a weighted automaton has no complement; take that of its .support()")
    machine = automaton.determinize()
    final = _final(machine)
    next_state = [{symbol: target for symbol, target, _ in arcs} for arcs in machine.outgoing]

    def follow(state: int) -> Iterable[tuple[int, int, float]]:
        arcs = next_state[state] if state >= 0 else {}
        return ((symbol, arcs.get(symbol, -1), ALWAYS) for symbol in range(machine.num_symbols))

    def stop(state: int) -> float:
        return NEVER if state >= 0 and final[state] > NEVER else ALWAYS

    return _trimmed(explore(machine.num_symbols, _starts(machine), follow, stop))


def reverse(automaton: Automaton) -> Parts:
    """Arcs turned round, starts and finals exchanged."""
    arcs = list(
        zip(
            automaton.targets.tolist(),
            automaton.symbols.tolist(),
            automaton.sources.tolist(),
            automaton.log_weights.tolist(),
            strict=True,
        )
    )
    final = {state: weight for state, weight in enumerate(_final(automaton)) if weight > NEVER}
    return Parts(automaton.num_states, automaton.num_symbols, arcs, final, _starts(automaton))


def support(automaton: Automaton) -> Parts:
    """The same machine with every weight above zero set to one."""
    arcs = [(s, y, t, ALWAYS) for s, arcs in enumerate(automaton.outgoing) for y, t, _ in arcs]
    final = {state: ALWAYS for state, weight in enumerate(_final(automaton)) if weight > NEVER}
    return Parts(automaton.num_states, automaton.num_symbols, arcs, dict.fromkeys(_starts(automaton), ALWAYS), final)


# Tidying


def trim(automaton: Automaton) -> Parts:
    """Only the states on a path from a start to a final state, numbered breadth first."""
    return _trimmed(
        Parts(
            automaton.num_states,
            automaton.num_symbols,
            [(s, y, t, w) for s, arcs in enumerate(automaton.outgoing) for y, t, w in arcs],
            _starts(automaton),
            {state: weight for state, weight in enumerate(_final(automaton)) if weight > NEVER},
        )
    )


def _trimmed(parts: Parts) -> Parts:
    useful = _leading_to(parts.final, parts.arcs)
    arcs = defaultdict(list)
    for source, symbol, target, weight in parts.arcs:
        if target in useful:
            arcs[source].append((symbol, target, weight))
    start = {state: weight for state, weight in parts.start.items() if state in useful}
    return explore(
        parts.num_symbols,
        start,
        lambda state: sorted(arcs[state]),
        lambda state: parts.final.get(state, NEVER),
    )


def _leading_to(goals: Iterable[int], arcs: Iterable[tuple[int, int, int, float]]) -> set[int]:
    """The states from which a goal can be reached."""
    before = defaultdict(list)
    for source, _, target, _ in arcs:
        before[target].append(source)
    found = list(goals)
    seen = set(found)
    for state in found:
        new = [source for source in before[state] if source not in seen]
        seen.update(new)
        found.extend(dict.fromkeys(new))
    return seen


def determinize(automaton: Automaton) -> Parts:
    """Sets of states: where a symbol can lead from any of them."""
    if automaton.is_weighted:
        raise AutomatonError("a weighted automaton that is not deterministic cannot be determinized in general")
    final = {state for state, weight in enumerate(_final(automaton)) if weight > NEVER}

    def follow(states: frozenset[int]) -> Iterable[tuple[int, frozenset[int], float]]:
        reached = defaultdict(set)
        for state in states:
            for symbol, target, _ in automaton.outgoing[state]:
                reached[symbol].add(target)
        return ((symbol, frozenset(targets), ALWAYS) for symbol, targets in sorted(reached.items()))

    start = {frozenset(_starts(automaton)): ALWAYS}
    return explore(
        automaton.num_symbols,
        start,
        follow,
        lambda states: NEVER if final.isdisjoint(states) else ALWAYS,
    )


def minimize(automaton: Automaton) -> Parts:
    """Merges the states after which the same can happen (Hopcroft's refinement), of a deterministic automaton."""
    parts = trim(automaton)
    blocks = _coarsest_partition(parts)
    final = {blocks[state]: weight for state, weight in parts.final.items()}
    arcs: dict[int, dict[int, tuple[int, float]]] = defaultdict(dict)
    for source, symbol, target, weight in parts.arcs:
        arcs[blocks[source]][symbol] = (blocks[target], weight)
    return explore(
        parts.num_symbols,
        {blocks[state]: weight for state, weight in parts.start.items()},
        lambda block: ((symbol, *step) for symbol, step in sorted(arcs[block].items())),
        lambda block: final.get(block, NEVER),
    )


def _coarsest_partition(parts: Parts) -> list[int]:
    """The block of each state: states share one when the same final weights follow the same symbols and weights."""
    letters: dict[tuple[int, float], int] = {}
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(parts.num_states)]
    for source, symbol, target, weight in parts.arcs:
        incoming[target].append((letters.setdefault((symbol, weight), len(letters)), source))
    kinds: dict[float, int] = {}
    block_of = [kinds.setdefault(parts.final.get(state, NEVER), len(kinds)) for state in range(parts.num_states)]
    members: list[set[int]] = [set() for _ in kinds]
    for state, block in enumerate(block_of):
        members[block].add(state)
    waiting = list(range(len(members)))
    while waiting:
        splitter = list(members[waiting.pop()])
        for sources in _grouped((letter, source) for target in splitter for letter, source in incoming[target]):
            for inside in _grouped((block_of[source], source) for source in sources):
                _split(inside, block_of, members, waiting)
    return block_of


def _grouped(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return list(groups.values())


def _split(inside: list[int], block_of: list[int], members: list[set[int]], waiting: list[int]) -> None:
    """Cuts a block into the states `inside` and the rest; the smaller part becomes a new block that waits its turn."""
    old = members[block_of[inside[0]]]
    if len(inside) == len(old):
        return
    rest = old.difference(inside) if 2 * len(inside) > len(old) else set(inside)
    old -= rest
    for state in rest:
        block_of[state] = len(members)
    waiting.append(len(members))
    members.append(rest)


# Asking


def log_weight(automaton: Automaton, labeling: Sequence[int]) -> float:
    """Over the paths of one labeling, carrying the states they are in: their sum, or for a language whether any."""
    current, add = _starts(automaton), adder(automaton)
    for symbol in labeling:
        if not 0 <= symbol < automaton.num_symbols:
            raise AutomatonError(f"label {symbol!r} is not one of 0..{automaton.num_symbols - 1}")
        reached: dict[int, float] = {}
        for state, weight in current.items():
            for arc_symbol, target, arc_weight in automaton.outgoing[state]:
                if arc_symbol == symbol:
                    reached[target] = add(reached.get(target, NEVER), weight + arc_weight)
        current = reached
    ends = [weight + float(automaton.log_final[state]) for state, weight in current.items()]
    return reduce(add, ends, NEVER)


def is_unambiguous(automaton: Automaton) -> bool:
    """No two different states can be in use for the same labeling of an accepted word: the square is its diagonal."""
    return ambiguous_labeling(automaton) is None


def ambiguous_labeling(automaton: Automaton) -> tuple[int, ...] | None:
    """A shortest labeling with two paths, or None."""
    machine = automaton.trim()
    final = machine.log_final > NEVER
    starts = list(_starts(machine))
    found: list[tuple[tuple[int, int], bool, tuple[int, ...]]] = [((p, q), p != q, ()) for p in starts for q in starts]
    seen = {(pair, apart) for pair, apart, _ in found}
    pairs_alive = _pairs_leading_to_final(machine)
    for (p, q), apart, word in found:
        if apart and final[p] and final[q]:
            return word
        for symbol, target, _ in machine.outgoing[p]:
            for other_symbol, other, _ in machine.outgoing[q]:
                step = ((target, other), apart or target != other)
                if symbol == other_symbol and step not in seen and (target, other) in pairs_alive:
                    seen.add(step)
                    found.append((*step, (*word, symbol)))
    return None


def _pairs_leading_to_final(machine: Automaton) -> set[tuple[int, int]]:
    """The pairs of states from which one labeling leads both to final states."""
    before = defaultdict(list)
    for source, arcs in enumerate(machine.outgoing):
        for symbol, target, _ in arcs:
            before[target, symbol].append(source)
    finals = np.flatnonzero(machine.log_final > NEVER).tolist()
    found = [(p, q) for p in finals for q in finals]
    seen = set(found)
    for p, q in found:
        for symbol in range(machine.num_symbols):
            for pair in ((x, y) for x in before[p, symbol] for y in before[q, symbol]):
                if pair not in seen:
                    seen.add(pair)
                    found.append(pair)
    return seen


def count(automaton: Automaton, length: int) -> int:
    """Number of accepted labelings, in whole numbers of any size."""
    machine = automaton.resolve()
    ways: dict[int, int] = dict.fromkeys(_starts(machine), 1)
    for _ in range(length):
        following: dict[int, int] = defaultdict(int)
        for state, number in ways.items():
            for _, target, _ in machine.outgoing[state]:
                following[target] += number
        ways = following
    return sum(number for state, number in ways.items() if machine.log_final[state] > NEVER)


def labelings(automaton: Automaton, length: int) -> Iterator[tuple[int, ...]]:
    """Depth first through the states from which the end can still be reached in time."""
    machine = automaton.determinize().trim()
    alive = [{int(s) for s in np.flatnonzero(machine.log_final > NEVER)}]
    for _ in range(length):
        alive.append({s for s, arcs in enumerate(machine.outgoing) if any(t in alive[-1] for _, t, _ in arcs)})

    def walk() -> Iterator[tuple[int, ...]]:
        stack: list[tuple[int, tuple[int, ...]]] = [(s, ()) for s in _starts(machine) if s in alive[length]]
        while stack:
            state, word = stack.pop()
            if len(word) == length:
                yield word
                continue
            left = length - len(word) - 1
            stack.extend((t, (*word, y)) for y, t, _ in reversed(machine.outgoing[state]) if t in alive[left])

    return walk()


def same_weights(left: Automaton, right: Automaton, tolerance: float = 1e-9) -> bool:
    """Whether all labelings of all lengths weigh the same (Tzeng's algorithm, in floating point).

    The row vectors start·M(y) of the two machines side by side span a space of at most (states of both) dimensions; the
    weights agree everywhere when they agree on a basis of it, found by extending words breadth first.
    """
    starts = np.concatenate([np.exp(left.log_start), np.exp(right.log_start)])
    steps = _step_matrices(left, right)
    difference = np.concatenate([np.exp(left.log_final), -np.exp(right.log_final)])
    scale = max(float(np.abs(difference).max(initial=0.0)), 1e-300)
    basis: list[npt.NDArray[np.float64]] = []
    waiting = [starts]
    for vector in waiting:
        size = float(np.abs(vector).max(initial=0.0))
        if size == 0.0:
            continue
        vector = vector / size
        if abs(float(vector @ difference)) > tolerance * scale:
            return False
        rest = vector.copy()
        for _ in range(2):  # twice: Gram-Schmidt in floating point
            for direction in basis:
                rest -= (rest @ direction) * direction
        norm = float(np.linalg.norm(rest))
        if norm > tolerance:
            basis.append(rest / norm)
            waiting.extend(vector @ step for step in steps)
    return True


def _step_matrices(left: Automaton, right: Automaton) -> list[npt.NDArray[np.float64]]:
    size = left.num_states + right.num_states
    steps = [np.zeros((size, size)) for _ in range(left.num_symbols)]
    for automaton, offset in ((left, 0), (right, left.num_states)):
        for source, arcs in enumerate(automaton.outgoing):
            for symbol, target, weight in arcs:
                steps[symbol][source + offset, target + offset] += np.exp(weight)
    return steps
