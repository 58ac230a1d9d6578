"""Settings by name: weakly labeled data from a fully labeled source, with default sizes for the source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_type_hints

import torch
from torch import Tensor

from glws._plugins import names
from glws._rules import check_keys, check_name, rule_of
from glws.data._groups import Groups
from glws.data.sources import Source, class_split
from glws.data.weaken import _bags as bags
from glws.data.weaken import _pair_confidence as pair_confidence
from glws.data.weaken import _pairs as pairs
from glws.data.weaken import _single as single
from glws.data.weaken import _unlabeled as unlabeled
from glws.data.weaken._confidence import held_out_scores, positive_scores
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import AbstractSupervision, Labels, find_kind

Defaults = Callable[[int], dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """The function of a setting, its number of classes, whether it needs scores, and its sizes for n instances."""

    make: Callable[..., Weakened]
    defaults: Defaults
    is_binary: bool = False
    is_scored: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of the setting, with their types."""
        given = {"labels", "confidence", "num_classes", "generator", "return"}
        return {name: kind for name, kind in get_type_hints(self.make).items() if name not in given}


def supervised(labels: Tensor, num_classes: int, *, generator: torch.Generator) -> Weakened:
    """Every true label: the upper bound."""
    return Weakened(Groups.singles(len(labels)), Labels.of(labels, num_classes), {})


def _bags(size: int) -> Defaults:
    return lambda n: {"num_bags": max(2, n // size), "mean": float(size), "std": size / 5}


def _pairs(n: int) -> dict[str, Any]:
    return {"num_pairs": max(2, n // 2), "prior": 0.4}


SETTINGS: dict[str, Setting] = {
    "supervised": Setting(supervised, lambda n: {}),
    "partial_labels": Setting(single.partial_labels, lambda n: {"ratio": 0.5}),
    "complementary_labels": Setting(single.complementary_labels, lambda n: {}),
    "semi_supervised": Setting(single.semi_supervised, lambda n: {"num_labeled": max(20, n // 20)}),
    "noisy_labels": Setting(single.noisy_labels, lambda n: {"noise": 0.2}),
    "multi_instance": Setting(bags.multi_instance, _bags(5), is_binary=True),
    "multi_instance_classes": Setting(bags.multi_instance_classes, _bags(5)),
    "proportions": Setting(bags.proportions, _bags(10), is_binary=True),
    "class_proportions": Setting(bags.class_proportions, _bags(10)),
    "pair_comparison": Setting(
        pairs.pair_comparison, lambda n: {"num_pairs": max(2, n // 2), "prior": 0.5}, is_binary=True
    ),
    "pair_similarity": Setting(pairs.pair_similarity, _pairs, is_binary=True),
    "similarity_confidence": Setting(pair_confidence.similarity_confidence, _pairs, is_binary=True, is_scored=True),
    "confidence_difference": Setting(pair_confidence.confidence_difference, _pairs, is_binary=True, is_scored=True),
    "positive_confidence": Setting(
        pair_confidence.positive_confidence,
        lambda n: {"num_instances": max(2, n // 2), "positives_only": False},
        is_binary=True,
        is_scored=True,
    ),
    "positive_unlabeled": Setting(
        unlabeled.positive_unlabeled, lambda n: {"num_positives": max(10, n // 15)}, is_binary=True
    ),
    "unlabeled_unlabeled": Setting(
        unlabeled.unlabeled_unlabeled, lambda n: {"sizes": (n // 2, n // 2), "priors": (0.8, 0.2)}, is_binary=True
    ),
    "similar_dissimilar_unlabeled": Setting(
        unlabeled.similar_dissimilar_unlabeled,
        lambda n: {"num_similar": n // 6, "num_dissimilar": n // 6, "num_unlabeled": n // 5, "prior": 0.4},
        is_binary=True,
    ),
}
"""The settings of this package. Any other name is that of a kind with a simulator of its own (`weaken`)."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """A weakened source: training inputs, weak labels, and the source with the classes of the problem."""

    inputs: Any
    weakened: Weakened
    source: Source


def simulated(
    source: Source,
    setting: str,
    generator: torch.Generator,
    positive: Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    allow_code: bool = False,
) -> Simulated:
    """A setting simulated on the training part of a source; default sizes depend on its size.

    `positive` are the positive classes in settings of two classes; the default is those of the paper, or the
    first half. Settings with confidences use only the instances that were scored by a model fitted to the
    others. Instead of a setting, an installed kind, or with `allow_code` one of the user's own as
    `package.module:Class`, is drawn by its `weaken`.

    >>> from glws.data import load
    >>> answer = simulated(load("iris"), "proportions", torch.Generator().manual_seed(0), options={"num_bags": 7})
    >>> len(answer.weakened.groups), answer.source.classes
    (7, ('negative', 'positive'))
    """
    chosen = _setting(setting, options or {}, allow_code)
    classes = _positive(source, setting, positive) if chosen.is_binary else None
    asked = source if classes is None else source.binary(classes)
    inputs: Any = asked.train.inputs
    labels = torch.as_tensor(asked.train.labels)
    given: list[Any] = [labels]
    if chosen.is_scored:
        assert classes is not None
        scored = held_out_scores(inputs, source.train.labels, source.num_classes, held_out=0.2, generator=generator)
        inputs, given = torch.as_tensor(inputs)[scored.scored], [labels[scored.scored]]
        given.append(positive_scores(scored.probabilities, classes))
    if "num_classes" in inspect.signature(chosen.make).parameters:
        given.append(asked.num_classes)
    drawn = chosen.make(*given, generator=generator, **{**chosen.defaults(len(given[0])), **(options or {})})
    return Simulated(inputs, drawn, asked)


def _of_kind(kind: type[AbstractSupervision]) -> Setting:
    """The simulator of a kind as a setting, with the options of its signature."""

    @wraps(kind.weaken)
    def make(*given: Any, **options: Any) -> Weakened:
        groups, weak = kind.weaken(*given, **options)
        return Weakened(Groups.of(groups), weak, {})

    return Setting(make, lambda n: {})


def _setting(name: str, options: Mapping[str, Any], allow_code: bool) -> Setting:
    if name not in SETTINGS and ":" not in name and name not in names("glws.kinds", {}):
        check_name("setting", name, SETTINGS)
    chosen = SETTINGS[name] if name in SETTINGS else _of_kind(find_kind(name, allow_code))
    check_keys(options, chosen.options, f"setting.{name}")
    for key, value in options.items():
        words, holds = rule_of(chosen.options[key])
        if not holds(value):
            raise DataError(f"`{key}` of {name} must be {words}. Got {value!r}.")
    return chosen


def _positive(source: Source, setting: str, positive: Sequence[int] | None) -> Sequence[int]:
    if positive is not None:
        return positive
    try:
        return class_split(source.name, setting).positive
    except DataError:
        return range((source.num_classes + 1) // 2) if source.num_classes > 2 else (1,)
