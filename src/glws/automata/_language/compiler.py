"""`constraint`: compile a rule about the labels of a group to a minimal automaton."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from math import comb
from operator import index
from typing import NamedTuple, TypeVar

from glws.automata._automaton import Automaton
from glws.automata._builders import anything, nothing
from glws.automata._disk import WORTHWHILE, digest, find, keep
from glws.automata._explore import STATE_BUDGET, explore_steps, state_budget
from glws.automata._language.parser import RESERVED, parse
from glws.automata._language.temporal import excess, temporal_parts
from glws.automata._language.totals import total_parts
from glws.automata._language.tree import (
    WHOLE,
    And,
    Choice,
    ClassLabel,
    Clock,
    Constant,
    Counting,
    Distinct,
    Extreme,
    Formula,
    Label,
    Linear,
    Not,
    Number,
    Or,
    Ordered,
    Pattern,
    Position,
    Quantified,
    Relation,
    Span,
    Temporal,
    Weights,
    labels,
    positions,
    spans,
    substitute,
    truth,
)
from glws.automata._operations import inverted, product
from glws.automata._pointing import TextError
from glws.automata._regex import from_regex
from glws.automata._tables import Table, minimized
from glws.errors import ConstraintError, StateBudgetError


def constraint(
    text: str,
    classes: int | Sequence[str],
    length: int | None = None,
    max_states: int = STATE_BUDGET,
    values: Mapping[str, Sequence[float]] | None = None,
) -> Automaton:
    """The labelings that satisfy the text, as a minimal (hence unambiguous) deterministic automaton.

    `classes` is their number, or their names; the text may use names, quoted if they are not identifiers or have
    another meaning (`count("hot dog")`), and numbers. Conditions are combined with `and`, `or`, `not`, `->` (if
    the first then the second), parentheses and `... if ... else ...`; comparisons may be chained.

    - Counts: `count(1)`, `count({cat, dog})`, `count(y != 0)`, `length`, and sums and multiples of these, compared:
      `2 <= count(1) <= 5`, `count(1) + 2 * count(2) == 4`, `count(1) in {0, 2}`. `majority(1)`: more than half are 1.
    - Labels: `y[0] >= y[1]`, `y[-1] not in {cat, dog}`, `y[0] == y[1] != y[2]`, compared by class number.
    - All labels: `any(2)`, `none(cat)`, `all(y == y[0])`, `any(y == 1 or y == y[0])`.
    - Slices, as in Python, inside all functions: `count(y[0:4] == 1)`, `all(y[::2] == y[0])`.
    - Sums: `sum(y) == 13`, `10 <= sum(y[0:4]) <= 20`, `y[0] + y[1] == 2 * y[2]`; with `values={"price": [...]}`, one
      value for each class, `sum(price) <= 100` and `price[0] < price[1]`. `sum(y) % 3 == 0`; `parity(y) == 1`.
    - Numbers, the highest digit first: `number(y[0:3]) + number(y[3:6]) == 417`, in the base of as many digits as there
      are classes, unless it is given: `number(y[0:8], base=2) < 100`. `y[::-1]` has the lowest digit first.
    - Order: `sorted(y)`, `max(y) == 7`, `min(y[0:3]) >= y[3]`, `alldifferent(y)`.
    - Parts of class names: with classes `wet+cold`, `wet+warm`, `dry+cold`, `dry+warm` (see `joint_classes`) the name
      `wet` stands for all classes that have this part: `any(wet and cold)`, `wet[0]`, `always(wet -> next(not warm))`.
    - Time, `y` being the label at one time: `always(red -> next(green))`, `eventually`, `until(a, b)`, `last` and
      `first`; backwards `previous`, `once`, `historically`, `since(a, b)`. Times may be nested. What looks ahead is
      said of the first label, what looks back of the last one.
    - `regex("0*1+0*")`, see `from_regex`; `True`, `False`.

    A group may be too short for `y[3]`. A statement about a label that does not exist is undefined, neither true nor
    false, and only true statements are accepted: neither `y[3] == 1` nor `not y[3] == 1` accepts a group of two, but
    `length <= 3 or y[3] == 1` does. A number lacks its digits in the same way, and so do the extremes of no labels;
    sums and counts are of the labels that exist.

    `majority`, shares of `length`, the difference of two counts, and slices that count from the end depend on the
    length of the group: they need `length=`. It replaces `length` and negative indices. The result then holds for
    labelings of that length; it is not restricted to them.

    What takes long to compile is remembered on disk: in the folder `GLWS_CACHE` (empty: nowhere), else `~/.cache/glws`.

    An invalid text, or one whose automaton needs more than `max_states` states during construction, raises
    `ConstraintError`: what is wrong, the text, and a caret under the place.

    >>> constraint("count(cat) >= 1 and not any(dog)", ["cat", "dog", "bird"]).accepts([0, 2])
    True
    >>> constraint("number(y[0:2]) + number(y[2:4]) == 47", 10).accepts([1, 8, 2, 9])
    True
    >>> from glws.automata import at_least
    >>> constraint("count(1) >= 0.3 * length", 2, length=10) == at_least(3)
    True
    >>> constraint("count(1) = 3", 2)
    Traceback (most recent call last):
    ...
    glws.automata._pointing.TextError: write == to compare
    count(1) = 3
             ^
    """
    classes = classes if isinstance(classes, Sequence) else index(classes)
    length = None if length is None else index(length)
    _check_arguments(classes, length)
    tables = tables_of(values or {}, classes)
    key = digest(text, classes if isinstance(classes, int) else list(classes), length, max_states, tables)
    if stored := find(key):
        return Automaton.from_table(stored)
    began = time.perf_counter()
    formula = parse(text, classes, length, tables)
    with state_budget(max_states):
        language = _Compiler(text, classes, max_states).language(formula, True)
    if time.perf_counter() - began > WORTHWHILE:
        keep(key, language.table)
    return language


def _check_arguments(classes: int | Sequence[str], length: int | None) -> None:
    if isinstance(classes, str):
        raise ConstraintError(f"classes must be a number or a list of names, found the text {classes!r}")
    if isinstance(classes, int):
        if classes < 1:
            raise ConstraintError(f"there must be at least one class, found classes={classes}")
    elif not classes or len(set(classes)) < len(classes):
        raise ConstraintError(f"class names must be distinct and at least one; found {list(classes)}")
    if length is not None and length < 0:
        raise ConstraintError(f"length must be at least 0, found length={length}")


def tables_of(values: Mapping[str, Sequence[float]], classes: int | Sequence[str]) -> dict[str, Weights]:
    """The tables of values as exact numbers: 0.1 is a tenth."""
    names, number = ((), classes) if isinstance(classes, int) else (classes, len(classes))
    tables = {}
    for name, table in values.items():
        if not name.isidentifier() or name in RESERVED or name in names:
            raise ConstraintError(f"a table of values cannot be called {name!r}; choose another name")
        if len(table) != number:
            raise ConstraintError(f"values {name!r}: expected one for each of {number} classes, found {len(table)}")
        try:
            tables[name] = tuple(_exact(value) for value in table)
        except ValueError:
            raise ConstraintError(f"values {name!r}: expected finite numbers, found {list(table)}") from None
    return tables


def _exact(value: float) -> Number:
    number = Fraction(str(value))
    return int(number) if number.denominator == 1 else number


Memo = TypeVar("Memo", bound=Hashable)


MAX_REMEMBERED, MAX_ARCS = 2_000, 20_000
"""Formulas whose automata are remembered for other texts, and the most arcs of these."""
_compiled: dict[tuple[object, ...], Automaton] = {}


class _Memory(NamedTuple):
    """The state of a comparison of every label with those at some positions."""

    position: int
    labels: tuple[int, ...]  # the labels read at those positions
    waiting: frozenset[int]  # labels read before all of those
    holds: bool  # whether the formula holds for the others


class _Compiler:
    """Compiles formulas to minimal automata, each once."""

    def __init__(self, text: str, classes: int | Sequence[str], max_states: int) -> None:
        self.text = text
        self.names = None if isinstance(classes, int) else tuple(classes)
        self.num_classes = classes if isinstance(classes, int) else len(classes)
        self.max_states = max_states
        self.about = (self.num_classes, self.names, max_states)

    def language(self, formula: Formula, wanted: bool) -> Automaton:
        """The labelings of which the formula is true (`wanted`) or false; undefined ones are in neither."""
        key = (formula, wanted, *self.about)
        language = _compiled.get(key)
        if language is None:
            try:
                language = self._built(formula, wanted)
            except StateBudgetError as error:
                message = (
                    f"this needs more than {self.max_states:,} states; "
                    "simplify it, give length= if it counts from the end, or raise max_states"
                )
                raise TextError(message, self.text, formula.column) from error
            if len(_compiled) >= MAX_REMEMBERED:
                _compiled.clear()
            if len(language.sources) <= MAX_ARCS:
                _compiled[key] = language
        return language

    def _built(self, formula: Formula, wanted: bool) -> Automaton:
        if isinstance(formula, Constant):
            return self._constant(formula.value is wanted)
        if isinstance(formula, Not):
            return self.language(formula.inner, not wanted)
        if isinstance(formula, And | Or):
            parts = [self.language(part, wanted) for part in dict.fromkeys(formula.parts)]
            return _intersection(parts) if isinstance(formula, And) is wanted else _union(parts)
        if isinstance(formula, Choice):
            return self._choice(formula, wanted)
        if isinstance(formula, Counting):
            return _least(total_parts(formula, wanted, self.num_classes))
        if isinstance(formula, Temporal | Ordered | Distinct):
            return self._defined(formula) if wanted else (~self.language(formula, True)).minimize()
        if isinstance(formula, Pattern):
            return self._pattern(formula, wanted)
        return self._labels(formula, wanted)

    def _constant(self, value: bool) -> Automaton:
        return anything(self.num_classes) if value else nothing(self.num_classes)

    def _choice(self, formula: Choice, wanted: bool) -> Automaton:
        cases = ((True, formula.then), (False, formula.otherwise))
        return _union(
            [
                _intersection([self.language(formula.condition, holds), self.language(chosen, wanted)])
                for holds, chosen in cases
            ]
        )

    def _defined(self, formula: Temporal | Ordered | Distinct) -> Automaton:
        """The labelings of which a formula is true that is false of all others."""
        if isinstance(formula, Temporal):
            if problem := excess(formula):
                raise TextError(f"{problem} are too many for one formula; split it", self.text, formula.column)
            return _least(temporal_parts(formula, self.num_classes))
        if isinstance(formula, Distinct):
            self._check_distinct(formula)
            return self._along(formula.span, frozenset[int](), _unseen)
        last = self.num_classes - 1

        def higher(highest: int, symbol: int) -> int | None:
            return symbol if symbol >= highest else None

        def lower(lowest: int, symbol: int) -> int | None:
            return symbol if symbol <= lowest else None

        return self._along(formula.span, last, lower) if formula.backward else self._along(formula.span, 0, higher)

    def _check_distinct(self, formula: Distinct) -> None:
        """Whatever may have occurred so far is a state."""
        longest = len(formula.span.within(self.num_classes * formula.span.step + formula.span.start))
        if sum(comb(self.num_classes, seen) for seen in range(min(longest, self.num_classes) + 1)) > self.max_states:
            message = (
                f"alldifferent remembers which of {self.num_classes} classes occurred, which needs more than "
                f"{self.max_states:,} states; use it on shorter slices, or raise max_states"
            )
            raise TextError(message, self.text, formula.column)

    def _along(self, span: Span, start: Memo, read: Callable[[Memo, int], Memo | None]) -> Automaton:
        """Read the labels at the positions of a span, until one does not fit (None)."""
        clock = Clock.of([span])

        def step(state: tuple[int, Memo], symbol: int) -> tuple[int, Memo] | None:
            position, memo = state
            after = read(memo, symbol) if position in span else memo
            return None if after is None else (clock.at(position + 1), after)

        return _least(explore_steps(self.num_classes, (0, start), step, lambda state: True))

    def _pattern(self, formula: Pattern, wanted: bool) -> Automaton:
        try:
            language = from_regex(formula.pattern, self.num_classes, self.names)
        except TextError as error:
            raise TextError(error.message, self.text, formula.column + error.column) from None
        return language if wanted else (~language).minimize()

    # Formulas about labels at positions

    def _labels(self, formula: Formula, wanted: bool) -> Automaton:
        indices = positions(formula)
        if indices and indices[0] < 0 and (indices[-1] >= 0 or spans(formula) - {WHOLE}):
            return self._by_cases(formula, wanted, indices[0])
        if indices and indices[0] < 0:
            return self._mirrored(formula, indices, wanted).reverse().minimize()
        if isinstance(formula, Quantified):
            return self._quantified(formula, indices, wanted)
        return self._compared(formula, wanted)

    def _by_cases(self, formula: Formula, wanted: bool, place: int) -> Automaton:
        """For each class that y[place] may have, and for its absence: the formula with that substituted."""

        def case(value: int | None) -> Automaton:
            label = ClassLabel(value)
            where = Relation(Position(place), "==", label) if value is not None else self._shorter_than(-place)
            return _intersection([self.language(substitute(formula, place, label), wanted), self.language(where, True)])

        return _union([case(value) for value in (*range(self.num_classes), None)])

    def _shorter_than(self, length: int) -> Formula:
        return Counting(Linear(0, ((WHOLE, (1,) * self.num_classes),)), "<", length)

    def _mirrored(self, formula: Formula, indices: list[int], wanted: bool) -> Automaton:
        """The reversed labelings of those that satisfy a formula with indices from the end."""
        for place in indices:
            formula = substitute(formula, place, Position(-1 - place))
        return self.language(formula, wanted)

    def _compared(self, formula: Formula, wanted: bool) -> Automaton:
        """Remember the labels at the indices, and the extremes, until the last of them; then only the truth value."""
        terms = [label for label in labels(formula) if isinstance(label, Position | Extreme)]
        ranges = [Span(term.index, term.index + 1) if isinstance(term, Position) else term.span for term in terms]
        clock, is_open = Clock.of(ranges), any(span.stop is None for span in ranges)
        State = tuple[int, tuple[int | None, ...]] | bool

        def verdict(found: tuple[int | None, ...]) -> bool:
            return truth(formula, None, dict(zip(terms, found, strict=True))) is wanted

        def step(state: State, symbol: int) -> State | None:
            if isinstance(state, bool):
                return state
            position, found = state
            inside = zip(terms, ranges, found, strict=True)
            found = tuple(_read(term, old, symbol) if position in span else old for term, span, old in inside)
            settled = position + 1 >= clock.first and not is_open
            return verdict(found) or None if settled else (clock.at(position + 1), found)

        start: State = (0, (None,) * len(terms)) if terms else verdict(())
        parts = explore_steps(
            self.num_classes, start, step, lambda state: state if isinstance(state, bool) else verdict(state[1])
        )
        return _least(parts)

    def _quantified(self, formula: Quantified, indices: list[int], wanted: bool) -> Automaton:
        """Evaluate each label as soon as the labels at the indices are read."""
        every = formula.every is wanted  # "not any" is about every label, "not all" about at least one
        together = all if every else any
        clock = Clock.of([formula.span])

        def verdict(memory: _Memory) -> bool:
            found: dict[Label, int | None] = {
                Position(place): label for place, label in zip(indices, memory.labels, strict=False)
            }
            verdicts = (truth(formula.body, label, found) is wanted for label in memory.waiting)
            return together((memory.holds, together(verdicts)))

        def step(memory: _Memory, symbol: int) -> _Memory | None:
            is_next = len(memory.labels) < len(indices) and memory.position in indices
            found = (*memory.labels, symbol) if is_next else memory.labels
            waiting = memory.waiting | {symbol} if memory.position in formula.span else memory.waiting
            after = _Memory(memory.position + 1, found, waiting, memory.holds)
            if len(found) < len(indices):
                return after
            holds = verdict(after)
            return _Memory(clock.at(after.position), found, frozenset(), holds) if holds or not every else None

        start = _Memory(0, (), frozenset(), every)
        return _least(explore_steps(self.num_classes, start, step, verdict))


def _unseen(seen: frozenset[int], symbol: int) -> frozenset[int] | None:
    return None if symbol in seen else seen | {symbol}


def _read(term: Position | Extreme, before: int | None, symbol: int) -> int:
    """The value of the term after one of its labels."""
    if isinstance(term, Position) or before is None:
        return symbol
    return max(before, symbol) if term.largest else min(before, symbol)


def _least(explored: Table) -> Automaton:
    return Automaton.from_table(minimized(explored, is_explored=True))


def _intersection(languages: list[Automaton]) -> Automaton:
    return _pairwise(lambda left, right: _least(product(left.table, right.table)), languages)


def _union(languages: list[Automaton]) -> Automaton:
    def joined(left: Automaton, right: Automaton) -> Automaton:
        neither = product(inverted(left.table), inverted(right.table))
        return Automaton.from_table(minimized(inverted(neither)))

    return _pairwise(joined, languages)


def _pairwise(operation: Callable[[Automaton, Automaton], Automaton], languages: list[Automaton]) -> Automaton:
    """Combine all languages, neighbors first, so that large ones are combined rarely."""
    while len(languages) > 1:
        pairs = zip(languages[::2], languages[1::2], strict=False)
        rest = languages[len(languages) & ~1 :]
        languages = [operation(left, right) for left, right in pairs] + rest
    return languages[0]
