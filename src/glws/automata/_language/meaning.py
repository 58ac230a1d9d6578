"""Semantics of a constraint text: type checks, class lookup, comparisons as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

from glws.automata._language.tree import (
    MIRRORED,
    ClassLabel,
    Counting,
    Formula,
    Label,
    Linear,
    Member,
    Not,
    Or,
    Pattern,
    Quantified,
    Relation,
    nodes,
    positions,
    truth,
)
from glws.automata._pointing import TextError

NEEDS_LENGTH = "needs the length of the group: give length="


@dataclass(frozen=True)
class Members:
    """A set literal, each element with its column."""

    elements: tuple[Placed, ...]


Value = Linear | Label | Formula | Members
Placed = tuple[Value, int]
"""A value and its column in the text."""


class Meaning:
    """The rules of the language for a number of classes, their names if any, and a length if given."""

    def __init__(self, text: str, classes: int | Sequence[str], length: int | None) -> None:
        self.text = text
        self.names = () if isinstance(classes, int) else tuple(classes)
        self.num_classes = classes if isinstance(classes, int) else len(classes)
        self.length = length

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
        if isinstance(left[0], Label) or isinstance(right[0], Label):
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

    def counting(self, left: Linear, operator: str, right: Linear, column: int) -> Formula:
        """One side minus the other, with weights >= 0: with a known length, all weights may be shifted equally."""
        difference = left.plus(right.times(Fraction(-1)))
        weights, bound = difference.weights, -difference.constant
        if max(weights) <= 0:
            return Counting(tuple(-weight for weight in weights), MIRRORED[operator], -bound, column)
        least = min(weights)
        if least >= 0:
            return Counting(weights, operator, bound, column)
        if self.length is None:
            message = f"comparing counts with each other or with a share of 'length' {NEEDS_LENGTH}"
            raise self.error(message, column)
        return Counting(tuple(weight - least for weight in weights), operator, bound - least * self.length, column)

    def classes(self, value: Value, column: int) -> frozenset[int]:
        """The classes that a class, a set of classes, or a condition about y denotes."""
        if isinstance(value, Members):
            return frozenset(number for element in value.elements for number in self.classes(*element))
        if not isinstance(value, Formula):
            label = self._class(value, column)
            if isinstance(label, ClassLabel) and label.value is not None:
                return frozenset([label.value])
        elif not positions(value) and not any(isinstance(n, Counting | Pattern | Quantified) for n in nodes(value)):
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

    def _class_number(self, number: Fraction, column: int) -> int:
        if number.denominator != 1:
            raise self.error(f"a class must be a whole number, found {float(number)}", column)
        if 0 <= number < self.num_classes:
            return int(number)
        quote = f'; write "{number}" for the class of that name' if str(number) in self.names else ""
        last = self.num_classes - 1
        raise self.error(f"class {number} is out of range: the classes are numbered 0..{last}{quote}", column)

    def number(self, value: Value, column: int) -> Linear:
        """The value as a number; raises if it is not one."""
        if isinstance(value, Linear):
            return value
        found = "a set" if isinstance(value, Members) else "a class" if isinstance(value, Label) else "a condition"
        raise self.error(f"expected a count or a number, found {found}", column)

    def formula(self, value: Value, column: int) -> Formula:
        """The value as a condition; raises if it is not one."""
        if isinstance(value, Formula):
            return value
        raise self.error("expected a condition; compare this with something, as in count(1) == 2", column)

    def plain(self, number: Fraction) -> Linear:
        """A number that does not depend on the labels."""
        return Linear(number, (Fraction(0),) * self.num_classes)

    def named(self, name: str, column: int) -> ClassLabel:
        """The class of that name."""
        if name in self.names:
            return ClassLabel(self.names.index(name))
        hint = nearest(name, (*self.names, "length"))
        raise self.error(f"there is no class {name!r}{hint}; {self._all_classes()}", column)

    def _all_classes(self) -> str:
        if self.names and len(self.names) <= 10:
            return f"the classes are {', '.join(self.names)}"
        named = " and have names" if self.names else ""
        return f"the classes are numbered 0..{self.num_classes - 1}{named}"

    def error(self, message: str, column: int) -> TextError:
        """An error that points at this column of the text."""
        return TextError(message, self.text, column)


def nearest(name: str, candidates: Sequence[str]) -> str:
    """A suggestion for a message; empty if no candidate is close."""
    found = get_close_matches(name, candidates, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""
