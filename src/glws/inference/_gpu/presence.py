"""`gpu_presence_posterior`: none or at least one of some classes, in one launch and without a host sync."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two
from glws.inference import _gpu as gpu

MOST = 8192
"""Most instances times classes of a group, both rounded up to a power of two, in one program."""


def fits(potentials: Float[Tensor, "groups instances classes"]) -> bool:
    """Whether the kernel can answer for groups of this size."""
    rows, columns = (power_of_two(max(size, 2)) for size in potentials.shape[1:])
    return gpu.is_available(potentials) and rows * columns <= MOST


def gpu_presence_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    counted: Bool[Tensor, "groups classes"],
    log_weights: Float[Tensor, "groups 2"],
    lengths: Int[Tensor, "groups"],
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of `PresenceWeights`, computed in float64, answered in the type of the potentials."""
    from glws.inference._gpu.presence_kernel import presence  # Triton is imported here, at first use

    values = potentials.detach().contiguous()
    groups, instances, classes = values.shape
    log_likelihood, marginals = values.new_empty(groups), torch.empty_like(values)
    rows, columns = (power_of_two(max(size, 2)) for size in (instances, classes))
    with on_device_of(values):
        presence[(groups,)](
            *(values, counted.contiguous().to(torch.uint8), log_weights.double().contiguous(), lengths.contiguous()),
            *(log_likelihood, marginals, instances, classes),
            J=rows, C=columns, num_warps=min(max(rows * columns // 256, 1), 8),
        )  # fmt: skip
    return log_likelihood, marginals
