"""Steps whose instances are the scores themselves, and two Gaussians whose expectations are known."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glws.data import WeakDataset
from glws.data.weaken import positive_unlabeled
from glws.kinds import Labels, PairSimilarity, Unlabeled
from glws.methods import AbstractMethod, Epoch, Outputs, Progress, Setup, Step
from glws.methods._risks import Surrogate, surrogate

SIX_DIGITS = 6e-7
"""Of numbers that are worked out by hand and written down with six digits."""
ROUNDING = 1e-12
"""Of sums of a few thousand terms in float64."""

# x | + is N(1, 1), x | - is N(-1, 1), and g(x) = 1.3 x - 0.2: E₊[ℓ(g)], E₋[ℓ(-g)], by adaptive quadrature.
GAUSSIAN_RISKS: dict[Surrogate, tuple[float, float]] = {
    "sigmoid": (0.302584, 0.241169),
    "logistic": (0.435203, 0.326705),
    "double_hinge": (0.249647, 0.160025),
}
GAUSSIAN_TOLERANCE = 2e-4
"""Of means over 1000 points at equal steps of probability, whose tails are cut off."""


def scores_of(values: Sequence[float] | Tensor) -> Tensor:
    """Scores in float64, ready for a gradient."""
    return torch.as_tensor(values, dtype=torch.float64).detach().clone().requires_grad_()


def logits_of(scores: Tensor) -> Tensor:
    """Two logits with these scores, neither of which is the score itself."""
    return torch.stack([0.25 - scores / 3, 0.25 + scores * 2 / 3], -1)


def close(found: Tensor | float, wanted: object, tolerance: float = SIX_DIGITS) -> None:
    expected = torch.as_tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(torch.as_tensor(found).detach().double(), expected, rtol=0, atol=tolerance)


def pu_data(scores: Tensor, num_positive: int, prior: float, splits: Sequence[int] = ()) -> WeakDataset:
    """The first scores are those of positives, the others unlabeled, in one group or cut after so many each."""
    groups = torch.arange(num_positive, len(scores)).tensor_split(torch.tensor(splits, dtype=torch.int64))
    kinds = [Labels.of([1] * num_positive, 2), Unlabeled.of([prior] * len(groups))]
    return WeakDataset(scores[:, None], [torch.arange(num_positive)[:, None], [g.tolist() for g in groups]], kinds)


def uu_data(scores: Tensor, num_first: int, priors: tuple[float, float]) -> WeakDataset:
    """The first scores are those of one unlabeled set, the others of another."""
    groups = [[list(range(num_first))], [list(range(num_first, len(scores)))]]
    return WeakDataset(scores[:, None], groups, [Unlabeled.of([prior]) for prior in priors])


def sdu_data(scores: Tensor, num_similar: int, num_dissimilar: int, prior: float) -> WeakDataset:
    """Scores of the instances of similar pairs, of dissimilar pairs, and of unlabeled instances."""
    num_pairs = num_similar + num_dissimilar
    pairs = torch.arange(2 * num_pairs).view(num_pairs, 2)
    weak = PairSimilarity.of([True] * num_similar + [False] * num_dissimilar)
    unlabeled = torch.arange(2 * num_pairs, len(scores))[None]
    return WeakDataset(scores[:, None], [pairs, unlabeled], [weak, Unlabeled.of([prior])])


def linear_network(instances: Tensor) -> Outputs:
    """The logits of instances that are scores."""
    return Outputs(logits_of(instances[:, 0]), instances)


def setup_for(data: WeakDataset, num_classes: int = 2) -> Setup:
    return Setup(data, num_classes, 1, torch.device("cpu"), torch.Generator().manual_seed(0))


def epoch_for(data: WeakDataset, state: dict[str, Tensor], epoch: int = 0, num_epochs: int = 1) -> Epoch:
    """The start of an epoch, with the network of the scores."""

    def predict(numbers: Tensor) -> Tensor:
        with torch.no_grad():
            return linear_network(data.instances.take(numbers)).logits

    return Epoch(data, state, Progress(0, 1, epoch, num_epochs), predict, torch.Generator())


def step_for(
    method: AbstractMethod, data: WeakDataset, chosen: Sequence[Sequence[int]] | None = None, **others: object
) -> Step:
    """A step on all groups, or on the chosen ones of each kind, with the state that the method begins with."""
    wanted = [list(range(len(groups))) for groups in data.groups] if chosen is None else chosen
    batch = data.batch([torch.tensor(groups, dtype=torch.int64) for groups in wanted])
    others = {"state": method.init(setup_for(data)), "generator": torch.Generator().manual_seed(0)} | others
    return Step(batch, linear_network, lambda view: batch.instances, **others)  # type: ignore[arg-type]


def loss_of(method: AbstractMethod, data: WeakDataset, **others: object) -> Tensor:
    return method.loss(step_for(method, data, **others))  # type: ignore[arg-type]


def gradient_of(method: AbstractMethod, data: WeakDataset, scores: Tensor, **others: object) -> Tensor:
    """The derivative of the loss by the scores."""
    return torch.autograd.grad(loss_of(method, data, **others), scores)[0]


def assert_zero_without_a_kind(method: AbstractMethod, data: WeakDataset, scores: Tensor) -> None:
    """A batch that holds no groups of one kind, or none at all, has loss 0 and gradient 0."""
    everything = [list(range(len(groups))) for groups in data.groups]
    for chosen in ([everything[0], []], [[], everything[1]], [[], []]):
        loss = loss_of(method, data, chosen=chosen)
        (gradient,) = torch.autograd.grad(loss, scores)
        assert loss.item() == 0
        assert not bool(gradient.any())


def assert_finite_when_sure(method: AbstractMethod, data: WeakDataset) -> None:
    """Scores of ±50, right and wrong, give finite losses and gradients in either precision."""
    number = len(data.instances)
    for dtype in (torch.float32, torch.float64):
        for signs in (torch.arange(number) % 2 * 2 - 1, torch.arange(number) // 2 % 2 * 2 - 1):
            scores = (50 * signs).to(dtype).requires_grad_()
            moved = WeakDataset(scores[:, None], data.groups, data.weak)
            loss = loss_of(method, moved)
            (gradient,) = torch.autograd.grad(loss, scores)
            assert loss.dtype == dtype
            assert bool(loss.isfinite())
            assert bool(gradient.isfinite().all())


def assert_state_is_plain(method: AbstractMethod, data: WeakDataset) -> None:
    """The state is tensors of float32 or int64, also after a step: it can be saved and put back."""
    step = step_for(method, data)
    method.begin_epoch(epoch_for(data, step.state))
    method.loss(step)
    method.update(step)
    assert {values.dtype for values in step.state.values()} <= {torch.float32, torch.int64}
    assert not any(values.requires_grad for values in step.state.values())


# Two Gaussians, as points that stand for equal shares of probability.


def gaussian_points(number: int = 1000) -> tuple[Tensor, Tensor]:
    """g(x) of positives and of negatives."""
    middles = (torch.arange(number, dtype=torch.float64) + 0.5) / number
    values = torch.special.ndtri(middles)
    return 1.3 * (values + 1) - 0.2, 1.3 * (values - 1) - 0.2


def mixture(positive: Tensor, negative: Tensor, copies: tuple[int, int]) -> Tensor:
    """A set with these whole proportions of the two."""
    return torch.cat([positive.repeat(copies[0]), negative.repeat(copies[1])])


def supervised_risk(positive: Tensor, negative: Tensor, prior: float, name: Surrogate) -> Tensor:
    """π E₊[ℓ(g)] + (1-π) E₋[ℓ(-g)]."""
    return prior * surrogate(positive, name).mean() + (1 - prior) * surrogate(-negative, name).mean()


# A small problem to learn: the digits 0-4 against the others.


def binary_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Instances and labels, for training and for testing."""
    from glws.data import load

    source = load("digits").binary((0, 1, 2, 3, 4))
    parts = [
        (torch.as_tensor(part.inputs), torch.as_tensor(part.labels).long()) for part in (source.train, source.test)
    ]
    return *parts[0], *parts[1]


def pu_digits() -> tuple[WeakDataset, Tensor, Tensor]:
    """150 labeled positives and the others unlabeled in groups of 64; test instances and labels."""
    instances, labels, test_instances, test_labels = binary_digits()
    record = positive_unlabeled(labels, 150, generator=torch.Generator().manual_seed(0))
    return record.dataset(instances), test_instances, test_labels
