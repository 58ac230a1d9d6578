"""Structure of an automaton: whether it depends on a count only, and its weights for short groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glws.automata._explore import NEVER

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


@dataclass(frozen=True, eq=False)
class CountWeights:
    """The weights of an automaton that depends only on the number of labels among the `counted` symbols.

    `log_weights[k]` is log ω(k). Beyond its end, ω repeats its last `period` entries forever (at least one: period 1;
    an even number: period 2), or is zero if `period` is 0.
    """

    counted: npt.NDArray[np.bool_]
    log_weights: npt.NDArray[np.float64]
    period: int

    def __repr__(self) -> str:
        counted = f"counts {int(self.counted.sum())} of {len(self.counted)} symbols"
        return f"CountWeights({counted}, {len(self.log_weights)} weights, period {self.period})"

    def up_to(self, length: int) -> npt.NDArray[np.float64]:
        """log ω(0), ..., log ω(length)."""
        counts = np.arange(length + 1)
        beyond = counts - len(self.log_weights)
        if self.period == 0:
            return np.where(beyond < 0, self.log_weights[np.minimum(counts, len(self.log_weights) - 1)], NEVER)
        first = len(self.log_weights) - self.period
        return self.log_weights[np.where(beyond < 0, counts, first + beyond % self.period)]

    def interval(self, length: int) -> tuple[int, int] | None:
        """(low, high) if ω is 1 for low <= k <= high and 0 elsewhere up to this length; else None."""
        weights = self.up_to(length)
        inside = np.flatnonzero(weights == 0.0)
        if len(inside) == 0:
            return (1, 0) if np.all(weights == NEVER) else None
        low, high = int(inside[0]), int(inside[-1])
        whole = len(inside) == high - low + 1 and np.all(np.delete(weights, inside) == NEVER)
        return (low, high) if whole else None


def count_weights(automaton: Automaton) -> CountWeights | None:
    """The weights of the count that the automaton depends on, or None if it depends on more.

    It depends on a count if, in every state, the same symbols stay and all others lead to one next state: a chain that
    ends, or that returns to one of its states.
    """
    machine = automaton.inference_form
    if not machine.is_deterministic or np.any(machine.log_weights != 0.0):
        return None
    start = int(np.argmax(machine.log_start))
    counted = np.ones(machine.num_symbols, dtype=bool)
    counted[[symbol for symbol, target, _ in machine.outgoing[start] if target == start]] = False
    chain = [start]
    while True:
        onward = _onward(machine, chain[-1], counted)
        if onward is None:
            return None
        if onward < 0 or onward in chain:
            break
        chain.append(onward)
    period = 0 if onward < 0 else len(chain) - chain.index(onward)
    return CountWeights(counted, machine.log_final[chain] + machine.log_start[start], period)


def _onward(machine: Automaton, state: int, counted: npt.NDArray[np.bool_]) -> int | None:
    """The successor by counted symbols, if the others stay in the state: -1 none, None otherwise."""
    target = np.full(machine.num_symbols, -1)
    for symbol, end, _ in machine.outgoing[state]:
        target[symbol] = end
    if np.any(target[~counted] != state):
        return None
    ends = set(target[counted].tolist())
    return ends.pop() if len(ends) == 1 else None if ends else state


def log_table(automaton: Automaton, length: int) -> npt.NDArray[np.float64]:
    """log A(y) for all labelings of a short length, as an array of shape [K] * length."""
    machine = automaton.inference_form
    table = machine.log_start
    for _ in range(length):
        step = np.full((*table.shape[:-1], machine.num_symbols, machine.num_states), NEVER)
        for source, symbol, target, weight in zip(
            machine.sources, machine.symbols, machine.targets, machine.log_weights, strict=True
        ):
            step[..., symbol, target] = np.logaddexp(step[..., symbol, target], table[..., source] + weight)
        table = step
    result: npt.NDArray[np.float64] = np.logaddexp.reduce(table + machine.log_final, axis=-1)
    return result
