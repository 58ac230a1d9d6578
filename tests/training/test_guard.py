"""The guard: what weak labels alone suggest, against writing all labelings down, and when it speaks."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from glws.data import Groups, WeakDataset
from glws.kinds import Labels, MultiInstance, Proportions
from glws.training._guard import MOST_GROUPS, collapse, implied_rates


def enumerated(data: WeakDataset, rates: torch.Tensor) -> torch.Tensor:
    """Mean posterior of all instances of all groups, when each label is drawn with these rates."""
    classes = data.weak[0].num_classes
    total = torch.zeros(classes, dtype=torch.float64)
    for groups, weak in zip(data.groups, data.weak, strict=True):
        for group, length in enumerate(groups.lengths.tolist()):
            labelings = list(itertools.product(range(classes), repeat=length))
            weights = [
                math.exp(weak.log_weight(group, labels)) * math.prod(float(rates[label]) for label in labels)
                for labels in labelings
            ]
            for labels, weight in zip(labelings, weights, strict=True):
                for label in labels:
                    total[label] += weight / sum(weights)
    return total / total.sum()


def test_the_rates_are_the_mean_posterior_under_themselves_over_all_labelings_written_down() -> None:
    bags = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
    data = WeakDataset(
        torch.zeros(10, 1),
        [bags, bags, [[0], [1], [2]]],
        [Proportions.of([1, 2, 0, 3]), MultiInstance.of([1, 1, 0, 1]), Labels.of([1, 1, None], 2)],
    )
    found = implied_rates(data)
    assert torch.allclose(found, enumerated(data, found), atol=1e-3)
    assert not torch.allclose(found, enumerated(data, torch.tensor([0.5, 0.5])), atol=1e-2)


def test_rare_positives_are_not_taken_for_a_collapse() -> None:
    """Half of the bags of 100 have a positive instance, as they have at a share of 0.7%."""
    rare = WeakDataset(torch.zeros(4000, 1), torch.arange(4000).view(40, 100), MultiInstance.of([1, 0] * 20))
    implied = implied_rates(rare)
    assert float(implied[1]) == pytest.approx(1 - 0.5**0.01, abs=1e-3)
    assert collapse(torch.tensor([0.995, 0.005]), implied) is None
    assert collapse(torch.tensor([0.005, 0.995]), implied) is not None
    frequent = WeakDataset(torch.zeros(80, 1), torch.arange(80).view(40, 2), MultiInstance.of([1, 0] * 20))
    assert collapse(torch.tensor([0.995, 0.005]), implied_rates(frequent)) is not None


def test_one_long_bag_beside_many_short_ones_is_not_padded() -> None:
    lengths = [30_000, *[10] * 3000]
    groups = Groups(torch.tensor([0, *lengths]).cumsum(0), torch.arange(sum(lengths)))
    implied = implied_rates(WeakDataset(torch.zeros(60_000, 1), groups, MultiInstance.of([1, 0, 1, 0] * 750 + [1])))
    assert float(implied[1]) == pytest.approx(0.067, abs=0.02)


def test_of_chosen_bags_somebody_knows_the_share() -> None:
    """Half of the bags hold one in ten: enumerated with that share, the choice has no say in a bag's posterior."""
    bags = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
    weak = MultiInstance.of([1, 1, 0, 0], share=0.1)
    total = 0.0
    for bag in bags[:2]:
        labelings = itertools.product((0, 1), repeat=len(bag))
        found = [(sum(labels), math.prod(0.1 if label else 0.9 for label in labels)) for labels in labelings]
        total += sum(number * chance for number, chance in found) / sum(chance for number, chance in found if number)
    assert implied_rates(WeakDataset(torch.zeros(10, 1), bags, weak))[1] == pytest.approx(total / 10)


def test_of_many_groups_some_stand_for_all() -> None:
    counts = torch.arange(5 * MOST_GROUPS) % 3
    data = WeakDataset(
        torch.zeros(10 * MOST_GROUPS, 1), torch.arange(10 * MOST_GROUPS).view(-1, 2), Proportions.of(counts)
    )
    assert implied_rates(data)[1] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("predicted", "implied", "is_said"),
    [
        ([0.995, 0.005], [0.5, 0.5], True),
        ([0.0, 0.0, 1.0], [0.3, 0.3, 0.4], True),
        ([0.98, 0.02], [0.5, 0.5], False),
        ([1.0, 0.0], [0.95, 0.05], False),
        ([0.5, 0.5], [1.0, 0.0], False),
    ],
)
def test_it_speaks_when_nearly_all_are_of_one_class_and_should_not_be(
    predicted: list[float], implied: list[float], is_said: bool
) -> None:
    said = collapse(torch.tensor(predicted), torch.tensor(implied))
    assert (said is not None) == is_said
    if said is not None:
        most = predicted.index(max(predicted))
        assert f"{100 * max(predicted):.1f}% of the training instances are predicted to be of class {most}" in said
        assert said.endswith(f"the weak labels alone suggest {100 * implied[most]:.1f}%")
