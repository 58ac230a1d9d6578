"""`Sums` reads values and columns, refuses what it cannot answer, and is drawn from labels."""

import pytest
import torch

from glws.errors import DataError
from glws.kinds import Sums


def test_values_are_exact_fractions() -> None:
    weak = Sums.of([0.3], values=[0.1, 0.2])  # in floating point 0.1 + 0.2 is not 0.3
    answer = weak.infer(torch.full((1, 2, 2), 0.5).log())
    assert answer.log_likelihood.exp() == pytest.approx(0.5)
    assert weak.log_weight(0, [0, 1]) == 0.0


def test_sums_of_true_labels() -> None:
    weak = Sums.from_labels([[1, 2, 0], [2, 2, 2]], [3, 2], values=[0.5, 1, 4])
    assert weak.low.tolist() == [5.5, 8.0]
    assert weak.describe(0) == "sum 5.5"


def test_drawn_from_labels() -> None:
    labels = torch.arange(23) % 10
    groups, weak = Sums.weaken(labels, 10, generator=torch.Generator().manual_seed(0), group_size=5)
    assert isinstance(weak, Sums)
    assert groups.shape == (4, 5)
    assert weak.low.tolist() == labels[groups].sum(1).tolist()


def test_noise_moves_the_sums() -> None:
    labels = torch.ones(400, dtype=torch.int64)
    _, weak = Sums.weaken(labels, 2, generator=torch.Generator().manual_seed(0), scale=2.0)
    assert 1.0 < (weak.low - 4).abs().mean() < 3.0
    assert weak.scale == 2.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"values": [0, float("nan")]}, r"^values must be one finite number for each class, found \[0, nan\]$"),
        ({"values": []}, r"^values must be one finite number for each class, found \[\]$"),
        ({"values": [0, 123.456]}, r"^values are 15,432 steps apart, at most 10,000 are possible; round them$"),
        ({"values": 3, "scale": -1.0}, r"^scale must be a finite number >= 0, found -1.0$"),
    ],
)
def test_what_cannot_be_answered_is_refused(given: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sums.of([1.0], **given)


def test_ranges_are_not_empty_and_noise_needs_a_bound() -> None:
    with pytest.raises(DataError, match=r"^group 1: the range from 3.0 to 2.0 is empty$"):
        Sums.between([0, 3], [1, 2], 3)
    with pytest.raises(DataError, match=r"^a sum without bounds has no noise; leave the group out$"):
        Sums.between([float("-inf")], [float("inf")], 3, scale=1.0)
