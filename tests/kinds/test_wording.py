"""What is known of a group, and what the groups of a kind are called, in the words that a person reads."""

from __future__ import annotations

import pytest
import torch

from glws import kinds as supervision
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Constraints,
    Labels,
    MultiInstance,
    NoisyLabels,
    NoisyProportions,
    PartialLabels,
    PresentClasses,
    Proportions,
    SoftLabels,
    Together,
    Unlabeled,
)

NAMES = ("cat", "dog", "bird")
DOG = {"counted": 1, "num_classes": 3}


def test_every_kind_is_called_something() -> None:
    kinds = {name: found for name, found in vars(supervision).items() if _is_kind(found)}
    assert {name for name, kind in kinds.items() if kind.noun == "group"} == {
        "AbstractRowsInSets",
        "LearnsNoise",
        "Together",
    }


def _is_kind(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, AbstractSupervision) and found is not AbstractSupervision


@pytest.mark.parametrize(
    ("weak", "by_number", "by_name"),
    [
        (Labels.of(torch.tensor([2]), 3), "label 2", "label bird"),
        (Labels.of(torch.tensor([-1]), 3), "one unknown label", "one unknown label"),
        (PartialLabels.of([[1, 0, 1]]), "one label of {0, 2}", "one label of {cat, bird}"),
        (NoisyLabels.symmetric([1], 3, 0.2), "one label observed as 1", "one label observed as dog"),
        (
            SoftLabels.of([[0.2, 0.1, 0.7]]),
            "one label with scores, highest for class 2",
            "one label with scores, highest for class bird",
        ),
        (Proportions.of([2], **DOG), "exactly 2 of class 1", "exactly 2 of class dog"),
        (
            Proportions.between([1], [2], counted=[0, 2], num_classes=3),
            "between 1 and 2 of classes {0, 2}",
            "between 1 and 2 of classes {cat, bird}",
        ),
        (NoisyProportions.of([2], 0.5, **DOG), "about 2 of class 1", "about 2 of class dog"),
        (MultiInstance.of([1], **DOG), "at least one of class 1", "at least one of class dog"),
        (PresentClasses.of([[1, 1, 0]]), "classes {0, 1} and no others", "classes {cat, dog} and no others"),
        (PresentClasses.of([[1, -1, 0]]), "classes {0} and none of {2}", "classes {cat} and none of {bird}"),
        (Unlabeled.of([0.4], **DOG), "a share of 0.4 of class 1", "a share of 0.4 of class dog"),
        (ClassCounts.of([[2, 0, 1]]), "exactly 2 × class 0, 1 × class 2", "exactly 2 × cat, 1 × bird"),
        (ClassCounts.of([[0, 0, 0]]), "exactly nothing", "exactly nothing"),
        (Constraints.of(["count(1) in {0, 2}"], 3), '"count(1) in {0, 2}"', '"count(1) in {0, 2}"'),
        (
            Together.of(MultiInstance.of([0], **DOG), Proportions.of([1], counted=0, num_classes=3)),
            "none of class 1 and exactly 1 of class 0",
            "none of class dog and exactly 1 of class cat",
        ),
    ],
)
def test_classes_go_by_their_names_where_these_are_given(
    weak: AbstractSupervision, by_number: str, by_name: str
) -> None:
    assert weak.describe(0) == by_number
    assert weak.describe(0, NAMES) == by_name


def test_an_impossible_group_is_told_of_by_name() -> None:
    with pytest.raises(ValueError, match="group 1: exactly 5 of class dog cannot hold in a group of 3 instances"):
        Proportions.of([2, 5], **DOG).check([3, 3], 3, NAMES)
