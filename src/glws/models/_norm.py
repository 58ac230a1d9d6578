"""`ActiveNorm`: batch norm and a leaky ReLU in one layer, fused on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from glws._launching import is_available, on_device_of, power_of_two

Maps = Float[Tensor, "batch channels height width"]

MOST_PARTS = 256
"""Rows are summed in at most this many parts, which keep a whole GPU busy."""
TILE = 4096
"""Numbers that a program processes at once."""
MOST_ROWS = 1 << 20
"""More channels have more tiles of 128 channels than can be launched at once."""


class ActiveNorm(nn.BatchNorm2d):
    """Leaky ReLU of batch norm, with the weights and statistics of `nn.BatchNorm2d`, by the same names.

    Each of the two reads and writes all activations, the statistics read them once more, and on a GPU that is their
    cost. There, for training on images with channels last, kernels of our own read them twice and write them once;
    elsewhere, and if statistics are averaged over all batches (no momentum), these are torch's two functions.

    >>> layer = ActiveNorm(3, negative_slope=0.1)
    >>> images = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> torch.equal(layer(images), functional.leaky_relu(nn.BatchNorm2d(3)(images), 0.1))
    True
    """

    def __init__(self, channels: int, negative_slope: float = 0.0, momentum: float = 0.1) -> None:
        super().__init__(channels, momentum=momentum)
        self.negative_slope = negative_slope

    def forward(self, input: Maps) -> Maps:
        """The maps, normalized by their batch in training and by running statistics otherwise, and activated."""
        is_plain = self.training and self.momentum is not None and self.weight.dtype == torch.float32
        if not is_plain or not fits(input):
            return functional.leaky_relu(super().forward(input), self.negative_slope)
        running = None
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            running = self.running_mean, self.running_var, self.momentum
        maps: Tensor = _ActiveNorm.apply(input, self.weight, self.bias, running, self.eps, self.negative_slope)  # type: ignore[no-untyped-call]
        return maps


def fits(maps: Maps) -> bool:
    """Whether the kernels apply: on a GPU with Triton, channels last, a suitable number of rows."""
    if not is_available(maps) or maps.ndim != 4 or maps.dtype == torch.float64:
        return False
    return maps.is_contiguous(memory_format=torch.channels_last) and 1 < _rows(maps)[0] <= MOST_ROWS


class _ActiveNorm(torch.autograd.Function):
    """y = leaky(a (x - mean) + b) with a = weight / σ, and its gradients."""

    @staticmethod
    def forward(context: Any, *arguments: Any) -> Tensor:
        maps, weight, bias, running, epsilon, leak = arguments
        answers, found = active_norm(maps, weight, bias, running, epsilon, leak)
        context.save_for_backward(maps, found)
        context.leak = leak
        return answers

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        maps, found = context.saved_tensors
        below, weight, bias = active_norm_backward(maps, found, above, context.leak)
        return below, weight, bias, None, None, None


Running = tuple[Tensor, Tensor, float]


def active_norm(
    maps: Maps, weight: Tensor, bias: Tensor, running: Running | None, epsilon: float, leak: float
) -> tuple[Maps, Float[Tensor, "4 channels"]]:
    """The outputs, and for the backward pass mean, 1/σ, weight/σ and bias; updates running statistics in place.

    σ² is the biased variance of the batch plus `epsilon`; the running variance is the unbiased one, without it.
    """
    from glws.models._norm_kernel import moments, normalized, statistics  # Triton is imported here, at first use

    rows, channels = _rows(maps)
    parts, turns, blocks, shape = _tiling(rows, channels)
    sums, found = (
        maps.new_empty(2, parts, channels, dtype=torch.float32),
        maps.new_empty(4, channels, dtype=torch.float32),
    )
    answers = torch.empty_like(maps)
    old_mean, old_variance, momentum = running or (found, found, 0.0)
    with on_device_of(maps):
        moments[(blocks, parts)](maps, sums, rows, turns, C=channels, **shape)
        statistics[(-(-channels // 16),)](
            *(maps, sums, weight, bias, found, old_mean, old_variance, rows, epsilon, momentum, parts),
            C=channels, PARTS=power_of_two(parts), COLUMNS=16, REMEMBERED=running is not None,
        )  # fmt: skip
        normalized[(blocks, parts * turns)](maps, found, answers, rows, leak, C=channels, **shape)
    return answers, found


def active_norm_backward(maps: Maps, found: Tensor, above: Maps, leak: float) -> tuple[Maps, Tensor, Tensor]:
    """The gradients of the maps, of the weight and of the bias.

    With g the gradient `above` before the ReLU and x̂ = (x - mean) / σ over R rows:
    weight Σ g x̂, bias Σ g, maps weight/σ · (g - (Σ g + x̂ Σ g x̂) / R).
    """
    from glws.models._norm_kernel import backward, backward_sums

    rows, channels = _rows(maps)
    parts, turns, blocks, shape = _tiling(rows, channels)
    above = above.contiguous(memory_format=torch.channels_last)
    sums, below = found.new_empty(2, parts, channels), torch.empty_like(maps)
    with on_device_of(maps):
        backward_sums[(blocks, parts)](maps, above, found, sums, rows, turns, leak, C=channels, **shape)
        totals = sums.sum(1)
        backward[(blocks, parts * turns)](maps, above, found, totals, below, rows, leak, C=channels, **shape)
    return below, totals[0], totals[1]


def _rows(maps: Maps) -> tuple[int, int]:
    return maps.numel() // maps.shape[1], maps.shape[1]


def _tiling(rows: int, channels: int) -> tuple[int, int, int, dict[str, int]]:
    """Numbers of parts of the rows, turns and blocks of channels, and the shape of a tile.

    A tile has a power of two of channels that divides them all, if there is one of 16 or more.
    """
    columns = min(channels & -channels, 128) if channels % 16 == 0 else min(power_of_two(channels), 64)
    tall = TILE // columns
    parts = min(-(-rows // tall), MOST_PARTS)
    turns = -(-rows // (tall * parts))
    return parts, turns, -(-channels // columns), {"ROWS": tall, "COLUMNS": columns, "num_warps": 8}
