"""The construction behind every operator and builder: explore a described machine and number its states.

A machine is described by *meta-states*, which may be anything hashable (a count, a pair of states, a set of states,
the rest of a regular expression), and by two functions: the successors of a meta-state, and whether it is final.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

import numpy as np

from glws.automata._tables import NEVER as NEVER
from glws.automata._tables import Table, complete
from glws.errors import StateBudgetError

STATE_BUDGET = 100_000
"""The most states that a construction may reach, unless `state_budget` sets another limit."""

_budget: ContextVar[int] = ContextVar("state_budget", default=STATE_BUDGET)

Meta = TypeVar("Meta", bound=Hashable)
ALWAYS = 0.0


@contextmanager
def state_budget(max_states: int) -> Iterator[None]:
    """Limit constructions in this context to `max_states` states.

    >>> from glws.automata import exactly
    >>> with state_budget(100):
    ...     exactly(100)
    Traceback (most recent call last):
    ...
    glws.errors.StateBudgetError: the automaton grew past 100 states and was stopped; ...
    """
    token = _budget.set(max_states)
    try:
        yield
    finally:
        _budget.reset(token)


def explore(
    num_symbols: int,
    start: Mapping[Meta, float],
    follow: Callable[[Meta], Iterable[tuple[int, Meta, float]]],
    final: Callable[[Meta], float],
    add: Callable[[float, float], float] = max,
) -> Table:
    """The automaton reachable from the `start` meta-states, numbered breadth first.

    `follow(meta)` yields (symbol, next meta-state, log-weight), `final(meta)` is the log-weight of ending there
    (-inf: not final). Two arcs with the same symbol between the same states are merged by `add`: `max` keeps a
    language a language, `logaddexp` sums weights.
    """
    number = {meta: index for index, meta in enumerate(start)}
    found = list(start)
    arcs: dict[tuple[int, int, int], float] = {}
    for source, meta in enumerate(found):  # `found` grows during the loop: breadth first
        for symbol, target, weight in follow(meta):
            if target not in number:
                check_budget(len(found) + 1)
                number[target] = len(found)
                found.append(target)
            key = (source, symbol, number[target])
            arcs[key] = add(arcs[key], weight) if key in arcs else weight
    columns = np.array(list(arcs), dtype=np.int64).reshape(-1, 3).T
    starts = {number[meta]: weight for meta, weight in start.items()} or {0: ALWAYS}
    weights = np.array(list(arcs.values()), dtype=np.float64)
    return Table.of(num_symbols, (*columns, weights), starts, [final(meta) for meta in found] or [NEVER])


def explore_steps(
    num_symbols: int,
    start: Meta,
    step: Callable[[Meta, int], Meta | None],
    final: Callable[[Meta], bool],
) -> Table:
    """The deterministic, unweighted case: `step(meta, symbol)` is the next meta-state, or None."""
    symbols = range(num_symbols)
    return explore_rows(num_symbols, start, lambda meta: [step(meta, symbol) for symbol in symbols], final)


def explore_rows(
    num_symbols: int, start: Meta, row: Callable[[Meta], Sequence[Meta | None]], final: Callable[[Meta], bool]
) -> Table:
    """The same for the next meta-states of all symbols at once."""
    number: dict[Meta | None, int] = {None: -1, start: 0}
    found: list[Meta] = [start]
    targets: list[int] = []
    for meta in found:
        after = row(meta)
        for target in after:
            if target not in number:
                number[target] = len(found)
                found.append(cast(Meta, target))
        targets += [number[target] for target in after]
        check_budget(len(found))
    return complete(np.array(targets).reshape(-1, num_symbols), np.array([final(meta) for meta in found]))


def check_budget(states: int) -> None:
    """Raises where a construction needs more states than it may reach."""
    max_states = _budget.get()
    if states > max_states:
        raise StateBudgetError(
            f"the automaton grew past {max_states:,} states and was stopped; "
            "simplify it, or raise the limit with glws.automata.state_budget"
        )
