"""`Linear`: one logit per class, linear in the input."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws.models._layers import FullyConnected, fill, uniform_fan_in


class Linear(nn.Module):
    """Softmax regression on the flattened instance, initialized uniformly within ±1/√inputs, biases to 0.

    >>> Linear((4,), 3)(torch.zeros(2, 4)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, input_shape: Sequence[int], num_classes: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.output = FullyConnected(math.prod(input_shape), num_classes)
        fill(self, generator, convolutions=uniform_fan_in, linears=uniform_fan_in)

    def forward(self, instances: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """The logits."""
        logits: Tensor = self.output(instances.flatten(1))
        return logits
