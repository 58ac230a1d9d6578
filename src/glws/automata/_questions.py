"""Queries of an automaton: the weight of a labeling, counts of labelings, ambiguity, equality."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glws.automata._explore import NEVER
from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


def starts(automaton: Automaton) -> dict[int, float]:
    """The start states and their log-weights."""
    return {int(s): float(automaton.log_start[s]) for s in np.flatnonzero(automaton.log_start > NEVER)}


def adder(*automata: Automaton) -> Callable[[float, float], float]:
    """How parallel paths combine: maximum for languages, sum with weights."""
    return _log_add if any(automaton.is_weighted for automaton in automata) else max


def _log_add(left: float, right: float) -> float:
    return float(np.logaddexp(left, right))


def log_weight(automaton: Automaton, labeling: Sequence[int]) -> float:
    """The sum over the paths of one labeling, or for a language whether any exists."""
    current, add = starts(automaton), adder(automaton)
    for symbol in labeling:
        if not 0 <= symbol < automaton.num_symbols:
            raise AutomatonError(f"label {symbol!r} must be in 0..{automaton.num_symbols - 1}")
        reached: dict[int, float] = {}
        for state, weight in current.items():
            for arc_symbol, target, arc_weight in automaton.outgoing[state]:
                if arc_symbol == symbol:
                    reached[target] = add(reached.get(target, NEVER), weight + arc_weight)
        current = reached
    ends = [weight + float(automaton.log_final[state]) for state, weight in current.items()]
    return reduce(add, ends, NEVER)


def is_unambiguous(automaton: Automaton) -> bool:
    """Whether no two states are reachable by the same accepted labeling at the same place."""
    return ambiguous_labeling(automaton) is None


def ambiguous_labeling(automaton: Automaton) -> tuple[int, ...] | None:
    """A shortest labeling with two paths, or None."""
    machine = automaton.trim()
    final = machine.log_final > NEVER
    first = list(starts(machine))
    found: list[tuple[tuple[int, int], bool, tuple[int, ...]]] = [((p, q), p != q, ()) for p in first for q in first]
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
    """Number of accepted labelings, as an exact integer."""
    machine = automaton.resolve()
    ways: dict[int, int] = dict.fromkeys(starts(machine), 1)
    for _ in range(length):
        following: dict[int, int] = defaultdict(int)
        for state, number in ways.items():
            for _, target, _ in machine.outgoing[state]:
                following[target] += number
        ways = following
    return sum(number for state, number in ways.items() if machine.log_final[state] > NEVER)


def labelings(automaton: Automaton, length: int) -> Iterator[tuple[int, ...]]:
    """The accepted labelings, depth first through the states from which the end is reachable."""
    machine = automaton.determinize().trim()
    alive = [{int(s) for s in np.flatnonzero(machine.log_final > NEVER)}]
    for _ in range(length):
        alive.append({s for s, arcs in enumerate(machine.outgoing) if any(t in alive[-1] for _, t, _ in arcs)})

    def walk() -> Iterator[tuple[int, ...]]:
        stack: list[tuple[int, tuple[int, ...]]] = [(s, ()) for s in starts(machine) if s in alive[length]]
        while stack:
            state, word = stack.pop()
            if len(word) == length:
                yield word
                continue
            left = length - len(word) - 1
            stack.extend((t, (*word, y)) for y, t, _ in reversed(machine.outgoing[state]) if t in alive[left])

    return walk()


def same_weights(left: Automaton, right: Automaton, tolerance: float = 1e-9) -> bool:
    """Whether all labelings of all lengths have equal weights (Tzeng's algorithm, in floating point).

    The row vectors start·M(y) of the two machines side by side span a space of at most (states of both) dimensions; the
    weights agree everywhere if they agree on a basis of it, found by extending words breadth first.
    """
    first = np.concatenate([np.exp(left.log_start), np.exp(right.log_start)])
    steps = _step_matrices(left, right)
    difference = np.concatenate([np.exp(left.log_final), -np.exp(right.log_final)])
    scale = max(float(np.abs(difference).max(initial=0.0)), 1e-300)
    basis: list[npt.NDArray[np.float64]] = []
    waiting = [first]
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
