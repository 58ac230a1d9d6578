"""The network of a job, by name, and what suits instances of a shape."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args, get_origin, get_type_hints

from torch import nn

from glws._messages import one_line
from glws._rules import Rule, rule_of, several
from glws._seeds import derived_generator
from glws.errors import ConfigError
from glws.experiment._config import NamedConfig
from glws.methods import Recipe
from glws.models import MODELS, build

BY_SHAPE = {(1, 28, 28): "lenet5", (3, 32, 32): "wrn_28_2"}


def job_model(
    config: NamedConfig, input_shape: Sequence[int], num_classes: int, seed: int, allow_code: bool = False
) -> nn.Module:
    """A network of the catalog; with `allow_code` also one of the user's own, as package.module:Class.

    "auto" is LeNet-5 for images of 28 x 28, WideResNet-28-2 for 32 x 32 in color, ResNet-18 for other images, and an
    MLP for tables. A class of the user's own is called with the shape of an instance and the number of classes.
    """
    name = usual_model(input_shape) if config.name == "auto" else config.name
    if ":" in name:
        return _own_model(name, input_shape, num_classes, config.options, allow_code)
    _check_options(name, config.options)
    return build(name, input_shape, num_classes, derived_generator("cpu", seed, "model"), **config.options)


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for a value of the wrong type; names that are not known are left to `build`."""
    made: Any = MODELS.get(name)
    hints = {} if made is None else get_type_hints(getattr(made, "func", made).__init__)
    for key, value in options.items():
        words, holds = _rule(hints.get(key))
        if not holds(value):
            raise ConfigError(f"`model.{key}` must be {words}. Got {value!r}.")


def _rule(annotation: Any) -> Rule:
    if get_origin(annotation) is Sequence:
        return several(rule_of(get_args(annotation)[0]))
    return rule_of(annotation)


def published_model(config: NamedConfig, recipe: Recipe | None, input_shape: Sequence[int]) -> NamedConfig:
    """The network with the options of a recipe under its own, if it is an MLP: recipes name no other network.

    >>> recipe = Recipe("MNIST", {}, {"hidden": [300], "batch_norm": True})
    >>> published_model(NamedConfig("auto", {"hidden": [8]}), recipe, [30]).options
    {'hidden': [8], 'batch_norm': True}
    """
    name = usual_model(input_shape) if config.name == "auto" else config.name
    if recipe is None or name != "mlp":
        return config
    return replace(config, options={**recipe.model, **config.options})


def usual_model(input_shape: Sequence[int]) -> str:
    """The name of the network that suits instances of this shape.

    >>> usual_model([1, 28, 28]), usual_model([30])
    ('lenet5', 'mlp')
    """
    if len(input_shape) != 3:
        return "mlp"
    return BY_SHAPE.get(tuple(input_shape), "resnet18")  # type: ignore[arg-type]


def usual_views(size: int) -> str:
    """The name of the views that suit photographs with sides of so many pixels: how far they are moved goes with it.

    >>> usual_views(32), usual_views(224)
    ('cifar10', 'imagenet100')
    """
    return "cifar10" if size <= 48 else "stl10" if size <= 128 else "imagenet100"


def _own_model(
    path: str, input_shape: Sequence[int], num_classes: int, options: Mapping[str, Any], allow_code: bool
) -> nn.Module:
    if not allow_code:
        raise ConfigError(f"`model.name` is {path!r}: to run code that is not glws's own, say --allow-code")
    module, _, name = path.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)(input_shape, num_classes, **options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"`model.name`: {path} cannot be made: {one_line(error)}") from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"`model.name`: {path} gave a {type(made).__name__}, not a torch module")
    return made
