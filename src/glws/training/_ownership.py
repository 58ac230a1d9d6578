"""Which process owns which groups of a step, and computes their part of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data import Groups, WeakDataset
from glws.training._world import World

MOST_WASTE = 1.25
"""A process may have at most so many times an even share of a step's instances; otherwise rows are divided."""
SEVERAL = -1
"""The owner of a group whose instances were loaded by several processes."""


class Ownership:
    """The groups of each process in every step.

    Groups are assigned by the number of their instances. Where each process has loaded its own part of the instances,
    a group belongs to who has all of it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._owners: tuple[WeakDataset, list[Tensor]] | None = None

    def own(self, data: WeakDataset, chosen: Sequence[Int[Tensor, "groups"]]) -> list[Int[Tensor, "own"]] | None:
        """The groups of this process among those chosen of each kind; None where rows divide the work better.

        That is where one group is most of a step, or was loaded by several processes. All processes find the same.
        """
        owners = self._loaded(data, chosen) if self._world.bounds is not None else self._assigned(data, chosen)
        if owners is None:
            return None
        return [groups[owner == self._world.rank] for groups, owner in zip(chosen, owners, strict=True)]

    def _assigned(self, data: WeakDataset, chosen: Sequence[Tensor]) -> list[Tensor] | None:
        size = self._world.size
        pairs = zip(data.groups, chosen, strict=True)
        lengths = [part.offsets[groups + 1] - part.offsets[groups] for part, groups in pairs]
        owners = assigned(lengths, size)
        loads = torch.bincount(torch.cat(owners), torch.cat(lengths), minlength=size)
        return owners if float(loads.max()) * size <= MOST_WASTE * float(loads.sum()) else None

    def _loaded(self, data: WeakDataset, chosen: Sequence[Tensor]) -> list[Tensor] | None:
        if self._owners is None or self._owners[0] is not data:
            edges = torch.tensor(self._world.bounds)[1:]
            self._owners = data, [loaded_by(groups, edges) for groups in data.groups]
        owners = [owner[groups] for owner, groups in zip(self._owners[1], chosen, strict=True)]
        return None if any(bool((owner == SEVERAL).any()) for owner in owners) else owners


def assigned(lengths: Sequence[Int[Tensor, "groups"]], size: int) -> list[Int[Tensor, "groups"]]:
    """The process of each group, of several kinds: the largest first, there and back again.

    >>> assigned([torch.tensor([1, 5, 4, 1, 2])], 2)
    [tensor([0, 0, 1, 0, 1])]
    """
    owners, before = [], 0
    for own in lengths:
        place = torch.arange(before, before + len(own))
        there, back = place % size, size - 1 - place % size
        owner = torch.empty_like(place)
        owner[torch.argsort(own, descending=True, stable=True)] = torch.where(place // size % 2 == 0, there, back)
        owners.append(owner)
        before += len(own)
    return owners


def loaded_by(groups: Groups, edges: Int[Tensor, "processes"]) -> Int[Tensor, "groups"]:
    """The process that has loaded all instances of a group, or `SEVERAL`; `edges` are where the parts end.

    >>> loaded_by(Groups.of([[0, 1], [1, 2], [3]]), torch.tensor([2, 4]))
    tensor([ 0, -1,  1])
    """
    where = torch.searchsorted(edges, groups.indices, right=True)
    number = torch.arange(len(groups)).repeat_interleave(groups.lengths)
    first = torch.full((len(groups),), len(edges)).scatter_reduce(0, number, where, "amin")
    last = torch.zeros(len(groups), dtype=torch.int64).scatter_reduce(0, number, where, "amax")
    return torch.where(first == last, first, torch.where(groups.lengths > 0, SEVERAL, 0))
