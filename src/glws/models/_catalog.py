"""`build`: a network by its name, of this package, of an installed one, or of the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from glws._messages import hint
from glws._plugins import find
from glws.errors import DataError
from glws.models._lenet import LeNet5
from glws.models._linear import Linear
from glws.models._mlp import MLP
from glws.models._resnet import ResNet
from glws.models._wide_resnet import WideResNet

MODELS: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "lenet5": LeNet5,
    "wrn_28_2": partial(WideResNet, depth=28, width=2),
    "wrn_34_10": partial(WideResNet, depth=34, width=10),
    "resnet18": partial(ResNet, blocks=(2, 2, 2, 2)),
    "resnet34": partial(ResNet, blocks=(3, 4, 6, 3)),
}
"""The networks of this package by name."""


def find_model(name: str, allow_code: bool = False) -> Callable[..., nn.Module]:
    """What makes the network of this name."""
    return find("glws.models", name, MODELS, allow_code)


def build(
    name: str,
    input_shape: Sequence[int],
    num_classes: int,
    generator: torch.Generator | None = None,
    *,
    allow_code: bool = False,
    **options: Any,
) -> nn.Module:
    """A network for instances of this shape that gives logits `[batch, classes]`, on the CPU.

    The shape is `[channels, height, width]` for images and `[columns]` for tables. Weights are drawn from the
    generator, a CPU one (seed 0 if there is none), and do not touch torch's global stream: the same seed gives the same
    bits wherever the network is moved afterwards. Options are those of the network's class; an unknown name or option
    is a `DataError` with the nearest one that is known.

    A network of an installed package, or with `allow_code` one of the user's own as `package.module:Class`, is called
    with the shape, the number of classes and the options, and with `generator` if it has that argument.

    >>> network = build("mlp", [64], 10, torch.Generator().manual_seed(1), hidden=[32])
    >>> network(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    make = find_model(name, allow_code)
    _check_sizes(input_shape, num_classes)
    if name in MODELS:
        for option in options:
            _check_option(name, option)
        return make(input_shape, num_classes, generator=generator, **options)
    return _own_network(name, make, input_shape, num_classes, generator, options)


def _own_network(
    name: str,
    make: Callable[..., nn.Module],
    input_shape: Sequence[int],
    num_classes: int,
    generator: torch.Generator | None,
    options: Mapping[str, Any],
) -> nn.Module:
    try:
        drawn = {"generator": generator} if "generator" in inspect.signature(make).parameters else {}
        made = make(input_shape, num_classes, **drawn, **options)
    except (TypeError, ValueError) as error:
        raise DataError(f"the network {name!r} cannot be made: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(made, nn.Module):
        raise DataError(f"the network {name!r} gave a {type(made).__name__}, not a torch module")
    return made


def _options(make: Callable[..., nn.Module]) -> list[str]:
    """What may be chosen: not what every network is given, nor what makes this network the one of its name."""
    fixed = {"input_shape", "num_classes", "generator", *(make.keywords if isinstance(make, partial) else ())}
    return [option for option in inspect.signature(make).parameters if option not in fixed]


def _check_option(name: str, option: str) -> None:
    known = _options(MODELS[name])
    if option not in known:
        raise DataError(f"no option of {name} is called {option!r}; {hint(option, known)}")


def _check_sizes(input_shape: Sequence[int], num_classes: int) -> None:
    if len(input_shape) == 0 or any(side < 1 for side in input_shape):
        raise DataError(f"the shape of an instance has positive sides, got {list(input_shape)}")
    if num_classes < 1:
        raise DataError(f"a network needs at least one class, got {num_classes}")
