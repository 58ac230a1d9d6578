"""What is written on an arc: the classes it reads, in as few words as possible, and its weight."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from glws.errors import AutomatonError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton

LONGEST_NAME = 16
LONGEST_LIST = 5


class MergedArc(NamedTuple):
    """All arcs from one state to another: for each weight, the symbols that have it."""

    source: int
    target: int
    symbols: dict[float, list[int]]


def merged_arcs(automaton: Automaton) -> list[MergedArc]:
    """The arcs with those between the same two states joined, in the order of states."""
    between: dict[tuple[int, int], dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    for source, arcs in enumerate(automaton.outgoing):
        for symbol, target, weight in arcs:
            between[source, target][weight].append(symbol)
    return [MergedArc(source, target, dict(symbols)) for (source, target), symbols in sorted(between.items())]


def checked_names(classes: Sequence[str] | None, num_symbols: int) -> list[str] | None:
    """The class names, one for each symbol."""
    if classes is None:
        return None
    names = [str(name) for name in classes]
    if len(names) != num_symbols:
        raise AutomatonError(f"the automaton reads {num_symbols} classes, but {len(names)} class names are given")
    return names


def class_name(symbol: int, classes: Sequence[str] | None, longest: int = LONGEST_NAME) -> str:
    """The name of the class (its number where there are no names), shortened where it is long."""
    return str(symbol) if classes is None else shortened(classes[symbol], longest)


def shortened(name: str, longest: int) -> str:
    """The text on one line, cut with an ellipsis where it is longer than that."""
    name = " ".join(name.split())
    return name if len(name) <= longest else name[: longest - 1] + "…"


def arc_lines(symbols: Mapping[float, Sequence[int]], num_symbols: int, classes: Sequence[str] | None) -> list[str]:
    """One line for each weight: "0, 2", "any", "not 1", "1 · 0.5"."""
    return [
        symbols_text(group, num_symbols, classes) + (f" · {weight_text(weight)}" if weight else "")
        for weight, group in sorted(symbols.items(), reverse=True)
    ]


def symbols_text(symbols: Sequence[int], num_symbols: int, classes: Sequence[str] | None) -> str:
    """The set of classes as a reader would say it: listed, or what is missing where that is shorter."""
    num_missing = num_symbols - len(symbols)
    if num_missing == 0 and num_symbols > 1:
        return "any"
    if num_missing < len(symbols) and len(symbols) > 2:
        return "not " + _listed(sorted(set(range(num_symbols)) - set(symbols)), classes)
    return _listed(symbols, classes)


def weight_text(log_weight: float) -> str:
    """The weight as a probability; as a power of e where it is too small or large to write out."""
    return f"{math.exp(log_weight):.3g}" if abs(log_weight) < 20 else f"e^{log_weight:.4g}"


def _listed(symbols: Sequence[int], classes: Sequence[str] | None) -> str:
    if classes is None and len(symbols) > 2 and symbols[-1] - symbols[0] == len(symbols) - 1:
        return f"{symbols[0]}–{symbols[-1]}"
    names = [class_name(symbol, classes) for symbol in symbols[:LONGEST_LIST]]
    rest = len(symbols) - len(names)
    return ", ".join(names) + (f", … {rest} more" if rest else "")
