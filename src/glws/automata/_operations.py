"""Operations on automata, each a few lines around `explore`.

All functions take automata and return the `Parts` of a new one; `Automaton` has the operators and decides what the
result means (a language or a sum of weights).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from glws.automata._explore import ALWAYS, NEVER, Parts, explore
from glws.automata._questions import adder, log_weight, starts
from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


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

    start = {(p, q): v + w for p, v in starts(left).items() for q, w in starts(right).items()}
    return _trimmed(explore(left.num_symbols, start, follow, lambda pair: left_final[pair[0]] + right_final[pair[1]]))


def unite(left: Automaton, right: Automaton) -> Parts:
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


def concatenate(left: Automaton, right: Automaton) -> Parts:
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


def star(automaton: Automaton) -> Parts:
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


def complement(automaton: Automaton) -> Parts:
    """Determinize, complete with a state -1 that accepts everything, and exchange final and other states."""
    if automaton.is_weighted:
        raise AutomatonError("a weighted automaton has no complement; take the complement of its .support()")
    machine = automaton.determinize()
    final = _final(machine)
    next_state = [{symbol: target for symbol, target, _ in arcs} for arcs in machine.outgoing]

    def follow(state: int) -> Iterable[tuple[int, int, float]]:
        arcs = next_state[state] if state >= 0 else {}
        return ((symbol, arcs.get(symbol, -1), ALWAYS) for symbol in range(machine.num_symbols))

    def stop(state: int) -> float:
        return NEVER if state >= 0 and final[state] > NEVER else ALWAYS

    return _trimmed(explore(machine.num_symbols, starts(machine), follow, stop))


def reverse(automaton: Automaton) -> Parts:
    """Reverse the arcs, exchange starts and finals."""
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
    return Parts(automaton.num_states, automaton.num_symbols, arcs, final, starts(automaton))


def support(automaton: Automaton) -> Parts:
    """The same machine with every weight above zero set to one."""
    arcs = [(s, y, t, ALWAYS) for s, arcs in enumerate(automaton.outgoing) for y, t, _ in arcs]
    final = {state: ALWAYS for state, weight in enumerate(_final(automaton)) if weight > NEVER}
    return Parts(automaton.num_states, automaton.num_symbols, arcs, dict.fromkeys(starts(automaton), ALWAYS), final)


def given(automaton: Automaton, labels: Mapping[int, int], length: int) -> Parts:
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

    return _trimmed(explore(automaton.num_symbols, read(0, starts(automaton)), follow, stop, add))


# Simplification


def trim(automaton: Automaton) -> Parts:
    """Only the states on a path from a start to a final state, numbered breadth first."""
    return _trimmed(
        Parts(
            automaton.num_states,
            automaton.num_symbols,
            [(s, y, t, w) for s, arcs in enumerate(automaton.outgoing) for y, t, w in arcs],
            starts(automaton),
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
    """The states from which a goal is reachable."""
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


def minimize(automaton: Automaton) -> Parts:
    """Merge equivalent states of a deterministic automaton (Hopcroft's refinement)."""
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
    """The block of each state, shared if equal final weights follow equal symbols and weights."""
    letters: dict[tuple[int, float], int] = {}
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(parts.num_states)]
    for source, symbol, target, weight in parts.arcs:
        incoming[target].append((letters.setdefault((symbol, weight), len(letters)), source))
    blocks: dict[float, int] = {}
    block_of = [blocks.setdefault(parts.final.get(state, NEVER), len(blocks)) for state in range(parts.num_states)]
    members: list[set[int]] = [set() for _ in blocks]
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
    """Cut a block into the states `inside` and the rest; the smaller part joins the queue."""
    old = members[block_of[inside[0]]]
    if len(inside) == len(old):
        return
    rest = old.difference(inside) if 2 * len(inside) > len(old) else set(inside)
    old -= rest
    for state in rest:
        block_of[state] = len(members)
    waiting.append(len(members))
    members.append(rest)
