"""The plots of the report, as small SVG drawings that take their colors from the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glws import _svg as svg
from glws._messages import counted
from glws._svg import NUM_COLORS, Box, Picture, Point
from glws.evaluation import NUM_BINS, ReliabilityCurve
from glws.report._axes import (
    SMALL,
    Axis,
    bar,
    bottom_axis,
    figure,
    fitting,
    horizontal_grid,
    padded_range,
    room_for,
    round_ticks,
    side_name,
    whole_ticks,
)
from glws.report._content import Floats, Integers
from glws.report._wording import compact, decimal, percent

WIDTH = 440.0
HEIGHT = 250.0
MAX_BARS = 30
SHOWN_CLASSES = 4
LEAST = 0.005  # what would be written as 0.00 is not listed
FloatArray = npt.NDArray[np.float64]


class Line(NamedTuple):
    """A curve: its name and its points; a point that is not finite is a gap."""

    name: str
    x: FloatArray
    y: FloatArray


def line_kind(number: int) -> str:
    """The look of a curve: six colors, then the same ones with dashes."""
    return f"curve glws-c{number % NUM_COLORS}" + (f" glws-dash{number // NUM_COLORS % 3}")


# Curves


def line_chart(lines: Sequence[Line], title: str, x_name: str, is_share: bool = False) -> str:
    """Curves over epochs or steps, each ending in a dot; shares are written in percent.

    >>> chart = line_chart([Line("test", np.array([1.0, 2.0]), np.array([0.5, 0.75]))], "accuracy", "epoch", True)
    >>> "<desc>test: from 50.0 % to 75.0 % over epoch 1 to 2</desc>" in chart.replace("\u00a0", " ")
    True
    """
    low, high = padded_range(np.concatenate([line.y for line in lines]).tolist())
    if is_share:
        low, high = max(low, 0.0), min(high, 1.0)
    ticks = round_ticks(low, high)
    texts = [_tick_percent(tick, ticks) if is_share else decimal(tick) for tick in ticks]
    left, right, bottom = room_for(texts) + 14, WIDTH - 14, HEIGHT - 42
    down = Axis(low, high, bottom, 12)
    across = Axis(*_span(np.concatenate([line.x for line in lines])), left, right)
    labels = dict(zip(ticks, texts, strict=True))
    parts = [horizontal_grid(down, left, right, ticks, labels.__getitem__)]
    parts.append(bottom_axis(across, bottom, whole_ticks(across.low, across.high, 6), x_name))
    parts += [_curve(line, across, down, line_kind(number)) for number, line in enumerate(lines)]
    description = "; ".join(_course(line, x_name, is_share) for line in lines)
    return figure(Picture(WIDTH, HEIGHT, parts), title, description)


def _tick_percent(tick: float, ticks: Sequence[float]) -> str:
    digits = 0 if len(ticks) < 2 or ticks[1] - ticks[0] > 0.0099 else 1 if ticks[1] - ticks[0] > 0.00099 else 2
    return f"{100 * tick:.{digits}f}\u00a0%"


def _span(values: FloatArray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _curve(line: Line, across: Axis, down: Axis, kind: str) -> str:
    """The pieces between gaps, and a dot at the last point (at each point that stands alone)."""
    pieces, piece = [], list[Point]()
    for x, y in zip(line.x.tolist(), line.y.tolist(), strict=True):
        if math.isfinite(x) and math.isfinite(y):
            piece.append((across.at(x), down.at(y)))
        elif piece:
            pieces.append(piece)
            piece = []
    pieces += [piece] if piece else []
    drawn = [_path(points) if len(points) > 1 else _dot(points[0]) for points in pieces]
    return f'<g class="glws-{kind}">' + "".join(drawn) + (_dot(pieces[-1][-1]) if pieces else "") + "</g>"


def _path(points: Sequence[Point]) -> str:
    places = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in points)
    return f'<polyline points="{places}"/>'


def _dot(at: Point) -> str:
    return svg.circle(at, 2, "dot")


def _course(line: Line, x_name: str, is_share: bool) -> str:
    real = np.flatnonzero(np.isfinite(line.y))
    if not real.size:
        return f"{line.name}: no finite value"
    word = percent if is_share else decimal
    first, last = (word(float(line.y[place])) for place in real[[0, -1]])
    where = f"{x_name} {decimal(float(line.x[real[0]]))} to {decimal(float(line.x[real[-1]]))}"
    return f"{line.name}: from {first} to {last} over {where}"


# Calibration


def reliability_diagram(curve: ReliabilityCurve, title: str = "Reliability") -> str:
    """Accuracy over confidence, the diagonal of perfect calibration, and below how many predictions each bin has."""
    curve = _finite(curve)
    left, right, bottom = 58.0, WIDTH - 14, 262.0
    low = math.floor(10 * float(curve.confidence.min(initial=1.0)) - 1e-9) / 10
    across, down = Axis(max(min(low, 0.9), 0.0), 1.0, left, right), Axis(0.0, 1.0, bottom, 12)
    parts = [horizontal_grid(down, left, right, round_ticks(0, 1), lambda tick: f"{100 * tick:.0f}\u00a0%")]
    parts.append(svg.line((left, down.at(across.low)), (right, down.at(1.0)), "ideal"))
    points = list(zip(curve.confidence.tolist(), curve.accuracy.tolist(), strict=True))
    parts += [svg.line((across.at(x), down.at(x)), (across.at(x), down.at(y)), "gap") for x, y in points]
    parts.append(_curve(Line("", curve.confidence, curve.accuracy), across, down, line_kind(0)))
    parts += [svg.circle((across.at(x), down.at(y)), 4, "c0 glws-fill") for x, y in points]
    parts += [side_name("share that is right", 13, 12, bottom), _count_bars(curve, across, bottom + 24, bottom + 84)]
    parts.append(side_name("count", 13, bottom + 24, bottom + 84))
    name = "confidence of the prediction"
    parts.append(bottom_axis(across, bottom + 84, round_ticks(across.low, 1), name, lambda tick: f"{100 * tick:.0f}"))
    return figure(Picture(WIDTH, bottom + 126, parts), title, _gaps(curve))


def _finite(curve: ReliabilityCurve) -> ReliabilityCurve:
    """The bins that can be drawn: a model whose predictions are NaN has none."""
    real = np.isfinite(curve.confidence) & np.isfinite(curve.accuracy)
    return ReliabilityCurve(curve.confidence[real], curve.accuracy[real], curve.count[real])


def _count_bars(curve: ReliabilityCurve, across: Axis, top: float, bottom: float) -> str:
    most, parts = max(int(curve.count.max(initial=1)), 1), list[str]()
    for confidence, count in zip(curve.confidence.tolist(), curve.count.tolist(), strict=True):
        place = min(int(confidence * NUM_BINS), NUM_BINS - 1)
        edges = [max(across.at(edge / NUM_BINS), across.start) for edge in (place, place + 1)]
        height = bottom - (bottom - top - 14) * count / most
        parts.append(bar(Box(edges[0] + 1, height, edges[1] - 1, bottom), "count"))
        parts.append(svg.text(((edges[0] + edges[1]) / 2, height - 4), compact(count), "note", size=10))
    return "".join(parts)


def _gaps(curve: ReliabilityCurve) -> str:
    bins = zip(curve.confidence.tolist(), curve.accuracy.tolist(), curve.count.tolist(), strict=True)
    return "; ".join(f"confidence {percent(x)}: {percent(y)} right of {count:,}" for x, y, count in bins)


# Sizes of groups


def size_histogram(sizes: Integers, title: str = "Group sizes") -> str:
    """How many groups have how many instances; many different sizes are put together into at most 30 bars."""
    low, high = int(sizes.min()), int(sizes.max())
    step = -(-(high - low + 1) // MAX_BARS)
    edges = np.arange(low, high + step + 1, step)
    counts = np.histogram(sizes, edges)[0]
    left, right, bottom, most = 46.0, WIDTH - 14, 150.0, int(counts.max())
    across, down = Axis(low - 0.5, float(edges[-1]) - 0.5, left, right), Axis(0.0, float(most), bottom, 14)
    parts = [horizontal_grid(down, left, right, whole_ticks(0, most, 3), compact)]
    for edge, count in zip(edges.tolist(), counts.tolist(), strict=False):
        sides = across.at(edge - 0.5) + 1, across.at(edge + step - 0.5) - 1
        parts.append(bar(Box(sides[0], down.at(count), sides[1], bottom), "c0 glws-fill"))
    parts.append(bottom_axis(across, bottom, whole_ticks(low, high, 6), "instances in a group"))
    words = f"{counted(len(sizes), 'group')} of {low:,} to {high:,} instances, {np.mean(sizes):.1f} on average"
    return figure(Picture(WIDTH, bottom + 42, parts), title, words)


# Prior and posterior


def belief_bars(classes: Sequence[str], prediction: Floats, posterior: Floats | None, title: str) -> str:
    """For the classes that matter: what the model predicts, and below it the posterior given the weak label too."""
    width, height = 250.0, 36.0 if posterior is not None else 26.0
    believed = prediction if posterior is None else np.fmax(prediction, posterior)
    order = np.argsort(-np.nan_to_num(believed), kind="stable")[:SHOWN_CLASSES].tolist()
    order = [number for place, number in enumerate(order) if not place or believed[number] >= LEAST]
    parts, words = [], []
    for row, number in enumerate(order):
        before = float(prediction[number])
        after = None if posterior is None else float(posterior[number])
        values = _probability(before) + ("" if after is None else f" → {_probability(after)}")
        words.append(f"{classes[number]}: {values}")
        parts.append(_belief(classes[number], values, before, after, height * row, width))
    hidden = len(classes) - len(order)
    if hidden:
        parts.append(svg.text((0, height * len(order) + 12), f"{hidden} more, less likely", "note", "start", 11))
    return figure(Picture(width, height * len(order) + (16 if hidden else 0), parts), title, "; ".join(words))


def _belief(name: str, values: str, before: float, after: float | None, top: float, width: float) -> str:
    room = width - svg.text_width(values, SMALL) - 6
    parts = [svg.text((0, top + 12), fitting(name, room), "name", "start", SMALL)]
    parts.append(svg.text((width, top + 12), values, "value", "end", SMALL))
    bars = [("prior", before)] if after is None else [("prior", before), ("c0 glws-fill", after)]
    for row, (kind, value) in enumerate(bars):
        track = Box(0, top + 17 + 8 * row, width, top + 23 + 8 * row)
        filled = width * min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
        parts += [svg.rectangle(track, "track"), bar(track._replace(right=filled), kind)]
    return "".join(parts)


def _probability(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "nan"


def swatch(number: int) -> str:
    """A short piece of a curve, for a legend."""
    line = f'<g class="glws-{line_kind(number)}">{_path([(1, 6), (25, 6)])}</g>'
    return f'<svg class="swatch" width="26" height="12" aria-hidden="true">{line}</svg>'
