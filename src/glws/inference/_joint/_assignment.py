"""The most likely labeling with a given count vector or set of classes: assignment problems."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._counts import Exactly, count_mode
from glws.inference._joint._transport import transport
from glws.inference._joint.groups import gather_columns
from glws.inference._padding import padding_mask

SHORT = 128
"""Groups of up to this many instances are solved by a table of instances and places."""

Array = npt.NDArray[np.float64]


def best_assignment(
    potentials: Float[Tensor, "groups instances classes"],
    counts: Int[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
) -> Int[Tensor, "groups instances"]:
    """The labeling with these counts whose potentials sum to most; counts must sum to the lengths.

    >>> potentials = torch.tensor([[[0.0, -1.0, -9.0], [0.0, -3.0, -9.0], [0.0, -2.0, -9.0]]])
    >>> best_assignment(potentials, torch.tensor([[1, 2, 0]]), torch.tensor([3]))
    tensor([[1, 0, 1]])
    """
    groups, classes = gather_columns(potentials, counts, lengths)
    pair = torch.nn.functional.pad(groups.potentials, (0, 1), value=-torch.inf)[:, :, :2]
    columns = (~count_mode(pair[:, :, 1], pair[:, :, 0], lengths, Exactly(groups.counts[:, 0]))).long()
    values, wanted, sizes = groups.potentials.cpu().numpy(), groups.counts.cpu().numpy(), lengths.tolist()
    for group in ((groups.counts > 0).sum(1) > 2).nonzero()[:, 0].tolist():
        length = sizes[group]
        solve = _by_places if length <= SHORT else transport
        columns[group, :length] = torch.from_numpy(solve(values[group, :length], wanted[group])).to(columns)
    return classes.gather(1, columns)


def _by_places(potentials: Array, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """One row for each instance, one column for each place of each class."""
    places = np.repeat(np.arange(len(counts)), counts)
    rows, chosen = _matched((potentials.max(1, keepdims=True) - potentials)[:, places])
    labels = np.zeros(len(potentials), dtype=np.int64)
    labels[rows] = places[chosen]
    return labels


def best_cover(
    potentials: Float[Tensor, "groups instances classes"],
    present: Bool[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
) -> Int[Tensor, "groups instances"]:
    """The best labeling in which exactly these classes occur.

    Every instance has its best class, but for one instance of each class: those are assigned so that the sum of what
    they lose is least. No labeling that has all classes loses less, since it has such instances too.

    >>> potentials = torch.tensor([[[0.0, -1.0, 5.0], [0.0, -3.0, 5.0], [0.0, -2.0, 5.0]]])
    >>> best_cover(potentials, torch.tensor([[True, True, False]]), torch.tensor([3]))
    tensor([[1, 0, 0]])
    """
    allowed = torch.where(present[:, None], potentials, -torch.inf)
    top, labels = allowed.max(2)
    real = padding_mask(labels, lengths)
    found = torch.zeros_like(present).scatter_reduce_(1, labels, real, "amax")
    for group in (present & ~found).any(1).nonzero()[:, 0].tolist():
        length, classes = int(lengths[group]), present[group].nonzero()[:, 0]
        loss = top[group, :length, None] - allowed[group, :length, classes]
        rows, places = _matched(loss.T.double().cpu().numpy())
        labels[group, torch.from_numpy(places).to(labels)] = classes[torch.from_numpy(rows).to(labels)]
    return labels


def _matched(cost: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    return rows, columns
