"""Instances with several labels, one for each head of a network: predictions of joint classes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError


def join_heads(log_probs: Sequence[Float[Tensor, "*instances classes"]]) -> Float[Tensor, "*instances joint"]:
    """Log-probabilities of the joint classes (`joint_classes`) of heads that are independent given the input.

    >>> import torch
    >>> light, walk = torch.tensor([0.75, 0.25]).log(), torch.tensor([0.5, 0.5]).log()
    >>> join_heads([light, walk]).exp()
    tensor([0.3750, 0.3750, 0.1250, 0.1250])
    """
    if not log_probs or len({head.shape[:-1] for head in log_probs}) > 1:
        raise DataError(f"heads need the same instances, found {[list(head.shape) for head in log_probs]}")
    return reduce(lambda left, right: (left[..., :, None] + right[..., None, :]).flatten(-2), log_probs)


def split_heads(
    joint: Float[Tensor, "*instances joint"], sizes: Sequence[int]
) -> list[Float[Tensor, "*instances classes"]]:
    """Probabilities of the classes of each head, from those of the joint classes.

    >>> import torch
    >>> split_heads(torch.tensor([0.4, 0.3, 0.2, 0.1]), [2, 2])
    [tensor([0.7000, 0.3000]), tensor([0.6000, 0.4000])]
    """
    shape = joint.shape[:-1]
    if reduce(lambda left, right: left * right, sizes, 1) != joint.shape[-1]:
        raise DataError(f"heads of {list(sizes)} classes do not have {joint.shape[-1]} joint classes")
    table, first = joint.reshape(*shape, *sizes), len(shape)
    axes = range(first, first + len(sizes))
    return [table.sum([other for other in axes if other != axis]) if len(sizes) > 1 else table for axis in axes]
