"""`WideResNet`: few but wide residual blocks, for small images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws.errors import DataError
from glws.models._layers import Convolution, FullyConnected, check_share, fill, he_fan_out, image_sides, uniform_fan_in
from glws.models._norm import ActiveNorm

Maps = Float[Tensor, "batch channels height width"]


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis, 2016): about 1.5 M weights for 28-2 and 46.2 M for 34-10.

    A 3 x 3 convolution to 16 channels; three stages of (depth - 4) / 6 pre-activation blocks (He et al., 2016b) with
    16, 32 and 64 times `width` channels, the second and third at half the resolution; batch norm, ReLU, mean over the
    image, linear. Convolutions are initialized from a normal of variance 2 / fan-out, the output uniformly within
    ±1/√fan-in, biases to 0.

    Semi-supervised work often has `negative_slope=0.1` (leaky ReLU) and `batch_norm_momentum=0.001`; the latter forgets
    its initial value slowly, and needs many steps. Dropout, between the convolutions of a block, uses torch's global
    generator, as `nn.Dropout` does.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_classes: int,
        depth: int = 28,
        width: int = 2,
        dropout: float = 0.0,
        negative_slope: float = 0.0,
        batch_norm_momentum: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise DataError(f"the depth of a wide residual network must be 6 n + 4 with n at least 1, found {depth}")
        channels, _, _ = image_sides("a wide residual network", input_shape)
        outputs = [16, 16 * width, 32 * width, 64 * width]
        options = check_share("dropout", dropout), negative_slope, batch_norm_momentum
        self.stem = Convolution(channels, outputs[0], 3, padding=1, bias=False)
        self.stages = nn.Sequential(
            *(_stage((depth - 4) // 6, outputs[i], outputs[i + 1], 1 if i == 0 else 2, *options) for i in range(3))
        )
        self.norm = ActiveNorm(outputs[3], negative_slope, batch_norm_momentum)
        self.output = FullyConnected(outputs[3], num_classes)
        fill(self, generator, convolutions=he_fan_out, linears=uniform_fan_in)

    def forward(self, images: Maps) -> Float[Tensor, "batch classes"]:
        """The logits."""
        logits: Tensor = self.output(self.norm(self.stages(self.stem(images))).mean((2, 3)))
        return logits


class _Block(nn.Module):
    """Norm, ReLU, convolution, twice, added to the input; if shapes change, to a 1 x 1 convolution of it."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float, slope: float, momentum: float) -> None:
        super().__init__()
        self.first_norm = ActiveNorm(inputs, slope, momentum)
        self.first = Convolution(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.second_norm = ActiveNorm(outputs, slope, momentum)
        self.dropout = nn.Dropout(dropout)
        self.second = Convolution(outputs, outputs, 3, padding=1, bias=False)
        changes = inputs != outputs or stride != 1
        self.shortcut = Convolution(inputs, outputs, 1, stride=stride, bias=False) if changes else None

    def forward(self, maps: Maps) -> Maps:
        """The input plus the output of the two convolutions."""
        active = self.first_norm(maps)
        change = self.second(self.dropout(self.second_norm(self.first(active))))
        result: Tensor = change + (maps if self.shortcut is None else self.shortcut(active))
        return result


def _stage(
    blocks: int, inputs: int, outputs: int, stride: int, dropout: float, slope: float, momentum: float
) -> nn.Sequential:
    first = _Block(inputs, outputs, stride, dropout, slope, momentum)
    return nn.Sequential(first, *(_Block(outputs, outputs, 1, dropout, slope, momentum) for _ in range(blocks - 1)))
