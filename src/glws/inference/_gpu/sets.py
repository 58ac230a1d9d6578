"""`gpu_set_posterior`: exact sets of classes that occur, in one launch and without a host sync."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two

MOST_NUMBERS = 1 << 26
"""Sets of classes times instances of all groups together; the table then takes half a gigabyte."""


def gpu_set_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    present: Bool[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
    most_classes: int,
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) if exactly the present classes occur; -inf and 0 if there is no labeling.

    Computed in float64. `most_classes` is the size of the largest set, which the host must know beforehand.
    """
    from glws.inference._gpu.sets_kernel import presence_sets  # Triton is imported here, at first use

    values = potentials.detach().contiguous()
    groups, instances, classes = values.shape
    width = 1 << most_classes
    log_likelihood, marginals = values.new_empty(groups), torch.zeros_like(values)
    weights = torch.empty_like(values, dtype=torch.float64)
    forward = values.new_empty(groups, instances + 1, width, dtype=torch.float64)
    backward = values.new_empty(groups, 2, width, dtype=torch.float64)
    block = min(max(width, 32), 1024)
    with on_device_of(values):
        presence_sets[(groups,)](
            *(values, present.to(torch.uint8).contiguous(), lengths.contiguous(), weights, forward, backward),
            *(log_likelihood, marginals, instances, classes, width),
            S=block, C=power_of_two(classes), num_warps=min(max(block // 64, 1), 16),
        )  # fmt: skip
    return log_likelihood, marginals
