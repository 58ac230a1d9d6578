"""A trellis as a reader needs it: the picture, the bars below it, and the lines that say how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._svg import Picture
from glws.automata._drawing.arc_labels import checked_names, shortened
from glws.automata._drawing.posterior_bars import WIDTH, bars_picture
from glws.automata._drawing.trellis import (
    MAX_LABELS,
    MAX_ROWS,
    RADIUS,
    Grid,
    Trellis,
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
