"""Weights of pairs on the CPU, compiled.

Importing this package does not import numba; the first answer does.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.inference import _compiled_trellis as compiled_trellis

TINY = 128
"""Plain torch answers for up to this many groups, for which compiling (seconds) hardly pays."""


def can_answer(potentials: Float[Tensor, "groups instances classes"]) -> bool:
    """Whether the compiled kernel is used for pairs among these groups."""
    return (
        potentials.device.type == "cpu"
        and potentials.shape[0] > TINY
        and potentials.shape[1] >= 2
        and potentials.dtype in (torch.float32, torch.float64)
        and compiled_trellis.is_available()
    )


def compiled_pair_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    log_weights: Float[Tensor, "groups classes classes"],
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q of groups of two on the CPU; -inf and zeros if impossible or of another size.

    Computed in float64, answered in the type of the potentials, which is float32 or float64. Weights that are the same
    for all groups (an expanded tensor) are read once. Instances after the first two may hold anything.

    >>> same = torch.eye(2).log().expand(1, -1, -1)
    >>> half = torch.tensor([[[0.5, 0.5], [0.2, 0.8]]]).log()
    >>> log_z, marginals = compiled_pair_posterior(half, torch.tensor([2]), same)
    >>> log_z.exp(), marginals[0, 0]
    (tensor([0.5000]), tensor([0.2000, 0.8000]))
    """
    from glws.inference._compiled_pairs.kernel import solve  # imports numba

    groups, instances, classes = potentials.shape
    log_weights = log_weights[:1] if groups and log_weights.stride(0) == 0 else log_weights
    log_z = torch.empty(groups, dtype=potentials.dtype)
    marginals = (torch.empty if instances == 2 else torch.zeros)(potentials.shape, dtype=potentials.dtype)
    solve(
        potentials.detach().contiguous().numpy().reshape(-1),
        (instances, classes),
        lengths.long().contiguous().numpy(),
        log_weights.detach().double().contiguous().numpy().reshape(-1),
        log_z.numpy(),
        marginals.numpy().reshape(-1),
    )
    return log_z, marginals


__all__ = ["can_answer", "compiled_pair_posterior"]
