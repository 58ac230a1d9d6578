"""The training plan of a cell: the paper's values, and our own choices (`tables/choices.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

from glws.data.augment import Views, views
from glws.errors import DataError
from glws.methods import GLWS, AbstractMethod, build_method, method_class
from glws.training import TrainingConfig
from reproduction.catalog import check_known
from reproduction.files import concerns, entries
from reproduction.published import OURS, Cell

DRAWN, TRAINED, OWN, SEEN, VIEW, SINGLY = "draw.", "training.", "method.", "views", "m_step", "singly"
"""Options of a run that begin so are about how the weak data are drawn, and fields of `TrainingConfig`; `views` is the
name of an augmentation, `m_step` the view of it that is trained on; with `singly` GLWS takes unlabeled sets instance by
instance, so many in a batch. All others are options of the method, which may begin with `method.`: `method.views` are
the views of RCR."""

EPOCHS = f"{TRAINED}epochs"
"""The option for other epochs than the paper's."""

SHARES = f"{TRAINED}shares"
"""The class prior, for balanced accuracy; for every method and the ceiling."""

CEILING = "supervised"
SUPERVISED = {"lenet5": {"batch_size": 512, "learning_rate": 1e-3}}
"""Supervised training with batches that fill a GPU; AdamW's learning rate is scaled, SGD's is not."""

RECIPE, PUBLISHED, OF_CELL = "recipe", "published", "cell"
"""Option of a run of a baseline: `recipe=published` trains it as its authors did (`AbstractMethod.recipe`), on the
default view of the method, without training options chosen for GLWS; `recipe=cell` trains it by the cell's plan."""

BY_RECIPE = ("lws", "pico", "nnpu", "upu", "vpu")
"""Baselines with `recipe=published` by default. Under the plans of the cells the losses of all but PiCO, which was not
tried, collapsed or overfitted on MNIST; these runs are stored with `recipe=cell`."""

KEPT = ("epochs", "batch_size", "precision", "evaluate_every", "deterministic", "save_every")
"""Fields of the training that a recipe leaves as the cell has them, unless it sets them."""

EVERY = 5
"""Epochs between test evaluations of large networks, which would take a tenth of the time."""

WITH_UNLABELED = ("positive_unlabeled", "unlabeled_unlabeled", "similar_dissimilar_unlabeled")


@dataclass(frozen=True)
class Plan:
    """The plan of one run: method, training, views, and simulation of weak data.

    `is_single`: unlabeled sets are taken instance by instance (`NoisyLabels.of_sets`).
    """

    method: AbstractMethod
    config: TrainingConfig
    views: Views
    model: str
    weaken: Mapping[str, Any] = field(default_factory=dict)
    is_single: bool = False

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        assert self.config.epochs is not None, "a plan says how long it trains"
        return self.config.epochs


def plan(
    cell: Cell,
    method: str,
    seed: int,
    device: str = "auto",
    epochs: int | None = None,
    speed: Literal["eager", "graphs"] = "eager",
    **options: Any,
) -> Plan:
    """The plan of a cell and method; `epochs` replaces the paper's number.

    `options` are those of the method, with `method.` before them or nothing; beginning with `draw.`, of the weakening;
    with `training.`, of the training.

    >>> from reproduction import cell
    >>> made = plan(cell("proportions", "mnist", "classes=2,mean=10"), "glws", seed=0)
    >>> made.config.epochs, made.config.batch_size, made.model
    (100, 4, 'lenet5')
    """
    for name in _beginning(options, TRAINED):
        check_known("field of the training", name, [item.name for item in fields(TrainingConfig)])
    chosen = {**chosen_options(cell), **options}
    own = options if method not in (OURS, CEILING) else chosen
    is_own = method not in (OURS, CEILING) and _is_by_recipe(method, options)
    made = _method(cell, method, None if is_own else str(chosen.get(VIEW, "strong")), own)
    trained = {**_training(cell, method, made, options), **_beginning(taken(method, chosen), TRAINED)}
    singly = chosen.get(SINGLY) if method == OURS else None
    if singly is not None:
        trained["batch_size"] = singly
    config = TrainingConfig(
        **{**trained, **_beginning(options, TRAINED), **({} if epochs is None else {"epochs": epochs})},
        speed=speed,
        seed=seed,
        device=device,
    )
    weaken, seen = _beginning(chosen, DRAWN), views(chosen.get(SEEN, cell.dataset))
    return Plan(made, config, seen, cell.hyper_parameters().model, weaken, singly is not None)


def chosen_options(cell: Cell) -> dict[str, Any]:
    """Our choices for a cell, as options of a run.

    >>> from reproduction import cell
    >>> chosen_options(cell("proportions", "mnist", "classes=10,mean=20"))
    {'multiclass': 'per_class', 'e_step': 'weak', 'supervised': 1.0}
    """
    found = [entry for entry in _choices() if concerns(entry, cell.setting, cell.dataset, cell.configuration)]
    return {name: value for entry in found for name, value in entry["options"].items()}


def taken(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen options of a cell that apply to a method.

    GLWS takes all; the ceiling takes views and decisions; other methods also simulation, and training without a recipe.

    >>> taken("supervised", {"views": "mnist", "e_step": "weak", "training.batch_size": 8})
    {'views': 'mnist'}
    >>> taken("nnpu", {"draw.group_size": 256, "training.batch_size": 8})
    {'draw.group_size': 256}
    """
    if method == OURS:
        return dict(options)
    others = () if method == CEILING else (DRAWN,) if _is_by_recipe(method, options) else (DRAWN, TRAINED)
    return {name: value for name, value in options.items() if name in (SEEN, VIEW, SHARES) or name.startswith(others)}


@cache
def _choices() -> list[dict[str, Any]]:
    return entries("choices")


def _beginning(options: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The options with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def _is_by_recipe(method: str, options: Mapping[str, Any]) -> bool:
    """Whether it is trained as its authors did."""
    found = options.get(RECIPE, PUBLISHED if method in BY_RECIPE else OF_CELL)
    check_known("recipe", found, (PUBLISHED, OF_CELL))
    return bool(found == PUBLISHED)


def _training(cell: Cell, method: str, made: AbstractMethod, options: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's training of the cell, or that of the method's authors."""
    planned = _config(cell, method)
    if not _is_by_recipe(method, options):
        return planned
    recipe = made.recipe()
    if recipe is None:
        raise DataError(f"no published recipe is known for {method}; leave out recipe={PUBLISHED}")
    return {**{name: planned[name] for name in KEPT}, **recipe.training}


def _config(cell: Cell, method: str) -> dict[str, Any]:
    """The training configuration: the paper's values and the options."""
    parameters = cell.hyper_parameters()
    planned = {
        "epochs": parameters.epochs,
        "batch_size": _batch_size(cell),
        "optimizer": parameters.optimizer,
        "learning_rate": parameters.learning_rate,
        "weight_decay": parameters.weight_decay,
        "momentum": parameters.momentum or 0.9,
        "schedule": "cosine",
        "final_learning_rate": parameters.final_learning_rate or 1e-6,
        "clip": parameters.gradient_clip,
        "precision": "float32" if parameters.model == "lenet5" else "bfloat16",
        "evaluate_every": 1 if parameters.model == "lenet5" else EVERY,
        "deterministic": False,
        "save_every": 120.0,
    }
    if method != CEILING:
        return planned
    changed = dict(SUPERVISED.get(parameters.model, {"batch_size": 128}))
    if parameters.optimizer == "sgd":
        changed.pop("learning_rate", None)
    return {**planned, **changed}


def _batch_size(cell: Cell) -> int | tuple[int, ...]:
    groups = cell.hyper_parameters().batch_size
    if cell.setting in WITH_UNLABELED:  # a group is a batch of unlabeled instances
        return (1, 1) if cell.setting == "unlabeled_unlabeled" else (groups, 1)
    return groups


def _method(cell: Cell, method: str, view: str | None, options: Mapping[str, Any]) -> AbstractMethod:
    """The method with the M-step view (None: its own) and the prior of the cell, if it needs them.

    With all labels EM is the cross-entropy: so the ceiling is EM too, and as fast.
    """
    if method == CEILING:
        assert view is not None, "true labels have no recipe"
        return GLWS(m_step=view)
    about = (DRAWN, TRAINED)
    own = {
        name.removeprefix(OWN): value
        for name, value in options.items()
        if not name.startswith(about) and name not in (SEEN, VIEW, SINGLY, RECIPE)
    }
    kind = method_class(method)
    name = VIEW if method == OURS else "view"
    if view is not None and name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        own[name] = view
    if kind.needs_prior:
        own.setdefault("prior", cell.prior)
    return build_method(method, own)
