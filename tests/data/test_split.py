"""Splits: whole groups, no instance on both sides where that can be had, all kinds together."""

from __future__ import annotations

import pytest
import torch

from glws.data import Groups, WeakDataset, split
from glws.errors import DataError
from glws.kinds import Labels, Proportions


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bags(groups: list[list[int]], number: int = 100) -> WeakDataset:
    return WeakDataset(torch.arange(number)[:, None], groups, Proportions.of([0] * len(groups)))


def members(data: WeakDataset) -> list[list[list[int]]]:
    """The instances of each group of each kind."""
    return [[part[group].indices.tolist() for group in range(len(part))] for part in data.groups]


@pytest.mark.parametrize("seed", range(5))
def test_every_group_is_whole_and_on_one_side(seed: int) -> None:
    groups = [list(range(3 * number, 3 * number + 1 + number % 3)) for number in range(30)]
    kept, held_out = split(bags(groups), 0.2, generator(seed))
    assert sorted(members(kept)[0] + members(held_out)[0]) == sorted(groups)
    assert len(held_out) == 6
    assert kept.instances is held_out.instances


def test_weak_labels_go_with_their_groups() -> None:
    data = WeakDataset(torch.zeros(20, 1), Groups.singles(20), Labels.of(torch.arange(20) % 5, 5))
    for side in split(data, 0.3, generator()):
        labels = side.weak[0].labels  # type: ignore[attr-defined]
        assert torch.equal(labels, side.groups[0].indices % 5)


@pytest.mark.parametrize("seed", range(10))
def test_groups_with_an_instance_in_common_stay_together_whatever_their_kinds(seed: int) -> None:
    """A chain of three bags, a bag whose instance has a label, and others by themselves."""
    groups = [[0, 1], [1, 2], [2, 3], [4, 5], *([number] for number in range(6, 14))]
    singles = torch.tensor([[5], [20], [21]])
    weak = [Proportions.of([0] * 12), Labels.of([0, 1, 0], 2)]
    data = WeakDataset(torch.zeros(30, 1), [groups, singles], weak)
    kept, held_out = split(data, 0.4, generator(seed))
    here, there = (
        {number for kind in members(side) for group in kind for number in group} for side in (kept, held_out)
    )
    assert not here & there
    assert len(held_out) == 6


def test_where_all_hang_together_groups_are_held_out_one_by_one() -> None:
    kept, held_out = split(bags([[number, number + 1] for number in range(20)]), 0.25, generator())
    assert (len(kept), len(held_out)) == (15, 5)


def test_where_only_a_few_short_groups_stand_alone_they_are_not_all_that_is_held_out() -> None:
    chained = [[number, number + 1, number + 2] for number in range(0, 90)]
    _, held_out = split(bags([*chained, [95], [96]]), 0.25, generator())
    lengths = [len(group) for group in members(held_out)[0]]
    assert len(lengths) == 23
    assert sum(length == 3 for length in lengths) >= 21


def test_the_same_seed_holds_out_the_same_groups_and_another_seed_others() -> None:
    data = bags([[number] for number in range(50)])
    first, second, third = (members(split(data, 0.2, generator(seed))[1]) for seed in (0, 0, 1))
    assert first == second != third


def test_nothing_is_held_out_when_nothing_is_asked() -> None:
    kept, held_out = split(bags([[0], [1]]), 0.0, generator())
    assert (len(kept), len(held_out)) == (2, 0)


@pytest.mark.parametrize("share", [1.0, -0.1, 2.0, float("nan")])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(DataError, match=f"at least 0 and less than 1, found {share}"):
        split(bags([[0], [1]]), share, generator())
