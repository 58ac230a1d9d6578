"""A small data set for each combination of kinds that a method learns from, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from glws.data import Groups, WeakDataset, weaken
from glws.data.weaken import Weakened
from glws.kinds import Labels
from glws.methods import method_class

NUM_INSTANCES, NUM_FEATURES, NUM_CLASSES = 48, 5, 4
PRIOR = 0.4


def instances() -> torch.Tensor:
    return torch.randn(NUM_INSTANCES, NUM_FEATURES, generator=torch.Generator().manual_seed(3))


def classes() -> torch.Tensor:
    """The true class: which of the first four features is the largest."""
    return instances()[:, :NUM_CLASSES].argmax(1)


def binary() -> torch.Tensor:
    return (classes() >= 2).long()


def scores() -> torch.Tensor:
    """A probability of being positive that is right on the whole."""
    return 0.15 + 0.7 * binary().double()


def some_labels(generator: torch.Generator) -> Weakened:
    return weaken.semi_supervised(classes(), NUM_CLASSES, 12, generator=generator)


def labels_apart(generator: torch.Generator) -> Weakened:
    """The labeled and the others as two kinds, so that batches can hold more of the latter."""
    mixed = some_labels(generator)
    groups, weak = mixed.groups, mixed.weak
    assert isinstance(groups, Groups)
    assert isinstance(weak, Labels)
    known, others = ((weak.labels >= 0) == wanted for wanted in (True, False))
    rows = [each.nonzero()[:, 0] for each in (known, others)]
    return Weakened((groups[rows[0]], groups[rows[1]]), (weak[rows[0]], weak[rows[1]]), {})


MADE: dict[str, Callable[[torch.Generator], Weakened]] = {
    "Labels": some_labels,
    "Labels Labels": labels_apart,
    "PartialLabels": lambda draw: weaken.complementary_labels(classes(), NUM_CLASSES, generator=draw),
    "MultiInstance": lambda draw: weaken.multi_instance(binary(), 12, 4, 1, generator=draw),
    "PresentClasses": lambda draw: weaken.multi_instance_classes(classes(), NUM_CLASSES, 12, 4, 1, generator=draw),
    "Proportions": lambda draw: weaken.proportions(binary(), 12, 4, 1, generator=draw),
    "ClassCounts": lambda draw: weaken.class_proportions(classes(), NUM_CLASSES, 12, 4, 1, generator=draw),
    "PairComparison": lambda draw: weaken.pair_comparison(binary(), 20, PRIOR, generator=draw),
    "PairSimilarity": lambda draw: weaken.pair_similarity(binary(), 20, PRIOR, generator=draw),
    "SimilarityConfidence": lambda draw: weaken.similarity_confidence(binary(), scores(), 20, PRIOR, generator=draw),
    "ConfidenceDifference": lambda draw: weaken.confidence_difference(binary(), scores(), 20, PRIOR, generator=draw),
    "PositiveConfidence": lambda draw: weaken.positive_confidence(binary(), scores(), 20, generator=draw),
    "Labels Unlabeled": lambda draw: weaken.positive_unlabeled(binary(), 10, group_size=6, generator=draw),
    "Unlabeled Unlabeled": lambda draw: weaken.unlabeled_unlabeled(
        binary(), (20, 20), (0.8, 0.2), group_size=5, generator=draw
    ),
    "PairSimilarity Unlabeled": lambda draw: weaken.similar_dissimilar_unlabeled(
        binary(), 8, 8, 15, PRIOR, group_size=5, generator=draw
    ),
}
"""How the data of each combination are made. Complementary labels are candidate sets that every method takes."""


@cache
def data_of(combination: str) -> WeakDataset:
    return MADE[combination](torch.Generator().manual_seed(0)).dataset(instances())


def combinations(method: str) -> list[str]:
    """The data that a method learns from; some of them where it takes any."""
    kinds = method_class(method).kinds
    named = [" ".join(sorted(kind.__name__ for kind in each)) for each in kinds]
    return named or ["ClassCounts", "PairSimilarity Unlabeled", "Labels Unlabeled"]
