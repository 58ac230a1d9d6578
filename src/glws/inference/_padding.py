"""Groups of different lengths in one tensor: which places hold an instance, and which are padding."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(rows: Tensor, lengths: Int[Tensor, "groups"]) -> Bool[Tensor, "groups instances"]:
    """True for instances, False for padding, of a tensor `[groups, instances, ...]`.

    >>> padding_mask(torch.zeros(2, 3), torch.tensor([3, 1]))
    tensor([[ True,  True,  True],
            [ True, False, False]])
    """
    return torch.arange(rows.shape[1], device=lengths.device) < lengths[:, None]
