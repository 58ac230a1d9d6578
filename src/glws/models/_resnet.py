"""`ResNet`: residual networks of basic blocks, with a stem for small or for large images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws.errors import DataError
from glws.models._layers import Convolution, FullyConnected, fill, he_fan_out, image_sides, uniform_fan_in

Maps = Float[Tensor, "batch channels height width"]
Stem = Literal["auto", "small", "imagenet"]
LARGE = 64
"""The least side in pixels for which `stem="auto"` is that of ImageNet."""


class ResNet(nn.Module):
    """ResNet-18 with `blocks=(2, 2, 2, 2)`, ResNet-34 with `(3, 4, 6, 3)` (He, Zhang, Ren, Sun, 2016).

    Four stages of basic blocks with 64, 128, 256 and 512 channels, all but the first at half the resolution of the
    previous one; mean over the image, linear. `stem="imagenet"` begins with a 7 x 7 convolution and a max-pooling, each
    of stride 2, as in the paper; `stem="small"` with a 3 x 3 convolution of stride 1, as usual for CIFAR (11.17 M and
    21.28 M weights with 10 classes). Convolutions are initialized from a normal of variance 2 / fan-out, the output
    uniformly within ±1/√fan-in, biases to 0.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_classes: int,
        blocks: Sequence[int] = (2, 2, 2, 2),
        stem: Stem = "auto",
        batch_norm_momentum: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        channels, height, width = image_sides("a residual network", input_shape)
        self.stem = _stem(stem, channels, min(height, width), batch_norm_momentum)
        outputs = [64, 64, 128, 256, 512]
        self.stages = nn.Sequential(
            *(_stage(number, outputs[i], outputs[i + 1], batch_norm_momentum) for i, number in enumerate(blocks))
        )
        self.output = FullyConnected(outputs[len(blocks)], num_classes)
        fill(self, generator, convolutions=he_fan_out, linears=uniform_fan_in)

    def forward(self, images: Maps) -> Float[Tensor, "batch classes"]:
        """The logits."""
        logits: Tensor = self.output(self.stages(self.stem(images)).mean((2, 3)))
        return logits


class _Block(nn.Module):
    """Convolution, norm, ReLU, convolution, norm, added to the input (or a 1 x 1 convolution of it), ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int, momentum: float) -> None:
        super().__init__()
        self.first = Convolution(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs, momentum=momentum)
        self.second = Convolution(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs, momentum=momentum)
        changes = inputs != outputs or stride != 1
        self.shortcut = _projection(inputs, outputs, stride, momentum) if changes else None

    def forward(self, maps: Maps) -> Maps:
        """ReLU of the input plus the output of the two convolutions."""
        change = self.second_norm(self.second(self.first_norm(self.first(maps)).relu()))
        result: Tensor = (change + (maps if self.shortcut is None else self.shortcut(maps))).relu()
        return result


def _projection(inputs: int, outputs: int, stride: int, momentum: float) -> nn.Sequential:
    return nn.Sequential(
        Convolution(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs, momentum=momentum)
    )


def _stage(blocks: int, inputs: int, outputs: int, momentum: float) -> nn.Sequential:
    first = _Block(inputs, outputs, 1 if inputs == outputs else 2, momentum)
    return nn.Sequential(first, *(_Block(outputs, outputs, 1, momentum) for _ in range(blocks - 1)))


def _stem(stem: Stem, channels: int, side: int, momentum: float) -> nn.Sequential:
    if stem not in ("auto", "small", "imagenet"):
        raise DataError(f"the stem of a residual network must be auto, small or imagenet, found {stem!r}")
    norm = nn.BatchNorm2d(64, momentum=momentum)
    if stem == "small" or (stem == "auto" and side < LARGE):
        return nn.Sequential(Convolution(channels, 64, 3, padding=1, bias=False), norm, nn.ReLU())
    first = Convolution(channels, 64, 7, stride=2, padding=3, bias=False)
    return nn.Sequential(first, norm, nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))
