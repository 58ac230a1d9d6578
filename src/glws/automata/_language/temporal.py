"""Time: linear temporal logic over the labels of a group, with operators of the future and of the past.

A formula is judged at every position. Before a label is read, what is remembered is a set of cases: of the operators
of the past, their values so far (one bit each); of the operators of the future, the values that they are promised to
have from here on (one bit each). For each case and label every promise for the rest of the group decides what was
promised before, so that a step looks up, promise by promise, whether it leads back into the set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from glws.automata._explore import ALWAYS, NEVER, explore
from glws.automata._language.tree import And, Choice, Constant, Formula, Not, Or, Temporal, nodes, parts_of, truth
from glws.automata._tables import Table

FUTURE = ("always", "eventually", "next", "until")
MAX_FUTURE, MAX_PAST = 12, 14
"""Formulas with more different operators that look ahead, or back, are refused: there are 2^n promises and pasts."""

Bits = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Cases = tuple[tuple[int, bytes], ...]
"""For each state of the past, in order: the promises that are possible with it, as packed bits."""

_FIRST = Not(Temporal("previous", (Constant(True),)))
_LAST = Not(Temporal("next", (Constant(True),)))


def temporal_parts(formula: Temporal, num_classes: int) -> Table:
    """The labelings of which the formula is true: at the first label, or at the last where its operator looks back."""
    return _Tableau(_anchored(formula), num_classes).parts()


def excess(formula: Temporal) -> str | None:
    """Of which operators of time there are more than can be followed."""
    ahead, back = _operators(_anchored(formula))
    if len(ahead) > MAX_FUTURE:
        return f"more than {MAX_FUTURE} operators that look ahead"
    return f"more than {MAX_PAST} operators that look back" if len(back) > MAX_PAST else None


def _operators(formula: Formula) -> tuple[list[Temporal], list[Temporal]]:
    """The different operators of time in a formula: those that look ahead, and those that look back."""
    found = list(dict.fromkeys(node for node in nodes(formula) if isinstance(node, Temporal)))
    return [node for node in found if node.word in FUTURE], [node for node in found if node.word not in FUTURE]


def _anchored(formula: Temporal) -> Temporal:
    """The same, said from before the first label on; nothing is at any time of an empty group."""
    if formula.word in FUTURE:
        return formula if formula.word != "next" else Temporal("eventually", (And((_FIRST, formula)),))
    if formula.word == "historically":
        return Temporal("always", (Or((Not(_LAST), formula)),))
    return Temporal("eventually", (And((_LAST, formula)),))


class _Tableau:
    """Steps through sets of cases. Truth values are arrays with one entry for each promise about the rest."""

    def __init__(self, formula: Temporal, num_classes: int) -> None:
        self.future, self.past = _operators(formula)
        self.num_classes = num_classes
        self.promises = np.arange(1 << len(self.future))
        self.ahead = [(self.promises >> number & 1).astype(bool) for number in range(len(self.future))]
        self.number = {node: number for nodes in (self.future, self.past) for number, node in enumerate(nodes)}
        self.place: dict[Formula, int] = {}
        self.order: list[tuple[Formula, tuple[int, ...], int]] = []
        self.root = self._placed(formula)
        self.kept = [self._noted(node) for node in self.future]
        self.remembered = [self._noted(node) for node in self.past]
        self.settle = cache(self._settle)

    def parts(self) -> Table:
        """The deterministic machine."""
        before = sum(1 << number for number, node in enumerate(self.past) if node.word == "historically")
        at_end = sum(1 << number for number, node in enumerate(self.future) if node.word == "always")
        start: Cases = ((before, np.packbits(self.ahead[self.kept.index(self.root)]).tobytes()),)
        alike: dict[tuple[bool | None, ...], list[int]] = defaultdict(list)
        for symbol in range(self.num_classes):
            leaves = [formula for formula, inner, _ in self.order if not inner]
            alike[tuple(truth(formula, symbol, {}) for formula in leaves)].append(symbol)

        def follow(cases: Cases) -> Iterator[tuple[int, Cases, float]]:
            for symbols in alike.values():
                if target := self._after(cases, symbols[0]):
                    yield from ((symbol, target, ALWAYS) for symbol in symbols)

        def final(cases: Cases) -> float:
            return ALWAYS if any(self._unpacked(packed)[at_end] for _, packed in cases) else NEVER

        return explore(self.num_classes, {start: ALWAYS}, follow, final)

    def _placed(self, formula: Formula) -> int:
        """Where its value stands among those of all formulas, each after its parts."""
        if formula not in self.place:
            inner = tuple(self._placed(part) for part in parts_of(formula))
            self.place[formula] = len(self.order)
            self.order.append((formula, inner, self.number[formula] if isinstance(formula, Temporal) else -1))
        return self.place[formula]

    def _noted(self, formula: Temporal) -> int:
        """What is kept of an operator between labels: its value; that of its part for next and previous."""
        return self.place[formula.parts[0] if formula.word in ("next", "previous") else formula]

    def _after(self, cases: Cases, symbol: int) -> Cases:
        reached: dict[int, Bits] = {}
        for past, packed in cases:
            kept, after = self.settle(symbol, past)
            possible = self._unpacked(packed)[kept]
            for state in set(after[possible].tolist()):
                those = possible & (after == state)
                reached[state] = reached[state] | those if state in reached else those
        return tuple((state, np.packbits(reached[state]).tobytes()) for state in sorted(reached))

    def _unpacked(self, packed: bytes) -> Bits:
        return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=len(self.promises)).view(bool)

    def _settle(self, symbol: int, past: int) -> tuple[Numbers, Numbers]:
        """For each promise made about the rest: what it makes true of the promises kept here, and the past after."""
        values: list[Bits] = []
        for formula, inner, number in self.order:
            parts = [values[place] for place in inner]
            if isinstance(formula, Temporal):
                is_ahead = formula.word in FUTURE
                beside = self.ahead[number] if is_ahead else np.full(len(self.promises), bool(past >> number & 1))
                values.append(_operator(formula.word, parts, beside))
            else:
                values.append(self._value(formula, parts, symbol))
        return self._packed(values, self.kept), self._packed(values, self.remembered)

    def _packed(self, values: list[Bits], places: list[int]) -> Numbers:
        """For each promise, the values at these places as the bits of a number."""
        number = np.zeros(len(self.promises), dtype=np.int64)
        for bit, place in enumerate(places):
            number |= values[place].astype(np.int64) << bit
        return number

    def _value(self, formula: Formula, parts: list[Bits], symbol: int) -> Bits:
        if isinstance(formula, Not):
            return ~parts[0]
        if isinstance(formula, And | Or):
            return reduce(np.logical_and if isinstance(formula, And) else np.logical_or, parts)
        if isinstance(formula, Choice):
            return np.where(*parts)
        return np.full(len(self.promises), truth(formula, symbol, {}) is True)


def _operator(word: str, parts: list[Bits], beside: Bits) -> Bits:
    """The value of an operator here, from those of its parts here and from what is noted next to here."""
    if word in ("next", "previous"):
        return beside
    if word in ("always", "historically"):
        return parts[0] & beside
    if word in ("eventually", "once"):
        return parts[0] | beside
    first, then = parts
    return then | (first & beside)
