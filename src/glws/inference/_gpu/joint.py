"""`gpu_joint_posterior`: exact count vectors, in one launch and without a host sync."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two

MOST_ENTRIES = 1 << 24
"""States of all groups together; the tables then take up to 1 GB for 10 classes."""


def gpu_joint_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    counts: Int[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
    most_states: int,
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of count vectors, computed in float64; -inf and 0 if there is no labeling.

    `most_states` is the largest Π_k (counts[k] + 1) of a group, which the host must know beforehand.
    """
    from glws.inference._gpu.joint_kernel import joint_counts  # Triton is imported here, at first use

    values = potentials.detach().contiguous()
    groups, instances, classes = values.shape
    log_likelihood, marginals = values.new_empty(groups), torch.zeros_like(values)
    weights = torch.empty_like(values, dtype=torch.float64)
    forward, backward = values.new_empty(2, groups, most_states, dtype=torch.float64)
    levels = torch.empty(groups, most_states, dtype=torch.int32, device=values.device)
    digits = torch.empty(groups, classes, most_states, dtype=torch.int32, device=values.device)
    tables = (weights, forward, backward, levels, digits)
    block = min(max(power_of_two(most_states), 32), 1024)
    with on_device_of(values):
        joint_counts[(groups,)](
            *(values, counts.contiguous(), lengths.contiguous(), *tables, log_likelihood, marginals),
            *(instances, classes, most_states),
            S=block, C=power_of_two(classes), num_warps=min(max(block // 64, 1), 16),
        )  # fmt: skip
    return log_likelihood, marginals
