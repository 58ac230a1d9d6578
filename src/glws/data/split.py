"""Part of the groups held out: whole groups, and no instance on both sides where that can be had."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from glws.data.dataset import WeakDataset
from glws.errors import DataError


def split(data: WeakDataset, share: float, generator: torch.Generator) -> tuple[WeakDataset, WeakDataset]:
    """The data in two: what is left for training, and about this share of the groups held out.

    A group is never cut. Groups that have an instance in common stay together, whatever their kinds; only where that
    would hold out less than half of what is wanted (bags drawn with replacement hang together all over, and the few
    that do not are short ones) are groups held out one by one.

    >>> from glws.supervision import Proportions
    >>> data = WeakDataset(torch.zeros(6, 1), [[0, 1], [1, 2], [3, 4], [5]], Proportions.of([1, 1, 0, 1]))
    >>> kept, held_out = split(data, 0.25, torch.Generator().manual_seed(0))
    >>> len(kept), len(held_out)
    (3, 1)
    """
    if not 0 <= share < 1:
        raise DataError(f"the share to hold out must be at least 0 and less than 1, found {share}")
    wanted = round(share * len(data))
    together = _components(data)
    chosen = _drawn(together, wanted, generator)
    if 2 * chosen.sum() < wanted or chosen.sum() == len(data):
        chosen = _drawn(np.arange(len(data)), wanted, generator)
    sides = torch.split(torch.from_numpy(chosen), [len(groups) for groups in data.groups])
    return (
        data.subset([(~side).nonzero()[:, 0] for side in sides]),
        data.subset([side.nonzero()[:, 0] for side in sides]),
    )


def _components(data: WeakDataset) -> NDArray[np.int64]:
    """A number for each group of all kinds, the same for groups that hang together by their instances."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    members = torch.cat([groups.indices for groups in data.groups]).numpy()
    lengths = torch.cat([groups.lengths for groups in data.groups]).numpy()
    owners = np.repeat(np.arange(len(lengths)), lengths)
    size = len(lengths) + len(data.instances)
    edges = coo_array((np.ones(len(owners)), (owners, len(lengths) + members)), (size, size))
    return np.asarray(connected_components(edges, directed=False)[1][: len(lengths)], np.int64)


def _drawn(together: NDArray[np.int64], wanted: int, generator: torch.Generator) -> NDArray[np.bool_]:
    """Which groups are held out: components in random order, while they fit."""
    numbers, sizes = np.unique(together, return_counts=True)
    order: Int[Tensor, "components"] = torch.randperm(len(numbers), generator=generator)
    taken, left = [], wanted
    for place in order.tolist():
        if sizes[place] <= left:
            taken.append(numbers[place])
            left -= sizes[place]
    return np.isin(together, taken)
