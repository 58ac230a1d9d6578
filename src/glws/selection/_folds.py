"""Folds for cross-validation by weak labels: whole groups, and samples of unlabeled sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glws._reprs import short_repr
from glws.data import Groups
from glws.kinds import AbstractSupervision
from glws.selection._likelihood import WeakLabels, posterior_of_rows

Numbers = NDArray[np.int64]
IN_ONE = 0.5
"""If more than this share of the rows hangs together, groups are assigned to folds one by one."""


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each group, kind by kind, and of each row.

    A group is held out in its fold. A row has the fold of its groups if they are all of one fold; otherwise it has -1.
    """

    __repr__ = short_repr

    number: int
    of_groups: tuple[Numbers, ...]
    of_rows: Numbers

    def training(self, known: WeakLabels, fold: int) -> WeakLabels:
        """The weak labels that are not held out in a fold."""
        return known.of([own != fold for own in self.of_groups])

    def held_out(self, known: WeakLabels, fold: int) -> WeakLabels:
        """The weak labels that are held out in a fold."""
        return known.of([own == fold for own in self.of_groups])

    def combined(self, known: WeakLabels) -> HeldOut:
        """The held-out weak labels of all folds together."""
        num_rows = len(self.of_rows)
        places = [
            groups.indices.numpy() + num_rows * np.repeat(own, groups.lengths.numpy())
            for groups, own in zip(known.groups, self.of_groups, strict=True)
        ]
        numbers, index = np.unique(np.concatenate(places), return_inverse=True)
        parts = np.split(index, np.cumsum([len(each) for each in places])[:-1])
        groups = tuple(
            Groups(part.offsets, torch.from_numpy(each)) for part, each in zip(known.groups, parts, strict=True)
        )
        return HeldOut(WeakLabels(groups, known.weak), numbers % num_rows, numbers // num_rows)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """All weak labels, over rows as the models of the folds predict them that do not train on the group.

    A row whose groups are of several folds is here several times. `rows` are numbers of original rows, `folds` those of
    the models that predict them.
    """

    __repr__ = short_repr

    known: WeakLabels
    rows: Numbers
    folds: Numbers

    def pick(self, tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Held-out predictions, from the predictions of the model of each fold for all original rows."""
        return np.stack(list(tables))[self.folds, self.rows]


def folds_of(known: WeakLabels, num_rows: int, number: int, seed: int) -> Folds:
    """Folds of about equal size that never divide a group; groups with a common row stay together.

    If most rows hang together (bags drawn with replacement), groups are assigned one by one. Folds are stratified by
    what the weak labels imply under even predictions: each has its share of positive bags, of labeled rows, and so on.
    Divide unlabeled sets with `split_sets` first.

    >>> from glws.kinds import Proportions
    >>> known = WeakLabels((Groups.of([[0, 1], [1, 2], [3], [4], [5]]),), (Proportions.of([1, 0, 1, 0, 1]),))
    >>> folds = folds_of(known, 6, 2, seed=0)
    >>> bool(folds.of_groups[0][0] == folds.of_groups[0][1]), np.unique(folds.of_rows).tolist()
    (True, [0, 1])
    """
    unit = _components(known, num_rows)
    sizes = np.bincount(unit)
    rng = np.random.default_rng(seed)
    if sizes.max() <= IN_ONE * num_rows and len(sizes) >= 2 * number:
        of_rows = _assigned(_levels(known, num_rows, unit), number, rng)[unit]
        of_groups = tuple(of_rows[groups.indices[groups.offsets[:-1]].numpy()] for groups in known.groups)
        return Folds(number, of_groups, of_rows)
    of_groups = tuple(_assigned(np.zeros(len(groups)), number, rng) for groups in known.groups)
    return Folds(number, of_groups, _folds_of_rows(known, of_groups, num_rows))


def split_sets(known: WeakLabels, size: int, seed: int) -> WeakLabels:
    """Unlabeled sets (kinds with `exchangeable_sets`) as random samples of at most `size` rows; the rest as it is.

    >>> from glws.kinds import Unlabeled
    >>> known = WeakLabels((Groups.of([list(range(10))]),), (Unlabeled.of([0.3]),))
    >>> split_sets(known, 4, seed=0).groups[0].lengths
    tensor([4, 3, 3])
    """
    rng = np.random.default_rng(seed)
    parts = [_split(groups, weak, size, rng) for groups, weak in zip(known.groups, known.weak, strict=True)]
    groups, weak = zip(*parts, strict=True)
    return WeakLabels(groups, weak)


def _split(
    groups: Groups, weak: AbstractSupervision, size: int, rng: np.random.Generator
) -> tuple[Groups, AbstractSupervision]:
    population = weak.exchangeable_sets()
    if population is None or int(groups.lengths.max()) <= size:
        return groups, weak
    members, owners = list[list[int]](), list[int]()
    for number in torch.unique(population):
        mine = (population == number).nonzero()[:, 0]
        rows = rng.permutation(groups[mine].indices.numpy())
        pieces = np.array_split(rows, -(-len(rows) // size))
        members += [piece.tolist() for piece in pieces]
        owners += [int(mine[0])] * len(pieces)
    return Groups.of(members), weak[owners]


def _components(known: WeakLabels, num_rows: int) -> Numbers:
    """A number for each row, equal for rows that groups connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    lengths = np.concatenate([groups.lengths.numpy() for groups in known.groups])
    members = np.concatenate([groups.indices.numpy() for groups in known.groups])
    owners = num_rows + np.repeat(np.arange(len(lengths)), lengths)
    size = num_rows + len(lengths)
    edges = coo_array((np.ones(len(members)), (members, owners)), (size, size))
    found = connected_components(edges, directed=False)[1][:num_rows]
    return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)


def _levels(known: WeakLabels, num_rows: int, unit: Numbers) -> NDArray[np.float64]:
    """The mean class number of each unit under even predictions, to sort by."""
    even = np.full((num_rows, known.num_classes), -np.log(known.num_classes))
    soft = posterior_of_rows(even, known) @ np.arange(known.num_classes)
    return np.asarray(np.bincount(unit, soft) / np.bincount(unit))


def _assigned(level: NDArray[np.float64], number: int, rng: np.random.Generator) -> Numbers:
    """A fold for each unit; of every `number` units of neighboring level one goes to each fold."""
    order = np.lexsort((rng.random(len(level)), level.round(6)))
    blocks = [rng.permutation(number) for _ in range(-(-len(level) // number))]
    found = np.empty(len(level), np.int64)
    found[order] = np.concatenate([np.zeros(0, np.int64), *blocks])[: len(level)]
    return found


def _folds_of_rows(known: WeakLabels, of_groups: tuple[Numbers, ...], num_rows: int) -> Numbers:
    lowest, highest = np.full(num_rows, np.iinfo(np.int64).max), np.full(num_rows, -1)
    for groups, own in zip(known.groups, of_groups, strict=True):
        rows, each = groups.indices.numpy(), np.repeat(own, groups.lengths.numpy())
        np.minimum.at(lowest, rows, each)
        np.maximum.at(highest, rows, each)
    return np.where(lowest == highest, highest, -1)
