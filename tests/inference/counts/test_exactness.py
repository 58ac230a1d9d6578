"""Every method against oracles that share nothing with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from glws.inference import Between, CountResult, Exactly, Weighted, Weights, count_posterior

FAST = ["compiled", "characteristic"]
TOLERANCE = 1e-10  # the promise; what is seen is 1e-13 and below


def ask(zero: np.ndarray, one: np.ndarray, weights: Weights, method: str) -> tuple[float, np.ndarray]:
    """One problem."""
    lengths = torch.tensor([len(zero)])
    result = count_posterior(torch.from_numpy(zero)[None], torch.from_numpy(one)[None], lengths, weights, method)
    return float(result.log_likelihood[0]), result.marginals[0].numpy()


def dense(low: int, high: int, n: int) -> np.ndarray:
    counts = np.arange(n + 1)
    return np.where((counts >= low) & (counts <= high), 0.0, -np.inf)


def between(low: int, high: int) -> Between:
    return Between(torch.tensor([low]), torch.tensor([high]))


def exactly(count: int) -> Exactly:
    return Exactly(torch.tensor([count]))


def weighted(log_weights: np.ndarray) -> Weighted:
    return Weighted(torch.from_numpy(log_weights)[None])


def assert_close(answer: tuple[float, np.ndarray], expected: tuple[float, np.ndarray]) -> None:
    assert answer[0] == expected[0] or abs(answer[0] - expected[0]) <= TOLERANCE * max(1.0, abs(expected[0]))
    np.testing.assert_allclose(answer[1], expected[1], rtol=0, atol=TOLERANCE)


def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of scale 0.1 to 100, shifted by up to ±50, on potentials that are not normalized."""
    zero = 3.0 * rng.normal(size=n)
    return zero, zero + 10.0 ** rng.uniform(-1, 2) * rng.normal(size=n) + rng.choice([-50.0, -3.0, 0.0, 3.0, 50.0])


@pytest.mark.parametrize("method", [*FAST, "recursion"])
@pytest.mark.parametrize("seed", range(40))
def test_every_kind_of_weight_agrees_with_enumeration_of_all_labelings(by_labelings, method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    zero, one = 2.0 * rng.normal(size=(2, n))
    zero[rng.random(n) < 0.15] = -np.inf
    one[rng.random(n) < 0.15] = -np.inf
    low, high = sorted(rng.integers(-1, n + 2, size=2).tolist())
    noisy = rng.normal(size=n + 1) * 2
    noisy[rng.random(n + 1) < 0.3] = -np.inf
    assert_close(ask(zero, one, exactly(low), method), by_labelings(zero, one, dense(low, low, n)))
    assert_close(ask(zero, one, between(low, high), method), by_labelings(zero, one, dense(low, high, n)))
    assert_close(ask(zero, one, weighted(noisy), method), by_labelings(zero, one, noisy))


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("n", [1, 2, 10, 63, 64, 65, 127, 130, 300, 700])
def test_hard_counts_agree_with_extended_precision(extended, method: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for m in {0, 1, n // 4, n // 2, n - 1, n, int(rng.integers(n + 1))}:
        zero, one = draw(rng, n)
        assert_close(ask(zero, one, exactly(m), method), extended(zero, one, dense(m, m, n)))


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("m", [1, 2, 7, 20, 60, 599])
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_counts_near_either_end_agree_with_extended_precision(extended, method: str, m: int, scale: float) -> None:
    """All small sides are small, and fewer terms of the power series do."""
    logits = scale * np.random.default_rng(m).normal(size=600)
    zero, one = -np.logaddexp(0.0, logits), -np.logaddexp(0.0, -logits)
    assert_close(ask(zero, one, exactly(m), method), extended(zero, one, dense(m, m, 600)))
    assert_close(ask(zero, one, between(m, m + 1), method), extended(zero, one, dense(m, m + 1, 600)))


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("n", [2, 10, 64, 65, 130, 400])
def test_ranges_at_least_and_at_most_agree_with_extended_precision(extended, method: str, n: int) -> None:
    rng = np.random.default_rng(1000 + n)
    for _ in range(3):
        zero, one = draw(rng, n)
        low, high = sorted(rng.integers(0, n + 1, size=2).tolist())
        for window in [(low, high), (low, n), (0, high), (low, min(low + 2, n))]:
            assert_close(ask(zero, one, between(*window), method), extended(zero, one, dense(*window, n)))


def weights_of_many_shapes(rng: np.random.Generator, zero: np.ndarray, one: np.ndarray) -> dict[str, np.ndarray]:
    n = len(zero)
    sparse = np.full(n + 1, -np.inf)
    sparse[rng.integers(0, n + 1, size=3)] = 20.0 * rng.normal(size=3)
    probability = torch.sigmoid(torch.from_numpy(one - zero)).numpy()
    law = np.ones(1)
    for p in probability:
        law = np.convolve(law, [1 - p, p])
    with np.errstate(divide="ignore"):
        against = np.where(law > 1e-250, -np.log(law), 0.0)  # undoes the law: no count is negligible
    return {
        "noise": 10.0 ** rng.uniform(-1, 2) * rng.normal(size=n + 1),
        "flat": np.zeros(n + 1),
        "peaked": -np.abs(np.arange(n + 1) - rng.integers(n + 1)) * rng.uniform(0.01, 3.0),
        "sparse": sparse,
        "against the law": against + rng.normal(size=n + 1),
        "ends": np.where(np.isin(np.arange(n + 1), [0, n]), rng.normal(size=n + 1), -np.inf),
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("n", [1, 7, 40, 127, 128, 129, 250])
def test_any_weights_agree_with_extended_precision(extended, method: str, n: int) -> None:
    rng = np.random.default_rng(2000 + n)
    zero, one = 3.0 * rng.normal(size=(2, n)) + [[0.0], [1.0]]
    for log_weights in weights_of_many_shapes(rng, zero, one).values():
        assert_close(ask(zero, one, weighted(log_weights), method), extended(zero, one, log_weights))


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
def test_any_weights_are_exact_on_spread_out_logits(many_digits, method: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(3000 + seed)
        zero, one = draw(rng, 45)
        for log_weights in weights_of_many_shapes(rng, zero, one).values():
            assert_close(ask(zero, one, weighted(log_weights), method), many_digits(zero, one, log_weights))


EXTREMES = {
    "p = 1e-6, half of 150 counted": (np.full(150, math.log1p(-1e-6)), np.full(150, math.log(1e-6)), 75),
    "p = 1e-6, half of 40 counted": (np.full(40, math.log1p(-1e-6)), np.full(40, math.log(1e-6)), 20),
    "all p = 0.5, one of 150": (np.full(150, math.log(0.5)), np.full(150, math.log(0.5)), 1),
    "logits of ±100, against all of them": (np.zeros(120), np.repeat([100.0, -100.0], [30, 90]), 75),
    "a staircase of logits": (np.zeros(100), np.linspace(-700.0, 900.0, 100), 37),
    "one undecided among certain": (np.zeros(90), np.repeat([400.0, 0.3, -400.0], [44, 1, 45]), 45),
    "far larger than any θ": (np.zeros(80), np.repeat([1e6, 1e6 + 1.0], [50, 30]), 11),
    "probabilities of 1e-300": (np.zeros(70), np.full(70, -690.0) + np.linspace(0, 1, 70), 35),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_hard_counts_agree_with_sixty_digits(many_digits, method: str, name: str) -> None:
    zero, one, m = EXTREMES[name]
    n = len(zero)
    assert_close(ask(zero, one, exactly(m), method), many_digits(zero, one, dense(m, m, n)))
    assert_close(ask(zero, one, between(m, n), method), many_digits(zero, one, dense(m, n, n)))
    assert_close(ask(zero, one, between(0, m), method), many_digits(zero, one, dense(0, m, n)))


@pytest.mark.slow
@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize(("n", "share"), [(2000, 0.25), (2000, 0.5), (5000, 0.25), (5000, 0.001)])
def test_long_groups_agree_with_extended_precision(extended, method: str, n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    m = int(n * share)
    for zero, one in [draw(rng, n), (np.full(n, math.log1p(-1e-6)), np.full(n, math.log(1e-6)) + rng.normal(size=n))]:
        assert_close(ask(zero, one, exactly(m), method), extended(zero, one, dense(m, m, n)))


@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("n", [10, 64, 65, 2000, 40_000])
def test_posteriors_of_a_hard_count_sum_to_it(method: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for m in (1, n // 3, n - 2):
        zero, one = draw(rng, n)
        assert abs(ask(zero, one, exactly(m), method)[1].sum() - m) < 1e-11 * n


@pytest.mark.parametrize("method", FAST)
def test_probabilities_of_all_counts_sum_to_one(method: str) -> None:
    n = 200
    logits = torch.randn(1, n, generator=torch.Generator().manual_seed(5), dtype=torch.float64).expand(n + 1, -1)
    zero, one = torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)
    result = count_posterior(zero, one, torch.full((n + 1,), n), Exactly(torch.arange(n + 1)), method)
    assert abs(float(result.log_likelihood.exp().sum()) - 1.0) < 1e-13


@pytest.mark.parametrize("method", FAST)
def test_marginals_are_the_derivative_of_the_log_likelihood(method: str) -> None:
    generator = torch.Generator().manual_seed(6)
    for n in (9, 90):
        zero, one = torch.randn(2, 1, n, generator=generator, dtype=torch.float64) * 2
        lengths, weights = torch.tensor([n]), between(n // 3, n // 2)
        step = 1e-5 * torch.eye(n, dtype=torch.float64)
        many = Between(weights.low.expand(n), weights.high.expand(n))
        up = count_posterior(zero.expand(n, -1), one + step, lengths.expand(n), many, method)
        down = count_posterior(zero.expand(n, -1), one - step, lengths.expand(n), many, method)
        slope = (up.log_likelihood - down.log_likelihood) / 2e-5
        marginals = count_posterior(zero, one, lengths, weights, method).marginals[0]
        assert (slope - marginals).abs().max() < 1e-8  # the error of the difference quotient


@pytest.mark.parametrize("method", [*FAST, "recursion"])
def test_float32_posteriors_stay_within_1e_4(method: str) -> None:
    generator = torch.Generator().manual_seed(7)
    for n in (10, 80, 600):
        zero, one = torch.randn(2, 3, n, generator=generator) * 4
        lengths, weights = torch.tensor([n, n - 1, n // 2]), Exactly(torch.tensor([n // 4, 1, n // 2]))
        single = count_posterior(zero, one, lengths, weights, method)
        double = count_posterior(zero.double(), one.double(), lengths, weights, method)
        assert single.marginals.dtype == single.log_likelihood.dtype == torch.float32
        assert (single.marginals - double.marginals).abs().max() < 1e-6  # rounding of the answer only; promised 1e-4


@pytest.mark.parametrize("method", FAST)
def test_permuting_the_instances_permutes_the_posteriors(method: str) -> None:
    rng = np.random.default_rng(8)
    for n in (12, 150):
        zero, one = draw(rng, n)
        order = rng.permutation(n)
        plain, permuted = ask(zero, one, exactly(n // 3), method), ask(zero[order], one[order], exactly(n // 3), method)
        assert_close(permuted, (plain[0], plain[1][order]))


def same(left: CountResult, right: CountResult) -> bool:
    return bool(torch.equal(left.log_likelihood, right.log_likelihood) and torch.equal(left.marginals, right.marginals))


@pytest.mark.parametrize("kind", ["exactly", "between", "weighted"])
def test_padding_and_batch_mates_change_no_bit_when_compiled(kind: str) -> None:
    generator = torch.Generator().manual_seed(9)
    zero, one = torch.randn(2, 4, 200, generator=generator, dtype=torch.float64) * 3
    lengths, low = torch.tensor([7, 200, 90, 131]), torch.tensor([2, 60, 45, 20])
    log_weights = torch.randn(4, 201, generator=generator, dtype=torch.float64)
    choices = {"exactly": Exactly(low), "between": Between(low, low + 3), "weighted": Weighted(log_weights)}
    together = count_posterior(zero, one, lengths, choices[kind], "compiled")
    for b, n in enumerate(lengths.tolist()):
        alone = {
            "exactly": Exactly(low[b : b + 1]),
            "between": Between(low[b : b + 1], low[b : b + 1] + 3),
            "weighted": Weighted(log_weights[b : b + 1, : n + 1]),
        }[kind]
        single = count_posterior(zero[b : b + 1, :n], one[b : b + 1, :n], lengths[b : b + 1], alone, "compiled")
        assert same(single, CountResult(together.log_likelihood[b : b + 1], together.marginals[b : b + 1, :n]))
        assert not together.marginals[b, n:].any()


@pytest.mark.parametrize("method", ["characteristic", "recursion"])
def test_padding_and_batch_mates_change_nothing_in_plain_torch(method: str) -> None:
    generator = torch.Generator().manual_seed(10)
    zero, one = torch.randn(2, 3, 60, generator=generator, dtype=torch.float64) * 3
    lengths, low = torch.tensor([7, 60, 33]), torch.tensor([2, 20, 17])
    zero[0, 7:], one[2, 33:] = math.nan, math.inf
    together = count_posterior(zero, one, lengths, Between(low, low + 3), method)
    for b, n in enumerate(lengths.tolist()):
        window = Between(low[b : b + 1], low[b : b + 1] + 3)
        alone = count_posterior(zero[b : b + 1, :n], one[b : b + 1, :n], lengths[b : b + 1], window, method)
        torch.testing.assert_close(together.log_likelihood[b : b + 1], alone.log_likelihood, rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(together.marginals[b : b + 1, :n], alone.marginals, rtol=0, atol=1e-13)
        assert not together.marginals[b, n:].any()
