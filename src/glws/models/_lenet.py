"""`LeNet5`: two convolutions and three fully connected layers, for digits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glws.errors import DataError
from glws.models._layers import Convolution, FullyConnected, fill, image_sides, uniform_fan_in

PADDING = {28: 2, 32: 0}
"""Padding of an image of this side, so that the first convolution gives 28 x 28."""


class LeNet5(nn.Module):
    """Modern LeNet-5 (LeCun, Bottou, Bengio, Haffner, 1998): 61,706 weights for 28 x 28 x 1 and 10 classes.

    5 x 5 convolutions to 6 and to 16 channels, each with a ReLU and 2 x 2 max-pooling, then 400 - 120 - 84 - classes.
    Unlike in 1998, every map of the second convolution reads all six, pooling has no weights, and the output is linear
    instead of radial. Images are 28 x 28 (padded by 2) or 32 x 32 (unpadded), of any number of channels. Weights
    are initialized uniformly within ±1/√fan-in, biases to 0.

    >>> sum(weight.numel() for weight in LeNet5((1, 28, 28), 10).parameters())
    61706
    """

    def __init__(self, input_shape: Sequence[int], num_classes: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        channels, height, width = image_sides("lenet5", input_shape)
        if height != width or height not in PADDING:
            raise DataError(f"lenet5 takes images of 28 x 28 or 32 x 32, found {height} x {width}")
        self.first = Convolution(channels, 6, 5, padding=PADDING[height])
        self.second = Convolution(6, 16, 5)
        self.third = FullyConnected(16 * 5 * 5, 120)
        self.fourth = FullyConnected(120, 84)
        self.output = FullyConnected(84, num_classes)
        fill(self, generator, convolutions=uniform_fan_in, linears=uniform_fan_in)

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """The logits."""
        maps = functional.max_pool2d(self.first(images).relu(), 2)
        maps = functional.max_pool2d(self.second(maps).relu(), 2)
        features = self.fourth(self.third(maps.flatten(1)).relu()).relu()
        logits: Tensor = self.output(features)
        return logits
