"""The tree of a parsed constraint text: formulas about counts and labels.

A formula is true, false or undefined for a labeling: `y[3] == 1` is undefined for a group of two. Undefined values
propagate as in strong Kleene logic: `False and undefined` is false, `True or undefined` is true, everything else
that needs the missing label is undefined.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import NamedTuple

Number = int | Fraction
"""Whole numbers are int: that is faster."""

COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator with the same meaning after exchanging its sides."""


# Places in a group


@dataclass(frozen=True)
class Span:
    """The positions start, start + step, ... below stop; to the end of the group where stop is None."""

    start: int = 0
    stop: int | None = None
    step: int = 1

    def __contains__(self, position: int) -> bool:
        inside = self.start <= position and (self.stop is None or position < self.stop)
        return inside and (position - self.start) % self.step == 0

    def within(self, length: int) -> range:
        """Its positions in a group of this length."""
        return range(self.start, length if self.stop is None else min(self.stop, length), self.step)


WHOLE = Span()
"""All positions."""


class Clock(NamedTuple):
    """Positions up to equivalence for some spans: distinct below `first`, from there on modulo `period`."""

    first: int
    period: int

    @classmethod
    def of(cls, spans: Iterable[Span], first: int = 0) -> Clock:
        """The clock of some spans; positions below `first` are always distinct."""
        ends = [(span.start if span.stop is None else span.stop, span) for span in spans]
        period = lcm(*(span.step for _, span in ends if span.stop is None))
        return cls(max([first, *(end for end, _ in ends)]), period)

    def at(self, position: int) -> int:
        """The position that stands for this one."""
        return position if position < self.first else self.first + (position - self.first) % self.period


# Terms

Weights = tuple[Number, ...]


@dataclass(frozen=True)
class Linear:
    """The number `constant` plus, for every label at a position of a span, the weight of its class.

    A count has weight 1 for what it counts. A number that needs more labels than there are is undefined.
    """

    constant: Number
    terms: tuple[tuple[Span, Weights], ...] = ()
    needs: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the labeling."""
        return not self.terms and not self.needs

    def plus(self, other: Linear) -> Linear:
        """The sum."""
        terms = dict(self.terms)
        for span, weights in other.terms:
            before = terms.get(span, (0,) * len(weights))
            terms[span] = tuple(mine + its for mine, its in zip(before, weights, strict=True))
        kept = tuple((span, weights) for span, weights in terms.items() if any(weights))
        return Linear(self.constant + other.constant, kept, max(self.needs, other.needs))

    def times(self, factor: Number) -> Linear:
        """The multiple."""
        terms = tuple((span, tuple(weight * factor for weight in weights)) for span, weights in self.terms if factor)
        return Linear(self.constant * factor, terms, self.needs)


@dataclass(frozen=True)
class Position:
    """The label y[index]; negative indices count from the end."""

    index: int


@dataclass(frozen=True)
class Every:
    """`y` or a slice of it inside any(...), sum(...): each label in turn, from the last one where it is `backward`.

    As the digits of a number it is undefined in groups of fewer than `needs` labels.
    """

    span: Span = WHOLE
    backward: bool = False
    needs: int = 0


@dataclass(frozen=True)
class Extreme:
    """The largest label at the positions of a span, or the smallest; undefined where there are none."""

    span: Span
    largest: bool


@dataclass(frozen=True)
class ClassLabel:
    """A class by its number; None is a label that does not exist."""

    value: int | None


Label = Position | Every | Extreme | ClassLabel


# Formulas. The column is the place in the text; formulas are equal whatever their column.


@dataclass(frozen=True)
class Constant:
    """True or False."""

    value: bool
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Not:
    """`not inner`."""

    inner: Formula
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class And:
    """All the parts are true."""

    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Or:
    """At least one part is true."""

    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Choice:
    """`then if condition else otherwise`."""

    condition: Formula
    then: Formula
    otherwise: Formula
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Counting:
    """The number, or its remainder where there is a modulus, compares like this with the bound.

    Without a modulus, its weights in spans without end are >= 0.
    """

    number: Linear
    operator: str
    bound: Number
    modulus: Number | None = None
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Relation:
    """A comparison of two labels by class number; undefined if one of them does not exist."""

    left: Label
    operator: str
    right: Label
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Member:
    """Whether the label is one of these classes; undefined if it does not exist."""

    label: Label
    classes: frozenset[int]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Quantified:
    """The body, a formula of labels only, holds for every label of a span (`every`) or for at least one."""

    every: bool
    body: Formula
    span: Span = WHOLE
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Ordered:
    """The labels at the positions of a span never fall (never rise where it is `backward`)."""

    span: Span
    backward: bool
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Distinct:
    """No two labels at the positions of a span are the same."""

    span: Span
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Temporal:
    """An operator of time such as `always` or `since`, on formulas about the label `y` at one time."""

    word: str
    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Pattern:
    """The labeling matches a regular expression; the column is that of its first character."""

    pattern: str
    column: int = field(default=0, compare=False)


Judged = Constant | Not | And | Or | Choice | Relation | Member
"""What may stand inside any(...), all(...) and operators of time: `truth` answers it."""
Formula = Judged | Counting | Quantified | Ordered | Distinct | Temporal | Pattern


# Queries


def nodes(formula: Formula) -> Iterator[Formula]:
    """The formula and all formulas in it."""
    yield formula
    for part in parts_of(formula):
        yield from nodes(part)


def labels(formula: Formula) -> tuple[Label, ...]:
    """The labels that the formula speaks of, each once."""
    found = [label for node in nodes(formula) for label in _labels(node)]
    return tuple(dict.fromkeys(found))


def positions(formula: Formula) -> list[int]:
    """The sorted indices i of all y[i] in the formula."""
    return sorted(label.index for label in labels(formula) if isinstance(label, Position))


def spans(formula: Formula) -> set[Span]:
    """The spans of all slices in the formula."""
    return {label.span for label in labels(formula) if isinstance(label, Every | Extreme)}


def truth(formula: Formula, every: int | None, found: Mapping[Label, int | None]) -> bool | None:
    """Whether a formula of labels holds if the bare y is `every` and others are as `found`; None: undefined."""
    if isinstance(formula, Relation):
        left, right = _value(formula.left, every, found), _value(formula.right, every, found)
        return None if left is None or right is None else COMPARISONS[formula.operator](left, right)
    if isinstance(formula, Member):
        label = _value(formula.label, every, found)
        return None if label is None else label in formula.classes
    if isinstance(formula, Constant):
        return formula.value
    if isinstance(formula, Not):
        inner = truth(formula.inner, every, found)
        return None if inner is None else not inner
    if isinstance(formula, Choice):
        condition = truth(formula.condition, every, found)
        chosen = formula.then if condition else formula.otherwise
        return None if condition is None else truth(chosen, every, found)
    return _joint_truth(formula, [truth(part, every, found) for part in parts_of(formula)])


def substitute(formula: Formula, index: int, label: Label) -> Formula:
    """The formula with `label` substituted for y[index]."""

    def put(old: Label) -> Label:
        return label if old == Position(index) else old

    if isinstance(formula, Relation):
        return Relation(put(formula.left), formula.operator, put(formula.right), formula.column)
    if isinstance(formula, Member):
        return Member(put(formula.label), formula.classes, formula.column)
    return _rebuilt(formula, [substitute(part, index, label) for part in parts_of(formula)])


def _joint_truth(formula: Formula, values: Iterable[bool | None]) -> bool | None:
    decisive = isinstance(formula, Or)  # one such part decides, even if others are undefined
    found = set(values)
    return decisive if decisive in found else None if None in found else not decisive


def _value(label: Label, every: int | None, found: Mapping[Label, int | None]) -> int | None:
    if isinstance(label, Position | Extreme):
        return found.get(label)
    return label.value if isinstance(label, ClassLabel) else every


def _labels(formula: Formula) -> tuple[Label, ...]:
    if isinstance(formula, Relation):
        return formula.left, formula.right
    return (formula.label,) if isinstance(formula, Member) else ()


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that it is made of."""
    if isinstance(formula, And | Or | Temporal):
        return formula.parts
    if isinstance(formula, Not):
        return (formula.inner,)
    if isinstance(formula, Choice):
        return formula.condition, formula.then, formula.otherwise
    return (formula.body,) if isinstance(formula, Quantified) else ()


def _rebuilt(formula: Formula, parts: list[Formula]) -> Formula:
    """The same formula with other parts."""
    if isinstance(formula, And | Or):
        return type(formula)(tuple(parts), formula.column)
    if isinstance(formula, Not):
        return Not(parts[0], formula.column)
    if isinstance(formula, Choice):
        return Choice(parts[0], parts[1], parts[2], formula.column)
    return replace(formula, body=parts[0]) if isinstance(formula, Quantified) else formula
