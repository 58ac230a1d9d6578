"""Automata laid out for the compiled kernels.

Arcs between the same two states are one edge, whose emission is a weighted sum of classes: a *row*. Rows are numbered
per automaton: first the classes it uses, then sums. Classes that the automaton never distinguishes are summed first,
and edges with the same sum share its row, so that the work depends on what the automaton distinguishes.

There are two layouts. In a *narrow* block, of few groups, a sum is computed for many instances at once, and is always
worth it. In a *wide* one, of groups side by side, writing a sum and reading it again costs more than the sum if it is
short and rarely used: such edges remain arcs.
"""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glws.automata import Automaton
from glws.inference._compiled_trellis.quartets import Quartets, joined, quartets, rounded_up

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Term = tuple[int, int, int, float]

MAX_SPELLED = 4
"""Wide blocks expand sums that take at most this many arcs."""
MAX_BATCHES = 32
"""Number of combinations of automata in the cache."""


class Terms(NamedTuple):
    """Lists of products, one list after the other: list i is at bounds[i]..bounds[i + 1]."""

    bounds: Integers
    left: Integers
    right: Integers
    weights: npt.NDArray[Any]


class Machines(NamedTuple):
    """Automata one after the other; `numbers[i]` holds the offsets of automaton i.

    Its lists of products, in this order, begin in `terms.bounds` at numbers[i, FIRST_LIST...]:
        arrivals, of a state: (source, row)         departures, of a state: (target, row)
        visits, of a row: (source, target)          members, of a row: its terms, (0, row)
        shares, of a row: the sums that contain it, (0, row)
    first those of the narrow layout, then those of the wide one. Quartets are of the wide one, -1 if there are none:
    departures of four states each, which share a row; they then replace the visits. WEIGHTED tells whether an arc
    of the wide layout has a weight other than 1.
    ends: start weights of its states, then final ones, the largest of each 1.
    logs: the log-divisors of start and final weights together, and of arcs; the smallest log-weight left.
    """

    numbers: Integers
    terms: Terms
    quartets: Quartets
    classes: Integers
    ends: npt.NDArray[Any]
    logs: Floats


STATES, ROWS, WIDE_ROWS, USED, FIRST_CLASS, FIRST_END, DEPARTURE_QUARTETS, WEIGHTED, FIRST_LIST = range(9)
LISTS = 5
"""Of each layout."""


class _Layout(NamedTuple):
    """Lists of products, in the order of `Machines`."""

    rows: int
    terms: tuple[Terms, ...]


class _Machine(NamedTuple):
    """One automaton."""

    classes: list[int]
    narrow: _Layout
    wide: _Layout
    quartets: Quartets | None
    start: Floats
    final: Floats
    logs: tuple[float, float, float]


def packed(automata: Sequence[Automaton], dtype: np.dtype[Any]) -> Machines:
    """The automata side by side, cached for the next call with the same ones."""
    key = (dtype.char, *map(id, automata))
    references, machines = _batches.pop(key, ((), None))
    same = all(reference() is automaton for reference, automaton in zip(references, automata, strict=False))
    if machines is None or not same:
        references = tuple(map(weakref.ref, automata))
        machines = _concatenated([_machine(automaton) for automaton in automata], dtype)
    _batches[key] = (references, machines)
    while len(_batches) > MAX_BATCHES:
        _batches.popitem(last=False)
    return machines


_batches: OrderedDict[Any, tuple[tuple[weakref.ref[Automaton], ...], Machines]] = OrderedDict()


@lru_cache(maxsize=4096)
def _remembered(reference: _Same) -> _Machine:
    automaton = reference.automaton()
    assert automaton is not None
    return _laid_out(automaton.inference_form)


class _Same:
    """A cache key: the identity of an automaton that is alive."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton, self.number = weakref.ref(automaton), id(automaton)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.automaton() is other.automaton() is not None


def _machine(automaton: Automaton) -> _Machine:
    return _remembered(_Same(automaton))


def _laid_out(automaton: Automaton) -> _Machine:
    log_step = float(automaton.log_weights.max(initial=-np.inf))
    log_step = log_step if log_step > -np.inf else 0.0
    log_start, start_top = _scaled(automaton.log_start)
    log_final, final_top = _scaled(automaton.log_final)
    log_weights = automaton.log_weights - log_step
    classes = np.unique(automaton.symbols).tolist()
    members, arcs = _merged_classes(automaton, log_weights, classes)
    edges = _edges(arcs, members, len(classes))
    spelled, kept = _spelled_out(edges, members, len(classes))
    fourfold = _quartets(spelled, automaton.num_states)
    finite = np.concatenate([log_weights, log_start, log_final])
    return _Machine(
        classes,
        _layout(edges, members, automaton.num_states, len(classes), True),
        _layout(spelled, kept, automaton.num_states, len(classes), fourfold is None),
        fourfold,
        np.exp(log_start),
        np.exp(log_final),
        (start_top + final_top, log_step, float(finite.min(initial=0.0, where=finite > -np.inf))),
    )


def _scaled(log_weights: Floats) -> tuple[Floats, float]:
    top = float(log_weights.max())
    return (log_weights - top, top) if top > -np.inf else (log_weights, 0.0)


Sum = tuple[tuple[int, float], ...]


def _merged_classes(
    automaton: Automaton, log_weights: Floats, classes: list[int]
) -> tuple[list[Sum], list[tuple[int, int, int, float]]]:
    """Sums of classes with the same arcs, and the arcs (source, target, row, log-weight) over them."""
    columns: dict[Sequence[tuple[int, int, float]], list[int]] = {}
    arcs: dict[int, list[tuple[int, int, float]]] = {symbol: [] for symbol in classes}
    values = (automaton.symbols, automaton.sources, automaton.targets, log_weights)
    for symbol, *arc in zip(*(value.tolist() for value in values), strict=True):
        arcs[symbol].append(tuple(arc))
    for row, symbol in enumerate(classes):
        columns.setdefault(tuple(arcs[symbol]), []).append(row)
    members: list[Sum] = []
    merged = []
    for column, rows in columns.items():
        row = rows[0]
        if len(rows) > 1:
            row = len(classes) + len(members)
            members.append(tuple((other, 1.0) for other in rows))
        merged += [(source, target, row, weight) for source, target, weight in column]
    return members, merged


def _edges(arcs: Iterable[tuple[int, int, int, float]], members: list[Sum], first: int) -> list[Term]:
    """Edges (source, target, row, weight); sums of edges are added to `members`, each sum once."""
    labels: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for source, target, row, weight in arcs:
        labels.setdefault((source, target), []).append((row, weight))
    numbers: dict[Sum, int] = {}
    edges = []
    for (source, target), parts in sorted(labels.items()):
        top = max(weight for _, weight in parts)
        row = parts[0][0]
        if len(parts) > 1:
            key = tuple((part, float(np.exp(weight - top))) for part, weight in sorted(parts))
            if key not in numbers:
                numbers[key] = first + len(members)
                members.append(key)
            row = numbers[key]
        edges.append((source, target, row, float(np.exp(top))))
    return edges


def _spelled_out(edges: list[Term], members: list[Sum], used: int) -> tuple[list[Term], list[Sum]]:
    """The edges with short, rare sums replaced by arcs, and the remaining sums."""
    uses = Counter(row for _, _, row, _ in edges)
    within = {row for parts in members for row, _ in parts}
    rows = range(used, used + len(members))
    kept = [row for row in rows if row in within or uses[row] * len(members[row - used]) > MAX_SPELLED]
    number = {row: i for i, row in enumerate([*range(used), *kept])}
    arcs: list[Term] = []
    for source, target, row, weight in edges:
        parts = ((row, 1.0),) if row in number else members[row - used]
        arcs += [(source, target, number[part], weight * share) for part, share in parts]
    return arcs, [tuple((number[part], share) for part, share in members[row - used]) for row in kept]


def _layout(edges: list[Term], members: list[Sum], states: int, used: int, hands_on: bool) -> _Layout:
    """`hands_on`: whether members take the visits of sums with a single one; with quartets they do not."""
    rows = used + len(members)
    summed = [(used + i, 0, part, weight) for i, parts in enumerate(members) for part, weight in parts]
    visits, shares = _spread(edges, members, rows, used, hands_on)
    return _Layout(
        rows,
        (
            _terms([(target, source, row, weight) for source, target, row, weight in edges], states),
            _terms([(source, target, row, weight) for source, target, row, weight in edges], states),
            _terms(visits, rows),
            _terms(summed, rows),
            _terms(shares, rows),
        ),
    )


def _quartets(edges: list[Term], states: int) -> Quartets | None:
    """Quartets of departures; the row after those of the states is zero, for missing ones."""
    departures = [(source, row, target, weight) for source, target, row, weight in edges]
    return quartets(departures, states, rounded_up(states))


def _spread(
    edges: list[Term], members: list[Sum], rows: int, used: int, hands_on: bool
) -> tuple[list[Term], list[Term]]:
    """Visits and shares of rows. A sum that passes on a single visit shares nothing: its members take the visit."""
    visits: list[list[tuple[int, int, float]]] = [[] for _ in range(rows)]
    for source, target, row, weight in edges:
        visits[row].append((source, target, weight))
    shares: list[Term] = []
    shared: set[int] = set()
    for row in range(rows - 1, used - 1, -1):
        parts = members[row - used]
        if hands_on and len(visits[row]) == 1 and row not in shared:
            source, target, weight = visits[row].pop()
            for part, share in parts:
                visits[part].append((source, target, weight * share))
        else:
            shares += [(part, 0, row, share) for part, share in parts]
            shared.update(part for part, _ in parts)
    return [(row, *visit) for row, some in enumerate(visits) for visit in some], shares


def _terms(items: list[Term], lists: int) -> Terms:
    table = np.array(sorted(items), dtype=np.float64).reshape(-1, 4)
    bounds = np.searchsorted(table[:, 0], np.arange(lists + 1))
    return Terms(bounds, table[:, 1].astype(np.int64), table[:, 2].astype(np.int64), table[:, 3].copy())


def _concatenated(machines: Sequence[_Machine], dtype: np.dtype[Any]) -> Machines:
    states = np.array([len(machine.start) for machine in machines])
    used = np.array([len(machine.classes) for machine in machines])
    rows = np.array([(machine.narrow.rows, machine.wide.rows) for machine in machines])
    lists = [terms for machine in machines for layout in (machine.narrow, machine.wide) for terms in layout.terms]
    first_lists = _before([len(terms.bounds) for terms in lists]).reshape(len(machines), -1)
    weighted = np.array([(machine.wide.terms[0].weights != 1.0).any() for machine in machines])
    shared, places = joined([machine.quartets for machine in machines])
    header = np.stack([states, *rows.T, used, _before(used), _before(2 * states), places, weighted], 1)
    return Machines(
        np.concatenate([header, first_lists], 1),
        _joined(lists, dtype),
        shared,
        np.array([symbol for machine in machines for symbol in machine.classes], dtype=np.int64),
        np.concatenate([ends for machine in machines for ends in (machine.start, machine.final)]).astype(dtype),
        np.array([machine.logs for machine in machines]),
    )


def _before(sizes: npt.ArrayLike) -> Integers:
    """The offset of each: the sum of the sizes before it."""
    before: Integers = np.cumsum(sizes) - np.asarray(sizes)
    return before


def _joined(lists: Sequence[Terms], dtype: np.dtype[Any]) -> Terms:
    begins = _before([len(terms.left) for terms in lists])
    return Terms(
        np.concatenate([terms.bounds + begin for terms, begin in zip(lists, begins, strict=True)]),
        np.concatenate([terms.left for terms in lists]),
        np.concatenate([terms.right for terms in lists]),
        np.concatenate([terms.weights for terms in lists]).astype(dtype),
    )
