"""`Groups`: the instances of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError
from glws.kinds._arrays import missing_values

PADDED = 2
"""The largest number of places of a padded table for each member."""

OF_IDS = "for a column that names the group of each instance write Groups.from_ids"
OF_LISTS = "for lists of instance numbers write Groups.of"


@dataclass(frozen=True, eq=False)
class Groups:
    """Group g holds the instances `indices[offsets[g]:offsets[g + 1]]`, in this order. An instance may be in many.

    >>> Groups.of([[0, 1], [1, 4, 2]]).lengths
    tensor([2, 3])
    >>> Groups.from_ids(["b", "a", "b"])[1].indices
    tensor([0, 2])
    """

    __repr__ = short_repr

    offsets: Int[Tensor, "groups_and_one"]
    indices: Int[Tensor, "members"]

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]] | Tensor | npt.NDArray[np.int64] | Groups) -> Groups:
        """Groups from lists of instance numbers, or from an array [groups, instances] of groups of one size."""
        if isinstance(groups, Groups):
            return groups
        if isinstance(groups, Tensor | np.ndarray):
            if groups.ndim != 2:
                raise DataError(
                    f"groups as an array are [groups, instances], found shape {list(groups.shape)}; {OF_IDS}"
                )
            table = _instance_numbers(groups, "an array")
            return cls(torch.arange(len(table) + 1) * table.shape[1], table.reshape(-1))
        members = [_instance_numbers(group, f"group {number}") for number, group in enumerate(groups)]
        sizes = torch.tensor([0, *(len(group) for group in members)])
        return cls(sizes.cumsum(0), torch.cat(members) if members else sizes[:0])

    @classmethod
    def from_ids(cls, ids: Sequence[object] | npt.NDArray[np.generic]) -> Groups:
        """Groups from a column with the group name of each instance; groups are sorted by name."""
        names = np.asarray(ids)
        if names.ndim != 1:
            raise DataError(f"ids must have a name for each instance, found shape {list(names.shape)}; {OF_LISTS}")
        missing = missing_values(names)
        if missing.any():
            raise DataError(f"row {missing.argmax()}: the name of its group is missing")
        _, number, counts = np.unique(names, return_inverse=True, return_counts=True)
        order = np.argsort(number, kind="stable")
        return cls(torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])), torch.from_numpy(order))

    @classmethod
    def singles(cls, num_instances: int) -> Groups:
        """Every instance as a group of one."""
        return cls(torch.arange(num_instances + 1), torch.arange(num_instances))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int[Tensor, "groups"]:
        """Number of instances of each group."""
        return self.offsets.diff()

    @cached_property
    def _size(self) -> int | None:
        """The number of instances of every group, if it is the same; None otherwise."""
        lengths = self.lengths
        is_common = len(lengths) > 0 and int(lengths[0]) > 0 and bool((lengths == lengths[0]).all())
        return int(lengths[0]) if is_common and len(self.indices) == self.offsets[-1] else None

    @property
    def is_regular(self) -> bool:
        """Whether every group has the same number of instances, one at least."""
        return self._size is not None

    def __getitem__(self, groups: int | Sequence[int] | Tensor) -> Groups:
        """Some of the groups, in this order."""
        chosen = torch.as_tensor(groups).reshape(-1)
        chosen = (
            chosen.nonzero()[:, 0] if chosen.dtype == torch.bool else chosen.long()
        )  # a mask selects where it is True
        lengths = self.lengths[chosen]
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        shift = (self.offsets[chosen] - offsets[:-1]).repeat_interleave(lengths)
        return Groups(offsets, self.indices[torch.arange(len(shift)) + shift])

    def padded(self, groups: Int[Tensor, "chosen"]) -> tuple[Int[Tensor, "chosen instances"], Int[Tensor, "chosen"]]:
        """Instance numbers of some groups as one array, and the lengths; padding repeats some member."""
        if self._size is not None:
            table = self.indices.view(-1, self._size)[groups]
            return table, torch.full((len(table),), self._size)
        lengths = self.offsets[groups + 1] - self.offsets[groups]
        steps = torch.arange(int(lengths.max()) if len(lengths) else 0)
        within = torch.where(steps < lengths[:, None], steps, 0)
        places = (self.offsets[groups][:, None] + within).clamp_max(len(self.indices) - 1)
        return self.indices[places], lengths

    def arranged(
        self, steps: Sequence[Int[Tensor, "chosen"]]
    ) -> list[tuple[Int[Tensor, "..."], Int[Tensor, "chosen"]]]:
        """`padded` for the groups of each step, or packed: the members one after the other.

        They are packed if padding would make more than PADDED times as many numbers.
        """
        if self._size is None:
            return [self._arranged(groups) for groups in steps]
        sizes = [len(groups) for groups in steps]
        table, lengths = self.padded(steps[0] if len(steps) == 1 else torch.cat(list(steps)))
        return list(zip(torch.split(table, sizes), torch.split(lengths, sizes), strict=True))

    def _arranged(self, groups: Int[Tensor, "chosen"]) -> tuple[Int[Tensor, "..."], Int[Tensor, "chosen"]]:
        lengths = self.offsets[groups + 1] - self.offsets[groups]
        if len(lengths) and len(lengths) * int(lengths.max()) > PADDED * int(lengths.sum()):
            return self[groups].indices, lengths
        return self.padded(groups)

    def check(self, num_instances: int) -> None:
        """Raise `DataError` with the first group that has a number of no instance."""
        wrong = ((self.indices < 0) | (self.indices >= num_instances)).nonzero()
        if len(wrong):
            place = int(wrong[0])
            group = int(torch.searchsorted(self.offsets, place, right=True)) - 1
            raise DataError(f"group {group}: instance {int(self.indices[place])} must be in 0..{num_instances - 1}")


def padded_table(members: Int[Tensor, "members"], lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups instances"]:
    """Members that lie one after the other as one table; padding repeats the first of a group.

    >>> padded_table(torch.tensor([5, 6, 7]), torch.tensor([1, 2]))
    tensor([[5, 5],
            [6, 7]])
    """
    return Groups(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), members).padded(torch.arange(len(lengths)))[0]


def _instance_numbers(group: object, where: str) -> Int[Tensor, "..."]:
    """Whole numbers of a group or an array of groups; anything else is refused."""
    try:
        read = torch.as_tensor(group)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"groups: {where} is not a list of instance numbers; {OF_IDS}") from error
    if read.ndim == 0:
        raise DataError(f"groups: {where} is a number, expected a list of instance numbers; {OF_IDS}")
    if read.dtype == torch.bool:
        raise DataError(f"groups: {where} is a mask, expected instance numbers; pass np.flatnonzero(mask)")
    if read.is_floating_point() and bool((read != read.round()).any()):
        raise DataError(
            f"groups: {where} holds numbers that are not whole; pass lists, without padding, for ragged groups"
        )
    return read.long()
