"""Sums of what labels are worth, compared: counts, prices, numbers written in digits, remainders.

Labels are read one after the other, and what is still missing to the bound is remembered, as coarsely as the labels to
come allow: they can add low, low + gap, ... up to high, so that what is missing matters only up to a multiple of the
gap, and not at all where it is out of reach. For numbers whose lowest digits come first this is the carry, for the
highest digit first a difference that can still be made up for.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

from glws.automata._explore import check_budget, explore_rows, explore_steps
from glws.automata._language.tree import COMPARISONS, Clock, Counting, Linear
from glws.automata._tables import Table as Language

Table = tuple[tuple[int, ...], ...]
MAX_ROWS = 100_000
"""States that are remembered for texts with another bound."""


def total_parts(formula: Counting, wanted: bool, num_classes: int) -> Language:
    """The labelings of which the comparison is true (`wanted`), or false."""
    number = formula.number
    clock = Clock.of([span for span, _ in number.terms], number.needs)
    check_budget(clock.first + clock.period)
    weights = [weight for _, weights in number.terms for weight in weights]
    known = (number.constant, formula.bound, formula.modulus or 1, *weights)
    scale = lcm(*(value.denominator for value in known))
    start, bound, modulus, *_ = (int(value * scale) for value in known)
    table = _scaled(number, clock, scale, num_classes)
    if formula.modulus is None:
        operator, least = formula.operator, bound - start - (formula.operator in ("<", ">="))
        is_wanted = wanted is (operator in ("==", "<=", "<"))
        return _machine(table, clock, number.needs, operator in ("==", "!="), is_wanted).language(least)

    def step(state: tuple[int, int], symbol: int) -> tuple[int, int]:
        return clock.at(state[0] + 1), (state[1] + table[state[0]][symbol]) % modulus

    def accept(state: tuple[int, int]) -> bool:
        return state[0] >= number.needs and COMPARISONS[formula.operator](state[1], bound) is wanted

    return explore_steps(num_classes, (0, start % modulus), step, accept)


def _scaled(number: Linear, clock: Clock, scale: int, num_classes: int) -> Table:
    """What each class is worth at each position of the clock, in whole numbers."""
    rows = []
    for position in range(clock.first + clock.period):
        present = [weights for span, weights in number.terms if position in span]
        rows.append(tuple(sum(int(weights[label] * scale) for weights in present) for label in range(num_classes)))
    return tuple(rows)


class _Rest(NamedTuple):
    """What the labels to come can add: low, low + gap, ..., high. There is no end where high is None."""

    low: int
    high: int | None
    gap: int


State = tuple[int, int | None]
"""Before the label at a position: what is still missing to the bound; None once the comparison is decided."""


class _Missing:
    """Compares sums by == or <=, to which the others come down. One machine serves every bound."""

    def __init__(self, table: Table, clock: Clock, needs: int, is_equal: bool, wanted: bool) -> None:
        self.table, self.clock, self.needs = table, clock, needs
        self.is_equal, self.wanted = is_equal, wanted
        self.rests = self._all_rests()
        self.rows: dict[State, list[State | None]] = {}

    def language(self, bound: int) -> Language:
        """The machine for a bound."""
        num_classes, start = len(self.table[0]), self._judged(0, bound)
        if start is None:
            return explore_rows(num_classes, (0, 0), lambda state: [None] * num_classes, lambda state: False)
        return explore_rows(num_classes, start, self._row, self._accept)

    def _all_rests(self) -> list[_Rest]:
        """By position, from the last one back; beyond the clock any number of labels may come, or none."""
        endless = [worth for row in self.table[self.clock.first :] for worth in row]
        rest = _Rest(0, None if any(endless) else 0, gcd(*endless))
        rests = [rest] * len(self.table)
        for position in reversed(range(self.clock.first)):
            worths = self.table[position]
            low, gap = min(worths) + rest.low, gcd(rest.gap, *(worth - worths[0] for worth in worths))
            high = None if rest.high is None else max(worths) + rest.high
            if position >= self.needs:  # the group may end here
                low, high, gap = min(low, 0), None if high is None else max(high, 0), gcd(gap, low)
            rests[position] = rest = _Rest(low, high, gap)
        return rests

    def _row(self, state: State) -> list[State | None]:
        """The state after each label."""
        row = self.rows.get(state)
        if row is None:
            position, missing = state
            worths, after = self.table[position], self.clock.at(position + 1)
            if missing is None:
                row = [state if position >= self.needs else (after, None)] * len(worths)
            else:
                known = {worth: self._judged(after, missing - worth) for worth in set(worths)}
                row = [known[worth] for worth in worths]
            if len(self.rows) >= MAX_ROWS:
                self.rows.clear()
            self.rows[state] = row
        return row

    def _judged(self, position: int, missing: int) -> State | None:
        """The state in which so much is missing; None where it is decided against what is wanted."""
        low, high, gap = self.rests[position]
        if self.is_equal:
            in_range = low <= missing and (high is None or missing <= high)
            reachable = in_range and (missing - low) % (gap or 1) == 0
            verdict = None if reachable and low != high else reachable
        else:
            verdict = False if missing < low else True if high is not None and missing >= high else None
            missing -= (missing - low) % (gap or 1)
        if verdict is None:
            return position, missing
        return (min(position, self.needs), None) if verdict is self.wanted else None

    def _accept(self, state: State) -> bool:
        position, missing = state
        if position < self.needs:
            return False
        if missing is None:
            return True
        return (missing == 0 if self.is_equal else missing >= 0) is self.wanted


_machine = lru_cache(maxsize=64)(_Missing)
"""Texts that differ in the bound only share what was found out about their states."""
