"""What is impossible, empty, infinite, enormous or wrong."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

from glws.errors import DataError
from glws.inference import Between, Exactly, Weighted, count_posterior
from glws.inference._counts import posterior
from glws.inference._kernels import Kernel

METHODS = ["compiled", "characteristic", "recursion"]
INF = math.inf


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("zero", "one", "weights"),
    [
        (row(0.0, 0.0), row(0.1, 0.2), Exactly(torch.tensor([3]))),
        (row(0.0, 0.0), row(0.1, 0.2), Exactly(torch.tensor([-1]))),
        (row(0.0, 0.0), row(0.1, 0.2), Between(torch.tensor([2]), torch.tensor([1]))),
        (row(0.0, 0.0), row(-INF, -INF), Exactly(torch.tensor([1]))),
        (row(-INF, -INF), row(0.1, 0.2), Exactly(torch.tensor([1]))),
        (row(-INF, 0.0), row(-INF, 0.5), Between(torch.tensor([0]), torch.tensor([2]))),
        (row(0.0, 0.0), row(0.1, 0.2), Weighted(row(-INF, -INF, -INF))),
        (row(-INF, 0.0), row(0.1, 0.2), Weighted(row(3.0, -INF, -INF))),
    ],
)
def test_the_impossible_has_likelihood_zero_and_no_posterior(zero, one, weights, method: str) -> None:
    result = count_posterior(zero, one, torch.tensor([2]), weights, method)
    assert result.log_likelihood.item() == -INF
    assert not result.marginals.any()


@pytest.mark.parametrize("method", METHODS)
def test_hard_labels_count_towards_the_total(method: str) -> None:
    zero, one = row(-INF, 0.0, 0.0, -1.0), row(2.0, -INF, 0.3, 1.0)
    result = count_posterior(zero, one, torch.tensor([4]), Exactly(torch.tensor([2])), method)
    first, second = math.exp(2.0 + 0.3 - 1.0), math.exp(2.0 + 0.0 + 1.0)
    assert result.log_likelihood.item() == pytest.approx(math.log(first + second), rel=1e-14)
    share = first / (first + second)
    torch.testing.assert_close(result.marginals, row(1.0, 0.0, share, 1 - share), rtol=0, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_a_problem_without_instances_has_count_zero(method: str) -> None:
    zero = torch.full((3, 2), math.nan)
    lengths = torch.zeros(3, dtype=torch.int64)
    result = count_posterior(zero, zero, lengths, Exactly(torch.tensor([0, 1, -1])), method)
    assert result.log_likelihood.tolist() == [0.0, -INF, -INF]
    weights = Weighted(torch.tensor([[0.5], [-INF], [2.0]]))
    assert count_posterior(zero, zero, lengths, weights, method).log_likelihood.tolist() == [0.5, -INF, 2.0]
    assert count_posterior(zero[:, :0], zero[:, :0], lengths, weights, method).log_likelihood.tolist() == [
        0.5,
        -INF,
        2.0,
    ]
    assert count_posterior(zero[:0], zero[:0], lengths[:0], Exactly(lengths[:0]), method).marginals.shape == (0, 2)


@pytest.mark.parametrize("method", METHODS)
def test_nan_stays_in_its_own_problem(method: str) -> None:
    zero = torch.zeros(3, 40, dtype=torch.float64)
    one = torch.linspace(-2, 3, 40, dtype=torch.float64).repeat(3, 1)
    clean = count_posterior(zero, one, torch.full((3,), 40), Exactly(torch.tensor([3, 9, 20])), method)
    one[1, 5] = math.nan
    result = count_posterior(zero, one, torch.full((3,), 40), Exactly(torch.tensor([3, 9, 20])), method)
    assert result.log_likelihood.isnan().tolist() == [False, True, False]
    assert result.marginals.isnan().any(1).tolist() == [False, True, False]
    torch.testing.assert_close(result.marginals[::2], clean.marginals[::2], rtol=0, atol=1e-14)


NASTY = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    50.0,
    -50.0,
    1e4,
    -1e4,
    1e30,
    -1e30,
    1.7e308,
    -1.7e308,
    -INF,
    INF,
    5e-324,
    -5e-324,
    1e-300,
]


def nasty(shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    """Extreme values, some of them twice or more, half of them disturbed a little."""
    values = torch.tensor(NASTY, dtype=torch.float64)[torch.randint(len(NASTY), shape, generator=generator)]
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return torch.where(torch.rand(shape, generator=generator) < 0.5, values, values + noise)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("instances", [1, 3, 12, 70, 140])
def test_no_input_gives_nan(method: str, dtype: torch.dtype, instances: int) -> None:
    generator = torch.Generator().manual_seed(instances)
    problems = {"compiled": 400, "characteristic": 100, "recursion": 50}[method]
    zero, one = (nasty((problems, instances), generator).to(dtype) for _ in range(2))
    zero[: problems // 2], one[: problems // 2] = (
        zero[: problems // 2].clamp(-1e4, 1e4),
        one[: problems // 2].clamp(-1e4, 1e4),
    )
    lengths = torch.randint(instances + 1, (problems,), generator=generator)
    low = torch.randint(-1, instances + 2, (problems,), generator=generator)
    high = low + torch.randint(-1, instances + 2, (problems,), generator=generator)
    for weights in (Exactly(low), Between(low, high), Weighted(nasty((problems, instances + 1), generator))):
        log_likelihood, marginals = count_posterior(zero, one, lengths, weights, method)
        assert not log_likelihood.isnan().any()
        assert bool(((marginals >= 0) & (marginals <= 1)).all())
        assert not marginals[log_likelihood == -INF].any()


@pytest.mark.parametrize("method", ["compiled", "characteristic"])
@pytest.mark.parametrize("n", [40, 300])
def test_enormous_equal_logits_share_the_count_equally(method: str, n: int) -> None:
    zero, one = torch.zeros(1, n, dtype=torch.float64), torch.full((1, n), 1e30, dtype=torch.float64)
    one[:, 1::2] = -1e30
    for m in (1, n // 4, n // 2, n // 2 + 1):
        result = count_posterior(zero, one, torch.tensor([n]), Exactly(torch.tensor([m])), method)
        share = 2 * m / n
        expected = torch.tensor([min(share, 1.0), max(share - 1.0, 0.0)], dtype=torch.float64).repeat(n // 2)[None]
        torch.testing.assert_close(result.marginals, expected, rtol=0, atol=1e-12)


def test_without_the_compiler_plain_torch_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(11)
    for n in (8, 50):
        zero, one = torch.randn(2, 2, n, generator=generator, dtype=torch.float64)
        lengths, weights = torch.tensor([n, n - 3]), Exactly(torch.tensor([3, 2]))
        compiled = count_posterior(zero, one, lengths, weights, "compiled")
        with monkeypatch.context() as without:
            without.setattr(Kernel, "ready", lambda self: None)
            plain = count_posterior(zero, one, lengths, weights)
        torch.testing.assert_close(plain.marginals, compiled.marginals, rtol=0, atol=1e-13)
        torch.testing.assert_close(plain.log_likelihood, compiled.log_likelihood, rtol=1e-13, atol=0)


@pytest.mark.slow
def test_importing_counts_does_not_import_the_compiler() -> None:
    program = "import sys, glws.inference._counts; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "guess"}, "method must be one of auto, compiled, characteristic, recursion; found 'guess'"),
        ({"lengths": torch.tensor([3])}, r"lengths must be in 0\.\.2; found 3\.\.3"),
        ({"log_one": torch.zeros(1, 3)}, r"must be \[problems, instances\].*found \[1, 2\], \[1, 3\] and \[1\]"),
        ({"weights": Weighted(torch.zeros(1, 2))}, "2 instances need 3 columns of log-weights; found 2"),
        (
            {"log_zero": torch.zeros(1, 2).half(), "log_one": torch.zeros(1, 2).half()},
            "float32 or float64; found torch.float16",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_in_one_line(arguments, message: str) -> None:
    fitting = {"log_zero": torch.zeros(1, 2), "log_one": torch.zeros(1, 2), "lengths": torch.tensor([2])}
    with pytest.raises(DataError, match=message):
        posterior.check_problems(**{**fitting, "weights": Exactly(torch.tensor([1])), "method": "auto", **arguments})
