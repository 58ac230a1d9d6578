"""Where the labels of arcs go: beside their arc, near its middle, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from glws._svg import Box, Point, Points, along

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
