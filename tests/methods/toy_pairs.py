"""Worked batches of pairs, and a world of three inputs in which every expectation is a finite sum."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from glws.data import Batch, WeakDataset
from glws.data.weaken import Weakened
from glws.errors import DataError
from glws.kinds import AbstractSupervision, Labels
from glws.methods import AbstractMethod, Outputs, Step, step_of
from glws.methods._risks import Surrogate, surrogate

SIX_DIGITS = 6e-7
"""Of numbers that are worked out by hand and written down with six digits."""
ROUNDING = 1e-12
"""Of sums of a few thousand terms in float64."""
PRIORS = [0.4, 0.8]
SUPERVISED = {0.4: 0.531170, 0.8: 0.464801}

# p(x | +) and p(x | -) of the three inputs, and the scores a network gives them.
GIVEN_POSITIVE = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
GIVEN_NEGATIVE = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
WORLD_SCORES = torch.tensor([1.5, 0.2, -1.0], dtype=torch.float64)
UNIT = 0.02
"""All probabilities of inputs with labels are whole multiples of this."""


def batch_of(first: list[float], second: list[float]) -> Tensor:
    """Scores of pairs, [pairs, 2], ready for a gradient."""
    return torch.tensor([first, second], dtype=torch.float64).T.contiguous().requires_grad_()


def b1() -> Tensor:
    return batch_of([0.8, -0.3, 1.5, 0.1], [-0.5, 0.6, 0.9, -1.2])


def b2() -> Tensor:
    return batch_of([4, 3, 5, 2.5], [-4, -3, -5, -2.5])


def logits_of(scores: Tensor) -> Tensor:
    """Two logits with these scores, neither of which is the score itself."""
    return torch.stack([0.25 - scores / 3, 0.25 + scores * 2 / 3], -1)


def step_with(batch: Batch, logits: Tensor, taught: Tensor | None = None, **others: object) -> Step:
    """One step whose network (and teacher) give these logits for the rows of the batch, in either view."""
    answer = logits.detach() if taught is None else taught
    views = {"weak": logits, "weak_2": logits}
    return step_of(batch, views, averaged=lambda _: Outputs(answer, answer), **others)


def everything(data: WeakDataset) -> Batch:
    """All groups, in their order."""
    return data.batch([torch.arange(len(data))])


def pairs_step(scores: Tensor, weak: AbstractSupervision, taught: Tensor | None = None, **others: object) -> Step:
    """One step on pairs (or single instances) of their own, with these scores."""
    numbers = torch.arange(scores.numel()).view(len(scores), -1)
    data = WeakDataset(torch.zeros(scores.numel(), 1), numbers, weak)
    teacher = None if taught is None else logits_of(taught.detach().reshape(-1))
    return step_with(everything(data), logits_of(scores.reshape(-1)), teacher, **others)


def loss_of(method: AbstractMethod, scores: Tensor, weak: AbstractSupervision, **others: object) -> Tensor:
    """The method's loss on these scores."""
    return method.loss(pairs_step(scores, weak, **others))


def gradient_of(method: AbstractMethod, scores: Tensor, weak: AbstractSupervision, **others: object) -> Tensor:
    """Its derivative by the scores, [pairs, 2]."""
    leaf = scores.detach().clone().requires_grad_()
    return torch.autograd.grad(loss_of(method, leaf, weak, **others), leaf)[0]


def close(
    found: Tensor, wanted: float | list[float] | list[list[float]] | Tensor, tolerance: float = SIX_DIGITS
) -> None:
    expected = torch.as_tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(found.detach().double(), expected, rtol=0, atol=tolerance)


# The world of three inputs.


def joint(prior: float) -> Tensor:
    """p(x, y) as [labels, inputs]."""
    return torch.stack([(1 - prior) * GIVEN_NEGATIVE, prior * GIVEN_POSITIVE])


def posterior(prior: float) -> Tensor:
    """r = P(positive | x) of the three inputs."""
    return joint(prior)[1] / joint(prior).sum(0)


def supervised_risk(prior: float, name: Surrogate = "logistic", scores: Tensor = WORLD_SCORES) -> Tensor:
    """Σ p(x, y) ℓ(z(x), y)."""
    return (joint(prior) * torch.stack([surrogate(-scores, name), surrogate(scores, name)])).sum()


def population(prior: float) -> tuple[Tensor, Tensor]:
    """Inputs and labels of 50 instances whose frequencies are the probabilities."""
    counts = (joint(prior) / UNIT).round()
    torch.testing.assert_close(counts * UNIT, joint(prior), rtol=0, atol=ROUNDING)
    labels, inputs = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    repeats = counts.long().reshape(-1)
    return inputs.reshape(-1).repeat_interleave(repeats), labels.reshape(-1).repeat_interleave(repeats)


def independent_pairs(prior: float) -> tuple[Tensor, Tensor]:
    """Inputs and labels, [2500, 2], of all pairs of the population."""
    inputs, labels = population(prior)
    places = torch.cartesian_prod(torch.arange(len(inputs)), torch.arange(len(inputs)))
    return inputs[places], labels[places]


def compared_pairs(prior: float, rule: str) -> tuple[Tensor, Tensor]:
    """The same after putting them in order ("swap"), or without those that are not ("discard")."""
    inputs, labels = independent_pairs(prior)
    wrong = labels[:, 0] < labels[:, 1]
    if rule == "discard":
        return inputs[~wrong], labels[~wrong]
    return torch.where(wrong[:, None], inputs.flip(1), inputs), torch.where(wrong[:, None], labels.flip(1), labels)


def world_step(groups: Tensor, weak: AbstractSupervision, scores: Tensor = WORLD_SCORES, **others: object) -> Step:
    """One step on groups of the three inputs."""
    data = WeakDataset(torch.zeros(3, 1), groups, weak)
    numbers = torch.unique(groups)
    return step_with(everything(data), logits_of(scores[numbers]), **others)


def spread(values: Tensor, groups: Tensor) -> Tensor:
    """The standard deviation over groups of a value that depends on the inputs, [3, 3] or [3]."""
    return values[tuple(groups.T)].std(unbiased=False)


def each(size: int, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The loss of every single pair of inputs, as a table [3, 3]; or of every input, [3]."""
    groups = torch.cartesian_prod(*[torch.arange(3)] * size).view(-1, size)
    return torch.stack([loss(group[None]) for group in groups]).view([3] * size)


def big_population(number: int = 20_000) -> tuple[Tensor, Tensor]:
    """Inputs and labels of so many positives and as many negatives, in the proportions of the world."""
    inputs = [
        torch.arange(3).repeat_interleave((given * number).round().long()) for given in (GIVEN_NEGATIVE, GIVEN_POSITIVE)
    ]
    return torch.cat(inputs), torch.arange(2).repeat_interleave(number)


def drawn_loss(method: AbstractMethod, record: Weakened, inputs: Tensor) -> Tensor:
    """The method's loss on all groups that a generator of weak labels has drawn from a population of inputs."""
    data = record.dataset(inputs[:, None])
    batch = everything(data)
    return method.loss(step_of(batch, {"weak": logits_of(WORLD_SCORES[batch.instances[:, 0]])}))


# What every method must do.


def assert_defined_at_the_edges(method: AbstractMethod, weak: AbstractSupervision, size: int = 2) -> None:
    """Nothing in the batch, huge scores, an instance that occurs twice, either precision."""
    assert len(weak) == 4
    _assert_zero_of_nothing(method, weak, size)
    _assert_finite_when_sure(method, weak, size)
    _assert_copies_count_alike(method, weak, size)


def _assert_zero_of_nothing(method: AbstractMethod, weak: AbstractSupervision, size: int) -> None:
    data = WeakDataset(torch.zeros(4 * size, 1), torch.arange(4 * size).view(4, size), weak)
    logits = torch.zeros(0, 2, requires_grad=True)
    loss = method.loss(step_with(data.batch([torch.arange(0)]), logits))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None


def _assert_finite_when_sure(method: AbstractMethod, weak: AbstractSupervision, size: int) -> None:
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])[:, :size]
    for dtype in (torch.float32, torch.float64):
        scores = (100 * signs).to(dtype).requires_grad_()
        loss = loss_of(method, scores, weak)
        loss.backward()
        assert loss.dtype == dtype
        assert bool(loss.isfinite())
        assert scores.grad is not None
        assert bool(scores.grad.isfinite().all())


def _assert_copies_count_alike(method: AbstractMethod, weak: AbstractSupervision, size: int) -> None:
    scores = torch.tensor([0.7, -1.1, 0.4], dtype=torch.float64)
    groups = torch.tensor([[0, 1], [2, 2], [1, 0], [0, 2]])[:, :size]
    together = world_step(groups, weak, scores)
    apart = pairs_step(scores[groups], weak)
    close(method.loss(together), method.loss(apart), ROUNDING)


def assert_refuses_other_kinds(method: AbstractMethod, message: str) -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2))
    with pytest.raises(DataError) as caught:
        method.check(data)
    assert str(caught.value) == message


def assert_same_on_a_gpu(method: AbstractMethod, scores: Tensor, weak: AbstractSupervision) -> None:
    moved = scores.detach().cuda()
    close(loss_of(method, moved, weak).cpu(), loss_of(method, scores, weak), ROUNDING)


def assert_same_for_any_head(method: AbstractMethod, scores: Tensor, weak: AbstractSupervision) -> None:
    """Only the difference of the two logits counts."""
    step = pairs_step(scores, weak)
    shifted = step.logits() + torch.linspace(-3, 3, scores.numel(), dtype=torch.float64)[:, None]
    moved = step_with(step.batch, shifted, step.logits().detach())
    close(method.loss(moved), method.loss(step), ROUNDING)


# A small problem to learn: two Gaussians in ten dimensions.


def gaussians(number: int, prior: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Instances, labels (so many of them in all), and r = P(positive | x); means ±0.4 in ten dimensions."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.arange(number) < prior * number).long()
    instances = torch.randn(number, 10, generator=generator) + 0.4 * (2 * labels[:, None] - 1)
    odds = torch.tensor(prior / (1 - prior)).log() + 0.8 * instances.sum(1)
    return instances, labels, odds.sigmoid().double()
