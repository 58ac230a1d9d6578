"""The tree of a parsed constraint text: formulas about counts and labels.

A formula is true, false or undefined for a labeling: `y[3] == 1` is undefined for a group of two. Undefined values
propagate as in strong Kleene logic: `False and undefined` is false, `True or undefined` is true, everything else
that needs the missing label is undefined.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

COMPARISONS: dict[str, Callable[[Fraction | int, Fraction | int], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator with the same meaning after exchanging its sides."""


# Terms


@dataclass(frozen=True)
class Linear:
    """The number `constant` plus the weight of the class of every label (1 in a count)."""

    constant: Fraction
    weights: tuple[Fraction, ...]

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the labeling."""
        return not any(self.weights)

    def plus(self, other: Linear) -> Linear:
        """The sum."""
        weights = tuple(mine + its for mine, its in zip(self.weights, other.weights, strict=True))
        return Linear(self.constant + other.constant, weights)

    def times(self, factor: Fraction) -> Linear:
        """The multiple."""
        return Linear(self.constant * factor, tuple(weight * factor for weight in self.weights))


@dataclass(frozen=True)
class Position:
    """The label y[index]; negative indices count from the end."""

    index: int


@dataclass(frozen=True)
class Every:
    """The bare `y` inside any(...), all(...): each label in turn."""


@dataclass(frozen=True)
class ClassLabel:
    """A class by its number; None is a label that does not exist."""

    value: int | None


Label = Position | Every | ClassLabel


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
    """The sum of the weights of the labels, all >= 0, compared with the bound."""

    weights: tuple[Fraction, ...]
    operator: str
    bound: Fraction
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
    """The body, a formula of labels only, holds for every label (`every`) or for at least one."""

    every: bool
    body: Formula
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Pattern:
    """The labeling matches a regular expression; the column is that of its first character."""

    pattern: str
    column: int = field(default=0, compare=False)


Formula = Constant | Not | And | Or | Choice | Counting | Relation | Member | Quantified | Pattern


# Queries


def nodes(formula: Formula) -> Iterator[Formula]:
    """The formula and all formulas in it."""
    yield formula
    for part in _parts(formula):
        yield from nodes(part)


def positions(formula: Formula) -> list[int]:
    """The sorted indices i of all y[i] in the formula."""
    found = {label.index for node in nodes(formula) for label in _labels(node) if isinstance(label, Position)}
    return sorted(found)


def truth(formula: Formula, every: int | None, labels: Mapping[int, int]) -> bool | None:
    """Whether a formula of labels holds if the bare y is `every` and y[i] is `labels[i]`; None: undefined."""
    if isinstance(formula, Relation):
        left, right = _value(formula.left, every, labels), _value(formula.right, every, labels)
        return None if left is None or right is None else COMPARISONS[formula.operator](left, right)
    if isinstance(formula, Member):
        label = _value(formula.label, every, labels)
        return None if label is None else label in formula.classes
    if isinstance(formula, Constant):
        return formula.value
    if isinstance(formula, Not):
        inner = truth(formula.inner, every, labels)
        return None if inner is None else not inner
    if isinstance(formula, Choice):
        condition = truth(formula.condition, every, labels)
        chosen = formula.then if condition else formula.otherwise
        return None if condition is None else truth(chosen, every, labels)
    return _joint_truth(formula, [truth(part, every, labels) for part in _parts(formula)])


def substitute(formula: Formula, index: int, label: Label) -> Formula:
    """The formula with `label` substituted for y[index]."""

    def put(old: Label) -> Label:
        return label if old == Position(index) else old

    if isinstance(formula, Relation):
        return Relation(put(formula.left), formula.operator, put(formula.right), formula.column)
    if isinstance(formula, Member):
        return Member(put(formula.label), formula.classes, formula.column)
    return _rebuilt(formula, [substitute(part, index, label) for part in _parts(formula)])


def _joint_truth(formula: Formula, values: Iterable[bool | None]) -> bool | None:
    decisive = isinstance(formula, Or)  # one such part decides, even if others are undefined
    found = set(values)
    return decisive if decisive in found else None if None in found else not decisive


def _value(label: Label, every: int | None, labels: Mapping[int, int]) -> int | None:
    if isinstance(label, Position):
        return labels.get(label.index)
    return label.value if isinstance(label, ClassLabel) else every


def _labels(formula: Formula) -> tuple[Label, ...]:
    if isinstance(formula, Relation):
        return formula.left, formula.right
    return (formula.label,) if isinstance(formula, Member) else ()


def _parts(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, And | Or):
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
    return Quantified(formula.every, parts[0], formula.column) if isinstance(formula, Quantified) else formula
