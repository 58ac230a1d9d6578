"""The frame of a plot: round numbers on its axes, places on the page, and the plot as accessible SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glws import _svg as svg
from glws._svg import Box, Picture
from glws.report._wording import decimal

SMALL = 13.0  # size of letters: a plot that is shrunk to a narrow window stays legible


class Axis(NamedTuple):
    """Values from `low` to `high`, laid out from `start` to `end` on the page."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within a range, 1, 2 or 5 times a power of ten apart; at most two more than `about`.

    >>> round_ticks(0, 1), round_ticks(3, 38, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0])
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.8)
    digits = max(0, 1 - math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, digits) + 0.0 for number in range(first, last + 1)]


def whole_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Those of the round numbers that are whole: for epochs, steps and sizes."""
    return [tick for tick in round_ticks(low, high, about) if tick.is_integer()] or [math.ceil(low)]


def padded_range(values: Sequence[float], share: float = 0.05) -> tuple[float, float]:
    """From the least to the greatest finite value and a little beyond; (0, 1) if there are none.

    >>> padded_range([2.0, 4.0, float("inf")], 0.5)
    (1.0, 5.0)
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    margin = (high - low) * share or max(abs(high), 1.0) * share
    return low - margin, high + margin


def horizontal_grid(axis: Axis, left: float, right: float, ticks: Sequence[float], text: Callable[[float], str]) -> str:
    """Lines across the plot with their values at the left."""
    parts = []
    for tick in ticks:
        height = axis.at(tick)
        parts.append(svg.line((left, height), (right, height), "rule"))
        parts.append(svg.text((left - 7, height + SMALL / 3), text(tick), "note", "end", SMALL))
    return "".join(parts)


def bottom_axis(
    axis: Axis, height: float, ticks: Sequence[float], name: str, text: Callable[[float], str] = decimal
) -> str:
    """A line below the plot with values and, in the middle, the name of what they are."""
    parts = [svg.line((axis.start, height), (axis.end, height), "axis")]
    for tick in ticks:
        place = axis.at(tick)
        parts.append(svg.line((place, height), (place, height + 4), "axis"))
        parts.append(svg.text((place, height + 17), text(tick), "note", size=SMALL))
    parts.append(svg.text(((axis.start + axis.end) / 2, height + 35), name, "note", size=SMALL))
    return "".join(parts)


def side_name(name: str, x: float, top: float, bottom: float) -> str:
    """The name of the vertical axis, read from below."""
    middle = svg.number((top + bottom) / 2)
    turned = f'<g transform="translate({svg.number(x)} {middle}) rotate(-90)">'
    return turned + svg.text((0, 0), name, "note", size=SMALL) + "</g>"


def room_for(texts: Sequence[str], size: float = SMALL) -> float:
    """How wide the widest of the texts is."""
    return max((svg.text_width(text, size) for text in texts), default=0.0)


def fitting(text: str, room: float, size: float = SMALL) -> str:
    """The text on one line, cut with an ellipsis to the room it has.

    >>> fitting("short", 100), fitting("a class with a long name", 60)
    ('short', 'a class…')
    """
    line = " ".join(text.split())
    if svg.text_width(line, size) <= room:
        return line
    while len(line) > 1 and svg.text_width(line + "…", size) > room:
        line = line[:-1].rstrip()
    return line + "…"


def bar(box: Box, kind: str) -> str:
    """A filled rectangle; none where it has no size."""
    return svg.rectangle(box, kind) if box.right > box.left and box.bottom > box.top else ""


def figure(picture: Picture, title: str, description: str) -> str:
    """The plot as SVG within a page: named and described for those who cannot see it, colored by the page's style."""
    width, height = svg.number(picture.width), svg.number(picture.height)
    head = f'<svg class="plot" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
    words = f"<title>{svg.clean(title)}</title><desc>{svg.clean(description)}</desc>"
    return head + words + "".join(picture.elements) + "</svg>"
