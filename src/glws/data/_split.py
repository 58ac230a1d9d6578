"""Training and held-out parts: whole groups, and unlabeled sets by instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from glws.data._dataset import WeakDataset
from glws.data._groups import Groups
from glws.data._pieces import pieces
from glws.errors import DataError
from glws.kinds import AbstractSupervision

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Part = tuple[Groups, AbstractSupervision]
RARE = 0.01
"""A group mentions a class if it raises its probability above this, from a constant prediction of this."""


def split(data: WeakDataset, share: float, generator: torch.Generator) -> tuple[WeakDataset, WeakDataset]:
    """The training part of the data, and a held-out part of about this share.

    A group is never cut, and groups with a common instance stay together, whatever their kinds. Only if that would hold
    out less than half of the target (bags drawn with replacement are all connected, except for a few short ones) are
    groups held out one by one. Unlabeled sets (kinds with `exchangeable_sets`) are split by instances: every set keeps
    its prior and at least one instance, and the held-out instances of a population form groups of their own, no larger
    than its sets.

    The training part keeps at least one group of each kind, and one group that mentions each class that its kind
    mentions. Less is held out if necessary; `not_held_out` reports it.

    >>> from glws.kinds import Proportions
    >>> data = WeakDataset(torch.zeros(6, 1), [[0, 1], [1, 2], [3, 4], [5]], Proportions.of([1, 1, 0, 1]))
    >>> kept, held_out = split(data, 0.25, torch.Generator().manual_seed(0))
    >>> len(kept), len(held_out)
    (3, 1)
    """
    if not 0 <= share < 1:
        raise DataError(f"the share to hold out must be at least 0 and less than 1, found {share}")
    table = _Table.of(data)
    chosen = _held_out_groups(data, table, share, generator)
    held = _held_out_instances(table, chosen, share, generator)
    kept, held_out = [], []
    for kind, (groups, weak) in enumerate(zip(data.groups, data.weak, strict=True)):
        whole = chosen[table.groups_of(kind)]
        parts = _cut(groups, weak, held) if table.is_set[kind] else _divided(groups, weak, whole)
        kept.append(parts[0])
        held_out.append(parts[1])
    return _of_parts(data, kept), _of_parts(data, held_out)


def not_held_out(data: WeakDataset, held_out: WeakDataset) -> list[str]:
    """A line for each kind without held-out groups."""
    return [
        f"no held-out part for {len(weak):,} {weak.noun}{'' if len(weak) == 1 else 's'}: too few to split"
        for weak, groups in zip(data.weak, held_out.groups, strict=True)
        if len(weak) and not len(groups)
    ]


@dataclass(frozen=True, eq=False)
class _Table:
    """The groups of all kinds, numbered consecutively, and the instance of each member."""

    members: Numbers
    owners: Numbers
    first: Numbers
    is_set: tuple[bool, ...]
    num_instances: int

    @classmethod
    def of(cls, data: WeakDataset) -> _Table:
        """The table of a data set."""
        lengths = torch.cat([groups.lengths for groups in data.groups]).numpy()
        return cls(
            torch.cat([groups.indices for groups in data.groups]).numpy(),
            np.repeat(np.arange(len(lengths)), lengths),
            np.cumsum([0, *(len(groups) for groups in data.groups)]),
            tuple(weak.exchangeable_sets() is not None for weak in data.weak),
            len(data.instances),
        )

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def sets(self) -> Mask:
        """The mask of unlabeled sets."""
        return np.repeat(self.is_set, np.diff(self.first))

    def groups_of(self, kind: int) -> slice:
        """The groups of a kind."""
        return slice(int(self.first[kind]), int(self.first[kind + 1]))

    def instances_in(self, groups: Mask) -> Mask:
        """The mask of instances in one of these groups."""
        found = np.zeros(self.num_instances, bool)
        found[self.members[groups[self.owners]]] = True
        return found


# ------------------------------------------------------------ groups that are held out whole


def _held_out_groups(data: WeakDataset, table: _Table, share: float, generator: torch.Generator) -> Mask:
    """The mask of groups that are held out whole; unlabeled sets are not among them."""
    target = round(share * int((~table.sets).sum()))
    draw = _Draw.of(_components(table), table.sets, generator)
    if 2 * draw.groups(target).sum() < target:
        draw = _Draw.of(np.arange(len(table)), table.sets, generator)
    while True:
        chosen = draw.groups(target)
        needed = _needed(data, table, chosen, draw.place)
        if not needed:
            return chosen
        draw.keep(needed)


def _components(table: _Table) -> Numbers:
    """A number for each group, equal for groups connected by instances; unlabeled sets connect nothing."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    connects = ~table.sets[table.owners]
    size = len(table) + table.num_instances
    ends = (table.owners[connects], len(table) + table.members[connects])
    edges = coo_array((np.ones(int(connects.sum())), ends), (size, size))
    return np.asarray(connected_components(edges, directed=False)[1][: len(table)], np.int64)


@dataclass(frozen=True, eq=False)
class _Draw:
    """Units of groups in random order; the first that training does not need are held out."""

    unit: Numbers
    sizes: Numbers
    order: list[int]
    is_kept: Mask

    @classmethod
    def of(cls, together: Numbers, kept: Mask, generator: torch.Generator) -> _Draw:
        """Groups with equal numbers in `together` form a unit; `kept` groups are never held out."""
        numbers, unit, sizes = np.unique(together, return_inverse=True, return_counts=True)
        draw = cls(unit, sizes, torch.randperm(len(numbers), generator=generator).tolist(), np.zeros(len(sizes), bool))
        draw.is_kept[unit[kept]] = True
        return draw

    @property
    def place(self) -> Numbers:
        """The place of each group in the order."""
        places = np.empty(len(self.order), np.int64)
        places[self.order] = np.arange(len(self.order))
        return places[self.unit]

    def groups(self, target: int) -> Mask:
        """The mask of held-out groups, for a target number of groups."""
        is_chosen, left = np.zeros(len(self.sizes), bool), target
        for number in self.order:
            if not left:
                break
            if not self.is_kept[number] and self.sizes[number] <= left:
                is_chosen[number] = True
                left -= self.sizes[number]
        return is_chosen[self.unit]

    def keep(self, groups: Sequence[int]) -> None:
        """Exclude these groups from being held out."""
        self.is_kept[self.unit[list(groups)]] = True


def _needed(data: WeakDataset, table: _Table, chosen: Mask, place: Numbers) -> list[int]:
    """The chosen groups that training needs; among alternatives the one chosen last."""
    needed = _needed_by_sets(table, chosen)
    for kind, weak in enumerate(data.weak):
        part = table.groups_of(kind)
        held = np.flatnonzero(chosen[part])
        if not len(held):
            continue
        kept = np.flatnonzero(~chosen[part])
        lost = _lost_classes(weak, data.groups[kind], held, kept)
        candidates = [held] if not len(kept) else [held[mentions] for mentions in lost]
        needed += [int(part.start + each[place[part][each].argmax()]) for each in candidates]
    return needed


def _needed_by_sets(table: _Table, chosen: Mask) -> list[int]:
    """One of the chosen groups for each unlabeled set that would lose all its instances."""
    is_held = _only_held_out(table, chosen)
    in_sets = table.sets[table.owners]
    owners, members = table.owners[in_sets], table.members[in_sets]
    emptied = set(np.setdiff1d(owners, owners[~is_held[members]]))
    holders = dict(zip(table.members[chosen[table.owners]], table.owners[chosen[table.owners]], strict=True))
    firsts = np.unique(owners, return_index=True)
    return [int(holders[members[at]]) for owner, at in zip(*firsts, strict=True) if owner in emptied]


def _only_held_out(table: _Table, chosen: Mask) -> Mask:
    """The mask of instances in held-out groups and in no training group, ignoring unlabeled sets."""
    return table.instances_in(chosen) & ~table.instances_in(~chosen & ~table.sets)


def _lost_classes(weak: AbstractSupervision, groups: Groups, held: Numbers, kept: Numbers) -> list[Mask]:
    """For each class that only held-out groups of a kind mention, the mask of these groups."""
    mentions = torch.cat(list(_mentions(weak, groups, held)))
    lost = mentions.any(0)
    for some in _mentions(weak, groups, kept):
        if not bool(lost.any()):
            break
        lost &= ~some.any(0)
    return [mentions[:, number].numpy() for number in lost.nonzero()[:, 0]]


def _mentions(weak: AbstractSupervision, groups: Groups, numbers: Numbers) -> Iterator[Bool[Tensor, "some classes"]]:
    """The classes that each of these groups mentions, piece by piece."""
    for some, members in pieces(weak, groups, torch.from_numpy(numbers)):
        yield torch.stack([_raised(some, members, number) for number in range(weak.num_classes)], 1)


def _raised(weak: AbstractSupervision, groups: Groups, number: int) -> Bool[Tensor, "groups"]:
    """The mask of groups that raise the probability of a class for at least one instance, from RARE."""
    lengths = groups.lengths
    probs = torch.full((len(groups), int(lengths.max()), weak.num_classes), 0.0, dtype=torch.float64)
    probs += (1 - RARE) / max(weak.num_classes - 1, 1)
    probs[..., number] = RARE
    marginals: Float[Tensor, "groups instances classes"] = weak.infer(probs.log(), lengths).marginals
    return (marginals[..., number] > RARE + 1e-9).any(1)


# ------------------------------------------------------------ unlabeled sets


def _held_out_instances(table: _Table, chosen: Mask, share: float, generator: torch.Generator) -> Mask:
    """The mask of held-out instances of unlabeled sets; every set keeps at least one.

    Instances of held-out groups are held out, those of other groups are not. The share of the rest is spread over sets.
    """
    held, in_sets = _only_held_out(table, chosen), table.sets[table.owners]
    owners, members = table.owners[in_sets], table.members[in_sets]
    numbers, first = np.unique(members, return_index=True)
    is_free = ~table.instances_in(~table.sets)[numbers]
    free, owner = numbers[is_free], owners[first[is_free]]
    sample = free[_evenly(owner, share, generator)]
    held[sample] = True
    emptied = np.setdiff1d(owners, owners[~held[members]])
    at = np.flatnonzero(np.isin(owners, emptied) & np.isin(members, sample))
    held[members[at[np.unique(owners[at], return_index=True)[1]]]] = False
    return held


def _evenly(owner: Numbers, share: float, generator: torch.Generator) -> Numbers:
    """A random share of all places, with the share of each owner to within one."""
    target = round(share * len(owner))
    if not target:
        return np.zeros(0, np.int64)
    order = np.lexsort((torch.randperm(len(owner), generator=generator).numpy(), owner))
    start = float(torch.rand((), generator=generator, dtype=torch.float64))
    steps = np.floor(np.arange(len(owner) + 1) * (target / len(owner)) + start)
    return np.asarray(order[np.diff(steps) > 0], np.int64)


def _divided(groups: Groups, weak: AbstractSupervision, chosen: Mask) -> tuple[Part, Part]:
    """The groups of a kind that are kept, and those that are chosen."""
    kept, held = (torch.from_numpy(np.flatnonzero(side)) for side in (~chosen, chosen))
    return (groups[kept], weak[kept]), (groups[held], weak[held])


def _cut(groups: Groups, weak: AbstractSupervision, held: Mask) -> tuple[Part, Part]:
    """Unlabeled sets without their held-out instances, and held-out groups that are no larger than their sets."""
    is_held = torch.from_numpy(held)[groups.indices]
    owners = torch.repeat_interleave(torch.arange(len(groups)), groups.lengths)
    lengths = torch.bincount(owners[~is_held], minlength=len(groups))
    kept = Groups(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), groups.indices[~is_held])
    population = weak.exchangeable_sets()
    assert population is not None
    sets, members = [], []
    for number in torch.unique(population[owners[is_held]]):
        mine = (population == number).nonzero()[:, 0]
        found = groups.indices[is_held & (population[owners] == number)]
        pieces = found.tensor_split(-(-len(found) // int(groups.lengths[mine].max())))
        sets.append(mine[: len(pieces)])
        members += [piece.tolist() for piece in pieces]
    return (kept, weak), (Groups.of(members), weak[torch.cat(sets) if sets else []])


def _of_parts(data: WeakDataset, parts: Sequence[Part]) -> WeakDataset:
    """The same instances with other groups of each kind."""
    groups, weak = zip(*parts, strict=True)
    return WeakDataset(data.instances, groups, weak, data.evidence, check=False)
