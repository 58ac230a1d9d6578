"""R5, R6: answers that are known from elsewhere."""

import math

import pytest
import torch
from scipy.stats import poisson_binom
from strategies import random_log_probs
from torch.nn import functional

import glws
from glws.automata import Automaton, exactly, string


def ctc_automaton(labels: list[int], classes: int) -> Automaton:
    """Connectionist temporal classification: blanks (class 0) between and around the labels, repetitions collapse."""
    spelled = [0]
    for label in labels:
        spelled += [label, 0]
    arcs = []
    for state, symbol in enumerate(spelled):
        ways = [state, state - 1]
        if state > 1 and symbol != 0 and symbol != spelled[state - 2]:
            ways.append(state - 2)
        arcs += [(way, symbol, state) for way in ways if way >= 0]
    first = len(spelled)  # a start before the first symbol
    arcs += [(first, spelled[state], state) for state in range(min(2, len(spelled)))]
    return Automaton(first + 1, classes, arcs, start=first, final=[first - 1, first - 2][: 2 if labels else 1])


@pytest.mark.parametrize(("labels", "length"), [([1, 2], 6), ([1, 1], 7), ([3, 1, 3, 2], 9), ([2], 1), ([1, 2, 3], 12)])
def test_ctc_loss_and_gradient_are_reproduced(labels: list[int], length: int) -> None:
    logits = 2 * torch.randn(1, length, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = -glws.infer(ours.log_softmax(-1), ctc_automaton(labels, 4)).log_likelihood[0]
    loss.backward()
    reference = functional.ctc_loss(
        theirs.log_softmax(-1).transpose(0, 1), torch.tensor([labels]), [length], [len(labels)], reduction="sum"
    )
    reference.backward()
    assert abs((loss - reference).item()) < 1e-10
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-10)


def test_true_labels_give_cross_entropy() -> None:
    logits = torch.randn(7, 1, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 3, 1, 4, 2, 2, 0])
    weak = [string([int(label)], 5) for label in labels]
    ours = -glws.infer(logits.log_softmax(-1), weak).log_likelihood.mean()
    (gradient,) = torch.autograd.grad(ours, logits)
    reference = functional.cross_entropy(logits[:, 0], labels)
    assert abs((ours - reference).item()) < 1e-12
    assert torch.allclose(gradient, torch.autograd.grad(reference, logits)[0], atol=1e-12)


def test_counts_are_poisson_binomial() -> None:
    log_probs = random_log_probs(3, 1, 9, 2)
    law = poisson_binom(log_probs[0, :, 1].exp().numpy())
    for count in range(10):
        ours = float(glws.infer(log_probs, exactly(count)).log_likelihood.exp())
        assert abs(ours - law.pmf(count)) < 1e-12


def test_umbrella_world_is_reproduced() -> None:
    """Rain and umbrellas, a well-known hidden Markov model: two days with umbrella, then smoothing.

    States are rain / no rain before each day; a day's symbol is its weather (0 rain, 1 none), the evidence that of the
    umbrella: 0.9 and 0.2. Published: filtered day 1 0.818, day 2 0.883; smoothed day 1 0.883.
    """
    stay, change = math.log(0.7), math.log(0.3)
    arcs = [(0, 0, 0, stay), (0, 1, 1, change), (1, 0, 0, change), (1, 1, 1, stay)]
    weather = Automaton(2, 2, arcs, start={0: math.log(0.5), 1: math.log(0.5)}, final=[0, 1], sum_paths=True)
    umbrella = torch.tensor([0.9, 0.2], dtype=torch.float64).log()
    one_day = glws.infer(umbrella.expand(1, 1, 2), weather).marginals
    two_days = glws.infer(umbrella.expand(1, 2, 2), weather).marginals
    assert abs(float(one_day[0, 0, 0]) - 0.818) < 5e-4
    assert abs(float(two_days[0, 0, 0]) - 0.883) < 5e-4
    assert abs(float(two_days[0, 1, 0]) - 0.883) < 5e-4


@pytest.mark.parametrize("engine", ["auto", "trellis"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_two_thousand_instances_keep_the_closed_form(engine: str, dtype: torch.dtype, tolerance: float) -> None:
    """Exactly m of 2,000 equal instances: a binomial probability, and a posterior of m/L everywhere."""
    length, count, p = 2000, 20, 0.03
    log_probs = torch.tensor([math.log1p(-p), math.log(p)], dtype=dtype).expand(1, length, 2)
    answer = glws.infer(log_probs, exactly(count), engine=engine)
    choose = math.lgamma(length + 1) - math.lgamma(count + 1) - math.lgamma(length - count + 1)
    expected = choose + count * math.log(p) + (length - count) * math.log1p(-p)
    assert abs(float(answer.log_likelihood) / expected - 1) < tolerance
    assert float((answer.marginals[0, :, 1] / (count / length) - 1).abs().max()) < tolerance


@pytest.mark.slow
def test_ten_thousand_instances_stay_finite_and_normalized() -> None:
    log_probs = random_log_probs(11, 2, 10_000, 3, scale=30.0)
    automaton = exactly(3, of=1, num_symbols=3) & exactly(2, of=2, num_symbols=3)
    answer = glws.infer(log_probs, automaton)
    assert torch.isfinite(answer.log_likelihood).all()
    assert torch.allclose(answer.marginals.sum(-1), torch.ones(2, 10_000, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(answer.marginals[..., 1].sum(1), torch.full((2,), 3.0, dtype=torch.float64), atol=1e-7)
