"""Batch norm by the instances of all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from glws.training._world import World


@contextmanager
def shared_statistics(model: nn.Module, world: World) -> Iterator[None]:
    """A context in which batch norm of a network, in training, has the statistics of all processes together."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    norms = norms if world.size > 1 else []
    for norm in norms:
        norm.forward = partial(_forward, norm, world)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _forward(norm: _BatchNorm, world: World, values: Tensor) -> Tensor:
    if not norm.training and norm.running_mean is not None:
        usual: Tensor = type(norm).forward(norm, values)
        return usual
    answers = normalized(norm, world, values)
    slope = getattr(norm, "negative_slope", None)  # of `glws.models.ActiveNorm`
    return answers if slope is None else functional.leaky_relu(answers, slope)


def normalized(norm: _BatchNorm, world: World, values: Tensor) -> Tensor:
    """(x - mean) / σ · weight + bias, with mean and σ over the instances of all processes, in one exchange.

    Each process says its mean, its sum of squared deviations and its number of values; they combine as
    Σ (squares + number · (own mean - mean)²), which loses no digits where the mean is large.
    """
    axes = [axis for axis in range(values.ndim) if axis != 1]
    shape = [-1 if axis == 1 else 1 for axis in range(values.ndim)]
    x = values.to(torch.promote_types(values.dtype, torch.float32))
    number = x.numel() // x.shape[1]
    own_mean = x.sum(axes) / max(number, 1)
    own_squares = (x - own_mean.view(shape)).square().sum(axes)
    rows = _OfAll.apply(torch.cat([own_mean, own_squares, x.new_tensor([number])]), world)  # type: ignore[no-untyped-call]
    means, squares, numbers = rows.split([x.shape[1], x.shape[1], 1], 1)
    total = numbers.sum().clamp_min(1)
    mean = (numbers * means).sum(0) / total
    variance = (squares + numbers * (means - mean).square()).sum(0) / total
    _keep(norm, mean, variance * total / (total - 1).clamp_min(1))
    answers: Tensor = (x - mean.view(shape)) * (variance + norm.eps).rsqrt().view(shape)
    if norm.weight is not None:
        answers = answers * norm.weight.view(shape) + norm.bias.view(shape)
    return answers.to(values.dtype)


@torch.no_grad()
def _keep(norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics, as torch does."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    share = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    norm.running_var.lerp_(variance.to(norm.running_var), share)


class _OfAll(torch.autograd.Function):
    """The same numbers of all processes; the gradient is the sum of those of all processes."""

    @staticmethod
    def forward(context: Any, own: Tensor, world: World) -> Tensor:
        context.world = world
        return world.table(own)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.contiguous().clone()
        context.world.wait_for(context.world.begin_sum(total))
        return total[context.world.rank], None
