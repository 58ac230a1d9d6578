"""Where states go: layers from left to right, few crossings, chains straight, and room for arcs that pass by.

States are numbers >= 0. An arc over more than one layer gets a *waypoint* in every layer it passes: a slot, numbered
below zero, that keeps a lane free for it, so no arc runs through a state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from glws._svg import Point

SWEEPS = 12
WIDEST = 190.0  # a layer is not moved farther than this to make its arcs less steep
STATE_WEIGHT = 1000.0  # how much more a state insists on its height than a waypoint does

Pair = tuple[int, int]
Neighbors = Mapping[int, Sequence[int]]


class Layout(NamedTuple):
    """Where every state and waypoint is, and for each arc the slots it passes, its source and target included."""

    layer: dict[int, int]
    places: dict[int, Point]
    routes: dict[Pair, list[int]]


def layered(
    states: Sequence[int],
    arcs: Sequence[Pair],
    starts: Iterable[int],
    extent: Callable[[int], tuple[float, float]],
    gap: Callable[[dict[int, int]], Sequence[float]],
) -> Layout:
    """The layout of the states; `arcs` without self-loops.

    `extent(slot)` is the room it takes above and below its center; `gap(layers)` the distances between the layers.
    """
    layer = layers_of(states, arcs, starts)
    room = gap(layer)
    routes, layer = _with_waypoints(arcs, layer)
    columns, left, right = _columns(layer), *_neighbors(routes, layer)
    columns = _untangled(columns, left, right)
    heights = _heights(columns, left, right, extent)
    distances = [max(gap, _rise(column, right, heights)) for gap, column in zip(room, columns, strict=True)]
    across = [float(sum(distances[:index])) for index in range(len(columns))]
    places = {slot: (across[layer[slot]], heights[slot]) for slot in layer}
    return Layout(layer, places, routes)


def layers_of(states: Sequence[int], arcs: Sequence[Pair], starts: Iterable[int]) -> dict[int, int]:
    """The layer of each state: the longest way from the start if no way leads back, else the shortest.

    States no start leads to begin in the first layer.
    """
    following: dict[int, list[int]] = defaultdict(list)
    for source, target in arcs:
        following[source].append(target)
    layer = _breadth_first(states, following, starts)
    order = _without_cycles(states, arcs)
    if order is None:
        return layer
    longest = dict.fromkeys(states, 0)
    for state in order:
        for target in following[state]:
            longest[target] = max(longest[target], longest[state] + 1)
    return longest


def _breadth_first(states: Sequence[int], following: Neighbors, starts: Iterable[int]) -> dict[int, int]:
    layer: dict[int, int] = {}
    for roots in (list(starts), *([state] for state in states)):
        wave = [state for state in roots if state not in layer]
        depth = 0
        while wave:
            layer.update(dict.fromkeys(wave, depth))
            wave = list(dict.fromkeys(t for state in wave for t in following[state] if t not in layer))
            depth += 1
    return layer


def _without_cycles(states: Sequence[int], arcs: Sequence[Pair]) -> list[int] | None:
    """The states in an order all arcs follow, or None where arcs run in a circle."""
    incoming = dict.fromkeys(states, 0)
    for _, target in arcs:
        incoming[target] += 1
    ready = [state for state in states if incoming[state] == 0]
    for state in ready:  # grows while it is walked
        for source, target in arcs:
            if source == state:
                incoming[target] -= 1
                if incoming[target] == 0:
                    ready.append(target)
    return ready if len(ready) == len(states) else None


def _with_waypoints(arcs: Sequence[Pair], layer: Mapping[int, int]) -> tuple[dict[Pair, list[int]], dict[int, int]]:
    routes: dict[Pair, list[int]] = {}
    extended = dict(layer)
    for source, target in arcs:
        step = 1 if layer[target] >= layer[source] else -1
        route = [source]
        for between in range(layer[source] + step, layer[target], step):
            waypoint = min(min(extended), 0) - 1
            extended[waypoint] = between
            route.append(waypoint)
        routes[source, target] = [*route, target]
    return routes, extended


def _columns(layer: Mapping[int, int]) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in range(max(layer.values()) + 1)]
    for slot, index in layer.items():  # states come first: their arcs pass below them
        columns[index].append(slot)
    return columns


def _neighbors(
    routes: Mapping[Pair, Sequence[int]], layer: Mapping[int, int]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """For every slot, what it is joined to in the layer on its left, and on its right."""
    left: dict[int, list[int]] = defaultdict(list)
    right: dict[int, list[int]] = defaultdict(list)
    for route in routes.values():
        for one, other in pairwise(route):
            first, second = (one, other) if layer[one] < layer[other] else (other, one)
            if layer[first] != layer[second]:
                right[first].append(second)
                left[second].append(first)
    return left, right


def _untangled(columns: list[list[int]], left: Neighbors, right: Neighbors) -> list[list[int]]:
    """The columns reordered by barycenters, forth and back, keeping the order with the fewest crossings."""
    best, fewest = [list(column) for column in columns], _crossings(columns, right)
    current = [list(column) for column in columns]
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        forth = sweep % 2 == 0
        indices = range(1, len(current)) if forth else range(len(current) - 2, -1, -1)
        for index in indices:
            _sort_by_barycenter(current[index], current[index - 1 if forth else index + 1], left if forth else right)
        crossings = _crossings(current, right)
        if crossings < fewest:
            best, fewest = [list(column) for column in current], crossings
    return best


def _sort_by_barycenter(column: list[int], fixed: Sequence[int], joined: Neighbors) -> None:
    rank = {slot: float(index) for index, slot in enumerate(fixed)}
    center = {
        slot: sum(rank[other] for other in joined[slot]) / len(joined[slot]) if joined.get(slot) else float(index)
        for index, slot in enumerate(column)
    }
    column.sort(key=lambda slot: center[slot])


def _crossings(columns: Sequence[Sequence[int]], right: Neighbors) -> int:
    total = 0
    for column, following in pairwise(columns):
        rank = {slot: index for index, slot in enumerate(following)}
        ends = [sorted(rank[other] for other in right.get(slot, ())) for slot in column]
        total += sum(
            1 for upper in range(len(ends)) for lower in ends[upper + 1 :] for a in ends[upper] for b in lower if a > b
        )
    return total


def _heights(
    columns: Sequence[Sequence[int]],
    left: Neighbors,
    right: Neighbors,
    extent: Callable[[int], tuple[float, float]],
) -> dict[int, float]:
    """The height of every slot: near those it is joined to, in the order of its column, with room between."""
    heights: dict[int, float] = {}
    for column in columns:
        heights.update(zip(column, _spread([0.0] * len(column), column, extent), strict=True))
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for column in columns if forth else reversed(columns):
            wished = [_wished(slot, (left if forth else right).get(slot, ()), heights) for slot in column]
            heights.update(zip(column, _spread(wished, column, extent), strict=True))
    return heights


def _rise(column: Sequence[int], right: Neighbors, heights: Mapping[int, float]) -> float:
    """The distance to the next layer at which no arc to it is too steep to look at."""
    rises = [abs(heights[slot] - heights[other]) for slot in column for other in right.get(slot, ())]
    return min(max(rises, default=0.0) * 0.7, WIDEST)


def _wished(slot: int, joined: Sequence[int], heights: Mapping[int, float]) -> float:
    """The mean height of the neighbors; a state listens to states, and to waypoints only if there is nothing else."""
    heard = [other for other in joined if other >= 0] if slot >= 0 else joined
    heard = heard or joined
    return sum(heights[other] for other in heard) / len(heard) if heard else heights[slot]


def _spread(
    wished: Sequence[float], column: Sequence[int], extent: Callable[[int], tuple[float, float]]
) -> list[float]:
    """Heights as near to the wished ones as the room needed allows (weighted least squares, pooling neighbors)."""
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + extent(upper)[1] + extent(lower)[0])
    blocks: list[tuple[float, float, int]] = []  # mean, weight, number of slots
    for slot, wish, offset in zip(column, wished, offsets, strict=True):
        block = (wish - offset, STATE_WEIGHT if slot >= 0 else 1.0, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, weight, size = blocks.pop()
            total = weight + block[1]
            block = ((mean * weight + block[0] * block[1]) / total, total, size + block[2])
        blocks.append(block)
    shifts = [mean for mean, _, size in blocks for _ in range(size)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]
