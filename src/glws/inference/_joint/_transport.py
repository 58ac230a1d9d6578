"""The best labeling of a large group with given counts: successive shortest paths between classes.

With prices θ_k, giving every instance its best class by φ_j(k) + θ_k is optimal for the resulting counts. From there
labels move along paths of classes a -> b -> c, one instance from a to b and one from b to c, always along the path of
least loss: after each move the labeling is optimal for its own counts, and at the end these are the given ones. The
prices come from the tilt of a sample of the instances, so that few labels are left to move. Instances with equal
potentials move together.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
import torch

from glws.inference._joint.groups import Groups
from glws.inference._joint.tilting import tilted

SOME = 8192
"""Number of instances in the sample that determines the prices."""
SHARPNESS = 1000.0
"""Potentials are scaled to this range for the prices, so that the tilt is nearly a best assignment."""
CANDIDATES = 256
"""The least number of instances of a class in a heap of moves to another class."""

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def transport(potentials: Array, counts: Whole) -> Whole:
    """The labels [instances] with these counts that maximize the sum of potentials [instances, classes].

    >>> transport(np.array([[0.0, -1.0], [0.0, -3.0], [0.0, -2.0]]), np.array([1, 2]))
    array([1, 0, 1])
    """
    rows, unit, sizes = _distinct(potentials)
    start = (rows + _prices(potentials, counts)).argmax(1)
    amounts = np.zeros(rows.shape, dtype=np.int64)
    amounts[np.arange(len(rows)), start] = sizes
    _Moves(rows, amounts, counts).run()
    order = np.argsort(unit, kind="stable")
    classes = np.tile(np.arange(rows.shape[1]), len(rows))
    labels = np.empty(len(potentials), dtype=np.int64)
    labels[order] = np.repeat(classes, amounts.ravel())
    return labels


def _distinct(potentials: Array) -> tuple[Array, Whole, Whole]:
    """The distinct rows, the row of each instance, and how often each row occurs."""
    finite = np.where(np.isfinite(potentials), potentials, -1e300)
    mixed = (finite * np.random.default_rng(0).uniform(1.0, 2.0, potentials.shape[1])).sum(1)
    _, first, unit, sizes = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
    if not np.array_equal(potentials[first[unit]], potentials):  # two rows with the same random projection
        return potentials, np.arange(len(potentials)), np.ones(len(potentials), dtype=np.int64)
    return potentials[first], unit, sizes


def _prices(potentials: Array, counts: Whole) -> Array:
    """θ of a sample of the instances, in units of the potentials."""
    some = potentials[:: -(-len(potentials) // SOME)]
    finite = some[np.isfinite(some)]
    scale = SHARPNESS / max(float(np.ptp(finite)), 1e-300) if len(finite) else 1.0
    wanted = torch.from_numpy(counts * (len(some) / len(potentials)))
    groups = Groups(torch.from_numpy(some * scale)[None], wanted[None], torch.tensor([len(some)]))
    theta = tilted(groups).theta[0].numpy() / scale
    return np.where(np.isfinite(theta), theta, 0.0)


class _Moves:
    """Units of equal instances, the number of each per class, and the moves that remain."""

    def __init__(self, rows: Array, amounts: Whole, counts: Whole) -> None:
        self.rows, self.amounts = rows, amounts
        self.surplus = amounts.sum(0) - counts
        self.candidates = max(CANDIDATES, int(np.abs(self.surplus).sum()) // 16)
        self.tolerance = 1e-12 * max(float(np.abs(rows[np.isfinite(rows)]).max(initial=0.0)), 1e-300)
        classes = rows.shape[1]
        self.heaps: list[list[list[tuple[float, int]]]] = [[[] for _ in range(classes)] for _ in range(classes)]
        self.bounds = np.full((classes, classes), -np.inf)
        self.costs = np.full((classes, classes), np.inf)
        for source in range(classes):
            self._refresh(source)

    def run(self) -> None:
        """Move labels until the counts are right, or no path remains."""
        while self.surplus.any():
            path = self._path()
            if not path:
                break
            units = [self.heaps[a][b][0][1] for a, b in path]
            most = [int(self.amounts[unit, a]) for unit, (a, _) in zip(units, path, strict=True)]
            step = min(int(self.surplus[path[0][0]]), int(-self.surplus[path[-1][1]]), *most)
            for unit, (a, b) in zip(units, path, strict=True):
                self._move(unit, a, b, step)
            self.surplus[path[0][0]] -= step
            self.surplus[path[-1][1]] += step
            for source in {place for pair in path for place in pair}:
                self._refresh(source)

    def _move(self, unit: int, source: int, target: int, step: int) -> None:
        is_new = self.amounts[unit, target] == 0
        self.amounts[unit, source] -= step
        self.amounts[unit, target] += step
        if is_new:
            losses = self.rows[unit, target] - self.rows[unit]
            for other in np.flatnonzero(losses <= self.bounds[target]):
                heapq.heappush(self.heaps[target][other], (float(losses[other]), unit))

    def _refresh(self, source: int) -> None:
        """Update the cost of the cheapest move from this class to every other."""
        for target in range(len(self.costs)):
            if target == source:
                continue
            heap = self.heaps[source][target]
            while heap and not self.amounts[heap[0][1], source]:
                heapq.heappop(heap)
            if not heap and self.bounds[source, target] < np.inf:
                heap = self._filled(source, target)
            self.costs[source, target] = heap[0][0] if heap else np.inf

    def _filled(self, source: int, target: int) -> list[tuple[float, int]]:
        """The cheapest units, sorted; those that cost more than the bound are left out."""
        members = np.flatnonzero(self.amounts[:, source])
        losses = self.rows[members, source] - self.rows[members, target]
        bound = np.inf
        if len(members) > self.candidates:
            bound = np.partition(losses, self.candidates)[self.candidates]
            members, losses = members[losses <= bound], losses[losses <= bound]
        heap = sorted(zip(losses.tolist(), members.tolist(), strict=True))
        self.heaps[source][target], self.bounds[source, target] = heap, bound
        return heap

    def _path(self) -> list[tuple[int, int]]:
        """The moves of the path of least loss, from a class with too many labels to one with too few."""
        distance = np.where(self.surplus > 0, 0.0, np.inf)
        before = np.full(len(distance), -1)
        for _ in range(len(distance) - 1):
            through = distance[:, None] + self.costs
            best = through.argmin(0)
            shorter = through[best, np.arange(len(best))]
            is_better = shorter < distance - self.tolerance
            if not is_better.any():
                break
            distance, before = np.where(is_better, shorter, distance), np.where(is_better, best, before)
        end = int(np.where(self.surplus < 0, distance, np.inf).argmin())
        path: list[tuple[int, int]] = []
        while before[end] >= 0 and len(path) < len(distance):
            path.append((int(before[end]), end))
            end = int(before[end])
        return path[::-1]
