"""The weak data of a cell, drawn from fully labeled data by `glws.data.weaken`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data import Groups, weaken
from glws.data.weaken import Weakened
from glws.errors import DataError
from glws.kinds import NoisyLabels, Numbers, Unlabeled
from glws.kinds._arrays import classes
from reproduction.catalog import DATASETS, check_known

if TYPE_CHECKING:
    from reproduction.published import Cell

Labels = Int[Tensor, "instances"]
Plan = tuple[Callable[..., Weakened], dict[str, Any]]
"""A function of `glws.data.weaken` and its arguments, without labels, scores and generator."""

GIVEN = ("labels", "confidence", "generator")
SCORED = ("similarity_confidence", "confidence_difference", "positive_confidence")


def weakened(
    cell: Cell,
    labels: Labels,
    generator: torch.Generator,
    scores: Numbers | None,
    options: Mapping[str, Any],
) -> Weakened:
    """Simulate the weak data of a cell; `options` replace the paper's values."""
    function, planned = PLANS[cell.setting](cell)
    _check_options(function, options)
    _check_scores(cell.setting, scores)
    arguments = {**planned, **options}
    if function is weaken.similar_dissimilar_unlabeled:
        arguments.setdefault("replacement", _pair_replacement(labels, arguments))
    if scores is not None:
        arguments["confidence"] = scores
    return function(labels, **arguments, generator=generator)


def task_labels(labels: Numbers, dataset: str, positive: Sequence[int]) -> Labels:
    """Convert classes to those of a task: 1 for positives, 0 otherwise; unchanged without positives.

    >>> task_labels([0, 9, 3], "mnist", positive=[9])
    tensor([0, 1, 0])
    """
    true = classes(labels, "labels", DATASETS[dataset].num_classes)
    return torch.isin(true, torch.tensor(positive)).long() if positive else true


def released_options(cell: Cell) -> dict[str, Any]:
    """What the released code draws differently, as options of `Cell.weakened`.

    The clipped confidence differences are not included: they are a convention, not part of the sampler.
    """
    options: dict[str, Any] = dict(RELEASED.get(cell.setting, {}))
    if cell.setting in ("multi_instance", "proportions"):
        options = _released_bags(cell)
    if cell.setting in ("similarity_confidence", "confidence_difference"):
        options["confidence_prior"] = cell.configuration["prior"]
    if cell.split is not None and cell.split.released_code != cell.split.positive:
        options["positive"] = cell.split.released_code
    return options


def sets_singly(record: Weakened) -> Weakened:
    """Unlabeled sets as noisy labels of single instances (`NoisyLabels.of_sets`).

    There must be two sets with known priors of class 1.
    """
    both: Any = list(zip(record.groups, record.weak, strict=True)) if isinstance(record.weak, tuple) else []  # type: ignore[arg-type]
    if [type(weak) for _, weak in both] != [Unlabeled, Unlabeled]:
        raise DataError("only two unlabeled sets can be taken instance by instance")
    sets = [(groups.indices, float(weak.prior[0])) for groups, weak in both]
    members = torch.cat([indices for indices, _ in sets])
    weak = NoisyLabels.of_sets([len(indices) for indices, _ in sets], [[1 - prior, prior] for _, prior in sets])
    return Weakened(Groups(torch.arange(len(members) + 1), members), weak, record.statistics)


def _check_options(function: Callable[..., Weakened], options: Iterable[str]) -> None:
    known = [name for name in inspect.signature(function).parameters if name not in GIVEN]
    for option in options:
        check_known(f"option of {function.__name__}", option, known)


def _check_scores(setting: str, scores: Numbers | None) -> None:
    if setting in SCORED and scores is None:
        raise DataError(f"{setting} needs scores: P(positive) of every instance, from a model")
    if setting not in SCORED and scores is not None:
        raise DataError(f"{setting} takes no scores; leave them out")


RELEASED: dict[str, dict[str, Any]] = {
    "pair_similarity": {"rule": "released"},
    "confidence_difference": {"convention": "code"},
    "positive_unlabeled": {"rule": "released"},
    "unlabeled_unlabeled": {"replacement": "always"},
    "similar_dissimilar_unlabeled": {"rule": "released"},
}
"""Released options that are the same in all cells of a setting."""


def _released_bags(cell: Cell) -> dict[str, Any]:
    if cell.num_classes > 2:
        wide = cell.setting == "proportions" and cell.configuration["mean_size"] == 20 and "mnist" in cell.dataset
        return {"std": 10} if wide else {}
    options: dict[str, Any] = {"redraw": "bag"} | ({"reject_empty": True} if cell.setting == "proportions" else {})
    short = cell.setting == "multi_instance" and cell.configuration["mean_size"] == 10
    if cell.dataset in ("cifar10", "stl10") or short:
        options["num_bags"] = int(cell.configuration["num_bags"]) // 2
    return options


# ---------------------------------------------------------------- one plan for each setting


def _partial_labels(cell: Cell) -> Plan:
    return weaken.partial_labels, {"num_classes": cell.num_classes, "ratio": cell.configuration["ratio"]}


def _multi_instance(cell: Cell) -> Plan:
    if cell.num_classes > 2:
        return weaken.multi_instance_classes, {"num_classes": cell.num_classes, **_bags(cell)}
    return weaken.multi_instance, _bags(cell)


def _proportions(cell: Cell) -> Plan:
    if cell.num_classes > 2:
        return weaken.class_proportions, {"num_classes": cell.num_classes, **_bags(cell)}
    return weaken.proportions, _bags(cell)


def _bags(cell: Cell) -> dict[str, Any]:
    names = {"num_bags": "num_bags", "mean": "mean_size", "std": "std_size"}
    return {argument: cell.configuration[name] for argument, name in names.items()}


def _pair_comparison(cell: Cell) -> Plan:
    return weaken.pair_comparison, _pairs(cell)


def _pair_similarity(cell: Cell) -> Plan:
    return weaken.pair_similarity, _pairs(cell)


def _similarity_confidence(cell: Cell) -> Plan:
    return weaken.similarity_confidence, _pairs(cell)


def _confidence_difference(cell: Cell) -> Plan:
    return weaken.confidence_difference, _pairs(cell)


def _pairs(cell: Cell) -> dict[str, Any]:
    return {name: cell.configuration[name] for name in ("num_pairs", "prior")}


def _positive_confidence(cell: Cell) -> Plan:
    """Half of the instances are negatives, since F-MNIST and CIFAR have too few positives."""
    number = cell.configuration["num_instances"]
    return weaken.positive_confidence, {"num_instances": number, "positives_only": False}


def _positive_unlabeled(cell: Cell) -> Plan:
    """The prior is the share in the labels; the printed one is rounded to one digit."""
    return weaken.positive_unlabeled, {
        "num_positives": cell.configuration["num_positives"],
        "num_extra": DATASETS[cell.dataset].num_unlabeled,
        "group_size": _group_size(cell),
    }


def _unlabeled_unlabeled(cell: Cell) -> Plan:
    size = cell.configuration["num_each"]
    priors = (cell.configuration["prior_first"], cell.configuration["prior_second"])
    return weaken.unlabeled_unlabeled, {"sizes": (size, size), "priors": priors, "group_size": _group_size(cell)}


def _similar_dissimilar_unlabeled(cell: Cell) -> Plan:
    names = ("num_similar", "num_dissimilar", "num_unlabeled", "prior")
    arguments = {name: cell.configuration[name] for name in names}
    return weaken.similar_dissimilar_unlabeled, {**arguments, "group_size": _group_size(cell)}


def _pair_replacement(labels: Labels, arguments: Mapping[str, Any]) -> str:
    """Whether to draw with replacement, because the pairs would use up a class."""
    names = ("num_similar", "num_dissimilar", "prior", "rule")
    counts = weaken.sdu_counts(**{name: arguments[name] for name in names if name in arguments})
    positives = int(labels.sum())
    needed = (2 * counts.positive + counts.mixed, 2 * counts.negative + counts.mixed)
    return "always" if needed[0] >= positives or needed[1] >= len(labels) - positives else "auto"


def _group_size(cell: Cell) -> int:
    """The group size of unlabeled instances: that of the paper's batches."""
    parameters = cell.hyper_parameters()
    return parameters.unlabeled_batch_size or parameters.batch_size


PLANS: dict[str, Callable[[Cell], Plan]] = {
    "partial_labels": _partial_labels,
    "multi_instance": _multi_instance,
    "proportions": _proportions,
    "pair_comparison": _pair_comparison,
    "pair_similarity": _pair_similarity,
    "similarity_confidence": _similarity_confidence,
    "confidence_difference": _confidence_difference,
    "positive_confidence": _positive_confidence,
    "positive_unlabeled": _positive_unlabeled,
    "unlabeled_unlabeled": _unlabeled_unlabeled,
    "similar_dissimilar_unlabeled": _similar_dissimilar_unlabeled,
}
"""The simulation of each setting."""
