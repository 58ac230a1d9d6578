"""A trellis as a reader needs it: the picture, the bars below it, and the lines that say how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._svg import Box, Picture, Point
from glws.automata._drawing.labels import checked_names, class_name, shortened
from glws.automata._drawing.trellis import (
    LEFT,
    MAX_LABELS,
    MAX_ROWS,
    RADIUS,
    Grid,
    Trellis,
    color,
    shown_columns,
    shown_rows,
    strands_of,
    trellis_picture,
)
from glws.automata._drawing.trellis_flow import flow, paths
from glws.automata._explore import NEVER
from glws.errors import DataError

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton

MAX_CELLS = 500_000  # states x instances looked at for a picture
LONGEST_NAME = 10  # of a class, on the arcs
MAX_CLASSES = 6  # with bars of their own
WIDTH = 122.0  # of the bars below an instance
NAME = 50.0  # what the numbers leave of the width
HEIGHT = 28.0

FloatArray = npt.NDArray[np.float64]


class Beliefs(NamedTuple):
    """Labels before and after the constraint is known: [length, classes] each, None where not given."""

    prior: FloatArray | None
    posterior: FloatArray | None


def trellis_pictures(
    automaton: Automaton,
    length: int,
    classes: Sequence[str] | None = None,
    marginals: npt.ArrayLike | None = None,
    probs: npt.ArrayLike | None = None,
) -> list[Picture]:
    """Trellis, bars and legend, to be stacked. Where it cannot be drawn, a line that says why."""
    names = checked_names(classes, automaton.num_symbols)
    shape = (length, automaton.num_symbols)
    beliefs = Beliefs(_checked("probs", probs, shape), _checked("marginals", marginals, shape))
    machine = automaton.resolve()
    if machine.num_states * (length + 1) > MAX_CELLS:
        return _too_large(machine, length, names, beliefs)
    ways = paths(machine, length)
    if not ways.live.any():
        return [svg.paragraph([f"No labeling of length {length} is accepted."])]
    run = None if beliefs.prior is None else flow(machine, beliefs.prior)
    if run is not None and run.log_likelihood == NEVER:
        run, beliefs = None, Beliefs(beliefs.prior, None)
    elif run is not None and beliefs.posterior is None:
        beliefs = Beliefs(beliefs.prior, run.marginals(machine))
    rows = shown_rows(ways)
    if len(rows) > MAX_ROWS:
        return _too_large(machine, length, names, beliefs)
    short = None if names is None else [shortened(name, LONGEST_NAME) for name in names]
    grid = Grid(rows, shown_columns(length), _pitch(machine, rows, short, beliefs))
    trellis = Trellis(machine, short, grid, ways, run)
    legend = svg.paragraph(_legend(trellis, automaton, beliefs))
    return [trellis_picture(trellis), *_bars(grid, names, beliefs), legend]


def _checked(name: str, values: npt.ArrayLike | None, shape: tuple[int, int]) -> FloatArray | None:
    if values is None:
        return None
    table = np.asarray(values, dtype=np.float64)
    if table.shape != shape:
        raise DataError(f"{name} must have the shape [length, classes] = {list(shape)}, found {list(table.shape)}")
    if not (np.all(np.isfinite(table)) and np.all(table >= 0)):
        raise DataError(f"{name} must be finite numbers >= 0")
    return table


def _pitch(machine: Automaton, rows: Sequence[int], names: Sequence[str] | None, beliefs: Beliefs) -> float:
    """The distance of columns: room for the longest label, and for the bars."""
    widths = [svg.text_width(strand.text, 12) for strand in strands_of(machine, rows, names)]
    least = 104.0 if beliefs.posterior is None else WIDTH + 26
    return max(least, min(max(widths, default=0.0), 150.0) + 2 * RADIUS + 44)


def _bars(grid: Grid, names: Sequence[str] | None, beliefs: Beliefs) -> list[Picture]:
    if beliefs.posterior is None or not len(beliefs.posterior):
        return []
    return [bars_picture(grid, names, beliefs.posterior, beliefs.prior)]


def _too_large(machine: Automaton, length: int, names: Sequence[str] | None, beliefs: Beliefs) -> list[Picture]:
    """A line instead of the trellis; the posteriors are still shown."""
    nodes = f"{machine.num_states:,} states x {length:,} instances"
    note = svg.paragraph([f"The trellis of {nodes} is not drawn: it would be too large to read."])
    return [note, *_bars(Grid([], shown_columns(length), WIDTH + 26), names, beliefs)]


def _legend(trellis: Trellis, automaton: Automaton, beliefs: Beliefs) -> list[str]:
    lines = ["Strong: on the path of an accepted labeling. Faint: out of reach, or leading nowhere."]
    if trellis.flow is not None:
        lines.append("Width of an arc and number in a state: posterior probability p(· | x, w).")
    if beliefs.posterior is not None:
        tick = "" if beliefs.prior is None else "; tick and first number: the model's p(y | x)"
        lines.append(f"Bars: posterior of each label p(y | x, w){tick}.")
    elif beliefs.prior is not None:
        lines.append("These predictions rule the constraint out: p(w | x) = 0, and there is no posterior.")
    if len(strands_of(trellis.automaton, trellis.grid.rows, trellis.classes)) > MAX_LABELS:
        lines.append("Where arcs have no label, find it in the automaton.")
    if trellis.automaton is not automaton:
        lines.append("The automaton was determinized first; states are those of the deterministic one.")
    return lines


# The posteriors below the instances


def bars_picture(grid: Grid, classes: Sequence[str] | None, marginals: FloatArray, probs: FloatArray | None) -> Picture:
    """A small table below each column of the grid: class, prior → posterior, and a bar."""
    elements: list[str] = []
    columns = [column for column in grid.columns if column]
    for column in columns:
        prior = None if probs is None else probs[column - 1]
        elements += _table(grid.across(column), column, classes, marginals[column - 1], prior)
    rows = min(marginals.shape[1], MAX_CLASSES) + (marginals.shape[1] > MAX_CLASSES)
    right = grid.across(columns[-1]) if columns else LEFT
    return Picture(right + WIDTH / 2 + 8, 24 + HEIGHT * rows, elements)


def _table(
    center: float, column: int, classes: Sequence[str] | None, posterior: FloatArray, prior: FloatArray | None
) -> list[str]:
    left = center - WIDTH / 2
    elements = [svg.subscripted((center, 6), "y", column, "head", 14)]
    shown = _largest(posterior)
    for row, symbol in enumerate(shown):
        before = None if prior is None else float(prior[symbol])
        elements += _row(
            (left, 20 + HEIGHT * row), symbol, _fitting(class_name(symbol, classes)), float(posterior[symbol]), before
        )
    if len(shown) < len(posterior):
        rest = len(posterior) - len(shown)
        elements.append(svg.text((left, 32 + HEIGHT * len(shown)), f"… {rest} more classes", "note", "start", 11))
    return elements


def _largest(posterior: FloatArray) -> list[int]:
    """The classes to list: all, or those with the largest posterior, in the order of classes."""
    if len(posterior) <= MAX_CLASSES:
        return list(range(len(posterior)))
    return sorted(np.argsort(-posterior, kind="stable")[:MAX_CLASSES].tolist())


def _fitting(name: str) -> str:
    """The name, cut to the room it has."""
    longest = len(name)
    while longest > 1 and svg.text_width(shortened(name, longest), 11) > NAME:
        longest -= 1
    return shortened(name, longest)


def _row(at: Point, symbol: int, name: str, posterior: float, prior: float | None) -> list[str]:
    left, top = at
    numbers = f"{posterior:.2f}" if prior is None else f"{prior:.2f} → {posterior:.2f}"
    track = Box(left, top + 15, left + WIDTH, top + 20)
    elements = [
        svg.text((left, top + 11), name, "name", "start", 11),
        svg.text((left + WIDTH, top + 11), numbers, "name", "end", 11),
        svg.rectangle(track, "track"),
        svg.rectangle(track._replace(right=left + WIDTH * min(posterior, 1.0)), f"fill {color([symbol])}"),
    ]
    if prior is not None:
        tick = left + WIDTH * min(prior, 1.0)
        elements.append(svg.rectangle(Box(tick - 1, top + 13.5, tick + 1, top + 22), "prior", radius=0))
    return elements
