"""Count Loss: the worked numbers, an oracle that lists all labelings, and what it has in common with others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from methods.driving import accuracy, digits, step_on, train
from torch import Tensor
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import class_proportions, multi_instance, positive_unlabeled
from glws.errors import DataError
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Labels,
    MultiInstance,
    PairSimilarity,
    PresentClasses,
    Proportions,
    Unlabeled,
)
from glws.methods import GLWS, step_of
from glws.methods._count_loss import CountLoss
from glws.models import build

POSITIVE = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64)
MASSES = (0.012, 0.151, 0.425, 0.349, 0.063)
THREE = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)


def binary_logits(positive: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(positive), positive.logit()], 1)


def bag_loss(weak: AbstractSupervision, logits: Tensor, groups: list[list[int]] | None = None) -> Tensor:
    data = WeakDataset(torch.zeros(len(logits), 1), groups or [list(range(len(logits)))], weak)
    return CountLoss().loss(step_on(data, logits))


def unlabeled_data(priors: list[float], groups: list[list[int]], labeled: list[int], size: int) -> WeakDataset:
    kinds = [Labels.of([1] * len(labeled), 2), Unlabeled.of(priors)]
    return WeakDataset(torch.zeros(size, 1), [[[number] for number in labeled], groups], kinds)


def masses(positive: list[float]) -> list[float]:
    """P(S = k) for each k, from a list of all labelings."""
    found = [0.0] * (len(positive) + 1)
    for labels in itertools.product((0, 1), repeat=len(positive)):
        found[sum(labels)] += math.prod(p if y else 1 - p for p, y in zip(positive, labels, strict=True))
    return found


def test_a_bag_without_positives_costs_minus_the_log_of_no_positive() -> None:
    assert float(bag_loss(MultiInstance.of([0]), binary_logits(POSITIVE))) == pytest.approx(4.422849, abs=1e-6)


def test_a_bag_with_positives_costs_minus_the_log_of_some_positive() -> None:
    found = float(bag_loss(MultiInstance.of([1]), binary_logits(POSITIVE)))
    assert found == pytest.approx(0.012073, abs=1e-6)
    assert found == pytest.approx(-math.log(sum(MASSES[1:])), abs=1e-12)


@pytest.mark.parametrize(("count", "loss"), [(2, 0.855666), (3, 1.052683)])
def test_a_count_costs_minus_the_log_of_its_probability(count: int, loss: float) -> None:
    assert float(bag_loss(Proportions.of([count]), binary_logits(POSITIVE))) == pytest.approx(loss, abs=1e-6)


def test_the_probabilities_of_all_counts_are_the_poisson_binomial_and_sum_to_one() -> None:
    found = [math.exp(-float(bag_loss(Proportions.of([count]), binary_logits(POSITIVE)))) for count in range(5)]
    assert found == pytest.approx(MASSES, abs=1e-12)
    assert sum(found) == pytest.approx(1, abs=1e-12)


def test_the_gradient_of_a_count_is_prediction_minus_posterior() -> None:
    scores = POSITIVE.logit().requires_grad_()
    bag_loss(Proportions.of([2]), torch.stack([torch.zeros_like(scores), scores], 1)).backward()
    expected = torch.tensor([0.112941, 0.172941, 0.024706, -0.010588], dtype=torch.float64)
    torch.testing.assert_close(scores.grad, expected, atol=1e-6, rtol=0)


def test_present_classes_are_the_mean_over_classes_against_the_rest() -> None:
    alone = [
        float(bag_loss(MultiInstance.of([mark]), binary_logits(THREE[:, number])))
        for number, mark in enumerate((1, 0, 1))
    ]
    assert alone == pytest.approx([0.209487, 0.839330, 0.134675], abs=1e-6)
    assert float(bag_loss(PresentClasses.of([[1, 0, 1]]), THREE.log())) == pytest.approx(0.394497, abs=1e-6)


def test_class_counts_are_the_mean_over_classes_against_the_rest() -> None:
    alone = [
        float(bag_loss(Proportions.of([count]), binary_logits(THREE[:, number])))
        for number, count in enumerate((1, 0, 2))
    ]
    assert alone == pytest.approx([0.610646, 0.839330, 1.280134], abs=1e-6)
    assert float(bag_loss(ClassCounts.of([[1, 0, 2]]), THREE.log())) == pytest.approx(0.910037, abs=1e-6)


@pytest.mark.parametrize(
    ("form", "loss"), [("distribution", 0.740942), ("expectation", 1.222651), ("truncated", 2.257460)]
)
def test_positives_and_unlabeled_instances_have_the_worked_losses(form: str, loss: float) -> None:
    logits = binary_logits(torch.cat([POSITIVE, torch.tensor([0.8, 0.6], dtype=torch.float64)]))
    data = unlabeled_data([0.4], [[0, 1, 2, 3]], [4, 5], 6)
    assert float(CountLoss(prior_form=form).loss(step_on(data, logits))) == pytest.approx(loss, abs=1e-6)


def test_labels_and_unlabeled_bags_are_added() -> None:
    logits = binary_logits(torch.cat([POSITIVE, torch.tensor([0.8, 0.6], dtype=torch.float64)]))
    labeled = unlabeled_data([], [], [4, 5], 6)
    unlabeled = unlabeled_data([0.4], [[0, 1, 2, 3]], [], 6)
    assert float(CountLoss().loss(step_on(labeled, logits))) == pytest.approx(0.366985, abs=1e-6)
    assert float(CountLoss().loss(step_on(unlabeled, logits))) == pytest.approx(0.373958, abs=1e-6)


def test_the_distribution_form_is_the_divergence_of_ragged_bags_from_their_binomials() -> None:
    rng = np.random.default_rng(0)
    positive = rng.uniform(0.05, 0.95, 9)
    groups, priors = [[0, 3, 5, 7], [1], [2, 4, 4, 6, 8, 0, 1]], [0.3, 0.0, 0.85]
    expected = []
    for group, prior in zip(groups, priors, strict=True):
        n, found = len(group), masses(positive[group].tolist())
        wanted = [math.comb(n, k) * prior**k * (1 - prior) ** (n - k) for k in range(n + 1)]
        expected.append(sum(b * math.log(b / a) for a, b in zip(found, wanted, strict=True) if b > 0))
    data = unlabeled_data(priors, groups, [], 9)
    loss = CountLoss().loss(step_on(data, binary_logits(torch.tensor(positive))))
    assert float(loss) == pytest.approx(sum(expected) / 3, abs=1e-10)


def test_the_distribution_form_is_least_where_every_prediction_is_the_prior() -> None:
    scores = torch.full((12,), 0.35, dtype=torch.float64).logit().requires_grad_()
    logits = torch.stack([torch.zeros_like(scores), scores], 1)
    loss = CountLoss().loss(step_on(unlabeled_data([0.35], [list(range(12))], [], 12), logits))
    loss.backward()
    assert abs(loss.item()) < 1e-12
    assert scores.grad is not None
    assert float(scores.grad.abs().max()) < 1e-12


@pytest.mark.parametrize(
    "weak", [Proportions.of([2, 0, 1]), MultiInstance.of([1, 0, 1]), MultiInstance.of([1, 0, 1], share=0.2)]
)
def test_of_two_classes_it_is_glws_through_the_same_eyes_counted_by_bags(weak: AbstractSupervision) -> None:
    logits = torch.randn(9, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    data = WeakDataset(torch.zeros(9, 1), [[0, 1, 2, 3], [4, 5], [6, 7, 8]], weak)
    mine, theirs = (
        torch.autograd.grad(method.loss(step_on(data, logits)), logits)[0]
        for method in (CountLoss(), GLWS(m_step="weak"))
    )
    torch.testing.assert_close(3 * mine, 9 * theirs)


def test_unknown_labels_are_not_looked_at() -> None:
    logits = binary_logits(POSITIVE)
    data = WeakDataset(torch.zeros(4, 1), [[[0], [1], [2]], [[3, 2]]], [Labels.of([1, -1, 0], 2), Unlabeled.of([0.5])])
    other = WeakDataset(torch.zeros(4, 1), [[[0], [2]], [[3, 2]]], [Labels.of([1, 0], 2), Unlabeled.of([0.5])])
    assert float(CountLoss().loss(step_on(data, logits))) == float(CountLoss().loss(step_on(other, logits)))


def test_bags_of_one_have_binary_cross_entropy() -> None:
    logits = binary_logits(POSITIVE)
    found = bag_loss(Proportions.of([1, 0, 0, 1]), logits, [[0], [1], [2], [3]])
    torch.testing.assert_close(found, functional.cross_entropy(logits, torch.tensor([1, 0, 0, 1])))


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_those_of_all_labelings_listed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([0.7, 1.1, 2.0], 5)
    truth = rng.integers(0, 3, 5)
    counts = np.bincount(truth, minlength=3)
    by_class = [masses(probs[:, number].tolist()) for number in range(3)]
    exact = -np.mean([math.log(by_class[k][counts[k]]) for k in range(3)])
    some = -np.mean([math.log(1 - by_class[k][0] if counts[k] else by_class[k][0]) for k in range(3)])
    logits = torch.tensor(probs).log() + 3.0
    assert float(bag_loss(ClassCounts.of([counts.tolist()]), logits)) == pytest.approx(exact, abs=1e-9)
    assert float(bag_loss(PresentClasses.of([(counts > 0).tolist()]), logits)) == pytest.approx(some, abs=1e-9)


def test_neither_the_order_of_instances_nor_the_company_of_longer_bags_matters() -> None:
    logits = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    short, long = [5, 0, 3], [1, 2, 4, 6, 0, 5, 3]
    alone = [float(bag_loss(Proportions.of([count]), logits, [bag])) for count, bag in ((1, short), (4, long))]
    both = float(bag_loss(Proportions.of([4, 1]), logits, [long[::-1], [0, 3, 5]]))
    assert both == pytest.approx(sum(alone) / 2, abs=1e-12)


def test_an_instance_that_is_twice_in_a_bag_counts_twice() -> None:
    twice = bag_loss(Proportions.of([1]), binary_logits(POSITIVE[:2]), [[0, 0, 1]])
    apart = bag_loss(Proportions.of([1]), binary_logits(POSITIVE[[0, 0, 1]]))
    assert float(twice) == pytest.approx(float(apart), abs=1e-12)


def test_the_truth_is_stationary_on_an_exact_distribution() -> None:
    """All bags of three of two instances, all their labelings: at the true probabilities the mean gradient is 0."""
    truth = torch.tensor([0.3, 0.85], dtype=torch.float64)
    for kind in (MultiInstance, Proportions):
        scores = truth.logit().requires_grad_()
        logits, total = torch.stack([torch.zeros_like(scores), scores], 1), torch.zeros((), dtype=torch.float64)
        for bag in itertools.product((0, 1), repeat=3):
            for labels in itertools.product((0, 1), repeat=3):
                chance = math.prod(float(truth[x] if y else 1 - truth[x]) for x, y in zip(bag, labels, strict=True))
                total = total + chance * bag_loss(kind.from_labels([labels]), logits, [list(bag)])
        total.backward()
        assert scores.grad is not None
        assert float(scores.grad.abs().max()) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "weak",
    [
        MultiInstance.of([1, 0]),
        Proportions.of([3, 150]),
        PresentClasses.of([[1, 1], [0, 1]]),
        ClassCounts.of([[0, 200], [77, 123]]),
    ],
    ids=lambda weak: type(weak).__name__,
)
def test_large_logits_and_long_bags_have_finite_losses_and_gradients(
    weak: AbstractSupervision, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (200, 2), generator=generator).to(dtype)
    logits = (100 * signs - 50).requires_grad_()
    loss = bag_loss(weak, logits, [list(range(200)), list(range(200))])
    loss.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(logits.grad).all())
    assert float(logits.grad.abs().max()) > 1e-3


@pytest.mark.parametrize("form", ["distribution", "expectation", "truncated"])
def test_large_logits_have_finite_losses_of_unlabeled_bags(form: str) -> None:
    signs = torch.randint(0, 2, (64, 2), generator=torch.Generator().manual_seed(0)).float()
    logits = (100 * signs - 50).requires_grad_()
    loss = CountLoss(prior_form=form).loss(step_on(unlabeled_data([0.4], [list(range(64))], [0], 64), logits))
    loss.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(logits.grad).all())


@pytest.mark.parametrize(
    "weak", [MultiInstance.of([1]), Proportions.of([1]), PresentClasses.of([[1, 0]]), ClassCounts.of([[1, 0]])]
)
def test_a_batch_of_no_bags_has_loss_zero(weak: AbstractSupervision) -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0]], weak)
    logits = torch.randn(1, 2, requires_grad=True)
    empty = data.batch([torch.zeros(0, dtype=torch.int64)])
    loss = CountLoss().loss(step_of(empty, {"weak": logits}))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


@pytest.mark.parametrize("form", ["distribution", "expectation"])
def test_a_batch_of_no_unlabeled_bags_has_the_loss_of_its_labels(form: str) -> None:
    data = unlabeled_data([], [], [1], 4)
    loss = CountLoss(prior_form=form).loss(step_on(data, binary_logits(POSITIVE)))
    assert float(loss) == pytest.approx(math.log(2), abs=1e-12)


def test_pairs_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([True]))
    with pytest.raises(DataError, match=r"^CountLoss learns from bags .* found PairSimilarity$"):
        CountLoss().check(data)


def test_an_unknown_form_of_the_prior_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"^prior_form must be one of distribution, expectation, truncated, found 'mode'$"
    ):
        CountLoss(prior_form="mode")  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_learns_digits_from_bags() -> None:
    instances, labels = digits()
    generator = torch.Generator().manual_seed(0)
    is_large = (labels >= 5).long()
    nine = (labels == 9).long()
    record = multi_instance(nine, 400, 6, 1, generator=generator)
    model = train(CountLoss(), record.dataset(instances), build("mlp", [64], 2, hidden=(64,)), num_epochs=8)
    assert accuracy(model, instances[nine == 1], nine[nine == 1]) > 0.8
    assert accuracy(model, instances[nine == 0], nine[nine == 0]) > 0.9
    record = class_proportions(labels, 10, 400, 5, 1, generator=generator)
    model = train(CountLoss(), record.dataset(instances), build("mlp", [64], 10, hidden=(64,)), num_epochs=8)
    assert accuracy(model, instances, labels) > 0.9
    data = positive_unlabeled(is_large, 300, generator=generator).dataset(instances)
    for form in ("distribution", "expectation"):
        model = build("mlp", [64], 2, hidden=(64,))
        train(CountLoss(prior_form=form), data, model, num_epochs=20, learning_rate=0.003)
        assert accuracy(model, instances, is_large) > 0.8
