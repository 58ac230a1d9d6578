"""`Automaton`: a weight for every labeling, as an immutable value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from glws.automata import _att as att
from glws.automata import _operations as operations
from glws.automata import _questions as questions
from glws.automata import _structure as structure
from glws.automata._explore import NEVER, explore_steps
from glws.automata._tables import FloatArray, IntArray, Table, minimized, trimmed
from glws.errors import AutomatonError

State = TypeVar("State", bound=Hashable)


class Automaton:
    """A weighted finite automaton over the symbols (class numbers) 0..num_symbols-1.

    It assigns every labeling y of every length a weight A(y) >= 0: the sum over its paths of the product of the weights
    of start, arcs and final state. Without weights it is a set of labelings: A(y) is 1 for those it accepts, else 0,
    whatever the number of their paths.

    `arcs` are (source, symbol, target) or (source, symbol, target, log_weight); `start` is a state or {state:
    log_weight}; `final` are states or {state: log_weight}. A log-weight of -inf means that there is no such arc.

    Inference refuses a weighted automaton in which one labeling has several paths, since it is nearly always a mistake;
    `sum_paths=True` declares that the sum over the paths is meant. (Operators that add weights set it.)

    >>> at_least_one = Automaton(2, 2, [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)], final=[1])
    >>> at_least_one.accepts([0, 1, 0]), at_least_one.count(3)
    (True, 7)
    >>> at_least_one & ~at_least_one == Automaton(1, 2, [])
    True
    """

    num_states: int
    num_symbols: int
    sources: IntArray
    symbols: IntArray
    targets: IntArray
    log_weights: FloatArray
    log_start: FloatArray
    log_final: FloatArray
    sum_paths: bool

    __hash__ = None  # type: ignore[assignment]  # equality is of languages; no cheap hash agrees with it

    def __init__(
        self,
        num_states: int,
        num_symbols: int,
        arcs: Iterable[Sequence[float]],
        start: int | Mapping[int, float] = 0,
        final: Iterable[int] | Mapping[int, float] = (),
        *,
        sum_paths: bool = False,
    ) -> None:
        _check_size("num_states", num_states)
        _check_size("num_symbols", num_symbols)
        table = _arc_table(arcs, num_states, num_symbols)
        fields = {
            "num_states": int(num_states),
            "num_symbols": int(num_symbols),
            "sources": table[:, 0].astype(np.int64),
            "symbols": table[:, 1].astype(np.int64),
            "targets": table[:, 2].astype(np.int64),
            "log_weights": table[:, 3].copy(),
            "log_start": _state_weights("start", {start: 0.0} if isinstance(start, int) else start, num_states),
            "log_final": _state_weights(
                "final", final if isinstance(final, Mapping) else dict.fromkeys(final, 0.0), num_states
            ),
            "sum_paths": bool(sum_paths),
        }
        self._set(fields)

    @classmethod
    def from_table(cls, table: Table, sum_paths: bool = False) -> Automaton:
        """The automaton of a table, which is not checked."""
        automaton = cls.__new__(cls)
        automaton._set({**table._asdict(), "sum_paths": sum_paths})
        return automaton

    def _set(self, fields: Mapping[str, Any]) -> None:
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(fields)  # the only assignment: one check is enough

    @property
    def table(self) -> Table:
        """Its arrays."""
        return Table(*(getattr(self, name) for name in Table._fields))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Automaton is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Automaton is immutable; {name!r} cannot be deleted")

    def __repr__(self) -> str:
        weighted = "weighted, " if self.is_weighted else ""
        return f"Automaton({weighted}{self.num_states} states, {self.num_symbols} symbols, {len(self.sources)} arcs)"

    # Properties

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any weight differs from 1, or paths are summed; otherwise the automaton is a language."""
        present = np.concatenate([self.log_weights, self.log_start, self.log_final])
        return self.sum_paths or bool(np.any((present != 0.0) & (present != NEVER)))

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether there is one start state and at most one arc for each state and symbol."""
        keys = self.sources * self.num_symbols + self.symbols
        return int(np.sum(self.log_start > NEVER)) == 1 and len(np.unique(keys)) == len(keys)

    @cached_property
    def outgoing(self) -> list[list[tuple[int, int, float]]]:
        """The arcs of each state as (symbol, target, log_weight), sorted by symbol."""
        arcs: list[list[tuple[int, int, float]]] = [[] for _ in range(self.num_states)]
        columns = (self.sources.tolist(), self.symbols.tolist(), self.targets.tolist(), self.log_weights.tolist())
        for source, symbol, target, weight in zip(*columns, strict=True):
            arcs[source].append((symbol, target, weight))
        return arcs

    def is_unambiguous(self) -> bool:
        """Whether every labeling has at most one path from a start to a final state."""
        return self._unambiguous

    @cached_property
    def _unambiguous(self) -> bool:
        return self.is_deterministic or questions.is_unambiguous(self)

    def accepts(self, labeling: Sequence[int]) -> bool:
        """Whether the labeling has a weight above zero."""
        return questions.log_weight(self, labeling) > NEVER

    def log_weight(self, labeling: Sequence[int]) -> float:
        """log A(labeling); -inf if it is not accepted."""
        return questions.log_weight(self.resolve(), labeling)

    def weight(self, labeling: Sequence[int]) -> float:
        """A(labeling): 1 or 0 for a language, the sum over paths for a weighted automaton."""
        return float(np.exp(self.log_weight(labeling)))

    def count(self, length: int) -> int:
        """The number of labelings of this length with a weight above zero, as an exact integer."""
        return questions.count(self.support(), length)

    def labelings(self, length: int) -> Iterator[tuple[int, ...]]:
        """The labelings of this length with a weight above zero, in lexicographic order."""
        return questions.labelings(self.support(), length)

    # Algebra

    def __and__(self, other: Automaton) -> Automaton:
        """Intersection: the product of the weights."""
        _check_symbols(self, other)
        left, right = _same_meaning(self, other)
        return _built(operations.intersect(left, right), self.sum_paths or other.sum_paths)

    def __or__(self, other: Automaton) -> Automaton:
        """Union of languages; with weights, their sum."""
        _check_symbols(self, other)
        return _summed(operations.unite, *_same_meaning(self, other))

    def __add__(self, other: Automaton) -> Automaton:
        """Concatenation; with weights, summed over the places to cut."""
        _check_symbols(self, other)
        return _summed(operations.concatenate, *_same_meaning(self, other))

    def __invert__(self) -> Automaton:
        """The complement: all labelings that are not accepted. A weighted automaton has none."""
        return _built(operations.complement(self))

    def star(self) -> Automaton:
        """Any number of repetitions, including none. With weights, the empty labeling must have weight 0 before."""
        return _summed(operations.star, self)

    def reverse(self) -> Automaton:
        """The reversed labelings."""
        return _built(operations.reverse(self), self.sum_paths)

    def trim(self) -> Automaton:
        """The automaton without useless states, renumbered breadth first from the start."""
        return _built(trimmed(self.table), self.sum_paths)

    def determinize(self) -> Automaton:
        """The same language with one path for each labeling. Raises if weights would have to be merged."""
        return self if self.is_deterministic else _built(operations.determinize(self))

    def minimize(self) -> Automaton:
        """The smallest deterministic automaton of the same language, numbered canonically.

        A weighted one must be deterministic already; states are merged if equal weights follow at equal places
        (weights are not moved along paths to merge more).
        """
        return _built(minimized(self.determinize().table), self.sum_paths)

    def support(self) -> Automaton:
        """The language of labelings with a weight above zero."""
        if not self.is_weighted:
            return self
        return _built(operations.support(self))

    def resolve(self) -> Automaton:
        """An equivalent automaton on which summing over paths is correct; inference uses it.

        An ambiguous language is determinized. An ambiguous weighted automaton raises, unless it was built with
        `sum_paths=True`.
        """
        return self._resolved

    @cached_property
    def _resolved(self) -> Automaton:
        if self.is_deterministic or self.sum_paths or self.is_unambiguous():
            return self
        if self.is_weighted:
            labeling = questions.ambiguous_labeling(self)
            raise AutomatonError(
                f"the weighted automaton has more than one path for the labeling {labeling}; "
                "pass sum_paths=True if the sum over paths is meant"
            )
        return self.determinize()

    # Cached properties for inference

    @cached_property
    def inference_form(self) -> Automaton:
        """The smallest equivalent that is cheap to find, with one path per labeling unless paths are summed."""
        resolved = self.resolve()
        return resolved.trim() if resolved.is_weighted or not resolved.is_deterministic else resolved.minimize()

    @cached_property
    def by_arcs(self) -> Automaton:
        """Its paths as labelings: arc i reads symbol i and has weight 1. Inference over it gives posteriors of arcs."""
        arcs = len(self.sources)
        table = Table.of(
            max(arcs, 1), (self.sources, np.arange(arcs), self.targets, None), self.log_start, self.log_final
        )
        return Automaton.from_table(table, sum_paths=True)

    @cached_property
    def count_weights(self) -> structure.CountWeights | None:
        """The weights of a count, if A(y) depends only on the number of labels among some symbols; else None."""
        return structure.count_weights(self)

    @cached_property
    def log_singles(self) -> FloatArray:
        """log A(k) of the labelings of one instance, [symbols]."""
        return structure.log_table(self, 1)

    @cached_property
    def log_pairs(self) -> FloatArray:
        """log A(k, l) of the labelings of two instances, [symbols, symbols]."""
        return structure.log_table(self, 2)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Automaton):
            return NotImplemented
        if self.num_symbols != other.num_symbols:
            return False
        if self.is_weighted or other.is_weighted:
            return questions.same_weights(self.resolve(), other.resolve())
        return _identical(self.minimize(), other.minimize())

    def given(self, labels: Mapping[int, int], length: int) -> Automaton:
        """What is said of the others when these labels of a group of this length are known, `{position: label}`.

        >>> from glws.automata import exactly
        >>> rest = exactly(2).given({0: 1, 3: 0}, length=4)
        >>> list(rest.labelings(2)), rest.count(3)
        ([(0, 1), (1, 0)], 0)
        """
        for position, label in labels.items():
            if not 0 <= position < length:
                raise AutomatonError(f"instance {position} must be in 0..{length - 1}")
            if not 0 <= label < self.num_symbols:
                raise AutomatonError(f"label {label!r} must be in 0..{self.num_symbols - 1}")
        return _summed(lambda machine: operations.given(machine, labels, length), self.resolve())

    # Drawings and text

    def to_dot(self, classes: Sequence[str] | None = None) -> str:
        """The drawing as Graphviz text."""
        from glws.automata import _drawing as drawing

        return drawing.to_dot(self, classes)

    def to_svg(self, classes: Sequence[str] | None = None) -> str:
        """The drawing as an SVG document; needs no other program."""
        from glws.automata import _drawing as drawing

        return drawing.automaton_svg(self, classes)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def to_att(self) -> str:
        """AT&T text as OpenFst reads it: `source target symbol [cost]`, `state [cost]`; cost = -log weight."""
        return att.write(self)

    @classmethod
    def from_fold(
        cls,
        init: State,
        step: Callable[[State, int], State | None],
        accept: Callable[[State], bool],
        num_classes: int,
    ) -> Automaton:
        """The labelings that a program accepts which reads them label by label, as a minimal automaton.

        The program remembers a state, anything hashable: `init` at first, `step(state, label)` after each label (None:
        nothing that begins like this is accepted), and `accept(state)` says whether the labels may end there. Both
        functions are called once for each state and label, which must therefore be few: a program that can reach more
        states than the budget (`state_budget`) raises `StateBudgetError`.

        >>> runs = Automaton.from_fold((None, 0), lambda state, y: (y, min(state[1] + (y != state[0]), 3)),
        ...     lambda state: state[1] <= 2, num_classes=2)
        >>> runs.accepts([0, 0, 1]), runs.accepts([0, 1, 0]), runs.num_states
        (True, False, 5)
        """
        _check_size("num_classes", num_classes)

        def follow(state: State, label: int) -> State | None:
            return _hashable(step(state, label), f"after label {label}, step gave")

        _hashable(init, "init is")
        return _built(minimized(explore_steps(num_classes, init, follow, lambda state: bool(accept(state)))))

    @classmethod
    def from_att(cls, text: str, num_symbols: int | None = None, *, sum_paths: bool = False) -> Automaton:
        """Read AT&T text; the source of the first line is the start. Without `num_symbols`: largest symbol + 1.

        >>> Automaton.from_att("0 1 1\\n1 1 0\\n1") == Automaton(2, 2, [(0, 1, 1), (1, 0, 1)], final=[1])
        True
        """
        return cls(*att.read(text, num_symbols), sum_paths=sum_paths)


def _hashable(state: State, whence: str) -> State:
    try:
        hash(state)
    except TypeError:
        shown = f"{whence} the {type(state).__name__} {state!r:.60}"
        raise AutomatonError(f"a state must be hashable; {shown}: use a tuple or a frozenset") from None
    return state


def _built(table: Table, sum_paths: bool = False) -> Automaton:
    return Automaton.from_table(table, sum_paths)


def _summed(operation: Any, *operands: Automaton) -> Automaton:
    """The result of an operation; if weights are involved, the weights of several paths are summed."""
    return _built(operation(*operands), any(operand.is_weighted for operand in operands))


def _same_meaning(left: Automaton, right: Automaton) -> tuple[Automaton, Automaton]:
    """Operands ready to combine: next to weights, a language must not count a labeling twice."""
    if left.is_weighted == right.is_weighted:
        return left, right
    return left.resolve(), right.resolve()


def _identical(left: Automaton, right: Automaton) -> bool:
    names = ("num_states", "sources", "symbols", "targets", "log_start", "log_final")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def _check_symbols(left: Automaton, right: object) -> None:
    if not isinstance(right, Automaton):
        raise AutomatonError(f"expected an Automaton to combine with, found {type(right).__name__}")
    if left.num_symbols != right.num_symbols:
        raise AutomatonError(f"cannot combine automata over {left.num_symbols} and {right.num_symbols} symbols")


def _check_size(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise AutomatonError(f"{name} must be an integer >= 1, found {value!r}")


def _arc_table(arcs: Iterable[Sequence[float]], num_states: int, num_symbols: int) -> FloatArray:
    """Arcs as sorted rows (source, symbol, target, log_weight), checked, without those of weight zero."""
    rows = [tuple(arc) if len(arc) == 4 else (*arc, 0.0) for arc in arcs]
    for index, row in enumerate(rows):
        if len(row) != 4:
            raise AutomatonError(f"arc {index}: expected (source, symbol, target[, log_weight]), found {row[:-1]}")
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    _check_arcs(table, num_states, num_symbols)
    table = table[table[:, 3] > NEVER]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    repeated = np.flatnonzero(np.all(table[1:, :3] == table[:-1, :3], axis=1))
    if len(repeated):
        arc = _shown(table[repeated[0]])
        raise AutomatonError(f"arc {arc} is given twice; give it once, with the sum of the weights")
    return table


def _check_arcs(table: FloatArray, num_states: int, num_symbols: int) -> None:
    for column, name, limit in ((0, "source", num_states), (1, "symbol", num_symbols), (2, "target", num_states)):
        values = table[:, column]
        wrong = np.flatnonzero((values < 0) | (values >= limit) | (values != np.floor(values)))
        if len(wrong):
            index = int(wrong[0])
            raise AutomatonError(f"arc {index} {_shown(table[index])}: its {name} must be in 0..{limit - 1}")
    wrong = np.flatnonzero(np.isnan(table[:, 3]) | (table[:, 3] == np.inf))
    if len(wrong):
        index = int(wrong[0])
        raise AutomatonError(f"arc {index} {_shown(table[index])}: its log-weight must be a number below infinity")


def _shown(row: FloatArray) -> str:
    source, symbol, target, weight = row.tolist()
    end = f", {weight:g}" if weight else ""
    return f"({source:g}, {symbol:g}, {target:g}{end})"


def _state_weights(name: str, weights: Mapping[int, float], num_states: int) -> FloatArray:
    dense = np.full(num_states, NEVER)
    for state, weight in weights.items():
        if isinstance(state, bool) or not isinstance(state, int | np.integer) or not 0 <= state < num_states:
            raise AutomatonError(f"{name} state {state!r} must be in 0..{num_states - 1}")
        if not weight < np.inf:
            raise AutomatonError(f"{name} state {state}: log-weight {weight!r} must be a number below infinity")
        dense[state] = weight
    return dense
