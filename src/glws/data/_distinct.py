"""Queries with the same prediction for all instances: once for each weak label and group size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.kinds import AbstractSupervision

FEW_GROUPS = 20
"""Number of groups in the first piece, which often suffices."""
MOST_NUMBERS = 2_000_000
"""Instances times classes of a piece, each group padded to the longest, are at most this many."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct pairs of weak label and group size, sorted by size, and how many groups have each.

    >>> from glws.kinds import Proportions
    >>> found = Distinct.of(Proportions.of([1, 1, 2, 1]), torch.tensor([3, 3, 3, 2]))
    >>> found.lengths.tolist(), found.times.tolist()
    ([2, 3, 3], [1, 2, 1])
    """

    weak: AbstractSupervision
    lengths: Int[Tensor, "groups"]
    times: Int[Tensor, "groups"]

    @classmethod
    def of(cls, weak: AbstractSupervision, lengths: Int[Tensor, "groups"]) -> Distinct:
        """The distinct pairs of all groups of a kind."""
        first, index = weak.distinct(lengths)
        order = torch.argsort(lengths[first], stable=True)
        chosen = first[order]
        return cls(weak[chosen], lengths[chosen], torch.bincount(index, minlength=len(first))[order])

    def __getitem__(self, chosen: Tensor) -> Distinct:
        return Distinct(self.weak[chosen], self.lengths[chosen], self.times[chosen])

    def pieces(self) -> Iterator[Distinct]:
        """All pairs in pieces of growing size; padded to the longest of each piece."""
        begin, most = 0, FEW_GROUPS
        while begin < len(self.lengths):
            lengths = self.lengths[begin : begin + most]
            numbers = lengths * torch.arange(1, len(lengths) + 1) * self.weak.num_classes
            number = max(int((numbers <= MOST_NUMBERS).sum()), 1)
            yield self[torch.arange(begin, begin + number)]
            begin, most = begin + number, 2 * most

    def filled(self, row: Float[Tensor, "classes"]) -> Float[Tensor, "groups instances classes"]:
        """The same predictions for all instances."""
        return row.double().expand(len(self.lengths), max(self.lengths.tolist(), default=0), -1)
