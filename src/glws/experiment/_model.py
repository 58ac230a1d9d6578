"""The network of an experiment, by name, and what suits instances of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args, get_origin, get_type_hints

from torch import nn

from glws._rules import Rule, rule_of, several
from glws._seeds import derived_generator
from glws.errors import ConfigError
from glws.experiment._config import ExperimentConfig, NamedConfig
from glws.methods import Recipe
from glws.models import MODELS, build
from glws.training import is_left_open

MIXTURE = "mixture"
"""The name under which a run stores that models were chosen by held-out weak labels."""
BY_SHAPE = {(1, 28, 28): "lenet5", (3, 32, 32): "wrn_28_2"}


def experiment_model(
    config: NamedConfig, input_shape: Sequence[int], num_classes: int, seed: int, allow_code: bool = False
) -> nn.Module:
    """A network of the catalog or of an installed package; with `allow_code` also one of the user's own.

    "auto" is LeNet-5 for images of 28 x 28, WideResNet-28-2 for 32 x 32 in color, ResNet-18 for other images, and an
    MLP for tables, if their models are not chosen by held-out weak labels (`is_left_to_us`). Plug-ins are called as
    `glws.models.build` says.
    """
    name = usual_model(input_shape) if config.name == "auto" else config.name
    _check_options(name, config.options)
    generator = derived_generator("cpu", seed, "model")
    return build(name, input_shape, num_classes, generator, allow_code=allow_code, **config.options)


def is_left_to_us(config: ExperimentConfig) -> bool:
    """Whether a table is trained on and nothing is said about network, method or training.

    >>> from glws.experiment._config import config_of
    >>> about = {"data": {"table": "bags.yaml"}}
    >>> is_left_to_us(config_of(about)), is_left_to_us(config_of({**about, "training": {"epochs": 5}}))
    (True, False)
    """
    method = config.method
    is_usual = method.name == "glws" and not method.options and method.recipe is None
    is_open = config.model.name == "auto" and not config.model.options and is_left_open(config.training)
    return config.data.table is not None and config.data.views in ("auto", "tables") and is_usual and is_open


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
