"""The picture of a trellis: the automaton unrolled over the instances of a group, one column for each.

What some accepted labeling passes is drawn strongly, the rest faintly. With predictions, the width of an arc is the
posterior probability that the labeling takes it, and the posteriors of the labels stand below their instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glws import _svg as svg
from glws._svg import Picture, Point, Points
from glws.automata._drawing.automaton import box_around, label
from glws.automata._drawing.labels import placed, symbols_text, weight_text
from glws.automata._drawing.trellis_flow import Flow, Paths
from glws.automata._explore import NEVER

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton

MAX_ROWS = 12
MAX_DEAD_ROWS = 6  # beyond, states no accepted labeling passes are left out
MAX_COLUMNS = 12
MAX_FAN = 3  # arcs between the same two states drawn one by one; more are drawn as one
MAX_LABELS = 26  # labels between two columns; beyond, the reader finds them in the automaton
RADIUS = 15.0
ROW = 66.0
LEFT = 70.0
TOP = 58.0


class Strand(NamedTuple):
    """One line between two columns: arcs from one state to another that are drawn together."""

    source: int
    target: int
    arcs: list[int]
    symbols: list[int]
    text: str
    bend: float


class Grid(NamedTuple):
    """Which states and columns are drawn, and where. Column 0 is the start, column j the state after instance j."""

    rows: list[int]
    columns: list[int]
    pitch: float

    def place(self, column: int, state: int) -> Point:
        """Where the state is in this column."""
        return self.across(column), TOP + ROW * self.rows.index(state)

    def across(self, column: int) -> float:
        """Where the column is; one place stays free where columns are left out."""
        index = self.columns.index(column)
        return LEFT + self.pitch * (index + (index > 0 and self.columns[index] != index))

    @property
    def steps(self) -> list[int]:
        """The instances (from 0) of which both columns are drawn."""
        return [column - 1 for column in self.columns if column - 1 in self.columns]


class Trellis(NamedTuple):
    """Everything the picture shows."""

    automaton: Automaton
    classes: Sequence[str] | None
    grid: Grid
    paths: Paths
    flow: Flow | None

    @property
    def length(self) -> int:
        """The number of instances."""
        return len(self.paths.reached) - 1


def shown_columns(length: int) -> list[int]:
    """The columns to draw: all of them, or the first and the last."""
    if length <= MAX_COLUMNS:
        return list(range(length + 1))
    return [*range(MAX_COLUMNS // 2 + 1), *range(length - MAX_COLUMNS // 2 + 2, length + 1)]


def shown_rows(paths: Paths) -> list[int]:
    """The states to draw: those reached, or, where these are many, those on an accepted path."""
    reached = np.flatnonzero(paths.reached.any(axis=0))
    return (reached if len(reached) <= MAX_DEAD_ROWS else np.flatnonzero(paths.live.any(axis=0))).tolist()


def trellis_picture(trellis: Trellis) -> Picture:
    """The columns, the arcs between them with their labels, and the states, of which the last ones may accept."""
    grid = trellis.grid
    strands = strands_of(trellis.automaton, grid.rows, trellis.classes)
    lines, labels = _arcs(trellis, strands)
    width = grid.across(grid.columns[-1]) + RADIUS + 86
    elements = [*_heads(trellis), *lines, *labels, *_states(trellis), *_ends(trellis), *_gap(trellis)]
    return Picture(width, TOP + ROW * (len(grid.rows) - 1) + 46, elements)


def strands_of(automaton: Automaton, rows: Sequence[int], classes: Sequence[str] | None) -> list[Strand]:
    """The lines between any two columns. A few arcs between the same states fan out; many become one line."""
    between: dict[tuple[int, int], list[int]] = defaultdict(list)
    pairs = zip(automaton.sources.tolist(), automaton.targets.tolist(), strict=True)
    for arc, (source, target) in enumerate(pairs):
        if source in rows and target in rows:
            between[source, target].append(arc)
    single = all(len(arcs) <= MAX_FAN for arcs in between.values()) and len(between) <= MAX_LABELS
    strands = []
    for (source, target), arcs in sorted(between.items()):
        groups = [[arc] for arc in arcs] if single else [arcs]
        for index, group in enumerate(groups):
            symbols = automaton.symbols[group].tolist()
            bend = ((len(groups) - 1) / 2 - index) * 20.0
            strands.append(Strand(source, target, group, symbols, _text(automaton, group, classes), bend))
    return strands


def _text(automaton: Automaton, arcs: list[int], classes: Sequence[str] | None) -> str:
    text = symbols_text(automaton.symbols[arcs].tolist(), automaton.num_symbols, classes)
    weights = set(automaton.log_weights[arcs].tolist())
    weight = weights.pop()
    if weights:
        return text + " · …"
    return text + (f" · {weight_text(weight)}" if weight else "")


# Arcs


def _curve(grid: Grid, step: int, strand: Strand) -> Points:
    """Straight to a state near by; level at both ends to one far up or down, to pass between the others."""
    start, end = np.array(grid.place(step, strand.source)), np.array(grid.place(step + 1, strand.target))
    way = end - start
    normal = np.array([way[1], -way[0]]) / np.hypot(*way) * strand.bend
    lift = 1 / 3 if abs(way[1]) < 2.5 * ROW else 0.06
    handle = np.array([way[0] / 3, way[1] * lift])
    curve = np.array([start, start + handle + normal, end - handle + normal, end])
    curve[0] += _towards(curve[1] - curve[0]) * RADIUS
    curve[3] += _towards(curve[2] - curve[3]) * (RADIUS + 1.5)
    return curve


def _towards(way: Points) -> Points:
    return way / float(np.hypot(way[0], way[1]))


def _arcs(trellis: Trellis, strands: Sequence[Strand]) -> tuple[list[str], list[str]]:
    """Faint and strong lines, and the labels of the strong ones."""
    lines: list[str] = []
    labels: list[str] = []
    live = trellis.paths.live_arcs(trellis.automaton)
    for step in trellis.grid.steps:
        alive = [strand for strand in strands if live[step, strand.arcs].any()]
        curves = [_curve(trellis.grid, step, strand) for strand in alive]
        dead = [_curve(trellis.grid, step, strand) for strand in strands if not live[step, strand.arcs].any()]
        lines += [svg.arrow(curve, "arc glws-faint", 6) for curve in dead]
        lines += [_line(trellis, step, strand, curve) for strand, curve in zip(alive, curves, strict=True)]
        if len(alive) <= MAX_LABELS:
            labels += _labels(trellis.grid, step, alive, curves, dead)
    return lines, labels


def _line(trellis: Trellis, step: int, strand: Strand, curve: Points) -> str:
    kind = f"live {color(strand.symbols)}"
    if trellis.flow is None:
        return svg.arrow(curve, kind, 8, "stroke-width:1.8")
    share = min(float(trellis.flow.arcs[step, strand.arcs].sum()), 1.0)
    return svg.arrow(curve, kind, 6 + 6 * share, f"stroke-width:{1 + 5 * share:.2f};opacity:{0.45 + 0.55 * share:.2f}")


def _labels(
    grid: Grid, step: int, strands: Sequence[Strand], curves: Sequence[Points], dead: Sequence[Points]
) -> list[str]:
    sizes = [(svg.text_width(strand.text, 12) + 3, 13.0) for strand in strands]
    ends = [box_around(grid.place(column, s), (2 * RADIUS + 6,) * 2) for column in (step, step + 1) for s in grid.rows]
    centers = placed(curves, sizes, ends, dead, near=0.36)
    marks = [label(at, [one.text], f"label {color(one.symbols)}", 12) for at, one in zip(centers, strands, strict=True)]
    return [mark for group in marks for mark in group]


def color(symbols: Sequence[int]) -> str:
    """The style class of an arc that reads these symbols: a color of its own for one of the first classes."""
    return f"glws-c{symbols[0]}" if len(symbols) == 1 and symbols[0] < svg.NUM_COLORS else "glws-plain"


# States


def _heads(trellis: Trellis) -> list[str]:
    grid = trellis.grid
    elements = [svg.text((grid.across(0), 18), "start", "head", size=12)]
    elements += [svg.subscripted((grid.across(c), 14), "x", c, "head", 14) for c in grid.columns if c]
    return elements


def _states(trellis: Trellis) -> list[str]:
    elements = []
    for column in trellis.grid.columns:
        for state in trellis.grid.rows:
            elements += _state(trellis, column, state)
    return elements


def _state(trellis: Trellis, column: int, state: int) -> list[str]:
    """A circle with the name of the state or its posterior in it, double where the labeling may end."""
    at = trellis.grid.place(column, state)
    if not trellis.paths.live[column, state]:
        return [
            svg.circle(at, RADIUS, "node"),
            svg.circle(at, RADIUS, "veil"),
            svg.subscripted(at, "q", state, "dim", 12),
        ]
    elements = [svg.circle(at, RADIUS, "node")]
    if column == trellis.length:
        elements.append(svg.circle(at, RADIUS + 3.5, "ring"))
    if trellis.flow is None:
        return [*elements, svg.subscripted((at[0], at[1] - 1), "q", state, size=13)]
    share = min(float(trellis.flow.states[column, state]), 1.0)
    shade = svg.circle(at, RADIUS - 0.7, "fill", f"opacity:{0.42 * share:.2f}")
    return [*elements, shade, svg.text((at[0], at[1] + 4), probability_text(share), "name", size=11)]


def probability_text(share: float) -> str:
    """Two digits, and never 0 or 1 for what is neither."""
    if share < 0.005:
        return "0" if share == 0 else "<.01"
    if share >= 0.995:
        return "1" if share > 1 - 1e-9 else ">.99"
    return f"{share:.2f}".lstrip("0")


def _ends(trellis: Trellis) -> list[str]:
    """On the left the names of the rows and the start arrow, on the right the weights of ending there."""
    automaton, grid = trellis.automaton, trellis.grid
    elements = []
    for state in grid.rows:
        x, y = grid.place(0, state)
        elements.append(svg.subscripted((x - RADIUS - 42, y), "q", state, "head", 14))
        if automaton.log_start[state] > NEVER:
            start = np.linspace((x - RADIUS - 26, y), (x - RADIUS - 1.5, y), 4)
            elements.append(svg.arrow(start, "arc", 7))
            elements += label((x - RADIUS - 16, y - 12), _weight(automaton.log_start[state]), size=11)
        last = grid.place(grid.columns[-1], state)
        if trellis.paths.live[-1, state]:
            text = ["accepted", *(f"· {line}" for line in _weight(automaton.log_final[state]))]
            elements.append(svg.text((last[0] + RADIUS + 10, last[1] + 4), " ".join(text), "head", "start", 12))
    return elements


def _weight(log_weight: float) -> list[str]:
    return [weight_text(log_weight)] if log_weight else []


def _gap(trellis: Trellis) -> list[str]:
    """Dots where columns are left out."""
    grid = trellis.grid
    jumps = [column for column in grid.columns if column and column - 1 not in grid.columns]
    elements = []
    for column in jumps:
        middle = grid.across(column) - grid.pitch
        left_out = column - 1 - grid.columns[grid.columns.index(column) - 1]
        elements.append(svg.text((middle, 18), f"{left_out:,} more", "head", size=12))
        live = trellis.paths.live[grid.columns[grid.columns.index(column) - 1]]
        elements += [
            svg.text((middle, TOP + ROW * i + 4), "· · ·", "head", size=16) for i, s in enumerate(grid.rows) if live[s]
        ]
    return elements
