"""Semantics of a constraint text: type checks, class lookup, comparisons as formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from glws._messages import nearest
from glws.automata._language.tree import (
    MIRRORED,
    WHOLE,
    ClassLabel,
    Counting,
    Every,
    Extreme,
    Formula,
    Judged,
    Label,
    Linear,
    Member,
    Not,
    Number,
    Or,
    Position,
    Relation,
    Span,
    Weights,
    labels,
    nodes,
    positions,
    spans,
    truth,
)
from glws.automata._pointing import TextError

NEEDS_LENGTH = "needs the length of the group: give length="
MAX_DIGITS = 1_000
"""Numbers of more digits are refused."""


@dataclass(frozen=True)
class Members:
    """A set literal, each element with its column."""

    elements: tuple[Placed, ...]


@dataclass(frozen=True)
class Predicate(Members):
    """The classes that have a part of this name, such as `wet` of `wet+cold` and `wet+warm`."""


@dataclass(frozen=True)
class Series:
    """A table of values as written, or a slice of it: what the labels there are worth, one after the other."""

    labels: Every
    weights: Weights


@dataclass(frozen=True)
class Remainder:
    """A number modulo another."""

    number: Linear
    modulus: Number


Value = Linear | Remainder | Series | Label | Formula | Members
Placed = tuple[Value, int]
"""A value and its column in the text."""


class Meaning:
    """The rules of the language: number of classes, their names if any, tables of values, and a length if given."""

    def __init__(
        self, text: str, classes: int | Sequence[str], length: int | None, values: Mapping[str, Weights]
    ) -> None:
        self.text = text
        self.names = () if isinstance(classes, int) else tuple(classes)
        self.num_classes = classes if isinstance(classes, int) else len(classes)
        self.length = length
        self.values = values
        self.parts = parts_of_names(self.names)
        self.class_numbers = tuple(range(self.num_classes))

    def link(self, left: Placed, operator: str, right: Placed) -> Formula:
        """One comparison; numbers compared with labels are classes."""
        if operator in ("in", "not in"):
            inside = self._membership(left, right)
            return inside if operator == "in" else Not(inside, left[1])
        for value, column in (left, right):
            if isinstance(value, Formula):
                raise self.error("a condition cannot be compared; combine it with and, or, not", column)
            if isinstance(value, Members):
                raise self.error("a set is only allowed after 'in'", column)
        if isinstance(left[0], Remainder) or isinstance(right[0], Remainder):
            return self._remainder(left, operator, right)
        computed = any(isinstance(value, Linear) and not value.is_constant for value, _ in (left, right))
        if not computed and (isinstance(left[0], Label) or isinstance(right[0], Label)):
            return Relation(self._class(*left), operator, self._class(*right), left[1])
        return self.counting(self.number(*left), operator, self.number(*right), left[1])

    def _membership(self, left: Placed, right: Placed) -> Formula:
        value, column = right
        if not isinstance(value, Members):
            raise self.error("expected a set after 'in', like {0, 4}", column)
        if isinstance(left[0], Label):
            elements = [self._class(*element) for element in value.elements]
            numbers = frozenset(e.value for e in elements if isinstance(e, ClassLabel) and e.value is not None)
            others = [label for label in elements if not isinstance(label, ClassLabel) or label.value is None]
            equal = [Relation(left[0], "==", label, left[1]) for label in others]
            return Or((Member(left[0], numbers, left[1]), *equal), left[1])
        return Or(tuple(self.link(left, "==", element) for element in value.elements), left[1])

    def _remainder(self, left: Placed, operator: str, right: Placed) -> Formula:
        value, column = left
        if not isinstance(value, Remainder):
            return self._remainder(right, MIRRORED[operator], left)
        bound = self.number(*right)
        if not bound.is_constant:
            raise self.error("a remainder can only be compared with a number, as in sum(y) % 3 == 0", right[1])
        return Counting(value.number, operator, bound.constant, value.modulus, column)

    def counting(self, left: Linear, operator: str, right: Linear, column: int) -> Formula:
        """One side minus the other, with weights >= 0 where the group has no known end.

        In a group of known length, all labels may weigh more alike.
        """
        number = left.plus(right.times(-1))
        open_weights = [weight for span, weights in number.terms if span.stop is None for weight in weights]
        if open_weights and max(open_weights) <= 0:
            number, operator = number.times(-1), MIRRORED[operator]
        elif open_weights and min(open_weights) < 0:
            if self.length is None:
                message = f"comparing counts with each other or with a share of 'length' {NEEDS_LENGTH}"
                raise self.error(message, column)
            least = min(open_weights)
            number = number.plus(Linear(least * self.length, ((WHOLE, (-least,) * self.num_classes),)))
        return Counting(number, operator, 0, None, column)

    # Slices, and what is computed of them

    def slice(self, start: int | None, stop: int | None, step: int | None, column: int) -> Every:
        """The labels of a slice, as Python would take them."""
        step, length = 1 if step is None else step, self.length
        if step == 0:
            raise self.error("the step of a slice is not 0", column)
        if step >= -1 and min(start or 0, stop or 0) >= 0:
            if step < 0:  # start, start - 1, ..., stop + 1
                start, stop = (None if end is None else end + 1 for end in (stop, start))
            span = Span(start or 0, stop, abs(step))
            is_cut = span.stop is None and span != WHOLE
            return Every(replace(span, stop=length) if is_cut else span, step < 0)
        if length is None:
            raise self.error(f"a slice that counts from the end {NEEDS_LENGTH}", column)
        places = range(length)[start:stop:step]
        places = places if step > 0 else places[::-1]
        span = Span(places[0], places[-1] + 1, abs(step)) if places else Span(0, 0)
        is_missing = min(start or 0, stop or 0) < -length
        return Every(span, step < 0, length + 1 if is_missing else 0)

    def span(self, body: Formula, word: str, column: int) -> Span:
        """The one span of the slices in a condition about y."""
        found = spans(body) or {WHOLE}
        if len(found) > 1:
            raise self.error(f"all slices inside one {word}(...) must be the same", column)
        return found.pop()

    def labels(self, value: Value, word: str, column: int) -> Every:
        """The value as labels one after the other, or the error that it is not."""
        if isinstance(value, Every):
            return value
        raise self.error(f"{word} takes y or a slice of it, as in {word}(y[0:3])", column)

    def total(self, value: Value, word: str, column: int) -> Linear:
        """The sum over y, over a table of values, or over a slice of either."""
        series = self._series(value, word, column)
        return Linear(0).plus(Linear(0, ((series.labels.span, series.weights),)))

    def written(self, value: Value, base: int | None, column: int) -> Linear:
        """The number whose digits are the labels of a slice, the highest first."""
        series = self._series(value, "number", column)
        every, stop = series.labels, series.labels.span.stop
        if stop is None and self.length is None:
            raise self.error(f"a number up to the end of the group {NEEDS_LENGTH}", column)
        places = every.span.within(self.length or 0) if stop is None else every.span.within(stop)
        if len(places) > MAX_DIGITS:
            raise self.error(f"a number of {len(places):,} digits; at most {MAX_DIGITS:,} are read", column)
        number = Linear(0, needs=max(every.needs, places[-1] + 1 if places else 0))
        power = 1
        for place in places if every.backward else reversed(places):
            digit = Linear(0, ((Span(place, place + 1), series.weights),))
            number, power = number.plus(digit.times(power)), power * (base or self.num_classes)
        return number

    def worth(self, label: Position | ClassLabel, weights: Weights, column: int) -> Linear:
        """What one label is worth, as a number."""
        if isinstance(label, ClassLabel):
            return Linear(0, needs=(self.length or 0) + 1)
        if label.index < 0:
            raise self.error(f"computing with a label that is counted from the end {NEEDS_LENGTH}", column)
        here = Linear(0, ((Span(label.index, label.index + 1), weights),), label.index + 1)
        return Linear(0).plus(here)

    def _series(self, value: Value, word: str, column: int) -> Series:
        if isinstance(value, Series):
            return value
        if isinstance(value, Every):
            return Series(value, self.class_numbers)
        raise self.error(f"{word} takes y, a table of values, or a slice of these, as in {word}(y[0:3])", column)

    def classes(self, value: Value, column: int) -> frozenset[int]:
        """The classes that a class, a set of classes, or a condition about y denotes."""
        if isinstance(value, Members):
            return frozenset(number for element in value.elements for number in self.classes(*element))
        if not isinstance(value, Formula):
            label = self._class(value, column)
            if isinstance(label, ClassLabel) and label.value is not None:
                return frozenset([label.value])
        elif not positions(value) and is_judged(value):
            return frozenset(k for k in range(self.num_classes) if truth(value, k, {}))
        raise self.error("expected a class, a set of classes, or a condition about y", column)

    def _class(self, value: Value, column: int) -> Label:
        """A label, or the class of that number."""
        if isinstance(value, Label):
            return value
        number = self.number(value, column)
        if not number.is_constant:
            raise self.error("expected a class, found a count; a class can only be compared with a class", column)
        return ClassLabel(self._class_number(number.constant, column))

    def _class_number(self, number: Number, column: int) -> int:
        if number.denominator != 1:
            raise self.error(f"a class must be a whole number, found {float(number)}", column)
        if 0 <= number < self.num_classes:
            return int(number)
        quote = f'; write "{number}" for the class of that name' if str(number) in self.names else ""
        last = self.num_classes - 1
        raise self.error(f"class {number} is out of range: the classes are numbered 0..{last}{quote}", column)

    def number(self, value: Value, column: int) -> Linear:
        """The value as a number; raises if it is not one. A label is the number of its class."""
        if isinstance(value, Linear):
            return value
        if isinstance(value, Position) or (isinstance(value, ClassLabel) and value.value is None):
            return self.worth(value, self.class_numbers, column)
        if isinstance(value, Remainder):
            raise self.error("a remainder can only be compared with a number, as in sum(y) % 3 == 0", column)
        kinds = {Members: "a set", Series: "values one by one", Every: "labels one by one", Extreme: "a label"}
        found = kinds.get(type(value), "a class" if isinstance(value, Label) else "a condition")
        raise self.error(f"expected a count or a number, found {found}", column)

    def formula(self, value: Value, column: int) -> Formula:
        """The value as a condition; raises if it is not one."""
        if isinstance(value, Formula):
            return value
        raise self.error("expected a condition; compare this with something, as in count(1) == 2", column)

    def plain(self, number: Number) -> Linear:
        """A number that does not depend on the labels."""
        return Linear(number)

    def named(self, name: str, column: int) -> ClassLabel | Predicate:
        """The class of that name, or the classes that have a part of that name."""
        if name in self.parts:
            return Predicate(tuple((ClassLabel(number), column) for number in sorted(self.parts[name])))
        if name in self.names:
            return ClassLabel(self.names.index(name))
        hint = guess(name, (*self.names, *self.parts, "length", *self.values))
        raise self.error(f"there is no class {name!r}{hint}; {self._all_classes()}", column)

    def _all_classes(self) -> str:
        if self.names and len(self.names) <= 10:
            return f"the classes are {', '.join(self.names)}"
        named = " and have names" if self.names else ""
        return f"the classes are numbered 0..{self.num_classes - 1}{named}"

    def error(self, message: str, column: int) -> TextError:
        """An error that points at this column of the text."""
        return TextError(message, self.text, column)


def is_judged(formula: Formula) -> bool:
    """Whether the formula is about labels only, and compares no extremes of them."""
    extremes = any(isinstance(label, Extreme) for label in labels(formula))
    return not extremes and all(isinstance(node, Judged) for node in nodes(formula))


def parts_of_names(names: Sequence[str]) -> dict[str, frozenset[int]]:
    """The classes of each part of names that are joined by a plus.

    >>> parts_of_names(["wet+cold", "wet+warm", "warm", "C++"])
    {'wet': frozenset({0, 1}), 'cold': frozenset({0}), 'warm': frozenset({1, 2})}
    """
    found: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        parts = name.split("+")
        for part in parts if len(parts) > 1 and all(parts) else ():
            found.setdefault(part, set()).add(number)
    for part in found.keys() & set(names):
        found[part].add(names.index(part))
    return {part: frozenset(classes) for part, classes in found.items()}


def guess(name: str, candidates: Sequence[str]) -> str:
    """A suggestion for a message; empty if no candidate is close."""
    near = nearest(name, candidates)
    return "" if near is None else f" (did you mean {near!r}?)"
