"""Texts that say no more than that a sum over all labels of a group is within a range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from glws.automata._language.compiler import tables_of
from glws.automata._language.parser import parse
from glws.automata._language.tree import MIRRORED, And, Counting, Formula


class SumRange(NamedTuple):
    """low <= Σ_j values[y_j] <= high, in whole numbers from 0; an end may be infinite."""

    values: tuple[int, ...]
    low: float
    high: float


def sum_range(
    text: str, classes: int | Sequence[str], length: int, values: Mapping[str, Sequence[float]] | None = None
) -> SumRange | None:
    """The range that a text gives for the sum over a group of this length; None if it says anything else.

    Sums of two different values are counts, for which None is the answer too.

    >>> sum_range("3 <= sum(y) < 7", 4, length=5)
    SumRange(values=(0, 1, 2, 3), low=3.0, high=6.0)
    >>> sum_range("sum(y[0:2]) == 3", 4, length=5)
    """
    found = _range(parse(text, classes, length, tables_of(values or {}, classes)), length)
    return found if found is not None and len(set(found.values)) > 2 else None


def _range(formula: Formula, length: int) -> SumRange | None:
    if isinstance(formula, Counting):
        return _counted(formula, length)
    parts = [_range(part, length) for part in formula.parts] if isinstance(formula, And) else []
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts) or len({part.values for part in known}) > 1:
        return None
    return SumRange(known[0].values, max(part.low for part in known), min(part.high for part in known))


def _counted(formula: Counting, length: int) -> SumRange | None:
    number = formula.number
    if formula.modulus is not None or formula.operator == "!=" or len(number.terms) != 1 or number.needs > length:
        return None
    (span, weights), *_ = number.terms
    if span.within(length) != range(length):
        return None
    unit = math.lcm(*(weight.denominator for weight in weights))
    up = tuple(int((weight - min(weights)) * unit) for weight in weights)
    down = tuple(max(up) - value for value in up)
    bound = Fraction(formula.bound - number.constant - min(weights) * length) * unit
    sign = formula.operator
    if down < up:  # of the two ways to write it, the same for all bounds
        bound, sign = max(up) * length - bound, MIRRORED[sign]
    low = {"==": bound, ">=": bound, ">": math.floor(bound) + 1}.get(sign, -math.inf)
    high = {"==": bound, "<=": bound, "<": math.ceil(bound) - 1}.get(sign, math.inf)
    return SumRange(min(up, down), float(low), float(high))
