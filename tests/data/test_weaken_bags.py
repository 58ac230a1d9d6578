"""Bags: sizes, balance, the members given the label, what is known of them."""

import time

import pytest
import torch

from glws.data import Groups
from glws.data.weaken import bag_sizes, class_proportions, multi_instance, multi_instance_classes, proportions
from glws.errors import DataError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rare_labels(number: int = 10_000, share: float = 0.1) -> torch.Tensor:
    return (torch.randperm(number, generator=seeded(99)) < round(number * share)).long()


def positives_in(bags: Groups, labels: torch.Tensor) -> torch.Tensor:
    return torch.tensor([int(labels[members].sum()) for members in bags.indices.split(bags.lengths.tolist())])


def test_sizes_are_truncated_and_at_least_two() -> None:
    sizes = bag_sizes(20_000, 10, 2, generator=seeded())
    assert sizes.double().mean() == pytest.approx(9.5, abs=0.06)  # truncation costs half an instance
    assert int(bag_sizes(1000, 2, 3, generator=seeded()).min()) == 2
    assert bag_sizes(2, -5, 0, generator=seeded()).tolist() == [2, 2]
    for mean, std in ((5, -1), (float("nan"), 1), (5, float("inf"))):
        with pytest.raises(DataError, match="a finite mean and a standard deviation of at least 0"):
            bag_sizes(3, mean, std, generator=seeded())


@pytest.mark.parametrize("number", [1, 2, 7, 400])
@pytest.mark.parametrize("redraw", ["members", "bag"])
def test_balanced_bags_are_exactly_half_and_half(number: int, redraw: str) -> None:
    labels = rare_labels()
    record = multi_instance(labels, number, 10, 2, redraw=redraw, generator=seeded())
    assert len(record.groups) == len(record.weak) == number
    assert record.statistics["positive_bags"] == number - number // 2
    assert torch.equal(record.weak.present, (positives_in(record.groups, labels) > 0).long())
    record.dataset(torch.zeros(len(labels), 1))


def test_sizes_say_nothing_about_the_label() -> None:
    found = multi_instance(rare_labels(), 20_000, 50, 10, generator=seeded()).statistics
    assert found["mean_size_negative"] == pytest.approx(49.5, abs=0.4)
    assert found["mean_size_positive"] == pytest.approx(49.5, abs=0.4)


@pytest.mark.parametrize(("mean", "std", "negative", "positive"), [(50, 10, 39.0, 49.6), (10, 2, 9.1, 9.8)])
def test_redrawn_bags_are_shorter_without_positives(mean: int, std: int, negative: float, positive: float) -> None:
    found = multi_instance(rare_labels(), 20_000, mean, std, redraw="bag", generator=seeded()).statistics
    assert found["mean_size_negative"] == pytest.approx(negative, abs=0.3)
    assert found["mean_size_positive"] == pytest.approx(positive, abs=0.3)


def test_positives_of_a_positive_bag_follow_the_cut_off_binomial() -> None:
    labels = rare_labels(share=0.3)
    record = multi_instance(labels, 40_000, 4, 0, generator=seeded())
    counts = positives_in(record.groups, labels)[record.weak.present == 1]
    share = torch.bincount(counts, minlength=5).double() / len(counts)
    expected = torch.distributions.Binomial(4, torch.tensor(0.3)).log_prob(torch.arange(5.0)).exp()
    expected[0] = 0
    assert (share - expected / expected.sum()).abs().max() < 0.015
    first = torch.tensor([int(labels[bag[0]]) for bag in record.groups.indices.view(-1, 4)])
    last = torch.tensor([int(labels[bag[-1]]) for bag in record.groups.indices.view(-1, 4)])
    assert first.double().mean() == pytest.approx(float(last.double().mean()), abs=0.02)  # no place is special


def test_very_rare_positives_cost_nothing() -> None:
    labels = torch.zeros(50_000, dtype=torch.int64)
    labels[17] = 1
    began = time.perf_counter()
    record = multi_instance(labels, 5000, 10, 2, generator=seeded())
    assert time.perf_counter() - began < 2.0
    assert record.statistics["positive_bags"] == 2500


def test_unbalanced_bags_come_as_they_are() -> None:
    found = multi_instance(rare_labels(), 5000, 10, 0, balanced=False, generator=seeded()).statistics
    assert found["positive_bags"] / 5000 == pytest.approx(1 - 0.9**10, abs=0.03)


def test_counts_are_those_of_the_members() -> None:
    labels = rare_labels(share=0.4)
    record = proportions(labels, 500, 10, 2, generator=seeded())
    assert torch.equal(record.weak.low, positives_in(record.groups, labels))
    assert torch.equal(record.weak.low, record.weak.high)
    assert record.statistics["positive_share"] == pytest.approx(0.4, abs=0.04)


def test_bags_without_positives_can_be_rejected() -> None:
    labels = rare_labels()
    kept = proportions(labels, 4000, 5, 0, generator=seeded())
    rejected = proportions(labels, 4000, 5, 0, reject_empty=True, generator=seeded())
    assert int(kept.weak.low.min()) == 0
    assert int(rejected.weak.low.min()) == 1
    assert kept.statistics["positive_share"] == pytest.approx(0.1, abs=0.01)
    assert rejected.statistics["positive_share"] == pytest.approx(0.1 / (1 - 0.9**5), abs=0.01)


def test_many_classes() -> None:
    labels = torch.randint(10, (3000,), generator=seeded(5))
    counts = class_proportions(labels, 10, 200, 10, 2, generator=seeded())
    present = multi_instance_classes(labels, 10, 200, 10, 2, generator=seeded())
    assert torch.equal(counts.weak.counts.sum(1), counts.groups.lengths)
    assert torch.equal(counts.weak.counts > 0, present.weak.present == 1)  # the same seed, the same bags
    members = labels[counts.groups.indices[: int(counts.groups.lengths[0])]]
    assert counts.weak.counts[0].tolist() == torch.bincount(members, minlength=10).tolist()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 0], "3 bags need positives, but there are none"),
        ([1, 1, 1], "3 bags need negatives, but there are none"),
        ([], "there are no labels to draw from"),
        ([0, 2], "labels must be within 0..1, found 2"),
    ],
)
def test_what_cannot_be_had_is_named(labels: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        multi_instance(labels, 6, 5, 1, generator=seeded())


def test_wrong_options_are_named() -> None:
    with pytest.raises(DataError, match="num_bags must be at least 1, found 0"):
        multi_instance([0, 1], 0, 5, 1, generator=seeded())
    with pytest.raises(DataError, match="redraw must be one of members, bag, found 'sometimes'"):
        multi_instance([0, 1], 4, 5, 1, redraw="sometimes", generator=seeded())
    with pytest.raises(DataError, match="there are no labels"):
        class_proportions([], 3, 4, 5, 1, generator=seeded())


def test_same_seed_same_bags_and_all_positive_counts() -> None:
    labels = rare_labels(1000)
    first, again = (proportions(labels, 50, 10, 2, generator=seeded(3)) for _ in range(2))
    assert torch.equal(first.groups.indices, again.groups.indices)
    everyone = proportions([1, 1], 4, 5, 1, reject_empty=True, generator=seeded())
    assert torch.equal(everyone.weak.low, everyone.groups.lengths)
