"""The compiled pairs give the answers of the plain ones, and of enumeration, whatever they are given."""

import subprocess
import sys
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from glws.automata import all_equal, from_table
from glws.inference import TableWeights, enumerate_posterior, infer
from glws.inference import _compiled_pairs as compiled_pairs
from glws.inference._compiled_pairs import can_answer, compiled_pair_posterior
from glws.inference._compiled_trellis import is_available

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_available(), reason="numba is not installed")]

Answer = tuple[Tensor, Tensor]
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6}
ODD = [1, 63, 64, 65, 130]  # around the number of pairs side by side


def drawn(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_zero(seed: int, logs: Tensor, share: float = 0.3) -> Tensor:
    """The same with -inf here and there, whole rows of it too."""
    generator = torch.Generator().manual_seed(seed)
    alone = torch.rand(logs.shape, generator=generator) < share
    rows = torch.rand(logs.shape[:-1], generator=generator) < share / 5
    return logs.masked_fill(alone | rows[..., None], -torch.inf)


def compiled(potentials: Tensor, log_weights: Tensor) -> Answer:
    return compiled_pair_posterior(potentials, torch.full((len(potentials),), 2), log_weights)


def plain(potentials: Tensor, log_weights: Tensor) -> Answer:
    with patch.object(compiled_pairs, "can_answer", return_value=False):
        return TableWeights(log_weights).solve(potentials.double(), torch.full((len(potentials),), 2))


def assert_same(answer: Answer, oracle: Answer, tolerance: float) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    right = oracle[0][possible]
    assert torch.all((answer[0].double()[possible] - right).abs() <= tolerance * right.abs().clamp_min(1.0))
    assert torch.all(answer[1][~possible] == 0)
    assert (answer[1].double() - oracle[1]).abs().max() <= tolerance


@pytest.mark.parametrize("classes", range(1, 13))
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_equals_the_plain_pairs(classes: int, is_shared: bool, dtype: torch.dtype) -> None:
    groups = ODD[classes % len(ODD)]
    potentials = some_zero(classes, drawn(classes, groups, 2, classes, scale=4.0)).to(dtype)
    log_weights = some_zero(-classes, drawn(99 + classes, groups, classes, classes, scale=3.0))
    log_weights = log_weights[:1].expand(groups, -1, -1) if is_shared else log_weights
    answer = compiled(potentials, log_weights)
    assert answer[0].dtype == answer[1].dtype == dtype
    assert_same(answer, plain(potentials, log_weights), TOLERANCES[dtype])


@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_equals_enumeration(classes: int) -> None:
    potentials = some_zero(3, drawn(classes, 70, 2, classes))
    tables = some_zero(4, drawn(9, 70, classes, classes))
    oracle = enumerate_posterior(potentials, [2] * 70, [from_table(table.exp().numpy()) for table in tables])
    assert_same(compiled(potentials, tables), oracle, 1e-13)


@pytest.mark.parametrize(
    "shift",
    [(-690.0, 300.0), (-720.0, 300.0), (-400.0, -400.0), (800.0, -800.0), (29.0, 31.0), (-1e6, 2e6), (0.0, 0.0)],
)
@pytest.mark.parametrize("weight", [-700.0, -300.0, 0.0, 20.0, 400.0])
def test_numbers_far_from_one_are_as_exact(shift: tuple[float, float], weight: float) -> None:
    potentials = drawn(1, 70, 2, 3) + torch.tensor(shift, dtype=torch.float64)[:, None]
    log_weights = drawn(2, 70, 3, 3) + weight
    assert_same(compiled(potentials, log_weights), plain(potentials, log_weights), 1e-13)


def test_a_likely_class_that_the_table_forbids_does_not_hide_the_others() -> None:
    """Z is exp(-900) of the largest product."""
    potentials = torch.tensor([[0.0, -450.0], [0.0, -450.0]], dtype=torch.float64).expand(70, -1, -1)
    log_weights = torch.tensor([[-torch.inf, -torch.inf], [-torch.inf, 0.0]]).expand(70, -1, -1)
    log_z, marginals = compiled(potentials, log_weights)
    assert torch.all(log_z == -900.0)
    assert torch.equal(marginals, torch.tensor([0.0, 1.0], dtype=torch.float64).expand(70, 2, -1))


def test_groups_of_another_size_satisfy_nothing() -> None:
    potentials, log_weights = drawn(6, 70, 3, 2), drawn(7, 70, 2, 2)
    lengths = torch.arange(70) % 4
    potentials[lengths == 1] = torch.nan  # may be anything where it is not read
    potentials[:, 2] = torch.nan
    log_z, marginals = compiled_pair_posterior(potentials, lengths, log_weights)
    assert torch.equal(log_z > -torch.inf, lengths == 2)
    assert torch.all(marginals[lengths != 2] == 0)
    assert torch.all(marginals[:, 2] == 0)
    some = lengths == 2
    assert_same((log_z[some], marginals[some][:, :2]), plain(potentials[some][:, :2], log_weights[some]), 1e-13)


def test_tensors_may_lie_in_any_order() -> None:
    potentials, log_weights = drawn(8, 3, 2, 90).permute(2, 1, 0), drawn(9, 3, 3, 90).permute(2, 1, 0)
    assert_same(compiled(potentials, log_weights), plain(potentials, log_weights), 1e-13)
    assert_same(compiled(potentials[::2], log_weights[::2].mT), plain(potentials[::2], log_weights[::2].mT), 1e-13)


def test_no_groups() -> None:
    log_z, marginals = compiled(torch.zeros(0, 2, 3), torch.zeros(0, 3, 3))
    assert log_z.shape == (0,)
    assert marginals.shape == (0, 2, 3)


def test_nan_is_not_made_a_number() -> None:
    potentials, log_weights = drawn(1, 70, 2, 2), drawn(2, 70, 2, 2)
    potentials[3, 0, 1] = torch.nan
    log_z, _ = compiled(potentials, log_weights)
    assert log_z.isnan().nonzero().tolist() == [[3]]


@pytest.mark.parametrize("classes", [2, 5])
def test_the_front_door_takes_it_and_its_gradient_is_the_posterior(classes: int) -> None:
    log_probs = drawn(classes, 200, 2, classes).log_softmax(2).requires_grad_()
    assert can_answer(log_probs)
    answer = infer(log_probs, all_equal(classes))
    oracle = infer(log_probs, all_equal(classes), engine="trellis")
    assert_same(
        (answer.log_likelihood.detach(), answer.marginals), (oracle.log_likelihood.detach(), oracle.marginals), 1e-12
    )
    (gradient,) = torch.autograd.grad(answer.log_likelihood.sum(), log_probs)
    assert torch.equal(gradient, answer.marginals)


def test_plain_torch_answers_where_there_is_no_compiler_and_where_it_would_not_pay() -> None:
    log_probs = drawn(3, 200, 2, 3)
    compiled_answer = infer(log_probs, all_equal(3))
    with patch("glws.inference._compiled_trellis.is_available", return_value=False):
        assert not can_answer(log_probs)
        answer = infer(log_probs, all_equal(3))
    assert_same(
        (answer.log_likelihood, answer.marginals), (compiled_answer.log_likelihood, compiled_answer.marginals), 1e-13
    )
    assert not can_answer(log_probs[: compiled_pairs.TINY])
    assert not can_answer(log_probs[:, :1])
    assert not can_answer(log_probs.half())


def test_the_compiler_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, glws.inference._compiled_pairs; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
