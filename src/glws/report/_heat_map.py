"""The confusion matrix as a heat map with numbers: what is right in one color, mistakes in another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._svg import Picture
from glws.report._axes import SMALL, figure, fitting, room_for, side_name
from glws.report._content import Floats, Integers
from glws.report._wording import compact, percent

MAX_CLASSES = 200  # a larger matrix is not drawn: its cells could not be seen
MAX_NUMBERED = 25
LEVELS = 10
NAME_ROOM = 96.0


class Mistake(NamedTuple):
    """How many instances of one class were taken for another, and which share of that class they are."""

    truth: str
    predicted: str
    instances: float
    share: float


def confusion_map(classes: Sequence[str], counts: Integers | Floats, title: str = "Confusion matrix") -> str:
    """True classes in rows, predicted ones in columns; the stronger the color, the larger the share of its row.

    Up to 25 classes have names and numbers, up to 200 are drawn; beyond, the string is empty.
    """
    if len(classes) > MAX_CLASSES:
        return ""
    is_numbered = len(classes) <= MAX_NUMBERED
    cell = max(30.0, min(80.0, 340.0 / len(classes))) if is_numbered else 6.0 if len(classes) <= 100 else 4.0
    names = [fitting(name, NAME_ROOM) for name in classes] if is_numbered else []
    left, top = 26 + room_for(names) + 6, 26 + _heading_height(names, cell)
    side = cell * len(classes)
    parts = [f'<g transform="translate({svg.number(left)} {svg.number(top)})">', *_cells(counts, cell)]
    parts += [*(_numbers(counts, cell) if is_numbered else []), *_row_names(names, cell), *_column_names(names, cell)]
    parts += ["</g>", svg.text((left + side / 2, 14), "predicted", "note", size=SMALL)]
    parts.append(side_name("true", 14, top, top + side))
    return figure(Picture(left + side + 8, top + side + 8, parts), title, _summary(classes, counts))


def mistakes(classes: Sequence[str], counts: Integers | Floats, at_most: int = 8) -> list[Mistake]:
    """The most frequent mistakes, the most frequent first.

    >>> mistakes(["cat", "dog"], np.array([[8, 2], [0, 5]]))
    [Mistake(truth='cat', predicted='dog', instances=2.0, share=0.2)]
    """
    wrong = np.array(counts, dtype=np.float64)
    shares = row_shares(counts)
    np.fill_diagonal(wrong, 0.0)
    order = np.argsort(-np.nan_to_num(wrong), axis=None, kind="stable")[:at_most]
    places = [divmod(int(place), len(classes)) for place in order]
    return [
        Mistake(classes[row], classes[column], float(wrong[row, column]), float(shares[row, column]))
        for row, column in places
        if wrong[row, column] > 0
    ]


def row_shares(counts: Integers | Floats) -> npt.NDArray[np.float64]:
    """Each row divided by its sum; a class that does not occur has a row of zeros."""
    totals = counts.sum(axis=1, keepdims=True).astype(np.float64)
    shares: npt.NDArray[np.float64] = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    return shares


def _cells(counts: Integers | Floats, cell: float) -> list[str]:
    """One path for all cells of the same strength: a matrix of a hundred classes stays small."""
    level = np.ceil(np.sqrt(np.nan_to_num(row_shares(counts))) * LEVELS).astype(int)  # a root shows small shares too
    size, right = svg.number(cell - 1), np.eye(len(counts), dtype=bool)
    side = svg.number(cell * len(counts))
    parts = [f'<rect class="glws-empty" width="{side}" height="{side}"/>']
    for kind, chosen in (("right", right), ("wrong", ~right)):
        for strength in range(1, LEVELS + 1):
            places = np.argwhere(chosen & (level == strength)).tolist()
            corners = (f"M{svg.number(column * cell)} {svg.number(row * cell)}" for row, column in places)
            squares = "".join(f"{corner}h{size}v{size}h-{size}z" for corner in corners)
            if squares:
                parts.append(f'<path class="glws-{kind}" fill-opacity="{strength / LEVELS:g}" d="{squares}"/>')
    return parts


def _numbers(counts: Integers | Floats, cell: float) -> list[str]:
    level = np.sqrt(np.nan_to_num(row_shares(counts)))
    parts = []
    for (row, column), count in np.ndenumerate(counts):
        if not math.isfinite(count) or count == 0:
            continue
        kind = "strong" if level[row, column] > 0.7 else "name"
        at = ((column + 0.5) * cell, (row + 0.5) * cell + 4)
        parts.append(svg.text(at, compact(float(count)), kind, size=SMALL if cell > 32 else 11))
    return parts


def _heading_height(names: Sequence[str], cell: float) -> float:
    return room_for(names) + 4 if _is_turned(names, cell) else 14.0 if names else 0.0


def _is_turned(names: Sequence[str], cell: float) -> bool:
    return room_for(names) > cell - 4


def _row_names(names: Sequence[str], cell: float) -> list[str]:
    return [svg.text((-6, (row + 0.5) * cell + 4), name, "name", "end", SMALL) for row, name in enumerate(names)]


def _column_names(names: Sequence[str], cell: float) -> list[str]:
    if not _is_turned(names, cell):
        places = [((column + 0.5) * cell, -6.0) for column in range(len(names))]
        return [svg.text(at, name, "name", size=SMALL) for at, name in zip(places, names, strict=True)]
    turn = [f'<g transform="translate({svg.number((i + 0.5) * cell + 4)} -6) rotate(-90)">' for i in range(len(names))]
    return [
        start + svg.text((0, 0), name, "name", "start", SMALL) + "</g>" for start, name in zip(turn, names, strict=True)
    ]


def _summary(classes: Sequence[str], counts: Integers | Floats) -> str:
    shares = row_shares(counts)
    if len(classes) <= MAX_NUMBERED:
        return "; ".join(f"{name}: {percent(float(shares[k, k]))} right" for k, name in enumerate(classes))
    return f"{len(classes)} classes; {percent(float(np.trace(counts) / max(counts.sum(), 1)))} right in all"
