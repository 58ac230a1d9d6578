"""Counts over rows that stand for many instances each, compared with one row for each instance."""

import math

import pytest
import torch

from glws.errors import DataError
from glws.inference import repeated_counts
from glws.kinds import Proportions


def expanded(log_odds: torch.Tensor, multiplicity: torch.Tensor, count: int) -> tuple[float, list[float]]:
    """The same question with each row as often as its multiplicity."""
    rows = log_odds.repeat_interleave(multiplicity)
    log_probs = torch.stack([torch.nn.functional.logsigmoid(-rows), torch.nn.functional.logsigmoid(rows)], 1)
    answer = Proportions.of([count]).infer(log_probs[None])
    owner = torch.arange(len(log_odds)).repeat_interleave(multiplicity)
    expected = torch.zeros(len(log_odds), dtype=torch.float64).index_add_(0, owner, answer.marginals[0, :, 1])
    return float(answer.log_likelihood), expected.tolist()


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_answer_of_rows_written_out(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_odds = (3 if seed % 2 else 12) * torch.randn(5, generator=generator, dtype=torch.float64)
    multiplicity = torch.randint(0, (8, 90, 900)[seed % 3], (5,), generator=generator)
    total = int(multiplicity.sum())
    count = int(torch.randint(0, total + 1, (), generator=generator))
    found = repeated_counts(log_odds[None], multiplicity[None], torch.tensor([count]))
    log_likelihood, expected = expanded(log_odds, multiplicity, count)
    assert float(found.log_likelihood[0]) == pytest.approx(log_likelihood, rel=1e-10, abs=1e-10)
    assert found.expected[0].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-10 * max(total, 1))
    assert float(found.expected.sum()) == pytest.approx(count, rel=1e-10)


@pytest.mark.parametrize("count", [0, 7])
def test_none_and_all_are_in_closed_form(count: int) -> None:
    log_odds, multiplicity = torch.tensor([[0.3, -2.0]]).double(), torch.tensor([[4, 3]])
    found = repeated_counts(log_odds, multiplicity, torch.tensor([count]))
    log_likelihood, expected = expanded(log_odds[0], multiplicity[0], count)
    assert (float(found.log_likelihood), found.expected[0].tolist()) == (
        pytest.approx(log_likelihood),
        pytest.approx(expected),
    )


def test_ten_million_instances_are_a_matter_of_rows() -> None:
    log_odds, multiplicity = (
        torch.tensor([[-1.0, 0.5, 2.0]]).double(),
        torch.tensor([[4_812_000, 3_000_000, 2_000_001]]),
    )
    found = repeated_counts(log_odds, multiplicity, torch.tensor([5_000_000]))
    assert float(found.expected.sum()) == pytest.approx(5_000_000, rel=1e-12)
    assert found.expected[0, 2] / 2_000_001 > found.expected[0, 1] / 3_000_000 > found.expected[0, 0] / 4_812_000


def test_padding_and_impossible_counts() -> None:
    log_odds = torch.tensor([[0.3, 99.0], [0.3, 0.3]]).double()
    found = repeated_counts(log_odds, torch.tensor([[4, 0], [1, 1]]), torch.tensor([2, 3]))
    assert float(found.log_likelihood[0]) == pytest.approx(expanded(log_odds[0, :1], torch.tensor([4]), 2)[0])
    assert found.expected.tolist() == [[pytest.approx(2.0), 0.0], [0.0, 0.0]]
    assert float(found.log_likelihood[1]) == -math.inf
    with pytest.raises(DataError, match="a multiplicity must be a whole number >= 0"):
        repeated_counts(log_odds, torch.tensor([[-1, 0], [1, 1]]), torch.tensor([2, 3]))
