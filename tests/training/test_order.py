"""The order of groups: each once in an epoch, anew in each, a function of seed, epoch and step alone."""

from __future__ import annotations

import math

import pytest
import torch

from glws.data import WeakDataset
from glws.errors import ConfigError
from glws.kinds import Labels, Proportions
from glws.training import Order
from glws.training._shuffles import InBlocks, spread


@pytest.mark.parametrize(("sizes", "batch"), [((23,), (5,)), ((23, 4), (5, 2)), ((7, 100), (3, 9)), ((5, 0), (2, 2))])
def test_an_epoch_takes_every_group_of_the_longest_kind_once(sizes: tuple[int, ...], batch: tuple[int, ...]) -> None:
    order = Order(sizes, batch, seed=3)
    steps = [math.ceil(size / each) for size, each in zip(sizes, batch, strict=True)]
    longest = steps.index(max(steps))
    assert order.steps_per_epoch == max(steps)
    for epoch in range(3):
        taken = [order.groups(epoch, step)[longest] for step in range(order.steps_per_epoch)]
        assert torch.cat(taken).sort().values.tolist() == list(range(sizes[longest]))
        lengths = [len(part) for part in taken]
        assert max(lengths) <= batch[longest]
        assert max(lengths) - min(lengths) <= 1


def test_the_other_kinds_go_round_in_full_batches_across_epochs() -> None:
    """Every so many groups in a row are each group once, wherever epochs begin."""
    order = Order((20, 7), (2, 3), seed=1)
    places = [(epoch, step) for epoch in range(7) for step in range(order.steps_per_epoch)]
    taken = [order.groups(*place)[1] for place in places]
    assert {len(part) for part in taken} == {3}
    rounds = torch.cat(taken)[: 7 * 30].view(30, 7)
    assert torch.equal(rounds.sort(1).values, torch.arange(7).expand(30, 7))
    assert len({tuple(each) for each in rounds.tolist()}) > 20


def test_a_step_can_be_asked_for_at_any_time() -> None:
    """So a training that goes on in the middle takes the same groups."""
    forward = [Order((11, 5), (2, 2), 4).groups(epoch, step) for epoch in range(3) for step in range(6)]
    order = Order((11, 5), (2, 2), 4)
    backward = [order.groups(epoch, step) for epoch in (2, 1, 0) for step in (5, 4, 3, 2, 1, 0)][::-1]
    for one, other in zip(forward, backward, strict=True):
        assert all(torch.equal(mine, its) for mine, its in zip(one, other, strict=True))


def test_seeds_and_epochs_differ() -> None:
    first = torch.cat([Order((50,), (50,), seed).groups(epoch, 0)[0] for seed in (0, 1) for epoch in (0, 1)])
    assert len({tuple(each) for each in first.view(4, 50).tolist()}) == 4


def data() -> WeakDataset:
    return WeakDataset(
        torch.zeros(40, 1),
        [torch.arange(40).view(4, 10), torch.arange(6)[:, None]],
        [Proportions.of([1] * 4), Labels.of([0] * 6, 2)],
    )


def test_without_a_size_a_step_takes_about_128_instances_of_each_kind() -> None:
    assert Order.of(data(), None, 0).batch == (13, 128)


def test_one_size_is_for_all_kinds_and_a_list_has_one_for_each() -> None:
    assert Order.of(data(), 3, 0).batch == (3, 3)
    assert Order.of(data(), [3, 2], 0).batch == (3, 2)
    with pytest.raises(ConfigError, match=r"one for each of the 2 kinds of weak labels\. Got \[3, 2, 1\]\.$"):
        Order.of(data(), [3, 2, 1], 0)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 37, 1000, 5000])
def test_spread_groups_are_a_permutation(size: int) -> None:
    order = spread(size, torch.Generator().manual_seed(size))
    assert order.sort().values.tolist() == list(range(size))


def test_spread_groups_of_any_steps_are_even_over_the_data() -> None:
    """Of 32 parts that processes have read, each has about as many groups of a step as the others."""
    size, parts = 4096, 32
    for seed in range(5):
        order = spread(size, torch.Generator().manual_seed(seed)) * parts // size
        for batch in (16, 64, 100):
            loads = [torch.bincount(piece, minlength=parts).max() for piece in order.split(batch)[:-1]]
            assert max(loads) <= batch // parts + 2
    any_order = torch.randperm(size, generator=torch.Generator().manual_seed(0)) * parts // size
    assert max(torch.bincount(piece, minlength=parts).max() for piece in any_order.split(100)[:-1]) > 100 // parts + 2


def test_spread_groups_differ_by_seed_within_the_parts() -> None:
    first, other = (spread(4096, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert not torch.equal(first, other)
    assert len(set((first[:1024] % 4).tolist())) == 4  # of the four groups of a part, any may be the first


def test_in_blocks_a_few_are_mixed_at_a_time_and_every_group_comes_once() -> None:
    block = torch.arange(40).repeat_interleave(torch.arange(1, 41))
    order = InBlocks(block, 4)(len(block), torch.Generator().manual_seed(0))
    assert order.sort().values.tolist() == list(range(len(block)))
    seen = block[order]
    spans = [(seen == some).nonzero()[:, 0][[0, -1]].tolist() for some in range(40)]
    active = [sum(first <= place <= last for first, last in spans) for place in range(len(block))]
    assert 3 <= max(active) <= 5
    assert list(dict.fromkeys(seen.tolist())) != list(range(40))  # the blocks are in random order
    assert sum(bool((here[1:] != here[:-1]).any()) for here in seen.split(10)) > 60  # and mixed with each other


def test_blocks_are_for_instances_that_lie_in_blocks() -> None:
    data = WeakDataset(torch.zeros(4, 1), torch.arange(4).view(2, 2), Proportions.of([1, 0]))
    with pytest.raises(ConfigError, match="do not lie in blocks"):
        Order.of(data, 1, 0, order="blocks")
