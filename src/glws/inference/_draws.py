"""Samples from categorical distributions, and their entropies; the queries of every form use them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def draws(
    shares: Float[Tensor, "*places entries"], num_draws: int, generator: torch.Generator | None = None
) -> Int[Tensor, "draws *places"]:
    """Independent samples of an entry, in proportion to its share; shares of 0 are never sampled.

    If all shares are 0, the sample is the last entry.

    >>> draws(torch.tensor([[0.0, 3.0, 0.0], [2.0, 0.0, 0.0]]), 2)
    tensor([[1, 0],
            [1, 0]])
    """
    sums = shares.double().cumsum(-1)
    uniform = torch.rand(*shares.shape[:-1], num_draws, dtype=torch.float64, device=shares.device, generator=generator)
    found = torch.searchsorted(sums, uniform * sums[..., -1:], right=True).clamp_max(shares.shape[-1] - 1)
    return found.movedim(-1, 0)


def entropies(shares: Float[Tensor, "*places entries"]) -> Float[Tensor, "*places"]:
    """-Σ p log p over the last axis, in nats.

    >>> entropies(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor([0.6931, 0.0000])
    """
    each: Tensor = torch.special.entr(shares)
    return each.sum(-1)


def cross_entropy(
    shares: Float[Tensor, "*places entries"], log_probs: Float[Tensor, "*places entries"]
) -> Float[Tensor, "*places"]:
    """Cross-entropy -Σ p log r over the last axis; 0 log 0 = 0.

    >>> cross_entropy(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.5, 0.5, 0.0]).log())
    tensor(0.6931)
    """
    return -torch.where(shares > 0, shares * log_probs, 0.0).sum(-1)
