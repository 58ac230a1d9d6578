"""The families of weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from glws.inference import Sampled, binomial, count_posterior, geometric_noise, hypergeometric, laplace_noise

LENGTHS = torch.tensor([4, 0, 9])


def test_binomial_weights_are_the_binomial_law_of_each_length() -> None:
    weights = binomial(LENGTHS, torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64)).log_weights.exp().numpy()
    for row, n, share in zip(weights, LENGTHS.tolist(), (0.3, 0.5, 0.9), strict=True):
        np.testing.assert_allclose(row, scipy.stats.binom.pmf(np.arange(10), n, share), rtol=1e-12)


@pytest.mark.parametrize(("share", "only"), [(0.0, 0), (1.0, 4)])
def test_a_share_of_zero_or_one_allows_one_count(share: float, only: int) -> None:
    log_weights = binomial(torch.tensor([4]), share).log_weights[0]
    assert log_weights[only] == 0.0
    assert log_weights.exp().sum() == 1.0


def test_hypergeometric_weights_are_the_hypergeometric_law() -> None:
    weights = hypergeometric(LENGTHS, 20, 7).log_weights.exp().numpy()
    for row, n in zip(weights, LENGTHS.tolist(), strict=True):
        np.testing.assert_allclose(row, scipy.stats.hypergeom.pmf(np.arange(10), 20, 7, n), rtol=1e-12, atol=1e-300)


def test_a_group_larger_than_its_population_is_impossible() -> None:
    assert hypergeometric(torch.tensor([4]), 3, 2).log_weights.max() == -math.inf


def test_geometric_noise_is_a_law_of_the_observation() -> None:
    lengths = torch.tensor([3]).expand(401)
    seen = geometric_noise(torch.arange(-200, 201), 2.5, lengths).log_weights.exp()
    torch.testing.assert_close(seen.sum(0), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)


def test_laplace_noise_is_the_laplace_density() -> None:
    observed = torch.tensor([1.3, -0.2, 12.0], dtype=torch.float64)
    weights = laplace_noise(observed, 0.7, LENGTHS).log_weights.exp().numpy()
    for row, n, seen in zip(weights, LENGTHS.tolist(), observed.tolist(), strict=True):
        density = scipy.stats.laplace.pdf(seen, loc=np.arange(10), scale=0.7)
        np.testing.assert_allclose(row, np.where(np.arange(10) <= n, density, 0.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "loss", "posterior"),
    [
        (binomial(torch.tensor([4]), 0.5), 1.211417, [0.919570, 0.173201, 0.619847, 0.274788]),
        (hypergeometric(torch.tensor([4]), 20, 10), 1.153413, [0.922418, 0.169022, 0.625435, 0.270175]),
    ],
)
def test_the_worked_example_of_a_prior_over_a_batch(weights, loss: float, posterior: list[float]) -> None:
    probability = torch.tensor([[0.9, 0.2, 0.6, 0.3]], dtype=torch.float64)
    result = count_posterior((1 - probability).log(), probability.log(), torch.tensor([4]), weights)
    assert -result.log_likelihood.item() == pytest.approx(loss, abs=1e-6)  # six digits are given
    np.testing.assert_allclose(result.marginals[0].numpy(), posterior, atol=1e-6)


@pytest.mark.parametrize("method", ["auto", "compiled", "characteristic", "recursion"])
@pytest.mark.parametrize("seed", range(12))
def test_a_sample_is_answered_as_its_weights_written_down_are(seed: int, method: str) -> None:
    drawn = torch.Generator().manual_seed(seed)
    longest = [1, 3, 9, 40, 120][seed % 5]
    scale = 10 ** (4 * torch.rand((), generator=drawn) - 2)
    zero, one = torch.randn(2, 6, longest, generator=drawn, dtype=torch.float64) * scale
    one = one + 40 * (torch.rand((), generator=drawn) - 0.5)
    zero = torch.where(torch.rand(6, longest, generator=drawn) < 0.1, -math.inf, zero)
    one = torch.where(torch.rand(6, longest, generator=drawn) < 0.1, -math.inf, one)
    lengths = torch.randint(0, longest + 1, (6,), generator=drawn)
    prior = torch.rand(6, generator=drawn, dtype=torch.float64)
    prior[0], prior[1] = seed % 2, 1e-3
    found = count_posterior(zero, one, lengths, Sampled(prior), method)
    wanted = count_posterior(zero, one, lengths, binomial(lengths, prior), "recursion")
    assert torch.equal(found.log_likelihood == -math.inf, wanted.log_likelihood == -math.inf)
    possible = wanted.log_likelihood > -math.inf
    torch.testing.assert_close(found.log_likelihood[possible], wanted.log_likelihood[possible], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.marginals, wanted.marginals, rtol=0, atol=1e-10)


def test_a_sample_in_single_precision_and_one_of_nobody() -> None:
    probability = torch.tensor([[0.9, 0.2, 0.6, 0.3]])
    result = count_posterior(
        (1 - probability).log(), probability.log(), torch.tensor([4]), Sampled(torch.tensor([0.5]))
    )
    assert result.marginals.dtype == torch.float32
    torch.testing.assert_close(result.marginals, torch.tensor([[0.919570, 0.173201, 0.619847, 0.274788]]))
    nobody = count_posterior(torch.zeros(1, 0), torch.zeros(1, 0), torch.tensor([0]), Sampled(torch.tensor([0.3])))
    assert nobody.log_likelihood.tolist() == [0.0]
