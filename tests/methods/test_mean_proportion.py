"""Proportion matching: the worked numbers, and what ragged, empty and two-sided bags do to it."""

from __future__ import annotations

import math

import pytest
import torch
from methods.driving import accuracy, digits, step_on, train
from torch import Tensor

from glws.data import WeakDataset
from glws.data.weaken import class_proportions, proportions
from glws.errors import DataError
from glws.kinds import AbstractSupervision, ClassCounts, MultiInstance, Proportions
from glws.methods import step_of
from glws.methods._mean_proportion import MeanProportion
from glws.models import build

THREE = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)


def bag_loss(
    weak: AbstractSupervision, logits: Tensor, groups: list[list[int]] | None = None, distance: str = "cross_entropy"
) -> Tensor:
    data = WeakDataset(torch.zeros(len(logits), 1), groups or [list(range(len(logits)))], weak)
    return MeanProportion(distance=distance).loss(step_on(data, logits))


def random_logits(rows: int, classes: int) -> Tensor:
    return 2 * torch.randn(rows, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("distance", "loss"), [("cross_entropy", 0.945295), ("kl", 0.308780), ("squared", 0.126667), ("absolute", 0.533333)]
)
def test_a_bag_has_the_worked_losses(distance: str, loss: float) -> None:
    found = bag_loss(ClassCounts.of([[1, 0, 2]]), THREE.log(), distance=distance)
    assert found.item() == pytest.approx(loss, abs=1e-6)


def test_counted_classes_are_one_side_and_the_others_the_other() -> None:
    weak = Proportions.of([2], counted=[0, 2], num_classes=3)
    side = THREE[:, [0, 2]].sum(1).mean().item()
    expected = -(2 * math.log(side) + math.log(1 - side)) / 3
    assert bag_loss(weak, THREE.log()).item() == pytest.approx(expected, abs=1e-12)


def test_two_classes_may_be_counted_either_way() -> None:
    logits = random_logits(5, 2)
    one, both = Proportions.of([2]), ClassCounts.of([[3, 2]])
    assert bag_loss(one, logits).item() == pytest.approx(bag_loss(both, logits).item(), abs=1e-12)


@pytest.mark.parametrize("distance", ["cross_entropy", "kl", "squared", "absolute"])
def test_bags_weigh_the_same_padding_nothing_and_empty_ones_nothing(distance: str) -> None:
    logits = random_logits(6, 3).requires_grad_()
    groups, counts = [[0, 1, 2, 3, 4], [5, 1, 1]], [[2, 2, 1], [0, 3, 0]]
    alone = [
        bag_loss(ClassCounts.of([count]), logits, [group], distance)
        for group, count in zip(groups, counts, strict=True)
    ]
    together = bag_loss(ClassCounts.of([*counts, [0, 0, 0]]), logits, [*groups, []], distance)
    torch.testing.assert_close(together, (alone[0] + alone[1]) / 2)
    together.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


def test_all_distances_are_least_at_the_shares() -> None:
    for distance in ("cross_entropy", "kl", "squared"):
        logits = torch.tensor([[0.2, 0.3, 0.5]] * 10, dtype=torch.float64).log().requires_grad_()
        bag_loss(ClassCounts.of([[2, 3, 5]]), logits, distance=distance).backward()
        assert logits.grad is not None
        assert float(logits.grad.abs().max()) < 1e-12


@pytest.mark.parametrize("weak", [Proportions.of([1, 150]), ClassCounts.of([[0, 200], [77, 123]])])
def test_large_logits_have_finite_losses_and_gradients(weak: AbstractSupervision) -> None:
    logits = torch.tensor([[50.0, -50.0]] * 200).requires_grad_()
    loss = bag_loss(weak, logits, [list(range(200))] * 2)
    loss.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(logits.grad).all())
    assert float(logits.grad.abs().max()) > 1e-4


def test_a_batch_of_no_bags_has_loss_zero() -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0]], Proportions.of([1]))
    logits = torch.randn(1, 2, requires_grad=True)
    loss = MeanProportion().loss(step_of(data.batch([torch.zeros(0, dtype=torch.int64)]), {"weak": logits}))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_presence_is_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0]], MultiInstance.of([1]))
    with pytest.raises(DataError, match=r"^MeanProportion learns from bags with counts .* found MultiInstance$"):
        MeanProportion().check(data)


def test_ranges_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.between([1, 0], [1, 1]))
    with pytest.raises(
        DataError, match=r"^MeanProportion learns from exact counts, found between 0 and 1 .* in group 1$"
    ):
        MeanProportion().check(data)


def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"^distance must be one of cross_entropy, kl, squared, absolute, found 'cosine'$"
    ):
        MeanProportion(distance="cosine")  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_learns_digits_from_counts() -> None:
    instances, labels = digits()
    generator = torch.Generator().manual_seed(0)
    is_large = (labels >= 5).long()
    record = class_proportions(labels, 10, 400, 5, 1, generator=generator)
    model = train(MeanProportion(), record.dataset(instances), build("mlp", [64], 10, hidden=(64,)))
    assert accuracy(model, instances, labels) > 0.9
    record = proportions(is_large, 400, 5, 1, generator=generator)
    model = train(MeanProportion(), record.dataset(instances), build("mlp", [64], 2, hidden=(64,)))
    assert accuracy(model, instances, is_large) > 0.85
