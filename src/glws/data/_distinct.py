"""Questions about groups whose instances are all predicted alike: asked once for each weak label and group size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.kinds import AbstractSupervision

FEW_GROUPS = 20
"""So many often suffice to settle a question."""
MOST_NUMBERS = 2_000_000
"""Groups that are asked about at once, each padded to the longest, have no more instances times classes than this."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """Different pairs of weak label and group size, from the shortest group to the longest, and how many groups each
    stands for.

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
        """Those of all groups of a kind."""
        first, index = weak.distinct(lengths)
        order = torch.argsort(lengths[first], stable=True)
        chosen = first[order]
        return cls(weak[chosen], lengths[chosen], torch.bincount(index, minlength=len(first))[order])

    def __getitem__(self, chosen: Tensor) -> Distinct:
        return Distinct(self.weak[chosen], self.lengths[chosen], self.times[chosen])

    def pieces(self) -> Iterator[Distinct]:
        """All of them: a few, then ever more at once, as far as they fit; padded to the longest of each piece."""
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
