"""Weights of pairs: the answer is that of writing all pairs of classes down, whatever the size of the numbers."""

from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from glws.inference import TableWeights
from glws.inference._closed import pairs

Answer = tuple[Tensor, Tensor]


def written_down(potentials: Tensor, log_weights: Tensor) -> Answer:
    """log Z and q of every group, from the table of all pairs in log space."""
    scores = log_weights.double() + potentials[:, 0, :, None].double() + potentials[:, 1, None, :].double()
    log_z = torch.logsumexp(scores, (1, 2))
    share = torch.exp(scores - torch.where(log_z == -torch.inf, 0.0, log_z)[:, None, None])
    return log_z, torch.stack([share.sum(2), share.sum(1)], 1)


def drawn(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(answer: Answer, oracle: Answer, tolerance: float = 1e-12) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    difference = (answer[0][possible] - oracle[0][possible]).abs() / oracle[0][possible].abs().clamp_min(1.0)
    assert difference.max() <= tolerance
    assert (answer[1] - oracle[1]).abs().max() <= tolerance


def solved(potentials: Tensor, log_weights: Tensor) -> Answer:
    return TableWeights(log_weights).solve(potentials, torch.full((len(potentials),), 2))


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
@pytest.mark.parametrize("is_shared", [False, True])
def test_moderate_pairs_are_answered_in_linear_space(classes: int, is_shared: bool) -> None:
    potentials, log_weights = drawn(classes, 50, 2, classes, scale=5.0), drawn(9, 50, classes, classes, scale=3.0)
    log_weights = log_weights[:1].expand(50, -1, -1) if is_shared else log_weights
    with patch.object(TableWeights, "_solve_in_logs") as in_logs:
        answer = solved(potentials, log_weights)
    assert not in_logs.called
    assert_same(answer, written_down(potentials, log_weights))


@pytest.mark.parametrize("shift", [(-690.0, 300.0), (-720.0, 300.0), (-400.0, -400.0), (800.0, -800.0), (900.0, 900.0)])
@pytest.mark.parametrize("weight", [-300.0, 0.0, 20.0, 400.0])
def test_numbers_far_from_one_are_as_exact(shift: tuple[float, float], weight: float) -> None:
    """exp(-720) is a subnormal number with few digits; its product with exp(300) must not be taken from it."""
    potentials = drawn(1, 40, 2, 3) + torch.tensor(shift, dtype=torch.float64)[:, None]
    log_weights = drawn(2, 40, 3, 3) + weight
    assert_same(solved(potentials, log_weights), written_down(potentials, log_weights))


def test_only_the_doubtful_are_done_again() -> None:
    potentials, log_weights = drawn(3, 6, 2, 3), drawn(4, 6, 3, 3)
    potentials[2], potentials[4, 0] = -500.0, -torch.inf
    _, _, held = pairs(potentials, log_weights)
    assert held.tolist() == [True, True, False, True, False, True]
    answer = solved(potentials, log_weights)
    assert_same(answer, written_down(potentials, log_weights))
    assert answer[0][4] == -torch.inf
    assert torch.all(answer[1][4] == 0)


def test_what_a_table_forbids_has_no_posterior() -> None:
    log_weights = torch.tensor([[0.0, -torch.inf], [0.3, -0.2]]).expand(30, -1, -1)
    potentials = drawn(5, 30, 2, 2)
    potentials[:10, 0, 1] = -torch.inf
    answer = solved(potentials, log_weights)
    assert_same(answer, written_down(potentials, log_weights))
    assert torch.all(answer[1][:10, 1, 1] == 0)


def test_groups_of_another_size_satisfy_nothing() -> None:
    potentials, log_weights = drawn(6, 4, 3, 2), drawn(7, 4, 2, 2)
    potentials[1] = torch.nan  # may be anything where it is not read
    log_z, marginals = TableWeights(log_weights).solve(potentials, torch.tensor([2, 1, 3, 2]))
    assert (log_z > -torch.inf).tolist() == [True, False, False, True]
    assert torch.all(marginals[1:3] == 0)
    assert torch.all(marginals[:, 2] == 0)
    some = torch.tensor([0, 3])
    oracle = written_down(potentials[some][:, :2], log_weights[some])
    assert_same((log_z[some], marginals[some][:, :2]), oracle)


def test_no_groups() -> None:
    log_z, marginals = solved(torch.zeros(0, 2, 3), torch.zeros(0, 3, 3))
    assert log_z.shape == (0,)
    assert marginals.shape == (0, 2, 3)
