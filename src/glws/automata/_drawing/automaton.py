"""The picture of an automaton: states in layers from left to right, self-loops above, ways back below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glws import _svg as svg
from glws._svg import Box, Picture, Point, Points
from glws.automata._drawing.labels import MergedArc, arc_lines, merged_arcs, placed, weight_text
from glws.automata._drawing.layout import Layout, Pair, layered
from glws.automata._explore import NEVER

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton

MAX_STATES = 60
MAX_LAYERS = 14
MAX_IN_LAYER = 10
RADIUS = 19.0
RING = 3.5
LOOP = 34.0  # how far a self-loop rises above its state
SIZE = 13.0
LINE = 15.0


class _Scene(NamedTuple):
    """What is drawn: some states, the arcs between them, and the lines of text on each arc."""

    automaton: Automaton
    states: list[int]
    lines: dict[Pair, list[str]]
    hidden: set[int]  # states drawn of which an arc leads to a state not drawn

    def loop(self, state: int) -> list[str] | None:
        return self.lines.get((state, state))

    def is_final(self, state: int) -> bool:
        return bool(self.automaton.log_final[state] > NEVER)


def automaton_picture(automaton: Automaton, classes: Sequence[str] | None) -> Picture:
    """States, arcs and their labels; where there are too many states, the first ones and how many are left out."""
    scene = _scene(automaton, classes)
    pairs = [pair for pair in scene.lines if pair[0] != pair[1]]
    starts = [state for state in scene.states if automaton.log_start[state] > NEVER]
    layout = layered(scene.states, pairs, starts, lambda slot: _extent(scene, slot), lambda layer: _gaps(scene, layer))
    places = {state: layout.places[state] for state in scene.states}
    curves = {pair: _curve(pair, layout) for pair in pairs}
    marks, boxes = _states(scene, places)
    arcs, more = _arcs(scene, curves, boxes)
    picture = _framed([*arcs, *marks], [*boxes, *more])
    note = _left_out(automaton, scene)
    return svg.stack([picture, svg.paragraph([note])], margin=0) if note else picture


def _scene(automaton: Automaton, classes: Sequence[str] | None) -> _Scene:
    states = shown_states(automaton)
    drawn = set(states)
    inside: list[MergedArc] = []
    hidden: set[int] = set()
    for arc in merged_arcs(automaton):
        if arc.source in drawn and arc.target in drawn:
            inside.append(arc)
        elif arc.source in drawn:
            hidden.add(arc.source)
    lines = {(arc.source, arc.target): arc_lines(arc.symbols, automaton.num_symbols, classes) for arc in inside}
    return _Scene(automaton, states, lines, hidden)


def shown_states(automaton: Automaton) -> list[int]:
    """The states to draw: breadth first from the start, until there are enough of them."""
    wave = [state for state in range(automaton.num_states) if automaton.log_start[state] > NEVER]
    seen, shown = set(wave), []
    for _ in range(MAX_LAYERS):
        shown += wave[:MAX_IN_LAYER]
        following = (target for state in wave[:MAX_IN_LAYER] for _, target, _ in automaton.outgoing[state])
        wave = [state for state in dict.fromkeys(following) if state not in seen]
        seen.update(wave)
    if not wave and automaton.num_states <= MAX_STATES:
        shown += [state for state in range(automaton.num_states) if state not in seen]
    return shown[:MAX_STATES]


def _left_out(automaton: Automaton, scene: _Scene) -> str:
    states = automaton.num_states - len(scene.states)
    if not states:
        return ""
    drawn = set(scene.states)
    inside = sum(
        s in drawn and t in drawn for s, t in zip(automaton.sources.tolist(), automaton.targets.tolist(), strict=True)
    )
    arcs = len(automaton.sources) - inside
    return f"… {states:,} more states and {arcs:,} more arcs are not drawn (dashed arrows lead to them)"


# Room


def _extent(scene: _Scene, slot: int) -> tuple[float, float]:
    if slot < 0:
        return 14.0, 14.0
    loop = scene.loop(slot)
    above = LOOP + LINE * len(loop) + 8 if loop else 8.0
    return RADIUS + above, RADIUS + 8.0 + (LINE if _final_text(scene, slot) else 0.0)


def _gaps(scene: _Scene, layer: dict[int, int]) -> list[float]:
    """The distance from each layer to the next: room for the labels between, and for those of the self-loops."""
    gaps = [2 * RADIUS + 48.0] * (max(layer.values()) + 1)
    halves, crowd = [RADIUS] * len(gaps), [0] * len(gaps)
    for (source, target), lines in scene.lines.items():
        width = max(svg.text_width(line, SIZE) for line in lines)
        if source == target:
            halves[layer[source]] = max(halves[layer[source]], width / 2)
            continue
        first, last = sorted((layer[source], layer[target]))
        for index in range(first, max(last, first + 1)):
            crowd[index] += 1
            gaps[index] = max(gaps[index], width / (last - first or 0.6) + 2 * RADIUS + 30.0)
    beside = [halves[index] + halves[index + 1] + 14.0 for index in range(len(gaps) - 1)]
    return [
        max(gap + 8.0 * min(max(arcs - 4, 0), 10), need)
        for gap, need, arcs in zip(gaps, [*beside, 0.0], crowd, strict=True)
    ]


# Curves


def _curve(pair: Pair, layout: Layout) -> Points:
    """The arc from rim to rim."""
    slots = layout.routes[pair]
    route = [layout.places[slot] for slot in slots]
    if len(slots) > 2:
        return _clipped(_through(route))
    if layout.layer[pair[0]] == layout.layer[pair[1]]:
        return _clipped(_beside(route[0], route[1], layout.layer[pair[0]] == 0))
    return _clipped(_across(route[0], route[1], (pair[1], pair[0]) in layout.routes))


def _across(start: Point, end: Point, is_mutual: bool) -> Points:
    """To the next layer: straight, or leaving and arriving level where it is steep; bent if there is one back."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    if is_mutual:
        bend = np.array([dy, -dx]) / max(float(np.hypot(dx, dy)), 1.0) * 22.0
        leave, arrive = np.array(start) + bend + (dx * 0.3, dy * 0.3), np.array(start) + bend + (dx * 0.7, dy * 0.7)
        return svg.cubic(start, (leave[0], leave[1]), (arrive[0], arrive[1]), end)
    lift = 1 / 3 if abs(dy) < 0.75 * abs(dx) else 0.0
    handle = 1 / 3 if lift else 0.5
    return svg.cubic(
        start,
        (start[0] + dx * handle, start[1] + dy * lift),
        (end[0] - dx * handle, end[1] - dy * lift),
        end,
    )


def _beside(start: Point, end: Point, is_first: bool) -> Points:
    """Within a layer: down on the right, up on the left (in the first layer, where arrows start, farther right)."""
    dy = end[1] - start[1]
    out = float(np.sign(dy)) * min(26.0 + 0.14 * abs(dy), 48.0)
    out = -1.5 * out if is_first and out < 0 else out
    return svg.cubic(start, (start[0] + out, start[1] + dy * 0.2), (end[0] + out, end[1] - dy * 0.2), end)


def _through(route: Sequence[Point]) -> Points:
    """Past the waypoints, level at each of them."""
    points = [route[0]]
    for index, (here, there) in enumerate(pairwise(route)):
        dx, dy = there[0] - here[0], there[1] - here[1]
        leave = (here[0] + dx * 0.3, here[1] + dy * 0.45) if index == 0 else (here[0] + dx * 0.45, here[1])
        is_last = index == len(route) - 2
        arrive = (there[0] - dx * 0.3, there[1] - dy * 0.45) if is_last else (there[0] - dx * 0.45, there[1])
        points += [leave, arrive, there]
    return np.array(points)


def _clipped(curve: Points, radius: float = RADIUS) -> Points:
    """The curve from the rim of the first circle to a little before the rim of the last."""
    clipped = curve.copy()
    for end, control, distance in ((0, 1, radius), (-1, -2, radius + 1.5)):
        way = curve[control] - curve[end]
        clipped[end] = curve[end] + way / max(float(np.hypot(way[0], way[1])), 1e-9) * distance
    return clipped


# Marks


def _arcs(scene: _Scene, curves: Mapping[Pair, Points], boxes: Sequence[Box]) -> tuple[list[str], list[Box]]:
    """The arcs and their labels, and what they cover."""
    sizes = [_block(scene.lines[pair]) for pair in curves]
    centers = placed(list(curves.values()), sizes, boxes)
    elements = [svg.arrow(curve, "arc") for curve in curves.values()]
    covered = []
    for pair, center, size in zip(curves, centers, sizes, strict=True):
        elements += label(center, scene.lines[pair])
        covered.append(box_around(center, size))
    for curve in curves.values():
        points = svg.along(curve, [0.1 * place for place in range(11)])[0]
        covered.append(Box(*points.min(axis=0).tolist(), *points.max(axis=0).tolist()))
    return elements, covered


def _states(scene: _Scene, places: Mapping[int, Point]) -> tuple[list[str], list[Box]]:
    """Circles with their names, start arrows, self-loops and final weights, and what they cover."""
    elements: list[str] = []
    boxes: list[Box] = []
    for state, (x, y) in places.items():
        elements.append(svg.circle((x, y), RADIUS, "node"))
        boxes.append(box_around((x, y), (2 * RADIUS + 4, 2 * RADIUS + 4)))
        if scene.is_final(state):
            elements.append(svg.circle((x, y), RADIUS - RING, "ring"))
        elements.append(svg.subscripted((x, y - 1), "q", state, size=14 if state < 100 else 11))
        for marks, box in (_loop(scene, state, x, y), _start(scene, state, x, y), _final(scene, state, x, y)):
            elements += marks
            boxes += box
        if state in scene.hidden:
            elements.append(svg.arrow(_level(x + RADIUS, x + RADIUS + 24, y), "more", 6))
    return elements, boxes


def _loop(scene: _Scene, state: int, x: float, y: float) -> tuple[list[str], list[Box]]:
    lines = scene.loop(state)
    if not lines:
        return [], []
    rise = RADIUS + LOOP * 1.25
    curve = _clipped(svg.cubic((x, y), (x - 25, y - rise), (x + 25, y - rise), (x, y)))
    width, height = _block(lines)
    center = (x, y - RADIUS - LOOP - height / 2)
    loop = Box(x - 13, y - RADIUS - LOOP + 4, x + 13, y - RADIUS)
    return [svg.arrow(curve, "arc"), *label(center, lines)], [loop, box_around(center, (width, height))]


def _start(scene: _Scene, state: int, x: float, y: float) -> tuple[list[str], list[Box]]:
    log_weight = scene.automaton.log_start[state]
    if log_weight == NEVER:
        return [], []
    tail = x - RADIUS - 30
    elements = [svg.arrow(_level(tail, x - RADIUS - 1.5, y), "arc")]
    boxes = [Box(tail, y - 5, x - RADIUS, y + 5)]
    if log_weight:
        elements += label((tail + 12, y - 13), [weight_text(log_weight)])
        boxes.append(box_around((tail + 12, y - 13), _block([weight_text(log_weight)])))
    return elements, boxes


def _final(scene: _Scene, state: int, x: float, y: float) -> tuple[list[str], list[Box]]:
    content = _final_text(scene, state)
    if not content:
        return [], []
    center = (x, y + RADIUS + 11)
    size = (svg.text_width(content, 11), LINE)
    return [svg.text((x, center[1] + 4), content, "label", size=11)], [box_around(center, size)]


def _final_text(scene: _Scene, state: int) -> str:
    log_weight = scene.automaton.log_final[state]
    return f"final · {weight_text(log_weight)}" if log_weight > NEVER and log_weight else ""


def _level(left: float, right: float, y: float) -> Points:
    third = (right - left) / 3
    return svg.cubic((left, y), (left + third, y), (right - third, y), (right, y))


def _block(lines: Sequence[str]) -> Point:
    return max(svg.text_width(line, SIZE) for line in lines) + 4, LINE * len(lines)


def label(center: Point, lines: Sequence[str], kind: str = "label", size: float = SIZE) -> list[str]:
    """Lines of text around a center."""
    top = center[1] - LINE * (len(lines) - 1) / 2 + size * 0.34
    return [svg.text((center[0], top + LINE * row), line, kind, size=size) for row, line in enumerate(lines)]


def box_around(center: Point, size: Point) -> Box:
    """The box of this width and height around a point."""
    return Box(center[0] - size[0] / 2, center[1] - size[1] / 2, center[0] + size[0] / 2, center[1] + size[1] / 2)


def _framed(elements: list[str], boxes: Sequence[Box]) -> Picture:
    """The elements moved so that all boxes are within the picture."""
    corners = np.array(boxes)
    left, top = corners[:, :2].min(axis=0) - 2
    right, bottom = corners[:, 2:].max(axis=0) + 28
    shift = f'<g transform="translate({svg.number(-left)} {svg.number(-top)})">'
    return Picture(float(right - left), float(bottom - top) - 22, [shift, *elements, "</g>"])
