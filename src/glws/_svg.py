"""The few SVG words the drawings are written in: text, circles, curves, and a page legible on light and dark."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

Point = tuple[float, float]
Points = npt.NDArray[np.float64]

NUM_COLORS = 6
_LIGHT = ("#0072b2", "#d55e00", "#008060", "#b0508a", "#8a6d00", "#6a51a3")  # told apart by color-blind readers too
_DARK = ("#5db7ea", "#f58a42", "#35c79d", "#e08fc0", "#e0b030", "#a993f5")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Picture(NamedTuple):
    """Elements drawn within a width and a height, from the upper left corner."""

    width: float
    height: float
    elements: list[str]


class Box(NamedTuple):
    """A rectangle on the page."""

    left: float
    top: float
    right: float
    bottom: float


def document(picture: Picture, description: str) -> str:
    """The picture as a whole SVG file: no fonts to load, no scripts, light or dark as the reader's system is."""
    width, height = number(picture.width), number(picture.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="glws" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    page = f'<rect class="glws-page" width="{width}" height="{height}" rx="8"/>'
    return "\n".join([head, f"<title>{clean(description)}</title>", _style(), page, *picture.elements, "</svg>", ""])


def stack(pictures: Sequence[Picture], gap: float = 12, margin: float = 24) -> Picture:
    """The pictures one below the other, aligned left, with a margin around them."""
    elements, top = [], margin
    for picture in pictures:
        elements += [f'<g transform="translate({number(margin)} {number(top)})">', *picture.elements, "</g>"]
        top += picture.height + gap
    width = max(picture.width for picture in pictures) + 2 * margin
    return Picture(width, top - gap + margin, elements)


def paragraph(lines: Iterable[str], kind: str = "note", size: float = 13) -> Picture:
    """Lines of text."""
    lines = list(lines)
    height = size * 1.5
    elements = [text((0, (row + 0.75) * height), line, kind, "start", size) for row, line in enumerate(lines)]
    wide = 1.15 if kind == "title" else 1.0  # it is bold
    return Picture(max((wide * text_width(line, size) for line in lines), default=0), height * len(lines), elements)


def clean(content: str) -> str:
    """The text with what XML cannot hold replaced and what it would misread escaped."""
    return escape(_NOT_XML.sub("\ufffd", content))


def text(at: Point, content: str, kind: str, anchor: str = "middle", size: float = 13) -> str:
    """A line of text, its baseline at the point."""
    return (
        f'<text class="glws-{kind}" x="{number(at[0])}" y="{number(at[1])}" text-anchor="{anchor}" '
        f'font-size="{number(size)}">{clean(content)}</text>'
    )


def subscripted(at: Point, letter: str, index: int, kind: str = "name", size: float = 14) -> str:
    """A letter with a number as its subscript (the state q0, the instance x1), centered at the point."""
    return (
        f'<text class="glws-{kind}" x="{number(at[0])}" y="{number(at[1] + size * 0.3)}" text-anchor="middle" '
        f'font-size="{number(size)}"><tspan font-style="italic">{letter}</tspan>'
        f'<tspan dy="{number(size * 0.22)}" font-size="{number(size * 0.72)}">{index}</tspan></text>'
    )


def circle(at: Point, radius: float, kind: str, style: str = "") -> str:
    """A circle."""
    place = f'cx="{number(at[0])}" cy="{number(at[1])}" r="{number(radius)}"'
    return f'<circle class="glws-{kind}" {place}{_styled(style)}/>'


def rectangle(box: Box, kind: str, style: str = "", radius: float = 1.5) -> str:
    """A rectangle, its corners a little round."""
    place = f'x="{number(box.left)}" y="{number(box.top)}"'
    size = f'width="{number(box.right - box.left)}" height="{number(box.bottom - box.top)}"'
    return f'<rect class="glws-{kind}" {place} {size} rx="{number(radius)}"{_styled(style)}/>'


def line(start: Point, end: Point, kind: str, style: str = "") -> str:
    """A straight line."""
    places = [number(value) for value in (*start, *end)]
    return '<line class="glws-{}" x1="{}" y1="{}" x2="{}" y2="{}"{}/>'.format(kind, *places, _styled(style))


def arrow(curve: Points, kind: str, head: float = 8, style: str = "") -> str:
    """An arrow along a chain of cubic Bézier pieces: [3 n + 1, 2] points. `head` is the length of its tip."""
    end, back = curve[-1], _unit(curve[-1] - curve[-2])
    side = np.array([-back[1], back[0]])
    shaft = curve.copy()
    shaft[-1] = end - back * head * 0.8  # so that a thick line does not blunt the tip
    wings = [end - back * head + side * head * 0.42, end - back * head - side * head * 0.42]
    tip = " ".join(_pair(point) for point in (end, *wings))
    pieces = " ".join("C" + " ".join(_pair(p) for p in shaft[i : i + 3]) for i in range(1, len(shaft), 3))
    return (
        f'<g class="glws-{kind}"{_styled(style)}>'
        f'<path class="glws-shaft" d="M{_pair(shaft[0])} {pieces}"/><polygon class="glws-tip" points="{tip}"/></g>'
    )


def cubic(start: Point, leave: Point, arrive: Point, end: Point) -> Points:
    """One Bézier piece from its four points."""
    return np.array([start, leave, arrive, end], dtype=np.float64)


def along(curve: Points, places: Sequence[float]) -> tuple[Points, Points]:
    """Points of the curve and unit normals (pointing up for a curve that runs right) at places in 0..1."""
    pieces = (len(curve) - 1) // 3
    points, normals = [], []
    for place in places:
        piece = min(int(place * pieces), pieces - 1)
        t = place * pieces - piece
        a, b, c, d = curve[3 * piece : 3 * piece + 4]
        points.append((1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d)
        slope = _unit((1 - t) ** 2 * (b - a) + 2 * t * (1 - t) * (c - b) + t**2 * (d - c))
        normals.append(np.array([slope[1], -slope[0]]))
    return np.array(points), np.array(normals)


def text_width(content: str, size: float) -> float:
    """About how wide the text is; rather too wide than too narrow."""
    return size * sum(_character_width(character) for character in content)


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if abs(value) >= 0.05 else "0"


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in "mwMWQO@%—→·":
        return 0.85
    return 0.34 if character in " ,.;:!|'ijl()[]ftI" else 0.62


def _unit(vector: Points) -> Points:
    length = float(np.hypot(vector[0], vector[1]))
    return vector / length if length else np.array([1.0, 0.0])


def _pair(point: Points) -> str:
    return f"{number(float(point[0]))},{number(float(point[1]))}"


def _styled(style: str) -> str:
    return f" style={quoteattr(style)}" if style else ""


def _style() -> str:
    """Plain class rules, prefixed, since a notebook shares them among all its pictures."""
    light = _colors("#ffffff", "#1d2733", "#5c6b7a", "#e9edf2", _LIGHT)
    dark = _colors("#12161c", "#e8edf2", "#9aa8b5", "#2a323c", _DARK)
    fixed = (
        ".glws text{font-family:ui-sans-serif,system-ui,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif}"
        ".glws-shaft{fill:none}.glws-label,.glws-value{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
        ".glws-title{font-weight:600}.glws-value{font-variant-numeric:tabular-nums}"
        ".glws-node,.glws-ring{stroke-width:1.4}.glws-arc .glws-shaft,.glws-more .glws-shaft{stroke-width:1.3}"
        ".glws-veil{opacity:.8}.glws-dim{opacity:.3}.glws-faint{opacity:.16}"
        ".glws-live .glws-shaft{stroke-width:inherit}.glws-more .glws-shaft{stroke-dasharray:3 3}"
    )
    return f"<style>{fixed}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _colors(page: str, ink: str, soft: str, track: str, classes: Sequence[str]) -> str:
    rules = [
        f".glws-page{{fill:{page}}}.glws-label,.glws-value{{stroke:{page}}}",
        f".glws-label,.glws-value,.glws-name,.glws-title,.glws-tip{{fill:{ink}}}.glws-shaft{{stroke:{ink}}}",
        f".glws-note,.glws-head,.glws-dim{{fill:{soft}}}.glws-veil{{fill:{page};stroke:{page};stroke-width:2}}.glws-node{{fill:{page};stroke:{ink}}}",
        f".glws-ring{{fill:none;stroke:{ink}}}.glws-track{{fill:{track}}}.glws-prior{{fill:{soft}}}",
        f".glws-fill{{fill:{ink}}}.glws-rule{{stroke:{track};stroke-width:1}}",
    ]
    for index, color in enumerate(classes):
        rules.append(
            f".glws-c{index} .glws-shaft{{stroke:{color}}}.glws-c{index} .glws-tip,.glws-c{index} .glws-label,"
            f".glws-c{index}.glws-fill,.glws-c{index}.glws-label{{fill:{color}}}"
        )
    return "".join(rules)
