"""`constraint`: compile a rule about the labels of a group to a minimal automaton."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, lcm
from operator import index
from typing import NamedTuple

from glws.automata._automaton import Automaton
from glws.automata._builders import anything, nothing
from glws.automata._explore import STATE_BUDGET, explore_steps, state_budget
from glws.automata._language.parser import parse
from glws.automata._language.tree import (
    COMPARISONS,
    And,
    Choice,
    ClassLabel,
    Constant,
    Counting,
    Formula,
    Not,
    Or,
    Pattern,
    Position,
    Quantified,
    Relation,
    positions,
    substitute,
    truth,
)
from glws.automata._pointing import TextError
from glws.automata._regex import from_regex
from glws.errors import ConstraintError, StateBudgetError


def constraint(
    text: str, classes: int | Sequence[str], length: int | None = None, max_states: int = STATE_BUDGET
) -> Automaton:
    """The labelings that satisfy the text, as a minimal (hence unambiguous) deterministic automaton.

    `classes` is their number, or their names; the text may use names, quoted if they are not identifiers or have
    another meaning (`count("hot dog")`), and numbers. Conditions are combined with `and`, `or`, `not`, parentheses
    and `... if ... else ...`; comparisons may be chained.

    - Counts: `count(1)`, `count({cat, dog})`, `count(y != 0)`, `length`, and sums and multiples of these, compared:
      `2 <= count(1) <= 5`, `count(1) + 2 * count(2) == 4`, `count(1) in {0, 2}`. `majority(1)`: more than half are 1.
    - Labels: `y[0] >= y[1]`, `y[-1] not in {cat, dog}`, `y[0] == y[1] != y[2]`, compared by class number.
    - All labels: `any(2)`, `none(cat)`, `all(y == y[0])`, `any(y == 1 or y == y[0])`.
    - `regex("0*1+0*")`, see `from_regex`; `True`, `False`.

    A group may be too short for `y[3]`. A statement about a label that does not exist is undefined, neither true nor
    false, and only true statements are accepted: neither `y[3] == 1` nor `not y[3] == 1` accepts a group of two, but
    `length <= 3 or y[3] == 1` does.

    `majority`, shares of `length` and the difference of two counts depend on the length of the group: they need
    `length=`. It replaces `length` and negative indices. The result then holds for labelings of that length; it is not
    restricted to them.

    An invalid text, or one whose automaton needs more than `max_states` states during construction, raises
    `ConstraintError`: what is wrong, the text, and a caret under the place.

    >>> constraint("count(cat) >= 1 and not any(dog)", ["cat", "dog", "bird"]).accepts([0, 2])
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
    formula = parse(text, classes, length)
    with state_budget(max_states):
        return _Compiler(text, classes, max_states).language(formula, True)


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
        self.names = None if isinstance(classes, int) else classes
        self.num_classes = classes if isinstance(classes, int) else len(classes)
        self.max_states = max_states
        self.done: dict[tuple[Formula, bool], Automaton] = {}

    def language(self, formula: Formula, wanted: bool) -> Automaton:
        """The labelings of which the formula is true (`wanted`) or false; undefined ones are in neither."""
        key = (formula, wanted)
        if key not in self.done:
            try:
                self.done[key] = self._built(formula, wanted)
            except StateBudgetError as error:
                message = (
                    f"this needs more than {self.max_states:,} states; "
                    "simplify it, give length= if it counts from the end, or raise max_states"
                )
                raise TextError(message, self.text, formula.column) from error
        return self.done[key]

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
            return self._counting(formula, wanted)
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

    def _counting(self, formula: Counting, wanted: bool) -> Automaton:
        """Sum the weights; totals beyond the bound are equivalent."""
        scale = lcm(*(weight.denominator for weight in formula.weights))
        weights = [int(weight * scale) for weight in formula.weights]
        bound, compare = formula.bound * scale, COMPARISONS[formula.operator]
        beyond = max(floor(bound) + 1, 0)
        parts = explore_steps(
            self.num_classes,
            0,
            lambda total, symbol: min(total + weights[symbol], beyond),
            lambda total: compare(total, bound) is wanted,
        )
        return Automaton(*parts).minimize()

    def _pattern(self, formula: Pattern, wanted: bool) -> Automaton:
        try:
            language = from_regex(formula.pattern, self.num_classes, self.names)
        except TextError as error:
            raise TextError(error.message, self.text, formula.column + error.column) from None
        return language if wanted else (~language).minimize()

    # Formulas about labels at positions

    def _labels(self, formula: Formula, wanted: bool) -> Automaton:
        indices = positions(formula)
        if indices and indices[0] < 0 <= indices[-1]:
            return self._by_cases(formula, wanted, indices[0])
        if indices and indices[0] < 0:
            return self._mirrored(formula, indices, wanted).reverse().minimize()
        if isinstance(formula, Quantified):
            return self._quantified(formula, indices, wanted)
        return self._compared(formula, indices, wanted)

    def _by_cases(self, formula: Formula, wanted: bool, place: int) -> Automaton:
        """For each class that y[place] may have, and for its absence: the formula with that substituted."""

        def case(value: int | None) -> Automaton:
            label = ClassLabel(value)
            where = Relation(Position(place), "==", label) if value is not None else self._shorter_than(-place)
            return _intersection([self.language(substitute(formula, place, label), wanted), self.language(where, True)])

        return _union([case(value) for value in (*range(self.num_classes), None)])

    def _shorter_than(self, length: int) -> Formula:
        return Counting((Fraction(1),) * self.num_classes, "<", Fraction(length))

    def _mirrored(self, formula: Formula, indices: list[int], wanted: bool) -> Automaton:
        """The reversed labelings of those that satisfy a formula with indices from the end."""
        for place in indices:
            formula = substitute(formula, place, Position(-1 - place))
        return self.language(formula, wanted)

    def _compared(self, formula: Formula, indices: list[int], wanted: bool) -> Automaton:
        """Remember the labels at the indices until the last of them, then only the truth value."""
        undecided: tuple[int, tuple[int, ...]] | bool = (0, ())

        def verdict(labels: tuple[int, ...]) -> bool:
            return truth(formula, None, dict(zip(indices, labels, strict=False))) is wanted

        def step(state: tuple[int, tuple[int, ...]] | bool, symbol: int) -> tuple[int, tuple[int, ...]] | bool | None:
            if isinstance(state, bool):
                return state
            position, labels = state
            labels = (*labels, symbol) if position in indices else labels
            return (position + 1, labels) if len(labels) < len(indices) else verdict(labels) or None

        start = undecided if indices else verdict(())
        parts = explore_steps(
            self.num_classes, start, step, lambda state: state if isinstance(state, bool) else verdict(state[1])
        )
        return Automaton(*parts).minimize()

    def _quantified(self, formula: Quantified, indices: list[int], wanted: bool) -> Automaton:
        """Evaluate each label as soon as the labels at the indices are read."""
        every = formula.every is wanted  # "not any" is about every label, "not all" about at least one
        together = all if every else any

        def verdict(memory: _Memory) -> bool:
            labels = dict(zip(indices, memory.labels, strict=False))
            verdicts = (truth(formula.body, label, labels) is wanted for label in memory.waiting)
            return together((memory.holds, together(verdicts)))

        def step(memory: _Memory, symbol: int) -> _Memory | None:
            labels = (*memory.labels, symbol) if memory.position in indices else memory.labels
            after = _Memory(memory.position + 1, labels, memory.waiting | {symbol}, memory.holds)
            if len(labels) < len(indices):
                return after
            holds = verdict(after)
            return _Memory(-1, labels, frozenset(), holds) if holds or not every else None

        start = _Memory(0 if indices else -1, (), frozenset(), every)
        return Automaton(*explore_steps(self.num_classes, start, step, verdict)).minimize()


def _intersection(languages: list[Automaton]) -> Automaton:
    return _pairwise(lambda left, right: (left & right).minimize(), languages)


def _union(languages: list[Automaton]) -> Automaton:
    return _pairwise(lambda left, right: (left | right).minimize(), languages)


def _pairwise(operation: Callable[[Automaton, Automaton], Automaton], languages: list[Automaton]) -> Automaton:
    """Combine all languages, neighbors first, so that large ones are combined rarely."""
    while len(languages) > 1:
        pairs = zip(languages[::2], languages[1::2], strict=False)
        rest = languages[len(languages) & ~1 :]
        languages = [operation(left, right) for left, right in pairs] + rest
    return languages[0]
