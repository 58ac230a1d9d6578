"""A table of which each of several processes reads its part: where the parts begin, and instances that know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError


class Shard(NamedTuple):
    """Which rows of a table one of several processes has: `bounds[rank]` to `bounds[rank + 1]`, the last not included.

    `example` is the first row of all `[1, columns]`, for everybody to see what an instance looks like.
    """

    bounds: tuple[int, ...]
    rank: int
    example: NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class ShardInstances:
    """Instances that are spread over processes; their numbers are those of all together.

    This process has the numbers from `bounds[rank]` up to `bounds[rank + 1]`; to take another one is a `DataError`,
    except the first of all where there is an `example` of it.

    >>> part = ShardInstances(torch.tensor([[5.0], [6.0]]), bounds=(0, 3, 5), rank=1)
    >>> len(part), part.take(torch.tensor([4, 3]))
    (5, tensor([[6.],
            [5.]]))
    >>> part.take(torch.tensor([2]))
    Traceback (most recent call last):
    glws.errors.DataError: instance 2 was read by another process; this one has 3 to 4
    """

    __repr__ = short_repr

    values: Tensor
    bounds: tuple[int, ...]
    rank: int
    example: Tensor | None = None

    def __len__(self) -> int:
        return self.bounds[-1]

    @property
    def first(self) -> int:
        """The number of the first instance that is here."""
        return self.bounds[self.rank]

    def is_here(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """Which of these instances this process has."""
        return (numbers >= self.first) & (numbers < self.bounds[self.rank + 1])

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen instances."""
        foreign = numbers[~self.is_here(numbers)]
        if len(foreign) and self.example is not None and not foreign.any():
            return self.example[numbers]
        if len(foreign):
            mine = f"{self.first} to {self.bounds[self.rank + 1] - 1}"
            raise DataError(f"instance {int(foreign[0])} was read by another process; this one has {mine}")
        return self.values[(numbers - self.first).to(self.values.device)]

    def subset(self, numbers: Int[Tensor, "sorted"]) -> ShardInstances:
        """Some of the instances, given by sorted numbers and renumbered; each process keeps those it has."""
        edges = torch.searchsorted(numbers, torch.tensor(self.bounds)).tolist()
        return ShardInstances(self.take(numbers[self.is_here(numbers)]), tuple(edges), self.rank)


def shard_bounds(offsets: NDArray[np.int64] | None, num_rows: int, size: int) -> tuple[int, ...] | None:
    """Where `size` parts of about as many rows each begin, and the end; None if there is not enough for all.

    `offsets` are where groups begin, and the end of the last; a group is not cut.

    >>> shard_bounds(np.array([0, 4, 5, 9]), num_rows=10, size=2)
    (0, 5, 10)
    """
    wanted = [num_rows * rank // size for rank in range(1, size)]
    if offsets is not None:
        places = np.searchsorted(offsets, wanted).clip(max=len(offsets) - 1)
        wanted = offsets[places].tolist()
    bounds = (0, *wanted, num_rows)
    return bounds if all(np.diff(bounds) > 0) else None
