"""What training needs is never held out (R26): for every kind and mixture, a thousand seeds, on arrays alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from glws.data import Groups, WeakDataset, not_held_out, split
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    ConfidenceDifference,
    Constraints,
    Labels,
    MultiInstance,
    NoisyLabels,
    NoisyProportions,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PositiveConfidence,
    PresentClasses,
    Proportions,
    SimilarityConfidence,
    SoftLabels,
    Triplets,
    Unlabeled,
    UnlabeledClasses,
)

Part = tuple[Groups, AbstractSupervision]
SEEDS = 1000


class Dice:
    """Random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def whole(self, low: int, high: int) -> int:
        """A number from low to high."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def numbers(self, high: int, *shape: int) -> Tensor:
        """Numbers below high."""
        return torch.randint(high, shape, generator=self.generator)

    def shares(self, *shape: int) -> Tensor:
        """Numbers between 0 and 1."""
        return 0.05 + 0.9 * torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def some(self, instances: int, number: int, size: int) -> Groups:
        """Groups of one size; an instance may be in several."""
        return Groups.of([torch.randperm(instances, generator=self.generator)[:size].tolist() for _ in range(number)])

    def bags(self, instances: int, number: int) -> tuple[Groups, Tensor]:
        """Groups of different sizes, and the true labels of their members."""
        groups = Groups.of([
            torch.randperm(instances, generator=self.generator)[: self.whole(1, 6)].tolist() for _ in range(number)
        ])  # fmt: skip
        return groups, self.numbers(2, len(groups.indices))


def _singles(build: Callable[[Dice, int], AbstractSupervision]) -> Callable[[Dice, int], Part]:
    def make(dice: Dice, size: int) -> Part:
        number = dice.whole(1, 12)
        return dice.some(size, number, 1), build(dice, number)

    return make


def _tuples(length: int, build: Callable[[Dice, int], AbstractSupervision]) -> Callable[[Dice, int], Part]:
    def make(dice: Dice, size: int) -> Part:
        number = dice.whole(1, 9)
        return dice.some(size, number, length), build(dice, number)

    return make


def _bags(build: Callable[[list[list[int]]], AbstractSupervision]) -> Callable[[Dice, int], Part]:
    def make(dice: Dice, size: int) -> Part:
        groups, labels = dice.bags(size, dice.whole(1, 9))
        return groups, build([piece.tolist() for piece in labels.split(groups.lengths.tolist())])

    return make


def _sets(build: Callable[[Tensor], AbstractSupervision]) -> Callable[[Dice, int], Part]:
    def make(dice: Dice, size: int) -> Part:
        number = dice.whole(1, 3)
        members = [
            torch.randperm(size, generator=dice.generator)[: dice.whole(1, size)].tolist() for _ in range(number)
        ]
        return Groups.of(members), build(torch.tensor([0.2, 0.7, 0.7])[:number])

    return make


def _counts(bags: list[list[int]]) -> Tensor:
    return torch.tensor([[labels.count(0), labels.count(1)] for labels in bags])


KINDS: dict[str, Callable[[Dice, int], Part]] = {
    "labels": _singles(lambda dice, number: Labels.of(dice.numbers(2, number), 2)),
    "labels, some missing": _singles(lambda dice, number: Labels.of(dice.numbers(3, number) - 1, 2)),
    "partial labels": _singles(
        lambda dice, number: PartialLabels.of(torch.tensor([[1, 0], [0, 1], [1, 1]])[dice.numbers(3, number)])
    ),
    "noisy labels": _singles(lambda dice, number: NoisyLabels.symmetric(dice.numbers(2, number), 2, 0.2)),
    "soft labels": _singles(lambda dice, number: SoftLabels.of(dice.shares(number, 2))),
    "positive confidence": _singles(lambda dice, number: PositiveConfidence.of(dice.shares(number))),
    "comparison": _tuples(2, lambda dice, number: PairComparison.of(dice.numbers(2, number), 2)),
    "similarity": _tuples(2, lambda dice, number: PairSimilarity.of(dice.numbers(2, number) > 0)),
    "similarity confidence": _tuples(2, lambda dice, number: SimilarityConfidence.of(dice.shares(number))),
    "confidence difference": _tuples(2, lambda dice, number: ConfidenceDifference.of(2 * dice.shares(number) - 1)),
    "triplets": _tuples(3, lambda dice, number: Triplets.of(1 + dice.numbers(2, number), 2)),
    "multi instance": _bags(lambda bags: MultiInstance.of([1 in labels for labels in bags])),
    "present classes": _bags(lambda bags: PresentClasses.of(_counts(bags) > 0)),
    "proportions": _bags(lambda bags: Proportions.of(_counts(bags)[:, 1])),
    "class counts": _bags(lambda bags: ClassCounts.of(_counts(bags))),
    "noisy proportions": _bags(lambda bags: NoisyProportions.of(_counts(bags)[:, 1], scale=0.5)),
    "constraints": _bags(lambda bags: Constraints.of([f"count(1) == {sum(labels)}" for labels in bags], 2)),
    "unlabeled": _sets(Unlabeled.of),
    "unlabeled, drawn": _sets(lambda prior: Unlabeled.of(prior, count="binomial")),
    "unlabeled classes": _sets(lambda prior: UnlabeledClasses.of(torch.stack([1 - prior, prior], 1))),
}


def mentioned(groups: Groups, weak: AbstractSupervision) -> Tensor:
    """The classes that some group makes more likely to a model to which they are rare."""
    table, lengths = groups.padded(torch.arange(len(groups)))
    found = []
    for number in range(weak.num_classes):
        rare = torch.full((*table.shape, weak.num_classes), 0.99 / (weak.num_classes - 1), dtype=torch.float64)
        rare[..., number] = 0.01
        found.append(bool((weak.infer(rare.log(), lengths).marginals[..., number] > 0.01 + 1e-9).any()))
    return torch.tensor(found)


def members(groups: Groups) -> list[int]:
    return sorted(groups.indices.tolist())


def check(data: WeakDataset, kept: WeakDataset, held_out: WeakDataset) -> None:
    """Everything that training needs is there, and nothing got lost."""
    for kind, (groups, weak) in enumerate(zip(data.groups, data.weak, strict=True)):
        here, there = kept.groups[kind], held_out.groups[kind]
        assert len(here) == len(kept.weak[kind]) > 0
        assert len(there) == len(held_out.weak[kind])
        assert members(groups) == sorted(members(here) + members(there))
        kept.weak[kind].check(here.lengths, weak.num_classes)
        held_out.weak[kind].check(there.lengths, weak.num_classes)
        if weak.exchangeable_sets() is None:
            assert len(groups) == len(here) + len(there)
            assert torch.equal(mentioned(here, kept.weak[kind]), mentioned(groups, weak))
        else:
            assert bool((here.lengths > 0).all())
            assert len(here) == len(groups)
            assert not set(members(here)) & set(members(there))
            assert torch.equal(shares(kept.weak[kind]), shares(weak))
            check_populations(shares(weak), (groups, here), shares(held_out.weak[kind]), there)


def shares(weak: AbstractSupervision) -> Tensor:
    """The prior of every class, for each unlabeled set."""
    guess = weak.initial_posterior()
    assert guess is not None
    return guess


def check_populations(prior: Tensor, sets: tuple[Groups, Groups], held_prior: Tensor, held: Groups) -> None:
    """What is held out of the sets with one prior, and what is left in them, is what was in them."""
    for value in torch.unique(prior, dim=0):
        before, left = (members(part[(prior == value).all(1)]) for part in sets)
        assert before == sorted(left + members(held[(held_prior == value).all(1)]))


@pytest.mark.parametrize("first", range(0, SEEDS, 250))
def test_training_keeps_a_group_of_each_kind_and_class_and_part_of_every_unlabeled_set(first: int) -> None:
    names = list(KINDS)
    for seed in range(first, first + 250):
        dice = Dice(seed)
        chosen = [names[seed % len(names)], *(names[dice.whole(0, len(names) - 1)] for _ in range(dice.whole(0, 2)))]
        size = dice.whole(7, 40)
        parts = [KINDS[name](dice, size) for name in chosen]
        data = WeakDataset(torch.zeros(size, 1), [part[0] for part in parts], [part[1] for part in parts])
        share = (0.1, 0.3, 0.5, 0.9)[dice.whole(0, 3)]
        kept, held_out = split(data, share, dice.generator)
        check(data, kept, held_out)


def positive_unlabeled(number: int = 400) -> WeakDataset:
    """Forty positives, and one set of unlabeled instances."""
    groups = [Groups.singles(40), Groups.of([list(range(40, 40 + number))])]
    return WeakDataset(torch.zeros(40 + number, 1), groups, [Labels.of([1] * 40, 2), Unlabeled.of([0.3])])


@pytest.mark.parametrize("seed", range(300))
def test_a_tenth_of_positive_unlabeled_data_is_a_tenth_of_the_positives_and_of_the_set(seed: int) -> None:
    kept, held_out = split(positive_unlabeled(), 0.1, torch.Generator().manual_seed(seed))
    assert ([len(part) for part in kept.groups], [len(part) for part in held_out.groups]) == ([36, 1], [4, 1])
    assert (int(kept.groups[1].lengths), int(held_out.groups[1].lengths)) == (360, 40)
    assert float(held_out.weak[1].prior) == float(kept.weak[1].prior) == 0.3  # type: ignore[attr-defined]


def test_held_out_instances_of_small_sets_of_one_population_form_groups_of_the_size_of_the_sets() -> None:
    sets = Groups.of(torch.arange(640).view(40, 16))
    data = WeakDataset(torch.zeros(640, 1), sets, Unlabeled.of([0.5] * 40))
    kept, held_out = split(data, 0.1, torch.Generator().manual_seed(0))
    assert held_out.groups[0].lengths.tolist() == [16] * 4
    assert sorted(set(kept.groups[0].lengths.tolist())) == [14, 15]


def test_an_instance_of_a_held_out_bag_is_held_out_of_the_unlabeled_set_too() -> None:
    bags = Groups.of(torch.arange(60).view(20, 3))
    data = WeakDataset(
        torch.zeros(90, 1), [bags, Groups.of([list(range(90))])], [Proportions.of([1, 2] * 10), Unlabeled.of([0.5])]
    )
    kept, held_out = split(data, 0.2, torch.Generator().manual_seed(0))
    held = set(members(held_out.groups[0]))
    assert len(held) == 12
    assert held < set(members(held_out.groups[1]))
    assert not held & set(members(kept.groups[1]))
    assert len(members(held_out.groups[1])) == 12 + 6


def test_a_set_of_which_all_instances_are_in_held_out_bags_keeps_one_of_the_bags() -> None:
    bags, few = Groups.of(torch.arange(20).view(10, 2)), Groups.of([[0, 1, 2, 3]])
    data = WeakDataset(torch.zeros(20, 1), [bags, few], [Proportions.of([1] * 10), Unlabeled.of([0.5])])
    for seed in range(20):
        kept, held_out = split(data, 0.9, torch.Generator().manual_seed(seed))
        assert len(kept.groups[1].indices) == 2
        assert len(held_out.groups[0]) == 9
        assert set(members(kept.groups[1])) == set(members(kept.groups[0]))


def test_what_cannot_be_split_is_said_in_one_line() -> None:
    data = WeakDataset(
        torch.zeros(60, 1),
        [Groups.of([[0, 1]]), Groups.singles(50), Groups.of([[58], [59]])],
        [Proportions.of([1]), Labels.of([0, 1] * 25, 2), Unlabeled.of([0.5, 0.5])],
    )
    _, held_out = split(data, 0.1, torch.Generator().manual_seed(0))
    assert not_held_out(data, held_out) == [
        "no held-out part for 1 bag: too few to split",
        "no held-out part for 2 unlabeled groups: too few to split",
    ]
