"""Best-bin estimation: worked numbers, a slow oracle, and that only the order of scores matters."""

import math

import pytest
import torch
from torch import Tensor

from glws.errors import DataError
from glws.selection import BestBin, best_bin_estimate


def overlapping(num_positive: int, num_copies: int, num_negative: int) -> tuple[Tensor, Tensor]:
    """Positives, and unlabeled instances that are as many positives and negatives with scores below 0.6."""
    places = [
        (torch.arange(size, dtype=torch.float64) + 0.5) / size for size in (num_positive, num_copies, num_negative)
    ]
    return places[0].sqrt(), torch.cat([places[1].sqrt(), 0.6 * places[2]])


def oracle(positive: list[float], unlabeled: list[float]) -> tuple[float, float]:
    """The least bound and the share that goes with it, one threshold after another."""
    slack = sum(math.sqrt(math.log(40) / (2 * len(each))) for each in (positive, unlabeled))
    found = []
    for threshold in unlabeled:
        above_p, above_u = (sum(score >= threshold for score in each) for each in (positive, unlabeled))
        if above_p >= 2:
            share_p, share_u = above_p / len(positive), above_u / len(unlabeled)
            found.append((share_u / share_p + 1.01 * slack / share_p, share_u / share_p))
    return min(found)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((200, 200, 300), BestBin(0.400000, 0.602080, 0.647400)),
        ((5000, 4000, 6000), BestBin(0.400031, 0.600729, 0.451839)),
    ],
)
def test_overlapping_scores_have_the_worked_numbers(sizes: tuple[int, int, int], expected: BestBin) -> None:
    assert best_bin_estimate(*overlapping(*sizes)) == pytest.approx(expected, abs=1e-6)


def test_few_scores_have_the_worked_numbers() -> None:
    positive = torch.tensor([0.95, 0.9, 0.8, 0.7, 0.4])
    unlabeled = torch.tensor([0.92, 0.85, 0.75, 0.5, 0.45, 0.3, 0.2, 0.15, 0.1, 0.05])
    assert best_bin_estimate(positive, unlabeled) == pytest.approx(BestBin(0.6, 0.3, 1.647199), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_estimate_is_that_of_trying_every_threshold(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    positive = (torch.randn(30, generator=generator) * 2 + 2).round()  # many ties
    unlabeled = (torch.randn(50, generator=generator) * 2).round()
    found = best_bin_estimate(positive, unlabeled)
    bound, share = oracle(positive.tolist(), unlabeled.tolist())
    assert found.bound == pytest.approx(bound, abs=1e-12)
    assert found.share == pytest.approx(min(share, 1.0), abs=1e-12)


def test_only_the_order_of_the_scores_matters() -> None:
    positive, unlabeled = overlapping(150, 60, 140)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    expected = best_bin_estimate(positive, unlabeled)
    found = best_bin_estimate(7 * positive.logit() - 3, 7 * unlabeled[order].logit() - 3)
    assert found.share == expected.share
    assert found.bound == pytest.approx(expected.bound, abs=1e-12)


def test_share_is_at_most_one() -> None:
    positive, unlabeled = torch.linspace(0, 1, 50), torch.linspace(2, 3, 80)
    assert best_bin_estimate(positive, unlabeled) == BestBin(1.0, 2.0, math.inf)
    assert best_bin_estimate(positive, positive + 0.2).share == 1.0


def test_error_is_small_beside_the_slack() -> None:
    generator = torch.Generator().manual_seed(0)
    for share in (0.1, 0.5, 0.9):
        positive = torch.randn(4000, generator=generator) + 4
        signs = torch.where(torch.rand(8000, generator=generator) < share, 4.0, 0.0)
        found = best_bin_estimate(positive, torch.randn(8000, generator=generator) + signs)
        assert found.share == pytest.approx(share, abs=0.03)


def test_too_few_scores_are_refused() -> None:
    message = "best-bin estimation needs 2 held-out positives and 1 unlabeled instance, found 1 and 3"
    with pytest.raises(DataError, match=message):
        best_bin_estimate(torch.zeros(1), torch.zeros(3))
