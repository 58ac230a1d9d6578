"""Pictures of automata and trellises, as text: Graphviz and SVG. Neither needs another program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws.automata._drawing.automaton import automaton_picture
from glws.automata._drawing.labels import arc_lines, checked_names, merged_arcs, shortened, weight_text
from glws.automata._drawing.trellis_page import trellis_pictures
from glws.automata._explore import NEVER

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton


def to_dot(automaton: Automaton, classes: Sequence[str] | None = None) -> str:
    """The automaton as Graphviz text, arcs between the same states merged into one.

    >>> from glws.automata import any_of
    >>> print(to_dot(any_of(1)))
    digraph automaton {
      rankdir=LR;
      node [shape=circle];
      start [shape=point, style=invis];
      0 [shape=circle];
      1 [shape=doublecircle];
      start -> 0;
      0 -> 0 [label="0"];
      0 -> 1 [label="1"];
      1 -> 1 [label="any"];
    }
    """
    names = checked_names(classes, automaton.num_symbols)
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];", "  start [shape=point, style=invis];"]
    lines += [f"  {state} {_dot_state(automaton, state)};" for state in range(automaton.num_states)]
    for state in np.flatnonzero(automaton.log_start > NEVER).tolist():
        weight = float(automaton.log_start[state])
        lines.append(f"  start -> {state}" + (f" [label={_quoted(weight_text(weight))}];" if weight else ";"))
    for arc in merged_arcs(automaton):
        label = "\n".join(arc_lines(arc.symbols, automaton.num_symbols, names))
        lines.append(f"  {arc.source} -> {arc.target} [label={_quoted(label)}];")
    return "\n".join([*lines, "}"])


def automaton_svg(automaton: Automaton, classes: Sequence[str] | None = None) -> str:
    """The automaton as an SVG document: states in layers from left to right, weights written as probabilities.

    Of a large automaton the first states are drawn, and it is said how many are not.
    """
    picture = automaton_picture(automaton, checked_names(classes, automaton.num_symbols))
    return svg.document(svg.stack([picture]), repr(automaton))


def trellis_svg(
    automaton: Automaton,
    length: int,
    classes: Sequence[str] | None = None,
    marginals: npt.ArrayLike | None = None,
    probs: npt.ArrayLike | None = None,
) -> str:
    """The automaton unrolled over `length` instances as an SVG document.

    What an accepted labeling passes is drawn strongly, the rest faintly. `probs` [length, classes] are the model's
    predictions p(y_j = k | x): with them the width of an arc is its posterior, and each instance shows prior →
    posterior. `marginals` [length, classes] are posteriors p(y_j = k | x, w) computed elsewhere (`glws.infer`), shown
    instead of those computed here. Long groups are shown from both ends; with too many states, a line says so.
    """
    pictures = trellis_pictures(automaton, length, classes, marginals, probs)
    return svg.document(svg.stack(pictures), f"trellis of {automaton!r} over {length} instances")


def explain_svg(
    automaton: Automaton,
    length: int | None = None,
    title: str = "",
    facts: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    marginals: npt.ArrayLike | None = None,
    probs: npt.ArrayLike | None = None,
) -> str:
    """Title, facts, automaton and (given a length) trellis in one SVG document."""
    head = [svg.paragraph([shortened(title, 90)], "title", 18)] if title else []
    head += [svg.paragraph(facts)] if facts else []
    pictures = [*head, automaton_picture(automaton, checked_names(classes, automaton.num_symbols))]
    if length is not None:
        pictures += trellis_pictures(automaton, length, classes, marginals, probs)
    return svg.document(svg.stack(pictures, gap=16), title or repr(automaton))


def _dot_state(automaton: Automaton, state: int) -> str:
    log_weight = float(automaton.log_final[state])
    if log_weight == NEVER:
        return "[shape=circle]"
    name = _quoted(f"{state}\n{weight_text(log_weight)}")
    return f"[shape=doublecircle, label={name}]" if log_weight else "[shape=doublecircle]"


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
