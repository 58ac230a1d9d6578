"""Networks of several seeds side by side: one grouped convolution or batched product for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glws.models import LeNet5, build

Images = Float[Tensor, "members images 1 side side"]


class WideLeNet(nn.Module):
    """LeNet-5 with 32 and 64 maps and one hidden layer of 256 units."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5)])
        self.linears = nn.ModuleList([nn.Linear(64 * 5 * 5, 256), nn.Linear(256, 10)])
        for layer in (*self.convolutions, *self.linears):
            weight = cast(Tensor, layer.weight)
            bound = weight[0].numel() ** -0.5  # as LeNet5 has it: logits begin near zero
            nn.init.uniform_(weight, -bound, bound, generator=generator)
            nn.init.zeros_(cast(Tensor, layer.bias))


def _lenet5(generator: torch.Generator) -> tuple[list[nn.Conv2d], list[nn.Linear]]:
    network = cast(LeNet5, build("lenet5", [1, 28, 28], 10, generator))
    return [network.first, network.second], [network.third, network.fourth, network.output]


def _wide(generator: torch.Generator) -> tuple[list[nn.Conv2d], list[nn.Linear]]:
    network = WideLeNet(generator)
    return list(network.convolutions), list(network.linears)  # type: ignore[arg-type]


NETWORKS = {"lenet5": _lenet5, "wide": _wide}


class SideBySide(nn.Module):
    """One network for each generator; logits [members, images, 10] of images [members, images, 1, 28, 28].

    Each convolution is followed by a ReLU and 2 x 2 max-pooling, each linear layer but the last by a ReLU.
    """

    def __init__(self, name: str, generators: Sequence[torch.Generator], dropout: float = 0.0) -> None:
        super().__init__()
        each = [NETWORKS[name](generator) for generator in generators]
        self.members, self.dropout = len(each), dropout
        self.paddings = [cast(tuple[int, ...], layer.padding)[0] for layer in each[0][0]]
        convolutions = list(zip(*(network[0] for network in each), strict=True))
        linears = list(zip(*(network[1] for network in each), strict=True))
        self.filters = nn.ParameterList([torch.cat([one.weight.data for one in layers]) for layers in convolutions])
        self.offsets = nn.ParameterList([torch.cat([one.bias.data for one in layers]) for layers in convolutions])
        self.weights = nn.ParameterList([torch.stack([one.weight.data.T for one in layers]) for layers in linears])
        self.biases = nn.ParameterList([torch.stack([one.bias.data[None] for one in layers]) for layers in linears])

    def forward(self, images: Images) -> Float[Tensor, "members images classes"]:
        """The logits."""
        maps = images.flatten(2, 3).transpose(0, 1).reshape(images.shape[1], self.members, *images.shape[3:])
        for weight, bias, padding in zip(self.filters, self.offsets, self.paddings, strict=True):
            maps = functional.conv2d(maps, weight, bias, padding=padding, groups=self.members)
            maps = functional.max_pool2d(maps.relu(), 2)
        values = maps.view(len(maps), self.members, -1).transpose(0, 1)
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if place:
                values = functional.dropout(values.relu(), self.dropout, self.training)
            values = torch.baddbmm(bias, values, weight)
        return values

    @torch.no_grad()
    def take(self, other: SideBySide, members: Sequence[int]) -> None:
        """Copy the weights of some members of another one."""
        for own, theirs in zip(self.parameters(), other.parameters(), strict=True):
            each = theirs.view(other.members, -1, *theirs.shape[1:])
            own.copy_(each[list(members)].view_as(own))


def distorted(images: Float[Tensor, "images 1 side side"]) -> Float[Tensor, "images 1 side side"]:
    """Turned by up to 15 degrees, scaled by up to 15 %, sheared a little and moved by up to 2 pixels."""
    count, device = len(images), images.device

    def uniform(bound: float) -> Tensor:
        return (torch.rand(count, device=device) * 2 - 1) * bound

    angle, shear = uniform(math.radians(15)), uniform(0.15)
    wide, high = 1 + uniform(0.15), 1 + uniform(0.15)
    cos, sin = angle.cos(), angle.sin()
    rows = [wide * cos, -sin + shear, uniform(2 / 14), sin, high * cos, uniform(2 / 14)]
    grid = functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)
