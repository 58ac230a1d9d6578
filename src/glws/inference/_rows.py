"""The instances of all groups as rows of one table; a padded tensor is such a table with gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from glws._reprs import short_repr

Array = npt.NDArray[Any]


class Solution(NamedTuple):
    """An answer, the engine that computed it, and its error estimate."""

    def __repr__(self) -> str:
        return short_repr(self)

    log_likelihood: Float[Tensor, "groups"]
    marginals: Float[Tensor, "groups instances classes"] | Float[Tensor, "rows classes"]
    engine: str | None = None
    """None: the engine that the form names."""
    error: Float[Tensor, "groups"] | None = None
    """Estimate of the largest error of a posterior in each group; None: all groups are exact."""
    are_possible: bool = False
    """Whether it is known that no group is impossible."""


SolvePadded = Callable[[Tensor, Tensor, Tensor], Solution]
"""Solves some of the groups: their numbers, padded potentials, lengths."""


class Rows(NamedTuple):
    """Group g has the rows starts[g] .. starts[g] + lengths[g]: packed without gaps, or padded to one length."""

    values: Float[Tensor, "rows classes"]
    starts: Int[Tensor, "groups"]
    lengths: Int[Tensor, "groups"]

    @classmethod
    def of_padded(cls, padded: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Rows:
        """The rows of a padded tensor, without a copy.

        >>> Rows.of_padded(torch.zeros(2, 3, 5), torch.tensor([3, 1])).starts
        tensor([0, 3])
        """
        groups, instances, classes = padded.shape
        values = padded.detach().contiguous().view(-1, classes)
        return cls(
            values, torch.arange(0, groups * instances, max(instances, 1), device=values.device)[:groups], lengths
        )

    @classmethod
    def packed(cls, values: Float[Tensor, "rows classes"], lengths: Int[Tensor, "groups"]) -> Rows:
        """Groups that lie one after the other."""
        return cls(values.contiguous(), lengths.cumsum(0) - lengths, lengths)

    def select(self, groups: Int[Tensor, "chosen"]) -> Rows:
        """Some of the groups."""
        return Rows(self.values, self.starts[groups], self.lengths[groups])

    def arrays(self) -> RowArrays:
        """The same for compiled kernels, if they are on the CPU."""
        lengths = np.ascontiguousarray(self.lengths.numpy(), np.int64)
        return RowArrays(self.values.numpy(), self.starts.numpy(), lengths)

    def spread(self, values: Shaped[Tensor, "groups ..."]) -> Shaped[Tensor, "rows ..."]:
        """The value of the group of each row; any in gaps."""
        if len(values) and values.stride(0) == 0:
            return values[:1]
        if len(self.lengths) and len(self.values) % len(self.lengths) == 0 and not self.is_packed:  # a padded tensor
            return values.repeat_interleave(len(self.values) // len(self.lengths), 0)
        return values.repeat_interleave(self.lengths, 0)

    @property
    def is_packed(self) -> bool:
        """Whether there are no gaps."""
        return int(self.lengths.sum()) == len(self.values)

    def where_possible(self, values: Float[Tensor, "rows"], log_z: Float[Tensor, "groups"]) -> Float[Tensor, "rows"]:
        """The values in rows of possible groups; 0 in others and in gaps."""
        if not self.is_packed:
            instances = len(self.values) // len(self.lengths)
            real = torch.arange(instances) < self.lengths[:, None]
            values = torch.where(real.view(-1), values, 0.0)
        possible = log_z > -torch.inf
        return values if bool(possible.all()) else torch.where(self.spread(possible), values, 0.0)

    def padded(self, groups: Int[Tensor, "chosen"]) -> Float[Tensor, "chosen instances classes"]:
        """Some of the groups, padded with zeros."""
        lengths = self.lengths[groups]
        steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
        real = steps < lengths[:, None]
        places = torch.where(real, self.starts[groups][:, None] + steps, 0)
        return torch.where(real[:, :, None], self.values[places], 0.0)

    def where_possible_classes(
        self, values: Float[Tensor, "rows classes"], log_z: Float[Tensor, "groups"]
    ) -> Float[Tensor, "rows classes"]:
        """The values in rows of possible groups, 0 in others."""
        return torch.where(self.spread(log_z > -torch.inf)[:, None], values, 0.0)

    def put(
        self,
        out: Shaped[Tensor, "rows ..."],
        groups: Int[Tensor, "chosen"],
        padded: Shaped[Tensor, "chosen instances ..."],
    ) -> None:
        """Write values of padded groups to the rows of these groups."""
        steps = torch.arange(padded.shape[1], device=padded.device)
        real = steps < self.lengths[groups][:, None]
        out[(self.starts[groups][:, None] + steps)[real]] = padded[real]

    def pieces(self) -> Iterator[Int[Tensor, "chosen"]]:
        """Groups to be padded together: all if that adds little, else those of similar length."""
        lengths = self.lengths
        if not len(lengths) or len(lengths) * int(lengths.max()) <= PADDED * max(int(lengths.sum()), 1):
            yield torch.arange(len(lengths), device=lengths.device)
            return
        magnitude = torch.log(lengths.clamp_min(1).double()).div(0.25).long()
        for number in sorted(set(magnitude.tolist())):
            groups = (magnitude == number).nonzero()[:, 0]
            yield from groups.split(max(ROWS_AT_ONCE // int(lengths[groups].max().clamp_min(1)), 1))

    def solved(self, solve: SolvePadded) -> Solution:
        """The solution of all groups, by padded groups of similar length."""
        log_z, marginals = self.values.new_empty(len(self.lengths)), torch.zeros_like(self.values)
        engines, errors, is_exact = dict[str, None](), torch.zeros_like(log_z), True
        for groups in self.pieces():
            found = solve(groups, self.padded(groups), self.lengths[groups])
            log_z[groups] = found.log_likelihood
            self.put(marginals, groups, found.marginals)
            if found.engine is not None:
                engines.update(dict.fromkeys(found.engine.split(" + ")))
            if found.error is not None:
                errors[groups], is_exact = found.error, False
        return Solution(log_z, marginals, " + ".join(engines) or None, None if is_exact else errors)


class RowArrays(NamedTuple):
    """Rows as arrays of numpy, for compiled kernels."""

    values: Array
    starts: Array
    lengths: Array

    @classmethod
    def of_padded(cls, padded: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> RowArrays:
        """The rows of a padded tensor, without a copy; it has a group and an instance at least."""
        groups, instances, classes = padded.shape
        values = np.ascontiguousarray(padded.detach().numpy()).reshape(-1, classes)
        return cls(values, _starts(groups, instances), np.ascontiguousarray(lengths.numpy(), np.int64))

    def tensors(self) -> Rows:
        """The same as tensors."""
        return Rows(*(torch.from_numpy(array) for array in self))


@lru_cache(maxsize=16)
def _starts(groups: int, instances: int) -> Array:
    return np.arange(0, groups * instances, instances)


def least(values: Array) -> Any:
    """The least number, or NaN if there is one: for few numbers faster than `min`.

    >>> least(np.array([2, 1, 3])), least(np.array([2.0, np.nan]))
    (1, nan)
    """
    return values.item(values.argmin())


PADDED = 2.0
"""Padding that makes a batch longer by up to this factor is allowed."""
ROWS_AT_ONCE = 1 << 18
