"""Builders of common automata: counts, presence, equality, tables. Each is a meta-state and a step."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from glws.automata._automaton import Automaton
from glws.automata._explore import ALWAYS, NEVER, explore, explore_steps
from glws.errors import AutomatonError

Symbols = int | Collection[int]


def anything(num_symbols: int = 2) -> Automaton:
    """Every labeling: no constraint."""
    return Automaton.from_table(explore_steps(num_symbols, 0, lambda state, symbol: state, lambda state: True))


def nothing(num_symbols: int = 2) -> Automaton:
    """No labeling: infeasible."""
    return Automaton(1, num_symbols, [])


def string(labeling: Sequence[int], num_symbols: int = 2) -> Automaton:
    """Only this labeling.

    >>> string([0, 1, 1]).accepts([0, 1, 1]), string([0, 1, 1]).count(3)
    (True, 1)
    """
    labels = [_checked(symbol, num_symbols) for symbol in labeling]

    def step(position: int, symbol: int) -> int | None:
        return position + 1 if position < len(labels) and labels[position] == symbol else None

    return Automaton.from_table(explore_steps(num_symbols, 0, step, lambda position: position == len(labels)))


def between(low: int, high: int | None, of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings with at least `low` and at most `high` labels in `of` (None: no limit).

    >>> between(1, 2).count(3)
    6
    """
    counted = _symbol_set(of, num_symbols)
    low = max(low, 0)
    last = low if high is None else high  # larger counts are equivalent, or not allowed

    def step(count: int, symbol: int) -> int | None:
        after = count + (symbol in counted)
        return min(after, last) if high is None else after if after <= high else None

    if high is not None and high < low:
        return nothing(num_symbols)
    return Automaton.from_table(explore_steps(num_symbols, 0, step, lambda count: count >= low))


def exactly(count: int, of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings with exactly `count` labels in `of`.

    >>> exactly(2).count(4)
    6
    """
    return between(count, count, of, num_symbols) if count >= 0 else nothing(num_symbols)


def at_least(count: int, of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings with `count` or more labels in `of`."""
    return between(count, None, of, num_symbols)


def at_most(count: int, of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings with `count` or fewer labels in `of`."""
    return between(0, count, of, num_symbols)


def any_of(symbols: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings with at least one label in `symbols`: a positive bag."""
    return at_least(1, symbols, num_symbols)


def none_of(symbols: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings without any label in `symbols`: a negative bag."""
    return at_most(0, symbols, num_symbols)


def majority(length: int, of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """Labelings of which more than half of `length` labels are in `of`.

    >>> majority(4).accepts([1, 1, 0, 0]), majority(4).accepts([1, 1, 0, 1])
    (False, True)
    """
    return at_least(length // 2 + 1, of, num_symbols)


def all_equal(num_symbols: int = 2) -> Automaton:
    """Labelings in which all labels are equal, including the empty one."""

    def step(first: int, symbol: int) -> int | None:
        return symbol if first in (-1, symbol) else None

    return Automaton.from_table(explore_steps(num_symbols, -1, step, lambda first: True))


def from_counts(log_weights: Sequence[float], of: Symbols = 1, num_symbols: int = 2) -> Automaton:
    """A weight for each number of labels in `of`: `log_weights[k]` is log ω(k), and 0 for larger k.

    >>> noisy = from_counts([-2.0, 0.0, -1.0])
    >>> noisy.log_weight([1, 0, 1]), noisy.accepts([1, 1, 1])
    (-1.0, False)
    """
    counted = _symbol_set(of, num_symbols)

    def follow(count: int) -> list[tuple[int, int, float]]:
        following = ((symbol, count + (symbol in counted), ALWAYS) for symbol in range(num_symbols))
        return [arc for arc in following if arc[1] < len(log_weights)]

    return Automaton.from_table(explore(num_symbols, {0: ALWAYS}, follow, lambda count: float(log_weights[count])))


def joint_classes(*heads: str | Sequence[str]) -> list[str]:
    """Names of the classes of instances that carry several labels, one for each head.

    A head is a list of names, of which an instance has one, or a name that an instance has or has not. Classes are
    numbered row by row, the last head fastest; texts of `constraint` may speak of the parts of their names.

    >>> joint_classes(["red", "green"], "walk")
    ['red+walk', 'red+no_walk', 'green+walk', 'green+no_walk']
    """
    names = [[head, f"no_{head}"] if isinstance(head, str) else list(head) for head in heads]
    parts = [name for head in names for name in head]
    if not parts or len(set(parts)) < len(parts) or not all(parts) or "+" in "".join(parts):
        raise AutomatonError(f"heads need different names, without '+'; found {names}")
    return ["+".join(labels) for labels in itertools.product(*names)]


def from_table(weights: npt.ArrayLike) -> Automaton:
    """Explicit weights for labelings of one length: `weights[y_1, ..., y_L]`, an array of shape [K] * L.

    >>> comparison = from_table([[0.5, 0.0], [1.0, 0.5]])
    >>> comparison.weight([1, 0]), comparison.weight([0, 0]), comparison.weight([0, 1])
    (1.0, 0.5, 0.0)
    """
    table = np.asarray(weights, dtype=np.float64)
    if table.ndim == 0 or len(set(table.shape)) != 1:
        raise AutomatonError(f"a table must have one axis of K weights for each instance; found shape {table.shape}")
    if not (np.all(np.isfinite(table)) and np.all(table >= 0)):
        raise AutomatonError("the weights of a table must be finite numbers >= 0")
    with np.errstate(divide="ignore"):
        logs = np.log(table)

    def follow(prefix: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], float]]:
        if len(prefix) == table.ndim:
            return []
        return [(y, (*prefix, y), ALWAYS) for y in range(table.shape[0]) if np.any(logs[(*prefix, y)] > NEVER)]

    def final(prefix: tuple[int, ...]) -> float:
        return float(logs[prefix]) if len(prefix) == table.ndim else NEVER

    start: dict[tuple[int, ...], float] = {(): ALWAYS}
    return Automaton.from_table(explore(table.shape[0], start, follow, final)).minimize()


def _symbol_set(symbols: Symbols, num_symbols: int) -> frozenset[int]:
    chosen = [symbols] if isinstance(symbols, int) else symbols
    return frozenset(_checked(symbol, num_symbols) for symbol in chosen)


def _checked(symbol: int, num_symbols: int) -> int:
    if isinstance(symbol, bool) or not isinstance(symbol, int | np.integer) or not 0 <= symbol < num_symbols:
        raise AutomatonError(f"symbol {symbol!r} must be in 0..{num_symbols - 1}")
    return int(symbol)
