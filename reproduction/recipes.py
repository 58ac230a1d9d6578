"""Hyperparameters of the paper: from its appendix, and from the released configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from reproduction.catalog import SETTINGS, check_known
from reproduction.files import Value, concerns, entries

Says = Literal["paper", "code"]
SAYS = ("paper", "code")


@dataclass(frozen=True)
class HyperParameters:
    """The hyperparameters of a training.

    model:                  a name of `glws.models`, for images of `image_size` pixels a side.
    batch_size:             groups in a batch: instances, bags or pairs.
    unlabeled_batch_size:   unlabeled instances in a batch; None without them.
    momentum:               of SGD; None for AdamW.
    schedule:               "multi_step": the rate is divided by 10 at the epochs `milestones`; "cosine": it falls to
                            `final_learning_rate`, at every step.
    iterations:             steps in all, where the released code counts these; None: the epochs count.
    gradient_clip:          largest norm of the gradient; None: no clipping.
    strong_augmentation:    whether the second view is a strong one; False: two weak views.
    completed:              the fields that the paper does not print; here they are those of the released code.
    """

    table: str
    image_size: int
    model: str
    batch_size: int
    optimizer: Literal["sgd", "adamw"]
    learning_rate: float
    weight_decay: float
    schedule: Literal["multi_step", "cosine"]
    epochs: int
    momentum: float | None = None
    unlabeled_batch_size: int | None = None
    milestones: tuple[int, ...] = ()
    final_learning_rate: float | None = None
    iterations: int | None = None
    gradient_clip: float | None = None
    strong_augmentation: bool = False
    completed: tuple[str, ...] = ()


def hyper_parameters(
    setting: str, dataset: str, configuration: Mapping[str, Value] | None = None, says: Says = "paper"
) -> HyperParameters:
    """The hyperparameters of a setting on a data set.

    "paper": what the appendix prints; what it leaves out (`completed`) is taken from the released configurations, but
    not their number of steps. "code": the released configurations wherever they say something.

    >>> paper, code = (hyper_parameters("proportions", "mnist", says=says) for says in ("paper", "code"))
    >>> paper.epochs, code.epochs, paper.batch_size, code.batch_size
    (100, 30, 4, 2)
    """
    check_known("source of hyper-parameters", says, SAYS)
    printed, released = _layers(setting, dataset, configuration or {})
    if says == "code":
        return _made({**printed, **released}, ())
    released.pop("iterations", None)
    return _made({**released, **printed}, tuple(name for name in released if name not in printed))


def differences(
    setting: str, dataset: str, configuration: Mapping[str, Value] | None = None
) -> dict[str, tuple[Any, Any]]:
    """Differences between paper and released configurations: field -> (paper, code).

    >>> differences("pair_similarity", "cifar10")
    {'weight_decay': (0.001, 0.0005), 'epochs': (100, 50)}
    """
    printed, released = _layers(setting, dataset, configuration or {})
    return {
        name: (printed[name], released[name])
        for name in printed
        if name in released and printed[name] != released[name]
    }


def _layers(setting: str, dataset: str, configuration: Mapping[str, Value]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of the paper, and those of the released code."""
    check_known("setting of the paper", setting, SETTINGS)
    check_known("table of hyper-parameters", f"{setting} on {dataset}", _tables(setting))
    layers: dict[str, dict[str, Any]] = {"paper": {}, "code": {}}
    for entry in _entries():
        if concerns(entry, setting, dataset, configuration):
            layers[entry["says"]] |= entry["values"]
            if "table" in entry:
                layers["paper"]["table"] = entry["table"]
    return layers["paper"], layers["code"]


def _tables(setting: str) -> list[str]:
    """The pairs of a setting and a data set that have hyper-parameters."""
    found = [entry for entry in _entries() if setting in entry.get("settings", []) and entry["says"] == "paper"]
    return [f"{setting} on {dataset}" for entry in found for dataset in entry["datasets"]]


def _made(values: dict[str, Any], completed: tuple[str, ...]) -> HyperParameters:
    """The record, without fields that its schedule does not use."""
    idle = "final_learning_rate" if values["schedule"] == "multi_step" else "milestones"
    kept = {name: values[name] for name in (field.name for field in fields(HyperParameters)) if name in values}
    kept.pop(idle, None)
    if "milestones" in kept:
        kept["milestones"] = tuple(kept["milestones"])
    return HyperParameters(**kept, completed=tuple(name for name in completed if name in kept))


@cache
def _entries() -> list[dict[str, Any]]:
    return entries("hyper_parameters")
