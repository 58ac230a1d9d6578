"""The construction behind every operator and builder: explore a described machine and number its states.

A machine is described by *meta-states*, which may be anything hashable (a count, a pair of states, a set of states,
the rest of a regular expression), and by two functions: the successors of a meta-state, and whether it is final.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from glws.errors import StateBudgetError

STATE_BUDGET = 100_000
"""The most states that a construction may reach, unless `state_budget` sets another limit."""

_budget: ContextVar[int] = ContextVar("state_budget", default=STATE_BUDGET)

Meta = TypeVar("Meta", bound=Hashable)
Arc = tuple[int, int, int, float]
NEVER = float("-inf")
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


class Parts(NamedTuple):
    """The arguments of the constructor of `Automaton`."""

    num_states: int
    num_symbols: int
    arcs: list[Arc]
    start: dict[int, float]
    final: dict[int, float]


def explore(
    num_symbols: int,
    start: Mapping[Meta, float],
    follow: Callable[[Meta], Iterable[tuple[int, Meta, float]]],
    final: Callable[[Meta], float],
    add: Callable[[float, float], float] = max,
) -> Parts:
    """The automaton reachable from the `start` meta-states, numbered breadth first.

    `follow(meta)` yields (symbol, next meta-state, log-weight), `final(meta)` is the log-weight of ending there
    (-inf: not final). Two arcs with the same symbol between the same states are merged by `add`: `max` keeps a
    language a language, `logaddexp` sums weights.
    """
    number = {meta: index for index, meta in enumerate(start)}
    found = list(start)
    arcs: list[Arc] = []
    for source, meta in enumerate(found):  # `found` grows during the loop: breadth first
        joined: dict[tuple[int, int], float] = {}
        for symbol, target, weight in follow(meta):
            if target not in number:
                check_budget(len(found) + 1)
                number[target] = len(found)
                found.append(target)
            key = (symbol, number[target])
            joined[key] = add(joined[key], weight) if key in joined else weight
        arcs.extend((source, symbol, target, weight) for (symbol, target), weight in joined.items())
    stops = {state: weight for state, meta in enumerate(found) if (weight := final(meta)) > NEVER}
    starts = {number[meta]: weight for meta, weight in start.items()} or {0: ALWAYS}
    return Parts(max(len(found), 1), num_symbols, arcs, starts, stops)


def explore_steps(
    num_symbols: int,
    start: Meta,
    step: Callable[[Meta, int], Meta | None],
    final: Callable[[Meta], bool],
) -> Parts:
    """The deterministic, unweighted case: `step(meta, symbol)` is the next meta-state, or None."""

    def follow(meta: Meta) -> Iterable[tuple[int, Meta, float]]:
        for symbol in range(num_symbols):
            target = step(meta, symbol)
            if target is not None:
                yield symbol, target, ALWAYS

    return explore(num_symbols, {start: ALWAYS}, follow, lambda meta: ALWAYS if final(meta) else NEVER)


def check_budget(states: int) -> None:
    """Raises where a construction needs more states than it may reach."""
    max_states = _budget.get()
    if states > max_states:
        raise StateBudgetError(
            f"the automaton grew past {max_states:,} states and was stopped; "
            "simplify it, or raise the limit with glws.automata.state_budget"
        )
