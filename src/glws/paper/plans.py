"""How we train a cell: the paper's sizes, epochs and optimiser, with what we chose ourselves, all in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from glws.data.augment import Views, views
from glws.methods import AbstractMethod
from glws.methods.catalogue import build_method, method_class
from glws.paper.published import Cell
from glws.training.config import TrainingConfig

BATCH = {
    "partial_labels": 512,
    "pair_comparison": 256,
    "pair_similarity": 256,
    "similarity_confidence": 256,
    "confidence_difference": 256,
    "positive_confidence": 512,
    "similar_dissimilar_unlabeled": 128,
}
"""Groups in a step of LeNet-5 where it is not the paper's number: at 64 it leaves a GPU idle. Epochs stay the same."""

LARGER_STEPS = 1e-3
"""The learning rate of AdamW that goes with them; the paper's is 5e-4 at 64."""

UNLABELED_GROUP = 256
"""Unlabeled instances in a group for LeNet-5: the larger the sample, the nearer its share is to the prior."""

ONLY_WEAK_VIEWS = ("fashion_mnist",)
"""Where nothing is trained on the strong view: RandAugment is more than LeNet-5 can follow on 28 x 28 pixels."""

DRAWN, TRAINED, SEEN = "draw.", "train.", "views"
"""Options of a run that begin so are about how the weak data are drawn, and fields of `TrainingConfig`; `views` is the
name of an augmentation. All others are options of the method."""

BINOMIAL = ("positive_unlabeled", "lenet5")
"""Where an unlabeled group is taken for a binomial sample, and not only for one of its expected count."""

WITH_UNLABELED = ("positive_unlabeled", "unlabeled_unlabeled", "similar_dissimilar_unlabeled")

OURS: dict[str, dict[str, Any]] = {
    "multi_instance": {"multiclass": "per_class"},
    "proportions": {"multiclass": "per_class"},
}
"""Options of GLWS where they are not its defaults; of settings with more than two classes only."""


@dataclass(frozen=True)
class Plan:
    """One run of a cell: the method, how it is trained, how the instances are looked at."""

    method: AbstractMethod
    config: TrainingConfig
    look: Views
    model: str
    weaken: Mapping[str, Any] = field(default_factory=dict)


def plan(
    cell: Cell,
    method: str,
    seed: int,
    device: str = "auto",
    epochs: int | None = None,
    speed: Literal["eager", "graphs"] = "eager",
    **options: Any,
) -> Plan:
    """How a cell is trained by a method; `epochs` replaces the paper's number.

    `options` are those of the method; beginning with `draw.`, of the weakening; with `train.`, of the training.

    >>> from glws.paper import cell
    >>> made = plan(cell("proportions", "mnist", "classes=2,mean=10"), "glws", seed=0)
    >>> made.config.epochs, made.config.batch_size, made.model
    (100, 4, 'lenet5')
    """
    parameters = cell.hyper_parameters()
    is_larger = parameters.model == "lenet5" and parameters.optimizer == "adamw" and _has_larger_steps(cell)
    config = TrainingConfig(
        epochs=epochs or parameters.epochs,
        batch_size=_batch_size(cell, method),
        optimizer=parameters.optimizer,
        learning_rate=LARGER_STEPS if is_larger else parameters.learning_rate,
        weight_decay=parameters.weight_decay,
        momentum=parameters.momentum or 0.9,
        schedule="cosine",
        final_learning_rate=parameters.final_learning_rate or 1e-6,
        clip=parameters.gradient_clip,
        precision="float32" if parameters.model == "lenet5" else "bfloat16",
        speed=speed,
        deterministic=False,
        seed=seed,
        device=device,
        save_every=120.0,
    )
    drawn, trained = _beginning(options, DRAWN), _beginning(options, TRAINED)
    own = {name: value for name, value in options.items() if not name.startswith((DRAWN, TRAINED)) and name != SEEN}
    return Plan(
        build_method(method, {**_method_options(cell, method), **own}),
        replace(config, **trained),
        views(options.get(SEEN, cell.dataset)),
        parameters.model,
        {**_weaken_options(cell, is_larger), **drawn},
    )


def _beginning(options: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The options that begin so, without the beginning."""
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def _weaken_options(cell: Cell, is_larger: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"group_size": UNLABELED_GROUP} if cell.setting in WITH_UNLABELED and is_larger else {}
    return {**options, "count": "binomial"} if _is_binomial(cell) else options


def _is_binomial(cell: Cell) -> bool:
    return (cell.setting, cell.hyper_parameters().model) == BINOMIAL


def _has_larger_steps(cell: Cell) -> bool:
    return cell.setting in BATCH or cell.setting in WITH_UNLABELED


def _batch_size(cell: Cell, method: str) -> int | tuple[int, ...]:
    parameters = cell.hyper_parameters()
    if method == "supervised":
        return 512 if parameters.model == "lenet5" else 128
    groups = BATCH.get(cell.setting, parameters.batch_size) if parameters.model == "lenet5" else parameters.batch_size
    if cell.setting in WITH_UNLABELED:  # a group is a batch of unlabeled instances
        return (1, 1) if cell.setting == "unlabeled_unlabeled" else (groups, 1)
    return groups


def _method_options(cell: Cell, method: str) -> dict[str, Any]:
    """What a method has to be told of a cell: views, and the prior where it needs one."""
    options: dict[str, Any] = {}
    if method == "glws":
        options["m_step"] = "weak" if cell.dataset in ONLY_WEAK_VIEWS else "strong"
        if cell.num_classes > 2:
            options |= OURS.get(cell.setting, {})
        if _is_binomial(cell):
            options["start_epochs"] = 0  # a binomial count ranks by itself
    elif "view" in method_class(method).__dataclass_fields__:  # type: ignore[attr-defined]
        options["view"] = "weak" if cell.dataset in ONLY_WEAK_VIEWS else "strong"
    if method_class(method).needs_prior:
        options["prior"] = cell.configuration.get("prior", 0.5)
    return options
