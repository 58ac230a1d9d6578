"""`MLP`: fully connected layers with ReLUs, for tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws.errors import DataError
from glws.models._layers import FullyConnected, check_share, fill, he_fan_in, uniform_fan_in


class MLP(nn.Module):
    """Hidden layers of these widths, each followed by a ReLU and optionally dropout.

    With `batch_norm` the layers have batch norm before the ReLU, and no bias; training batches need at least two rows.

    Hidden weights are initialized from a normal of variance 2 / fan-in, those of the output uniformly within
    ±1/√fan-in, biases to 0. Dropout uses torch's global generator, as `nn.Dropout` does.

    >>> MLP((8,), 3, hidden=(16,))(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_classes: int,
        hidden: Sequence[int] = (256, 256),
        dropout: float = 0.0,
        batch_norm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if any(width < 1 for width in hidden):
            raise DataError(f"hidden layers must have at least one unit each, found {list(hidden)}")
        widths = [math.prod(input_shape), *hidden]
        self.hidden = nn.ModuleList(
            FullyConnected(before, after, bias=not batch_norm) for before, after in pairwise(widths)
        )
        self.has_batch_norm = batch_norm
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) if batch_norm else nn.Identity() for width in hidden)
        self.dropout = nn.Dropout(check_share("dropout", dropout))
        self.output = FullyConnected(widths[-1], num_classes)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        fill(self.hidden, generator, convolutions=he_fan_in, linears=he_fan_in)
        fill(self.output, generator, convolutions=uniform_fan_in, linears=uniform_fan_in)

    def forward(self, instances: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """The logits."""
        features = instances.flatten(1)
        if self.training and self.has_batch_norm and len(features) == 1:
            raise DataError("batch norm needs at least two rows in a batch; choose another batch size")
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            features = self.dropout(norm(layer(features)).relu())
        logits: Tensor = self.output(features)
        return logits
