"""Labels of arcs: the classes that an arc reads and its weight in as few words as possible, and where they stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from glws._svg import Box, Point, Points, along
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


ALONG = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
SIDES = (1.0, -1.0, 0.0)  # above the arc, below it, on it
CLEARANCE = 2.5
SAMPLES = np.linspace(0.03, 0.97, 48).tolist()

Boxes = npt.NDArray[np.float64]


def placed(
    curves: Sequence[Points],
    sizes: Sequence[Point],
    obstacles: Sequence[Box],
    passing: Sequence[Points] = (),
    near: float = 0.5,
) -> list[Point]:
    """The center of each label, one label of this (width, height) for each curve.

    A label avoids, in this order: obstacles and labels placed before it, all curves (`passing` are curves without a
    label), and being far from the place `near` (0..1) on its arc.
    """
    taken = np.array(obstacles, dtype=np.float64).reshape(-1, 4)
    ink = [along(curve, SAMPLES)[0] for curve in (*curves, *passing)]
    centers: list[Point] = []
    for index, (curve, size) in enumerate(zip(curves, sizes, strict=True)):
        options, effort = _options(curve, size, near)
        boxes = _boxes(options, size)
        others = np.concatenate([*ink[:index], *ink[index + 1 :], np.empty((0, 2))])
        cost = (
            1000.0 * _overlaps(boxes, taken) + 2.0 * _inside(boxes, others) + 0.5 * _inside(boxes, ink[index]) + effort
        )
        best = int(np.argmin(cost))
        centers.append((float(options[best, 0]), float(options[best, 1])))
        taken = np.concatenate([taken, boxes[best : best + 1]])
    return centers


def _options(curve: Points, size: Point, near: float) -> tuple[Points, Points]:
    """Where the label could be, and how little each place is liked."""
    places = [min(max(place - 0.5 + near, 0.12), 0.88) for place in ALONG]
    points, normals = along(curve, places)
    reach = np.abs(normals[:, 0]) * size[0] / 2 + np.abs(normals[:, 1]) * size[1] / 2 + CLEARANCE
    options = np.concatenate([points + side * reach[:, None] * normals for side in SIDES])
    distance = 12.0 * np.abs(np.array(places) - near)
    effort = np.concatenate([distance + dislike for dislike in (0.0, 0.5, 2.0)])
    return options, effort


def _boxes(centers: Points, size: Point) -> Boxes:
    half = np.array(size) / 2
    return np.concatenate([centers - half, centers + half], axis=1)


def _overlaps(boxes: Boxes, taken: Boxes) -> Points:
    one, other = boxes[:, None, :], taken[None, :, :]
    apart = (
        (one[..., 2] <= other[..., 0])
        | (other[..., 2] <= one[..., 0])
        | (one[..., 3] <= other[..., 1])
        | (other[..., 3] <= one[..., 1])
    )
    return np.asarray(np.sum(~apart, axis=1), dtype=np.float64)


def _inside(boxes: Boxes, points: Points) -> Points:
    x, y = points[None, :, 0], points[None, :, 1]
    hit = (boxes[:, 0:1] <= x) & (x <= boxes[:, 2:3]) & (boxes[:, 1:2] <= y) & (y <= boxes[:, 3:4])
    return np.asarray(np.sum(hit, axis=1), dtype=np.float64)
