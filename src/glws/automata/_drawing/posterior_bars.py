"""The posteriors of the labels below their instances: for each class a bar, and a tick where the model had it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._svg import Box, Picture, Point
from glws.automata._drawing.arc_labels import class_name, shortened
from glws.automata._drawing.trellis import LEFT, Grid, color

MAX_CLASSES = 6
WIDTH = 122.0
NAME = 50.0  # what the numbers leave of the width
HEIGHT = 28.0

FloatArray = npt.NDArray[np.float64]


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
