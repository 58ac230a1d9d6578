"""What was learned from, and what is known of a group, in the words that a person reads."""

from __future__ import annotations

import pytest
import torch

from glws import supervision
from glws.data.dataset import WeakDataset
from glws.jobs.words import NOUNS, described, learned_from
from glws.supervision import AbstractSupervision, ClassCounts, Constraints, Labels, PartialLabels, Proportions

NAMES = ("cat", "dog", "bird")


def test_every_kind_has_a_noun() -> None:
    kinds = {name for name in vars(supervision) if _is_kind(getattr(supervision, name))}
    assert kinds - {"LearnsNoise", "Together"} == set(NOUNS)


def _is_kind(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, AbstractSupervision) and found is not AbstractSupervision


def test_labels_are_counted_apart() -> None:
    data = WeakDataset(
        torch.zeros(4, 1), [[[0, 1]], [[2], [3]]], [Proportions.of([1]), Labels.of(torch.tensor([1, -1]), 2)]
    )
    assert learned_from(data) == "1 bag, 1 label"


@pytest.mark.parametrize(
    ("weak", "words"),
    [
        (Proportions.of([2], counted=1, num_classes=3), "exactly 2 of class dog"),
        (Proportions.between([1], [2], counted=[0, 2], num_classes=3), "between 1 and 2 of classes {cat, bird}"),
        (ClassCounts.of([[2, 0, 1]]), "exactly 2 × cat, 1 × bird"),
        (ClassCounts.of([[0, 0, 0]]), "exactly nothing"),
        (Labels.of(torch.tensor([2]), 3), "label bird"),
        (PartialLabels.of([[1, 0, 1]]), "one label of {cat, bird}"),
        (Constraints.of(["y[0] == y[1]"], 3), '"y[0] == y[1]"'),
        (Constraints.of(["count(1) in {0, 2}"], 3), '"count(1) in {0, 2}"'),
    ],
)
def test_classes_go_by_their_names(weak: AbstractSupervision, words: str) -> None:
    assert described(weak, 0, NAMES) == words
