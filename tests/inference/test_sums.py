"""Sums of values against enumeration, whole numbers of many digits, and the engine of counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from strategies import random_log_probs
from torch import Tensor

from glws.inference import Counts, Exactly, Sums, infer
from glws.inference._kernels import can_compile

pytestmark = pytest.mark.skipif(not can_compile(), reason="numba is not installed")

DIGITS = tuple(range(10))
INFINITE = math.inf


def form(low: list[float], high: list[float], values: tuple[int, ...], scale: float = 0.0) -> Sums:
    return Sums(torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64), values, scale)


SMALL = {
    "exact": form([3, 0, 5], [3, 0, 5], (0, 1, 2)),
    "range": form([2, -INFINITE, 3], [4, 2, INFINITE], (0, 1, 2)),
    "negative and uneven values": form([-3, 2, 4], [0, 2, 9], (-3, 5, 2)),
    "values in steps of four": form([4, 8, 7], [4, 12, 9], (0, 4, 12)),
    "two classes with the same value": form([2, 4, 1], [2, 5, 1], (2, 1, 2)),
    "noisy": form([3, 7.5, -2], [3, 7.5, -2], (0, 1, 2), 0.6),
    "noisy range": form([1, 2, -INFINITE], [3, 2.5, 1], (3, 1, 0), 1.4),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("length", [1, 3, 5])
def test_equals_enumeration(name: str, length: int) -> None:
    log_probs, weak = random_log_probs(length, 3, length, 3), SMALL[name]
    lengths = torch.tensor([length, max(length - 2, 0), length])
    found, oracle = (infer(log_probs, weak, lengths, engine=engine) for engine in ("auto", "enumeration"))
    assert found.engine == "sums"
    torch.testing.assert_close(found.log_likelihood, oracle.log_likelihood, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.marginals, oracle.marginals, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SMALL)
def test_plain_torch_gives_the_compiled_answer(name: str) -> None:
    potentials, weak, lengths = random_log_probs(2, 3, 30, 3), SMALL[name], torch.tensor([30, 17, 2])
    potentials[0, 3, 1] = -torch.inf
    for found, other in zip(weak.solve(potentials, lengths), weak._recursion(potentials, lengths), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-11, atol=1e-11)


def exact(log_probs: Tensor, total: int) -> tuple[float, Tensor]:
    """log P(S = total) and posteriors of digits, in arithmetic of 240 bits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(240):
        p = [[mpmath.exp(mpmath.mpf(x)) if x > -INFINITE else mpmath.mpf(0) for x in row] for row in log_probs.tolist()]
        alphas = [np.array([mpmath.mpf(1)], dtype=object)]
        for row in p:
            after = np.array([mpmath.mpf(0)] * (len(alphas[-1]) + 9), dtype=object)
            for value, weight in enumerate(row):
                after[value : value + len(alphas[-1])] += weight * alphas[-1]
            alphas.append(after)
        whole = alphas[-1][total]
        beta, marginals = np.array([mpmath.mpf(0)] * len(alphas[-1]), dtype=object), torch.zeros(log_probs.shape)
        beta[total] = mpmath.mpf(1)
        marginals = marginals.double()
        for step in reversed(range(len(p))):
            size, before = len(alphas[step]), np.array([mpmath.mpf(0)] * len(alphas[step]), dtype=object)
            for value, weight in enumerate(p[step]):
                part = weight * beta[value : value + size]
                before += part
                marginals[step, value] = float((part * alphas[step]).sum() / whole)
            beta = before
        return float(mpmath.log(whole)), marginals


@pytest.mark.parametrize("length", [1, 11, 24])
@pytest.mark.parametrize("steepness", [0.3, 3.0, 25.0])
def test_digits_are_right_to_twelve_places(length: int, steepness: float) -> None:
    log_probs = (steepness * random_log_probs(length, 1, length, 10)).log_softmax(-1)
    best = int(log_probs.argmax(-1).sum())
    for total in {best, min(best + 1, 9 * length), 2 * length, 0}:
        log_z, marginals = exact(log_probs[0], total)
        answer = infer(log_probs, form([total], [total], DIGITS))
        assert abs(float(answer.log_likelihood) - log_z) <= 1e-12 * max(1.0, abs(log_z))
        torch.testing.assert_close(answer.marginals[0], marginals, rtol=0, atol=1e-12)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no numbers of 80 bits")
@pytest.mark.parametrize(("length", "steepness"), [(48, 0.3), (48, 25.0), (300, 2.0), (1500, 0.2), (1500, 12.0)])
def test_long_sums_are_right_to_twelve_places(length: int, steepness: float) -> None:
    log_probs = (steepness * random_log_probs(length, 1, length, 3)).log_softmax(-1)
    values, p = (0, 1, 4), log_probs[0].exp().numpy().astype(np.longdouble)
    mean = int((log_probs[0].exp() @ torch.tensor(values).double()).sum())
    for total in (mean, mean + 3 * int(length**0.5), 2 * length):
        alphas = [np.eye(1, 4 * length + 1, dtype=np.longdouble)[0]]
        for row in p:
            after = np.zeros_like(alphas[-1])
            for value, weight in zip(values, row, strict=True):
                after[value:] += weight * alphas[-1][: len(after) - value]
            alphas.append(after)
        beta, marginals = np.eye(1, 4 * length + 1, total, dtype=np.longdouble)[0], np.zeros((length, 3))
        for step in reversed(range(length)):
            moved = [np.concatenate([beta[value:], np.zeros(value)]) * p[step, v] for v, value in enumerate(values)]
            marginals[step] = [float((part * alphas[step]).sum() / alphas[-1][total]) for part in moved]
            beta = sum(moved)
        answer = infer(log_probs, form([total], [total], values))
        log_z = float(np.log(alphas[-1][total]))
        assert abs(float(answer.log_likelihood) - log_z) <= 1e-12 * max(1.0, abs(log_z))
        torch.testing.assert_close(answer.marginals[0], torch.from_numpy(marginals), rtol=0, atol=1e-12)


def test_threads_and_packed_groups_change_no_bit() -> None:
    log_probs, lengths = random_log_probs(1, 300, 120, 10), torch.arange(300) % 117 + 1
    weak = form(*[(3.0 * lengths).tolist()] * 2, DIGITS)
    padded = infer(log_probs, weak, lengths)
    real = torch.arange(120) < lengths[:, None]
    packed = infer(log_probs[real], weak, lengths)
    assert torch.equal(packed.marginals, padded.marginals[real])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert torch.equal(infer(log_probs, weak, lengths).marginals, padded.marginals)
    finally:
        torch.set_num_threads(threads)


def test_values_with_wide_gaps_and_sums_at_the_ends() -> None:
    log_probs = random_log_probs(4, 4, 6, 4)
    weak = form([0, 7 * 6, 250, 1], [0, 7 * 6, 300, 1], (0, 7, 100, 1))
    found, oracle = (infer(log_probs, weak, engine=engine) for engine in ("auto", "enumeration"))
    torch.testing.assert_close(found.log_likelihood, oracle.log_likelihood, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.marginals, oracle.marginals, rtol=0, atol=1e-12)


def test_the_best_labeling_and_samples_of_a_long_group() -> None:
    log_probs = (3 * random_log_probs(6, 2, 200, 10)).log_softmax(-1)
    labels = log_probs.argmax(-1)
    answer = infer(log_probs, form(*[[float(labels[0].sum()), float(labels[1].sum()) + 1]] * 2, DIGITS))
    mode = answer.mode()
    assert torch.equal(mode[0], labels[0])
    chosen = log_probs[1].gather(1, mode[1:].T).sum() - log_probs[1].amax(-1).sum()
    up = torch.where(labels[1] < 9, log_probs[1].gather(1, (labels[1:].T + 1).clamp_max(9))[:, 0], -INFINITE)
    assert mode[1].sum() == labels[1].sum() + 1
    assert chosen >= (up - log_probs[1].amax(-1)).max() - 1e-12
    samples = answer.sample(300, torch.Generator().manual_seed(0))
    assert torch.equal(samples.sum(2), torch.stack([labels.sum(1) + torch.tensor([0, 1])] * 300))
    means = torch.nn.functional.one_hot(samples, 10).double().mean(0)
    torch.testing.assert_close(means, answer.marginals, rtol=0, atol=0.15)


@pytest.mark.parametrize("steepness", [0.5, 8.0])
@pytest.mark.parametrize("length", [300, 5000])
def test_sums_of_flags_are_counts(steepness: float, length: int) -> None:
    log_probs = (steepness * random_log_probs(length, 3, length, 2)).log_softmax(-1)
    expected = float(log_probs[:, :, 1].exp().sum(1).mean())
    counts = torch.tensor([int(expected), int(0.7 * expected), length - 3])
    counted = torch.tensor([False, True]).expand(3, -1)
    found = infer(log_probs, form(counts.tolist(), counts.tolist(), (0, 1)))
    other = infer(log_probs, Counts(counted, Exactly(counts), 1))
    torch.testing.assert_close(found.log_likelihood, other.log_likelihood, rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(found.marginals, other.marginals, rtol=0, atol=1e-11)


def test_sure_predictions_that_are_off_by_one() -> None:
    """A single tilt would move one digit by nine rather than by one; the answer is by one."""
    digits = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]])
    log_probs = torch.full((1, 16, 10), 1e-14, dtype=torch.float64).scatter(2, digits[:, :, None], 1.0).log()
    log_z, marginals = exact(log_probs[0], int(digits.sum()) + 1)
    answer = infer(log_probs, form([int(digits.sum()) + 1.0], [int(digits.sum()) + 1.0], DIGITS))
    assert abs(float(answer.log_likelihood) - log_z) < 1e-11
    torch.testing.assert_close(answer.marginals[0], marginals, rtol=0, atol=1e-12)


def test_impossible_sums_are_minus_infinity_and_zero() -> None:
    log_probs = random_log_probs(1, 4, 20, 3)
    log_probs[2] = torch.where(torch.tensor([True, False, True]), log_probs[2], -torch.inf)
    log_probs[3, 5] = -torch.inf
    answer = infer(log_probs, form([41, -1, 7, 20], [41, -1, 7, 20], (0, 1, 2)))
    assert torch.all(answer.log_likelihood == -torch.inf)
    assert torch.all(answer.marginals == 0)
    assert infer(log_probs[:1], form([7], [7], (0, 2, 4))).num_impossible == 1


def test_predictions_beyond_the_range_of_exponentials() -> None:
    log_probs = 2000.0 * random_log_probs(3, 2, 6, 3)
    weak = form([3, 11], [3, 11], (0, 1, 2))
    found, oracle = (infer(log_probs, weak, engine=engine) for engine in ("auto", "enumeration"))
    torch.testing.assert_close(found.log_likelihood, oracle.log_likelihood, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.marginals, oracle.marginals, rtol=0, atol=1e-11)


def test_gradient_is_the_posterior_and_padding_may_hold_anything() -> None:
    log_probs = random_log_probs(5, 2, 25, 10)
    log_probs[1, 13:] = torch.nan
    log_probs.requires_grad_()
    answer = infer(log_probs, form([100, 50], [100, 60], DIGITS), [25, 13])
    (gradient,) = torch.autograd.grad(answer.log_likelihood.sum(), log_probs)
    torch.testing.assert_close(torch.nan_to_num(gradient), answer.marginals)
    torch.testing.assert_close(answer.marginals.sum(2), (torch.arange(25) < torch.tensor([[25], [13]])).double())


@pytest.mark.parametrize("name", ["exact", "range", "noisy"])
def test_mode_entropy_and_samples(name: str) -> None:
    log_probs, weak = random_log_probs(9, 3, 4, 3), SMALL[name]
    found, other = infer(log_probs, weak), infer(log_probs, [weak.automaton(group, 4) for group in range(3)])
    torch.testing.assert_close(found.entropy(), other.entropy(), rtol=1e-9, atol=1e-9)
    assert torch.equal(found.mode(), other.mode())
    samples = found.sample(4000, torch.Generator().manual_seed(0))
    shares = torch.nn.functional.one_hot(samples, 3).double().mean(0)
    torch.testing.assert_close(shares, found.marginals, rtol=0, atol=0.05)


@pytest.mark.parametrize(("length", "sharpness"), [(2, 1.0), (16, 3.0), (40, 0.2), (150, 0.5), (150, 6.0)])
def test_frequencies_in_plain_torch_give_the_recursion_s_answer(length: int, sharpness: float) -> None:
    generator = torch.Generator().manual_seed(length)
    potentials = (torch.randn(4, length, 10, generator=generator, dtype=torch.float64) * sharpness).log_softmax(2)
    potentials[1, 0, 3] = -torch.inf
    labels = torch.distributions.Categorical(logits=potentials).sample()
    lengths = torch.tensor([length, length, max(length - 5, 1), length])
    totals = (labels * (torch.arange(length) < lengths[:, None])).sum(1).tolist()
    totals[3] = 1  # far from the mean
    weak = form(totals, totals, DIGITS)
    for found, other in zip(weak._frequencies(potentials, lengths), weak._recursion(potentials, lengths), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-10, atol=1e-10)


def test_frequencies_leave_what_they_cannot_tell_to_the_recursion() -> None:
    even = torch.where(torch.arange(10) % 2 == 0, 0.2, 0.0).log().double().expand(3, 16, 10)
    odd_sum, ranged = form([33.0] * 3, [33.0] * 3, DIGITS), form([1.0] * 3, [9.0] * 3, DIGITS)
    lengths = torch.tensor([16, 16, 16])
    assert odd_sum._frequencies(even, lengths)[0].isnan().all()
    assert ranged._frequencies(even, lengths)[0].isnan().all()
    assert (form([-2.0, 145.0, 2.5], [-2.0, 145.0, 2.5], DIGITS)._frequencies(even, lengths)[0]).isnan().all()
