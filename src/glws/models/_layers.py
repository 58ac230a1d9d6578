"""Layers of the networks, created without random numbers, and the rules that initialize them.

A network's weights come only from the generator that it is given; torch's global generator is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from glws.errors import DataError

Rule = Callable[[Tensor, torch.Generator], object]
"""Initializes a weight in place."""


class Convolution(nn.Conv2d):
    """A convolution whose weights are initialized later."""

    def reset_parameters(self) -> None:
        """Do nothing, where torch would use its global generator."""


class FullyConnected(nn.Linear):
    """A fully connected layer whose weights are initialized later."""

    def reset_parameters(self) -> None:
        """Do nothing, where torch would use its global generator."""


def he_fan_out(weight: Tensor, generator: torch.Generator) -> Tensor:
    """Normal of variance 2 / fan-out: gradients keep their size through ReLUs (He et al., 2015)."""
    return nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu", generator=generator)


def he_fan_in(weight: Tensor, generator: torch.Generator) -> Tensor:
    """Normal of variance 2 / fan-in: activations keep their size through ReLUs (He et al., 2015)."""
    return nn.init.kaiming_normal_(weight, mode="fan_in", nonlinearity="relu", generator=generator)


def uniform_fan_in(weight: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform within ±1/√fan-in: small enough for logits to start near zero (LeCun et al., 1998, in spirit)."""
    bound = 1 / math.sqrt(max(1, weight[0].numel()))
    return nn.init.uniform_(weight, -bound, bound, generator=generator)


def fill(model: nn.Module, generator: torch.Generator | None, convolutions: Rule, linears: Rule) -> None:
    """Initialize all weights of a network, layer after layer; biases are 0, batch norm is the identity.

    Without a generator the seed is 0.
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            (convolutions if isinstance(module, nn.Conv2d) else linears)(module.weight, generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()


def image_sides(network: str, input_shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width; raises `DataError` if the shape is not that of an image."""
    if len(input_shape) != 3:
        raise DataError(
            f"{network} takes images [channels, height, width], found instances of shape {list(input_shape)}; "
            "for tables use mlp or linear"
        )
    channels, height, width = input_shape
    return channels, height, width


def check_share(name: str, value: float) -> float:
    """The value, if it is within [0, 1); raises otherwise."""
    if not 0 <= value < 1:
        raise DataError(f"{name} must be at least 0 and less than 1, found {value}")
    return value
