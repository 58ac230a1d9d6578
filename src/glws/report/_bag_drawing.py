"""One bag drawn: its instances with prediction and posterior, and a map of them where they have coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._svg import Box, Picture
from glws.report._axes import bar, fitting
from glws.report._content import Floats, Image
from glws.report._views import image_address

MAP_SIDE = 192
"""A map has at most so many cells along a side."""
LOW, HIGH = np.array([221, 227, 236]), np.array([178, 24, 43])
"""The colors of value 0 and value 1."""
SHOWN_SIDE = 420.0
MOST_ROWS, ROW_HEIGHT, WIDTH, NAME_WIDTH = 24, 24.0, 560.0, 200.0


def drawn_map(coords: Floats, values: Floats) -> Image:
    """Instances as cells of a grid, at most `MAP_SIDE` along a side; the largest value of a cell gives its color.

    The cell is the smallest distance between two columns or rows of coordinates. Cells without instances are white.

    >>> drawn_map(np.array([[0, 0], [256, 0], [0, 512]]), np.array([0.0, 1.0, 0.0]))[0].tolist()
    [[221, 178], [255, 255], [221, 255]]
    """
    places = np.asarray(coords, np.float64) - np.min(coords, axis=0)
    step = max(_smallest_step(places), float(places.max(initial=0)) / (MAP_SIDE - 1), 1e-12)
    cells = np.floor(places / step + 1e-6).astype(int)
    width, height = cells.max(0) + 1
    best = np.full((height, width), -1.0)
    np.maximum.at(best, (cells[:, 1], cells[:, 0]), np.nan_to_num(np.asarray(values, np.float64)))
    share = np.clip(best, 0, 1)[None]
    colors = LOW[:, None, None] * (1 - share) + HIGH[:, None, None] * share
    return np.where(best[None] < 0, 255, colors.round()).astype(np.uint8)


def _smallest_step(places: npt.NDArray[np.float64]) -> float:
    steps = np.concatenate([np.diff(np.unique(column)) for column in places.T])
    return float(steps.min()) if len(steps) else 1.0


def bag_svg(
    title: str, facts: Sequence[str], names: Sequence[str], before: Floats, after: Floats, image: Image | None
) -> str:
    """A bag as an SVG document: title, facts, a bar for each of its first instances, and its map.

    `before` is the prediction for each instance, `after` its posterior.
    """
    pictures = [svg.paragraph([title], "title", 18), svg.paragraph(facts), _bars(names, before, after)]
    if image is not None:
        pictures.append(_picture(image))
    return svg.document(svg.stack(pictures, gap=16), title)


def _bars(names: Sequence[str], before: Floats, after: Floats) -> Picture:
    parts: list[str] = []
    for row, name in enumerate(names[:MOST_ROWS]):
        top, left = ROW_HEIGHT * row, NAME_WIDTH
        room = WIDTH - left - 100
        parts.append(svg.text((0, top + 14), fitting(name, NAME_WIDTH - 10), "name", "start", 12))
        for place, (kind, value) in enumerate((("prior", before[row]), ("c0 glws-fill", after[row]))):
            track = Box(left, top + 3 + 8 * place, left + room, top + 9 + 8 * place)
            parts.append(svg.rectangle(track, "track"))
            parts.append(bar(track._replace(right=left + room * min(max(float(value), 0.0), 1.0)), kind))
        words = f"{float(before[row]):.2f} → {float(after[row]):.2f}"
        parts.append(svg.text((WIDTH, top + 14), words, "value", "end", 12))
    return Picture(WIDTH, ROW_HEIGHT * min(len(names), MOST_ROWS), parts)


def _picture(image: Image) -> Picture:
    _, height, width = image.shape
    scale = SHOWN_SIDE / max(height, width)
    wide, high = width * scale, height * scale
    address = image_address(image, MAP_SIDE)
    size = f'width="{svg.number(wide)}" height="{svg.number(high)}"'
    return Picture(wide, high, [f'<image {size} style="image-rendering: pixelated" href="{address}"/>'])
