"""What was learned from, in the words that a person reads."""

from __future__ import annotations

import torch

from glws.data import WeakDataset
from glws.experiment import learned_from
from glws.kinds import Labels, Proportions


def test_labels_are_counted_apart() -> None:
    data = WeakDataset(torch.zeros(4, 1), [[[0, 1]], [[2], [3]]], [Proportions.of([1]), Labels.of([1, None], 2)])
    assert learned_from(data) == "1 bag (1 labeled row)"
