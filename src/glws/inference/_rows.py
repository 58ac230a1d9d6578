"""The instances of all groups as rows of one table; a padded tensor is such a table with gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Rows(NamedTuple):
    """Group g has the rows starts[g] .. starts[g] + lengths[g]."""

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
        return cls(values, torch.arange(groups) * instances, lengths)

    def arrays(self) -> tuple[Any, Any, Any]:
        """Values, starts and lengths for compiled kernels."""
        return self.values.numpy(), self.starts.numpy(), self.lengths.long().contiguous().numpy()

    def like_values(self) -> Float[Tensor, "rows classes"]:
        """Room for an answer; 0 in gaps."""
        is_full = int(self.lengths.sum()) == len(self.values)
        return torch.empty_like(self.values) if is_full else torch.zeros_like(self.values)

    def padded(self, groups: Int[Tensor, "chosen"]) -> Float[Tensor, "chosen instances classes"]:
        """Some of the groups, padded with zeros."""
        places, real = self.places(groups)
        return torch.where(real[:, :, None], self.values[places], 0.0)

    def places(self, groups: Int[Tensor, "chosen"]) -> tuple[Tensor, Tensor]:
        """The row of each instance of some of the groups [chosen, instances], and the padding mask."""
        lengths = self.lengths[groups]
        steps = torch.arange(int(lengths.max()) if len(lengths) else 0)
        real = steps < lengths[:, None]
        return torch.where(real, self.starts[groups][:, None] + steps, 0), real
