"""AT&T text, the plain format of OpenFst and related tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from glws.automata._explore import ALWAYS, NEVER, explore
from glws.automata._operations import entry
from glws.automata._questions import adder, log_weight
from glws.automata._tables import Table
from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


Arc = tuple[int, int, int, float]


class Parts(NamedTuple):
    """The arguments of the constructor of `Automaton`."""

    num_states: int
    num_symbols: int
    arcs: list[Arc]
    start: dict[int, float]
    final: dict[int, float]


def write(automaton: Automaton) -> str:
    """The automaton as text, one line for each arc and each final state.

    The format has one start, so several are merged into a new one.
    """
    table = _with_one_start(automaton)
    columns = (table.sources, table.targets, table.symbols, table.log_weights)
    arcs = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"{source} {target} {symbol}{_cost(weight)}" for source, target, symbol, weight in arcs]
    lines += [f"{state}{_cost(weight)}" for state, weight in enumerate(table.log_final.tolist()) if weight > NEVER]
    return "".join(f"{line}\n" for line in lines)


def _cost(log_weight: float) -> str:
    return f" {-log_weight!r}" if log_weight else ""


def _with_one_start(automaton: Automaton) -> Table:
    """The same automaton with state 0 as its only start: meta-state -1 stands for all starts together."""
    first_steps, empty = entry(automaton), log_weight(automaton, ())
    final = automaton.log_final.tolist()
    return explore(
        automaton.num_symbols,
        {-1: ALWAYS},
        lambda state: first_steps if state < 0 else automaton.outgoing[state],
        lambda state: empty if state < 0 else final[state],
        adder(automaton),
    )


def read(text: str, num_symbols: int | None) -> Parts:
    """The parts of an acceptor; the source of the first line is its start."""
    arcs: list[Arc] = []
    final: dict[int, float] = {}
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            start = int(fields[0]) if start is None else start
            if len(fields) <= 2:
                final[int(fields[0])] = -float(fields[1]) if len(fields) == 2 else ALWAYS
            else:
                arcs.append(_arc(fields))
        except ValueError as error:
            expected = "`source target symbol [cost]` or `state [cost]`"
            raise AutomatonError(f"AT&T text, line {number}: expected {expected}, found {line.strip()!r}") from error
    states = [start or 0, *final, *(arc[0] for arc in arcs), *(arc[2] for arc in arcs)]
    symbols = num_symbols or max((arc[1] for arc in arcs), default=0) + 1
    return Parts(max(states) + 1, symbols, arcs, {start or 0: ALWAYS}, final)


def _arc(fields: list[str]) -> Arc:
    source, target, symbol = (int(field) for field in fields[:3])
    cost = float(fields[3]) if len(fields) == 4 else 0.0
    if len(fields) > 4 or cost == NEVER:
        raise ValueError
    return source, symbol, target, -cost
